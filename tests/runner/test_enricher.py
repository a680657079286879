"""Tables through an Enricher: what a run gives, in the rows' own order, inside of another tool's pipeline."""

from __future__ import annotations

import functools
import json
import pickle
import random
import subprocess
import sys
import time
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sqlenrich as se
from tests.support.endpoint import ScriptedEndpoint
from tests.support.hostile import NAMES
from tests.support.local_models import Counting

LABELS = ["card", "transfer", "other"]
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "intent": {"type": "string", "enum": LABELS},
        "urgency": {"type": "integer"},
        "topics": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["intent"],
}
TICKETS = se.enrichment("tickets", prompt="Classify {{ channel }}: {{ body }}", key=["id"], output=OUTPUT)
TEXTS = [*NAMES.values(), "plain", "plain", None, ""]
ROWS = pa.table(
    {
        "id": list(range(len(TEXTS))),
        "channel": pa.array(["web", None] * (len(TEXTS) // 2) + ["web"] * (len(TEXTS) % 2), pa.string()),
        "body": TEXTS,
        "extra": pa.array([{"x": n} for n in range(len(TEXTS))]),
    }
)


def answer(prompt: str) -> str:
    """An answer that depends on the prompt alone; a sixth can't be used."""
    number = zlib.crc32(prompt.encode("utf-8", "surrogatepass"))
    found = {"intent": LABELS[number % 3], "urgency": number % 9, "topics": ["a", "ü"][: number % 3]}
    return json.dumps(found)[: -3 if number % 6 == 0 else None]


def test_the_results_are_those_of_a_run_in_the_rows_own_order(tmp_path: Path) -> None:
    with ScriptedEndpoint(content=answer) as endpoint:
        served = se.Endpoint(endpoint.url, model="mock")
        output = tmp_path / "o.duckdb"
        report = se.run(TICKETS, input=ROWS, output=output, model=served)
        before = len(endpoint.asked)
        enricher = se.Enricher(TICKETS, endpoint=served)
        found = enricher(ROWS)
        enricher.close()
        assert len(endpoint.asked) == 2 * before
    assert found.select(ROWS.column_names).equals(ROWS)
    assert found.column_names == [
        *ROWS.column_names, "intent", "urgency", "topics", "_error", "_error_detail", "_model", "_request_hash",
    ]  # fmt: skip
    by_id = {row["id"]: row for row in found.to_pylist()}
    accepted, refused = report.table().to_pylist(), report.quarantine().to_pylist()
    assert min(len(accepted), len(refused)) > 0
    for row in accepted:
        own = by_id.pop(row["id"])
        names = ("intent", "urgency", "topics", "_model", "_request_hash")
        assert {name: own[name] for name in names} == {name: row[name] for name in names}
        assert own["_error"] is None
    for row in refused:
        own = by_id.pop(row["id"])
        told = ("_error", "_error_detail", "_request_hash")
        assert {name: own[name] for name in told} == {name: row[name] for name in told}
        assert (own["intent"], own["_model"]) == (None, None)
    assert by_id == {}
    kinds = report.table().schema
    assert [found.schema.field(name).type for name in ("intent", "urgency", "topics")] == [
        kinds.field(name).type for name in ("intent", "urgency", "topics")
    ]


def test_answers_of_a_folder_are_never_asked_again(tmp_path: Path) -> None:
    with ScriptedEndpoint(content=answer) as endpoint:
        served = se.Endpoint(endpoint.url, model="mock")
        for _ in range(2):
            enricher = se.Enricher(TICKETS, endpoint=served, responses=tmp_path / "answers")
            first = enricher(ROWS)
            asked = len(endpoint.asked)
            assert enricher(ROWS.slice(3)).equals(first.slice(3))
            enricher.close()
            assert len(endpoint.asked) == asked
        assert len(endpoint.asked) == len({seen.prompt for seen in endpoint.asked}) == asked
    assert len(list((tmp_path / "answers").iterdir())) == 1, "an Enricher without answers leaves no file"


def test_what_may_pass_is_asked_again_by_a_later_call(tmp_path: Path) -> None:
    rows = pa.table({"channel": ["web"] * 3, "body": ["a", "b", "c"]})
    with ScriptedEndpoint(content=answer, by_prompt={"web: b": "500"}) as endpoint:
        enricher = se.Enricher(TICKETS, endpoint=se.Endpoint(endpoint.url, model="mock"), responses=tmp_path)
        errors = [row["_error"] for row in enricher(rows).to_pylist()]
        assert (errors[0], errors[1], errors[2]) != (None, None, None)
        assert errors[1] == "CALL_ERROR"
        endpoint.by_prompt = {}
        before = len(endpoint.asked)
        assert [row["_error"] for row in enricher(rows).to_pylist()][1] != "CALL_ERROR"
        assert len(endpoint.asked) == before + 1
        enricher.close()


def test_calls_overlap_and_share_one_client() -> None:
    parts = [pa.table({"channel": ["web"] * 20, "body": [f"{n} {m}" for m in range(20)]}) for n in range(4)]
    with ScriptedEndpoint(content=answer, latency_s=0.05) as endpoint:
        enricher = se.Enricher(TICKETS, endpoint=se.Endpoint(endpoint.url, model="mock", concurrency=64))
        enricher(parts[0].slice(0, 1))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(enricher, parts))
        enricher.close()
        assert endpoint.busy_peak > 20
    assert [one.column("body").to_pylist() for one in found] == [one.column("body").to_pylist() for one in parts]


def test_it_travels_to_another_process_and_takes_any_model(tmp_path: Path) -> None:
    words = se.enrichment("words", prompt="{{ text }}", key=["id"], output={"word": "string"})
    local = se.LocalModel(functools.partial(Counting, str(tmp_path)), name="words", version="1")
    enricher = se.Enricher(words, model=local, columns={"text": "body"})
    again: se.Enricher = pickle.loads(pickle.dumps(enricher))
    batch = pa.RecordBatch.from_pydict({"body": ["the word one", "the word two", None]})
    for one in (again, pickle.loads(pickle.dumps(again))):
        assert one(batch)["word"].to_pylist() == ["one", "two", None]
        one.close()
    mocked = se.Enricher(words, model=se.Mock(), columns={"text": "body"})(batch)
    assert mocked["_error"].to_pylist() == [None, None, "NO_INPUT"]
    capped = se.Enricher(words, model=se.Mock(), columns={"text": "body"}, caps=se.Caps(max_calls=1))
    assert Counter(capped(batch)["_error"].to_pylist()) == {None: 1, "NOT_ASKED": 1, "NO_INPUT": 1}
    empty = mocked.schema.names
    assert (
        se.Enricher(words, model=se.Mock(), columns={"text": "body"})(
            pa.table({"body": pa.array([], pa.string())})
        ).column_names
        == empty
    )


def test_an_enricher_of_another_version_and_a_gateway_that_is_gone_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedEndpoint(content=answer) as endpoint:
        with se.Gateway(tmp_path / "a.duckdb", endpoint.url, port=0) as gateway:
            enricher = se.Enricher(TICKETS, endpoint=se.Endpoint(gateway.url, model="mock"))
            enricher(ROWS.slice(0, 3))
        with pytest.raises(se.RunError, match=r"connection refused: nothing listens there") as gone:
            se.Enricher(TICKETS, endpoint=se.Endpoint(gateway.url, model="mock"))(ROWS)
        assert "\n" not in str(gone.value)
    pickled = pickle.dumps(enricher)
    monkeypatch.setattr("sqlenrich.runner.enricher.__version__", "9.9")
    with pytest.raises(se.ConfigError, match=r"made by sqlenrich 0\.1\.0, and 9\.9 is installed on ") as other:
        pickle.loads(pickled)
    assert "\n" not in str(other.value)


def test_processes_share_one_gateway(tmp_path: Path) -> None:
    with (
        ScriptedEndpoint(content=answer, latency_s=0.05) as endpoint,
        se.Gateway(tmp_path / "a.duckdb", endpoint.url, port=0) as gateway,
    ):
        served = se.Endpoint(gateway.url, model="mock")
        enrichers = [se.Enricher(TICKETS, endpoint=served) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda one: one(ROWS), enrichers))
        for one in enrichers:
            one.close()
        assert len(endpoint.asked) == len({seen.prompt for seen in endpoint.asked})
    assert all(one.equals(found[0]) for one in found)


