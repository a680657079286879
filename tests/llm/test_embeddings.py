"""Vectors of an endpoint: many texts with one request, and no text that is at fault for others."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.embedding import Embedding
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.wire.embeddings import EmbeddingBody, divided
from sqlenrich.runner.preview import preview
from sqlenrich.spec.settings import Config
from tests.support.endpoint import ScriptedEndpoint
from tests.support.vectors import OWN_LENGTH, unit_vector
from tests.support.warehouse_runs import Recorder

LENGTH = 8
EMBEDDING = Embedding("embedding", LENGTH)
TEXTS = [f"text {number:03}" for number in range(200)]


def vectors(dimensions: int = LENGTH, **header: Any) -> se.Enrichment:
    output = {"embedding": {"dimensions": dimensions}}
    return se.enrichment("vectors", prompt="{{ body }}", output=output, **{"key": ["id"], **header})


def run(folder: Path, server: ScriptedEndpoint, texts: list[str] = TEXTS, **options: Any) -> se.Report:
    dimensions, batch = options.pop("dimensions", LENGTH), options.pop("batch", 64)
    rows = [{"id": number, "body": text} for number, text in enumerate(texts)]
    model = se.Endpoint(server.url, model="m", embed_batch=batch, **options.pop("settings", {}))
    return se.run(vectors(dimensions), input=rows, output=folder / "out.duckdb", model=model, **options)


def read(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as db:
        return db.execute(sql).fetchall()


def sent(server: ScriptedEndpoint) -> list[list[str]]:
    return [json.loads(seen.body)["input"] for seen in server.asked]


def test_many_texts_go_with_one_request(tmp_path: Path) -> None:
    with ScriptedEndpoint() as server:
        report = run(tmp_path, server)
        asked = sent(server)
        first = json.loads(server.asked[0].body)
    assert {name: first[name] for name in first if name != "input"} == {
        "model": "m",
        "dimensions": LENGTH,
        "encoding_format": "float",
    }
    assert {seen.path for seen in server.asked} == {"/v1/embeddings"}
    assert sorted(text for texts in asked for text in texts) == TEXTS
    assert max(map(len, asked)) == 64
    assert (report.calls, report.retries, report.enriched) == (len(asked), 0, 200)
    assert len(asked) <= 7  # one to begin with, four of 64, a few that are not full
    assert report.tokens_in == sum(len(text) // 4 + 1 for text in TEXTS)
    assert report.tokens_out == 0
    found = read(tmp_path, "SELECT id, embedding FROM vectors ORDER BY id")
    assert found == [(number, unit_vector(text, LENGTH)) for number, text in enumerate(TEXTS)]
    assert read(tmp_path, "SELECT DISTINCT typeof(embedding) FROM vectors") == [("DOUBLE[]",)]


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    with ScriptedEndpoint() as server:
        run(tmp_path, server, ["a", "b", "a", "c"])
        again = run(tmp_path, server, ["a", "b", "a", "c", "d"])
        longer = run(tmp_path, server, ["a"], dimensions=LENGTH + 1, replace=True)
        assert sorted(text for texts in sent(server) for text in texts) == ["a", "a", "b", "c", "d"]
    assert (again.cached, again.calls, again.enriched) == (3, 1, 5)
    assert (longer.calls, longer.enriched) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "told", "most"),
    [
        ("400_context", "HTTP 400: This model's maximum context length", 30),
        ("400_unclear", "HTTP 400: computer says no", 30),
        ("413", "HTTP 413: too big", 30),
        ("403_firewall", "HTTP 403", 90),
    ],
)
def test_a_text_at_fault_is_refused_alone(tmp_path: Path, fault: str, told: str, most: int) -> None:
    with ScriptedEndpoint(by_prompt={"text 077": fault}) as server:
        report = run(tmp_path, server)
        assert len(server.asked) == report.calls <= most
    assert (report.enriched, report.quarantine) == (199, {"CALL_ERROR": 1})
    (found,) = read(tmp_path, "SELECT id, _error_detail FROM vectors_quarantine")
    assert found[0] == 77
    assert told in found[1]


@pytest.mark.parametrize("calls", [5, 7, 9])
def test_a_part_is_stored_although_a_cap_ends_the_run_before_the_others(tmp_path: Path, calls: int) -> None:
    with ScriptedEndpoint(by_prompt={"text 120": "413"}) as server:
        report = run(tmp_path, server, max_calls=calls)
        answered = [text for texts in sent(server) if "text 120" not in texts for text in texts]
    assert (report.calls, report.exit_status) == (calls, 4)
    stored = read(tmp_path, "SELECT count(*) FROM vectors_responses WHERE call_error IS NULL")
    assert stored == [(len(answered),)]


def test_a_text_on_which_the_server_fails_is_refused_alone(tmp_path: Path) -> None:
    with ScriptedEndpoint(by_prompt={"text 07": "500"}) as server:
        report = run(tmp_path, server, TEXTS[70:79:8] + TEXTS[:20], batch=8)
    assert (report.enriched, report.quarantine) == (20, {"CALL_ERROR": 2})


@pytest.mark.parametrize("fault", ["429", "500", "503", "reset", "cut", "html", "no_choices"])
def test_a_request_that_fails_is_tried_again_whole(tmp_path: Path, fault: str) -> None:
    with ScriptedEndpoint(script={3: fault}) as server:
        report = run(tmp_path, server, batch=50)
        asked = sent(server)
    assert (report.enriched, report.quarantined, report.retries) == (200, 0, 1)
    assert asked.count(asked[2]) == 2


@pytest.mark.parametrize(
    ("taken", "dimensions", "calls", "noted"),
    [
        ("refused", OWN_LENGTH, 2, "refuses dimensions (HTTP 400: This model does not support specifying dimensions.)"),
        ("ignored", OWN_LENGTH, 1, ""),
    ],
)
def test_a_model_with_one_length(tmp_path: Path, taken: str, dimensions: int, calls: int, noted: str) -> None:
    heard = Recorder()
    with ScriptedEndpoint(dimensions=taken) as server:
        report = run(tmp_path, server, ["a"], dimensions=dimensions, observer=heard)
        bodies = [json.loads(seen.body) for seen in server.asked]
    assert (report.enriched, report.calls) == (1, calls)
    assert ["dimensions" in body for body in bodies] == ([True, False] if taken == "refused" else [True])
    assert (noted in "\n".join(heard.lines)) if noted else len(heard.lines) == 1


@pytest.mark.parametrize("taken", ["refused", "ignored"])
def test_a_length_that_the_model_has_not_stops_the_run(tmp_path: Path, taken: str) -> None:
    with ScriptedEndpoint(dimensions=taken) as server:
        with pytest.raises(se.RunError) as caught:
            run(tmp_path, server, dimensions=OWN_LENGTH + 1)
        assert len(server.asked) <= 2
    assert str(caught.value) == ("m gives vectors of 6 numbers, not of 7: write dimensions: 6, or name another model")


def test_a_vector_of_another_length_is_quarantined(tmp_path: Path) -> None:
    def odd(text: str, length: int) -> Any:
        made = unit_vector(text, length)
        return {"text 005": made[1:], "text 006": None, "text 007": [*made[1:], "x"]}.get(text, made)

    with ScriptedEndpoint(vector=odd) as server:
        report = run(tmp_path, server, TEXTS[:20])
    assert (report.enriched, report.quarantine) == (17, {"BAD_ITEMS": 1, "NO_RESPONSE": 1, "WRONG_TYPE": 1})
    found = read(tmp_path, "SELECT id, _error, _error_detail FROM vectors_quarantine ORDER BY id")
    assert found[0] == (5, "BAD_ITEMS", f"embedding has fewer than {LENGTH} items")


def test_a_retry_asks_the_same_model(tmp_path: Path) -> None:
    broken = [True]

    def mended(text: str, length: int) -> Any:
        return unit_vector(text, length)[int(text == "text 003" and broken[0]) :]

    with ScriptedEndpoint(vector=mended) as server:
        assert run(tmp_path, server, TEXTS[:6]).quarantine == {"BAD_ITEMS": 1}
        broken.clear()
        broken.append(False)
        with pytest.raises(se.ConfigError, match="the last run asked m: vectors of other can't be compared"):
            se.retry(vectors(), output=tmp_path / "out.duckdb", model=se.Endpoint(server.url, model="other"))
        report = se.retry(vectors(), output=tmp_path / "out.duckdb", model=se.Endpoint(server.url, model="m"))
        assert sent(server)[-1] == ["text 003"]
    assert (report.enriched, report.quarantined) == (6, 0)


def test_a_cap_counts_requests_not_texts(tmp_path: Path) -> None:
    with ScriptedEndpoint() as server:
        report = run(tmp_path, server, max_calls=2)
        assert len(server.asked) == 2
        rest = run(tmp_path, server)
    assert (report.calls, report.stopped_at) == (2, "max_calls")
    assert report.enriched + report.pending == 200
    assert report.enriched > 2
    assert rest.enriched == 200


def test_the_limits_of_an_endpoint_hold_for_all_texts(tmp_path: Path) -> None:
    tokens = sum(len(text) // 4 + 1 for text in TEXTS)
    with ScriptedEndpoint(tpm=tokens + 100, window_s=60) as server:
        report = run(tmp_path, server, settings={"tpm": 60 * tokens})
        assert server.tally.stats()["tokens_accepted"] == tokens
    assert report.enriched == 200


@pytest.mark.parametrize(("batch", "dimensions", "most"), [(1, 8, 1), (3, 8, 3), (4096, 4096, 81)])
def test_a_request_is_no_larger_than_an_answer_may_be(tmp_path: Path, batch: int, dimensions: int, most: int) -> None:
    def zeros(_: str, length: int) -> list[int]:
        return [0] * length

    with ScriptedEndpoint(vector=zeros) as server:
        report = run(tmp_path, server, TEXTS[:120], batch=batch, dimensions=dimensions)
        assert max(map(len, sent(server))) == most
    assert report.enriched == 120


def test_a_text_of_any_characters_is_sent() -> None:
    body = EmbeddingBody(RequestConfig("m"), EMBEDDING, {"user": "x"})
    assert json.loads(body.of(["a\ud800b", 'quote " and \n']))["input"][1] == 'quote " and \n'
    assert json.loads(body.of(["a"]))["user"] == "x"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "the answer is empty"),
        (b"<html>", "the answer is not JSON: <html>"),
        (b'{"data":[]}', "the answer has no data"),
        (b'{"error":{"message":"upstream"}}', "the answer has no data: upstream"),
        (b'{"data":[{"index":1,"embedding":[1]}]}', "the answer's vectors have no index, or one twice"),
        (b'{"data":[{"index":0},{"index":0}]}', "the answer's vectors have no index, or one twice"),
    ],
)
def test_what_is_no_answer(raw: bytes, problem: str) -> None:
    body = EmbeddingBody(RequestConfig("m"), EMBEDDING, {})
    with pytest.raises(ValueError, match=problem):
        body.read(raw)


@pytest.mark.parametrize(
    ("tokens", "sizes", "parts"),
    [(10, [1, 1], [5, 5]), (10, [1, 1, 1], [3, 3, 4]), (7, [0, 0], [3, 4]), (0, [5], [0]), (3, [1, 0, 2], [1, 0, 2])],
)
def test_tokens_are_divided_by_size(tokens: int, sizes: list[int], parts: list[int]) -> None:
    assert divided(tokens, sizes) == parts


# What shows and estimates -------------------------------------------------------------------------------------------


def test_the_mock_gives_unit_vectors(tmp_path: Path) -> None:
    rows = [{"id": number, "body": f"text {number % 3}"} for number in range(6)]
    report = se.run(vectors(5), input=rows, output=tmp_path / "out.duckdb", mock=True)
    found = read(tmp_path, "SELECT embedding FROM vectors ORDER BY id")
    assert (report.enriched, report.tokens_out) == (6, 0)
    assert [math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for (vector,) in found] == [True] * 6
    assert found[:3] == found[3:]
    assert len({tuple(vector) for (vector,) in found}) == 3


def test_a_plan_counts_input_tokens_alone(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('as_of = 2026-11-01\ncurrency = "USD"\n[models.m]\ninput = 1.0\noutput = 9.0\n')
    rows = [{"id": number, "body": text} for number, text in enumerate(TEXTS)]
    model = se.Endpoint("http://127.0.0.1:9/v1", model="m")
    found = se.estimate(vectors(), input=rows, model=model, sample=0, prices=prices)
    assert (found.calls, found.pending, found.distinct_requests) == (4, 200, 200)
    assert found.tokens_in is not None
    assert found.cost_low == found.cost_high == pytest.approx(found.tokens_in.total / 1e6)
    assert "with up to 64 texts each" in found.to_text()
    assert "a vector has none" in found.to_text()


def test_a_preview_shows_the_request_and_the_beginning_of_vectors() -> None:
    rows = [{"id": number, "body": text} for number, text in enumerate(TEXTS[:3])]
    shown = preview(vectors(), input=rows, prompt_only=True, model="m", config=Config())
    assert "POST /embeddings, many texts with one request" in shown
    assert '"dimensions": 8' in shown
    with ScriptedEndpoint() as server:
        asked = preview(vectors(), input=rows, model=se.Endpoint(server.url, model="m"))
    assert "3 of 3 asked rows accepted" in asked
    assert "characters)" in asked