REFUSED = [
    ({"intent": ["x"], "body": ["a"], "channel": ["b"]}, "the table has the column intent, which an Enricher gives"),
    ({"_row": [1], "body": ["a"], "channel": ["b"]}, "the table has the column _row"),
    ({"channel": ["b"]}, "body"),
]


@pytest.mark.parametrize(("columns", "told"), REFUSED, ids=[told[:20] for _, told in REFUSED])
def test_a_table_that_does_not_fit_is_told(columns: dict[str, Any], told: str) -> None:
    with pytest.raises(se.SqlenrichError) as caught:
        se.Enricher(TICKETS, model=se.Mock())(pa.table(columns))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_table_and_a_query_are_refused() -> None:
    with pytest.raises(se.ConfigError, match=r"takes a pyarrow.Table or a RecordBatch, not list"):
        se.Enricher(TICKETS, model=se.Mock())([{"body": "a"}])
    queried = se.enrichment(
        "q", prompt="{{ body }}", key=["id"], source={"query": "select 1 as id, 'a' as body"}, output=OUTPUT
    )
    with pytest.raises(se.ConfigError, match="source is a query"):
        se.Enricher(queried, model=se.Mock())


WORKER = """
import sys
import pyarrow as pa
import sqlenrich as se
url, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
e = se.enrichment("tickets", prompt="{{ body }}", key=["id"], output={"x?": "string"})
enricher = se.Enricher(e, endpoint=se.Endpoint(url, model="mock", concurrency=16), responses=folder)
for start in range(0, count, 60):
    table = enricher(pa.table({"body": [f"text {n}" for n in range(start, start + 60)]}))
    assert table["_error"].null_count == 60
"""


def test_a_killed_process_repeats_no_more_than_was_not_stored(tmp_path: Path) -> None:
    drawn = random.Random(3)
    with ScriptedEndpoint(content="{}", latency_s=0.02) as endpoint:
        command = [sys.executable, "-c", WORKER, endpoint.url, str(tmp_path / "answers"), "240"]
        for _ in range(4):
            process = subprocess.Popen(command)
            before = len(endpoint.asked)
            while len(endpoint.asked) < before + 20 and process.poll() is None:
                time.sleep(0.01)
            time.sleep(drawn.uniform(0, 0.1))
            process.kill()
            process.wait()
        subprocess.run(command, check=True)
        asked = Counter(seen.prompt for seen in endpoint.asked)
        subprocess.run(command, check=True)
        assert sum(asked.values()) == len(endpoint.asked), "the last run asks nothing"
    assert len(asked) == 240
    assert sum(asked.values()) - 240 <= 4 * (16 + 128)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_maps_its_rows_in_arrow(tmp_path: Path) -> None:
    from tests.standins.spark import spark_session

    session = spark_session()
    enricher = se.Enricher(TICKETS, model=se.Mock(), responses=tmp_path / "answers")
    rows = [(n, "web", f"text {n}") for n in range(40)]
    frame = session.createDataFrame(rows, "id int, channel string, body string").repartition(2)

    def enrich(batches: Any) -> Any:
        for batch in batches:
            yield from enricher(batch).to_batches()

    kinds = "id int, channel string, body string, intent string, urgency bigint, topics array<string>, "
    kinds += "_error string, _error_detail string, _model string, _request_hash string"
    found = {row["id"]: row["intent"] for row in frame.mapInArrow(enrich, kinds).collect()}
    given = [{"id": n, "channel": channel, "body": body} for n, channel, body in rows]
    expected = se.run(TICKETS, input=given, model=se.Mock()).table().to_pylist()
    assert found == {row["id"]: row["intent"] for row in expected}


def test_frames_of_pandas_and_polars(tmp_path: Path) -> None:
    import pandas as pd
    import polars as pl

    enricher = se.Enricher(TICKETS, model=se.Mock(), responses=tmp_path)
    frame = pd.DataFrame({"channel": ["web", "app"], "body": ["a", "b"]})
    found = enricher(pa.Table.from_pandas(frame, preserve_index=False)).to_pandas()
    polars = pl.from_arrow(enricher(pl.from_pandas(frame).to_arrow()))
    assert isinstance(polars, pl.DataFrame)
    assert list(found["intent"]) == polars["intent"].to_list()
