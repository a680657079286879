"""``sqlenrich plan``: the figures of small tables, computed by hand beside what is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.limits import Limits
from sqlenrich.core.tokens import estimate_tokens
from sqlenrich.llm.endpoint.token_counter import RUN_A_FEW
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.plan.request import ResolvedModel, request_hash
from sqlenrich.runner.estimate import duration
from sqlenrich.runner.token_estimates import fit_tokens
from sqlenrich.schema import check_response, normalise
from sqlenrich.schema.size import min_answer_bytes
from sqlenrich.spec.prices import Price, Prices
from sqlenrich.spec.settings import Config
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import ask, call, rows, write_csv, write_prompt

NOBODY = "http://127.0.0.1:9/v1"
"""Nothing listens there: nothing can be counted."""
PRICES = Prices(date(2026, 11, 1), "USD", {"m": Price(Decimal(1), Decimal(1), Decimal(10))})
LIMITED = "key: [id]\nparams: {max_tokens: 50}\n"
HINT = 'Answer with one JSON object that fits this JSON Schema, and nothing else: {"additionalProperties":false,'

UNREACHED = "connection refused: nothing listens there"


@pytest.fixture(autouse=True)
def no_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def plan(prompt: Path, data: Path | None, **options: Any) -> dict[str, Any]:
    """The facts of ``se.plan`` for the model m of an endpoint that nobody runs."""
    given = {"endpoint": NOBODY, "model": "m", **options}
    return se.estimate(se.load(prompt), input=data, **given).to_dict()


class Counter:
    """An endpoint that counts: a token for each two characters of a message, and 5 of the chat template."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        counter = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                counter.asked.append((self.path, self.headers["Authorization"] or "", body))
                (message,) = body["messages"]
                answer = json.dumps({"count": len(message["content"]) // 2 + 5, "max_model_len": 9}).encode()
                self.send_response(500 if "hopeless" in message["content"] else 200)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def counter() -> Iterator[Counter]:
    serving = Counter()
    thread = threading.Thread(target=serving.server.serve_forever)
    thread.start()
    yield serving
    serving.server.shutdown()
    thread.join()
    serving.server.server_close()


def test_rows_and_requests(tmp_path: Path) -> None:
    """Six rows: two alike, one blank, one whose template fails; a filter takes the last away."""
    table = [(1, "aa", 1), (2, "aa", 1), (3, None, 1), (4, "x", "no"), (5, "bb", 1), (6, "gone", 1)]
    data = write_csv(tmp_path / "in.csv", table, ("id", "body", "n"))
    header = "key: [id]\ncolumns: {n: bigint}\nrequire: [body]\nwhere: id <> '6'\n"
    facts = plan(write_prompt(tmp_path, header, "{{ body }} {{ n }}"), data)
    assert facts["rows"] == 5
    assert facts["not_asked"] == {"NO_INPUT": 1, "BAD_PROMPT": 1}
    assert (facts["distinct_requests"], facts["cached"], facts["calls"]) == (2, 0, 2)
    assert facts["cost"] is facts["seconds"] is None


def test_estimated_tokens_in(tmp_path: Path) -> None:
    """20 prompts of 11 to 30 bytes: 3 to 8 tokens; with each goes the schema, or the hint that stands in for it."""
    data = write_csv(tmp_path / "in.csv", [(n, "x" * n) for n in range(1, 21)])
    own = [-(-n // 4) for n in range(11, 31)]  # "Classify: " has 10
    schema = (
        '{"type":"json_schema","json_schema":{"name":"intent","schema":{"type":"object","properties":{"label":'
        '{"type":"string","enum":["a","b","c"]},"urgency":{"type":"integer","minimum":1,"maximum":5}},'
        '"required":["label","urgency"],"additionalProperties":false},"strict":true}}'
    )
    told = plan(write_prompt(tmp_path), data)["tokens_in"]
    more = -(-len(schema) // 4)
    assert told == {
        "p50": 5 + more, "p95": 8 + more, "max": 8 + more, "total": sum(own) + 20 * more,
        "method": "estimated", "sampled": 0, "shared": 19 * 2,
        "why": f"http://127.0.0.1:9/tokenize can't be reached ({UNREACHED}): start the server, or correct the url",
        "counter": None,
    }  # fmt: skip
    hinted = plan(write_prompt(tmp_path, "key: [id]\nhint: always\n"), data)["tokens_in"]
    hint = (
        '{"additionalProperties":false,"properties":{"label":{"enum":["a","b","c"],"type":"string"},'
        '"urgency":{"maximum":5,"minimum":1,"type":"integer"}},"required":["label","urgency"],"type":"object"}'
    )
    words = "\n\nAnswer with one JSON object that fits this JSON Schema, and nothing else: "
    assert hinted["p50"] == 5 + -(-len(words + hint) // 4)


def test_bytes_are_counted_not_characters(tmp_path: Path) -> None:
    (ascii_, umlauts) = (
        plan(write_prompt(tmp_path), write_csv(tmp_path / "in.csv", [(1, text)]))["tokens_in"]["total"]
        for text in ("aa", "ää")
    )
    assert umlauts - ascii_ == 1  # 12 and 14 bytes
    assert (estimate_tokens(""), estimate_tokens("abcd"), estimate_tokens("äää"), estimate_tokens("é" * 4)) == (
        0,
        1,
        2,
        2,
    )


def test_tokens_counted_by_the_endpoint(tmp_path: Path, counter: Counter) -> None:
    """Prompts of 12, 14, ... 70 bytes have half as many tokens and 5: the sample's line tells all others."""
    data = write_csv(tmp_path / "in.csv", [(n, "x" * 2 * n) for n in range(1, 31)])
    for sample, method in ((7, "counted"), (1000, "counted"), (0, "estimated")):
        counter.asked.clear()
        told = plan(write_prompt(tmp_path), data, endpoint=counter.url, sample=sample)["tokens_in"]
        assert (told["method"], told["sampled"]) == (method, min(sample, 30))
        assert len(counter.asked) == (min(sample, 30) + 1 if sample else 0)
        if sample:
            counts = [n // 2 + 5 for n in range(12, 72, 2)]
            assert [told[name] for name in ("p50", "p95", "max", "total")] == [
                counts[14], counts[28], counts[29], sum(counts)
            ]  # fmt: skip


def test_what_is_sent_to_be_counted(tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    data = write_csv(tmp_path / "in.csv", [(1, "a"), (2, "a"), (3, None), (4, "hopeless")])
    prompt = write_prompt(tmp_path, "key: [id]\nhint: always\n")
    told = plan(prompt, data, endpoint=counter.url)["tokens_in"]
    assert {(path, key) for path, key, _ in counter.asked} == {("/tokenize", "Bearer secret")}
    assert counter.asked[0][2] == {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
    contents = sorted(body["messages"][0]["content"] for _, _, body in counter.asked[1:])
    assert [text.split("\n\n")[0] for text in contents] == ["Classify: a", "Classify: hopeless"]
    assert all(text.split("\n\n")[1].startswith(HINT) for text in contents)
    assert told["sampled"] == 1  # the other could not be counted


@pytest.mark.parametrize("below", ["00", "01", "g"])
def test_kept_prompts_and_those_made_again_are_the_same(
    tmp_path: Path, counter: Counter, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    monkeypatch.setattr("sqlenrich.store.duckdb.planned.KEPT_BELOW", below)
    data = write_csv(tmp_path / "in.csv", [(n, f"b{n % 2000}") for n in range(4000)])
    told = plan(write_prompt(tmp_path), data, endpoint=counter.url, sample=4)["tokens_in"]
    assert told["sampled"] == 4
    constant = constant_of(tmp_path)
    hashes = sorted((request_hash(constant, f"Classify: b{n}"), f"Classify: b{n}") for n in range(2000))
    sent = {body["messages"][0]["content"] for _, _, body in counter.asked[1:]}
    assert sent == {prompt for _, prompt in hashes[:4]}


def constant_of(folder: Path) -> str:
    """What stands before each prompt where the model m is asked."""
    return se.compile_plan(
        se.load(folder / "intent.prompt"), "duckdb", {"source": "s"}, model=ResolvedModel("m")
    ).constant


def test_where_nothing_is_counted(tmp_path: Path) -> None:
    """A server without the page gets no prompt, one with a body of another kind neither."""
    data = write_csv(tmp_path / "in.csv", [(1, "secret text")])
    with ScriptedEndpoint(tokenizes=False) as endpoint:
        told = plan(write_prompt(tmp_path), data, endpoint=endpoint.url, model="m")["tokens_in"]
        assert told["method"] == "estimated"
        assert not endpoint.asked
        assert not any(b"secret text" in seen.body for seen in endpoint.log)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, ""), "refuses the key (HTTP 401): set the variable that api_key_env names, or OPENAI_API_KEY"),
        ((404, ""), f"is not there (HTTP 404), for only vLLM and its kin count: {RUN_A_FEW}"),
        ((500, '{"count": 3}'), f"fails (HTTP 500): look at the server, or {RUN_A_FEW}"),
        ((302, ""), f"fails (HTTP 302): look at the server, or {RUN_A_FEW}"),
        ((200, "<html>"), f"gives no count: {RUN_A_FEW}"),
        ((200, '{"count": true}'), f"gives no count: {RUN_A_FEW}"),
        ((200, "[]"), f"gives no count: {RUN_A_FEW}"),
        (
            (200, None),
            "can't be reached (connection refused: nothing listens there): start the server, or correct the url",
        ),
    ],
)
def test_why_tokens_are_an_estimate(tmp_path: Path, answer: tuple[int, str | None], why: str) -> None:
    """One line says where, why, and what to do; the key that a url's query holds is not shown."""
    status, text = answer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    if text is None:
        server.shutdown()
        server.server_close()
    place = f"http://127.0.0.1:{server.server_port}"
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    options = ("--input", data, "--endpoint", f"{place}/v1?sig=sk-SECRET", "--model", "m")
    shown = call("plan", write_prompt(tmp_path), *options)
    facts = json.loads(call("plan", write_prompt(tmp_path), *options, "--json").out)
    if text is not None:
        server.shutdown()
        server.server_close()
    thread.join()
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.splitlines()[-1] == f"tokens in are an estimate: {place}/tokenize {why}"
    assert facts["tokens_in"]["why"] == f"{place}/tokenize {why}"
    assert "SECRET" not in shown.out


def test_nobody_is_asked_to_count(tmp_path: Path, counter: Counter) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    told = plan(write_prompt(tmp_path), data, endpoint=counter.url, sample=0)["tokens_in"]
    assert (told["method"], told["why"], counter.asked) == ("estimated", "no prompt may be sent (--sample 0)", [])
    told = plan(write_prompt(tmp_path), data, mock=True, endpoint=None, model=None)["tokens_in"]
    assert (told["method"], told["why"]) == ("estimated", None)


def test_of_several_urls_the_first_that_counts_does(tmp_path: Path, counter: Counter) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    config = Config(endpoints={"e": Endpoint(NOBODY, others=(counter.url,))})
    told = plan(write_prompt(tmp_path), data, endpoint="e", config=config)["tokens_in"]
    assert (told["method"], told["why"]) == ("counted", None)


@pytest.mark.parametrize(
    ("known", "slope", "first"),
    [
        pytest.param([(10, 15), (20, 20), (30, 25)], 0.5, 10.0, id="a line"),
        pytest.param([(10, 5), (10, 6)], 0.55, 0.0, id="one length"),
        pytest.param([(10, 9), (20, 6)], 0.5, 0.0, id="falling"),
        pytest.param([(10, 1), (20, 20)], 0.7, 0.0, id="below zero"),
        pytest.param([(0, 3), (0, 5)], 0.0, 4.0, id="no bytes"),
    ],
)
def test_line(known: Sequence[tuple[int, int]], slope: float, first: float) -> None:
    assert fit_tokens(known) == pytest.approx((slope, first))


@pytest.mark.parametrize(
    ("schema", "least"),
    [
        ({"type": "object"}, "{}"),
        ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]}, '{"a":1}'),
        ({"type": "object", "properties": {"a": {"enum": ["long", "äb"]}}, "required": ["a"]}, '{"a":"äb"}'),
        (
            {"type": "object", "properties": {"s": {"type": "string", "minLength": 3},
             "l": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}}, "required": ["l", "s"]},
            '{"s":"xxx","l":[true,true]}',
        ),
        (
            {"type": "object", "properties": {"x": {"type": ["string", "null"]}, "y": {"type": "null"}},
             "required": ["x", "y"]},
            '{"x":"","y":null}',
        ),
        (
            {"type": "object", "properties": {"x": {"anyOf": [{"type": "null"}, {"enum": ["123456"]}]}},
             "required": ["x"]},
            '{"x":null}',
        ),
    ],
)  # fmt: skip
def test_shortest(schema: dict[str, Any], least: str) -> None:
    assert check_response(schema, least) is None
    assert min_answer_bytes(normalise(schema, columns=False)[0]) == len(least.encode())


def test_tokens_out_of_the_schema(tmp_path: Path) -> None:
    """The shortest answer, {"label":"a","urgency":1}, has 25 bytes: 7 tokens."""
    data = write_csv(tmp_path / "in.csv", [(n, f"b{n}") for n in range(10)])
    assert plan(write_prompt(tmp_path), data)["tokens_out"] == {
        "low": 7, "high": None, "total_low": 70, "total_high": None, "method": "schema", "sampled": 0,
    }  # fmt: skip
    bounded = plan(write_prompt(tmp_path, LIMITED), data)["tokens_out"]
    assert [bounded[name] for name in ("low", "high", "total_low", "total_high")] == [7, 50, 70, 500]
    newer = plan(write_prompt(tmp_path, LIMITED), data, model="gpt-5-mini")["tokens_out"]  # max_completion_tokens
    assert newer["high"] == 50
    tight = plan(write_prompt(tmp_path, "key: [id]\nparams: {max_tokens: 3}\n"), data)["tokens_out"]
    assert (tight["low"], tight["high"]) == (3, 3)


def test_cost(tmp_path: Path) -> None:
    """At 1 a million in and 10 out: the tokens in, and 70 to 500 out."""
    data = write_csv(tmp_path / "in.csv", [(n, f"b{n}") for n in range(10)])
    facts = plan(write_prompt(tmp_path, LIMITED), data, prices=PRICES)
    into = facts["tokens_in"]["total"]
    assert facts["cost"] == pytest.approx({"low": (into + 700) / 1e6, "high": (into + 5000) / 1e6})
    assert (facts["cost_unknown"], facts["currency"], facts["prices_as_of"]) == (None, "USD", "2026-11-01")
    assert plan(write_prompt(tmp_path), data, prices=PRICES)["cost"] == {"low": (into + 700) / 1e6, "high": None}


@pytest.mark.parametrize(
    ("prices", "model", "why"),
    [(None, "m", "no prices given (--prices)"), (PRICES, "other", "no price of other")],
)
def test_no_cost(tmp_path: Path, prices: Prices | None, model: str, why: str) -> None:
    data = write_csv(tmp_path / "in.csv", [(1, "a")])
    facts = plan(write_prompt(tmp_path), data, prices=prices, model=model)
    assert (facts["cost"], facts["cost_unknown"]) == (None, why)


@pytest.mark.parametrize(
    ("cached", "low", "high", "words"),
    [
        ("1", 0, 0, "no input assumed to be cached"),
        ("0.25", -0.75, 0, "the lower bound with 18 tokens in cached: the constant beginning"),
        ("0", -1, 0, "the lower bound with 18 tokens in cached: the constant beginning"),
        ("1.25", 0, 0.25, "no input assumed to be cached"),  # a vendor that takes more for what it reads from its cache
    ],
)
def test_cost_with_a_cached_beginning(tmp_path: Path, cached: str, low: float, high: float, words: str) -> None:
    """Of ten prompts nine repeat "Classify: ", which has 10 bytes, and so 2 whole tokens."""
    data = write_csv(tmp_path / "in.csv", [(n, f"b{n}") for n in range(10)])
    prices = Prices(date(2026, 11, 1), "USD", {"m": Price(Decimal(1), Decimal(cached), Decimal(10))})
    facts = plan(write_prompt(tmp_path, LIMITED), data, prices=prices)
    into = facts["tokens_in"]["total"]
    assert facts["tokens_in"]["shared"] == 18
    assert facts["cost"] == pytest.approx(
        {"low": (into + 18 * low + 700) / 1e6, "high": (into * (1 + high) + 5000) / 1e6}
    )
    shown = se.estimate(se.load(tmp_path / "intent.prompt"), input=data, prices=prices, endpoint=NOBODY, model="m")
    assert f"prices of 2026-11-01, {words}, no retries" in shown.to_text()


@pytest.mark.parametrize(
    ("template", "shared"),
    [
        ("{{ body }} " + "x" * 400, 0),
        ("x" * 400 + "{{ body }}", 9 * 200),
        ("x" * 400 + "{% if body == 'b1' %}{{ 'y' * 40 }}{% else %}{{ 'z' * 80 }}{% endif %}{{ body }}", 9 * 220),
    ],
)
def test_the_constant_beginning_as_the_endpoint_counts(
    tmp_path: Path, counter: Counter, template: str, shared: int
) -> None:
    """It counts a token for each two characters."""
    data = write_csv(tmp_path / "in.csv", [(n, "bb" * n) for n in range(1, 11)])
    facts = plan(write_prompt(tmp_path, template=template), data, endpoint=counter.url)
    assert facts["tokens_in"]["shared"] == shared


def test_the_constant_beginning_of_a_system_of_the_row(tmp_path: Path, counter: Counter) -> None:
    """Only what comes before its first value is shared; examples follow it. Each request counts with all its text."""
    data = write_csv(tmp_path / "in.csv", [(10 + n, "bb" * n) for n in range(1, 11)])
    header = f"key: [id]\nsystem: {'x' * 400}{{{{ id }}}}\n"
    facts = plan(write_prompt(tmp_path, header), data, endpoint=counter.url)
    assert facts["tokens_in"]["shared"] == 9 * 200
    shots = "messages: [{role: user, content: Hi}, {role: assistant, content: Yes}]\n"
    more = plan(write_prompt(tmp_path, header + shots), data, endpoint=counter.url)
    assert more["tokens_in"]["shared"] == 9 * 200
    added = more["tokens_in"]["total"] - facts["tokens_in"]["total"]
    assert added == pytest.approx(10 * len("User: Hi\n\nAssistant: Yes\n\nUser: ") / 2, abs=10)


@pytest.mark.parametrize(
    ("limits", "low", "limit"),
    [
        ({}, None, None),
        # 10 calls: the first goes at once, and 98 % of the limit are used.
        ({"rpm": 5}, 9 * 60 / 4.9, "rpm 5"),
        ({"rpm": 5, "output_tpm": 40}, 9 * 60 / 4.9, "rpm 5"),  # 70 tokens at least
        ({"rpm": 600}, 0, "rpm 600"),  # 12 go at once
        ({"rpm": 600, "output_tpm": 7}, 63 * 60 / 6.86, "output_tpm 7"),
        ({"input_tpm": 1000, "rpm": 1_000_000}, "in", "input_tpm 1,000"),
        ({"tpm": 1000, "input_tpm": 10_000}, "both", "tpm 1,000"),
    ],
)
def test_time_at_the_limits(tmp_path: Path, limits: dict[str, Any], low: float | str | None, limit: str | None) -> None:
    data = write_csv(tmp_path / "in.csv", [(n, f"b{n}") for n in range(10)])
    config = Config(endpoints={"e": replace(Endpoint(NOBODY), **limits)})
    facts = plan(write_prompt(tmp_path), data, endpoint="e", config=config)
    into = facts["tokens_in"]["total"]
    expected = {"in": 0.9 * into * 60 / 980, "both": 0.9 * (into + 70) * 60 / 980}.get(str(low), low)
    assert facts["seconds"] == (None if low is None else {"low": pytest.approx(expected, abs=1e-3), "high": None})
    assert facts["limit"] == limit


def answered(folder: Path, *, count: int, name: str = "out.duckdb") -> tuple[Path, Path, Path]:
    """A run that asked half of ``2 * count`` rows; its answers have 7 to 6 + count tokens, each took 100 ms."""
    prompt = write_prompt(folder, LIMITED)
    data = write_csv(folder / "in.csv", [(n, "x" * n) for n in range(1, 2 * count + 1)])
    half = write_csv(folder / "half.csv", [(n, "x" * n) for n in range(1, count + 1)])
    with ScriptedEndpoint(content='{"label":"a","urgency":3}') as endpoint:
        ask(prompt, half, folder / name, endpoint.url)
    database = folder / name if name.endswith(".duckdb") else folder / ".sqlenrich" / f"{name}.duckdb"
    with duckdb.connect(str(database)) as db:
        db.execute(
            "UPDATE intent_responses SET latency_ms = 100, tokens_in = 30 + tokens_in, tokens_out = 6 + row "
            "FROM (SELECT request_hash AS h, row_number() OVER () AS row FROM intent_responses) WHERE request_hash = h"
        )
    return prompt, data, database


def test_stored_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40 rows 20 are answered with 7, 8, ... 26 tokens: of these p5 is 7 and p95 is 25."""
    prompt, data, database = answered(tmp_path, count=20)
    before = database.read_bytes()
    facts = plan(prompt, data, output=database, model="mock", concurrency=4)
    assert (facts["distinct_requests"], facts["cached"], facts["calls"]) == (40, 20, 20)
    out = facts["tokens_out"]
    assert (out["low"], out["high"], out["method"], out["sampled"]) == (7, 25, "stored", 20)
    assert (out["total_low"], out["total_high"]) == (140, 500)
    assert facts["seconds"] == {"low": 0.5, "high": 0.5}  # 20 x 100 ms, 4 at a time
    assert facts["limit"] == "100 ms an answer, 4 at a time"
    # Without a fixed number: as many as a run may have in flight.
    assert plan(prompt, data, output=database, model="mock")["limit"] == "100 ms an answer, at most 20 at a time"
    monkeypatch.setattr("sqlenrich.llm.throttle.limiter.open_files", lambda: 136.0)
    limited = plan(prompt, data, output=database, model="mock")
    assert limited["limit"] == f"100 ms an answer, at most {RateLimiter(1, Limits()).max_concurrency} at a time"
    assert limited["seconds"] == {"low": 0.25, "high": None}  # 8 at a time
    config = Config(endpoints={"e": Endpoint(NOBODY, concurrency=2)})
    fixed = plan(prompt, data, output=database, model="mock", endpoint="e", config=config)
    assert fixed["seconds"] == {"low": 1.0, "high": 1.0}
    into = facts["tokens_in"]
    assert (into["method"], into["sampled"]) == ("stored", 20)
    real = sum((10 + n) // 4 + 31 for n in range(21, 41))
    assert into["total"] == pytest.approx(real, rel=0.02)
    assert database.read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("out.duckdb*")) == ["out.duckdb"]


def test_stored_answers_of_others_tell_nothing(tmp_path: Path) -> None:
    """Another model's answers, another file's, failed ones, and too few."""
    prompt, data, database = answered(tmp_path, count=12)
    assert plan(prompt, data, output=database, model="m")["tokens_out"]["method"] == "schema"
    for change in ("call_error = 'HTTP 500'", "model = 'm'", "fingerprint = 'x', request_hash = 'y' || request_hash"):
        with duckdb.connect(str(database)) as db:
            db.execute(f"CREATE TABLE kept AS FROM intent_responses; UPDATE intent_responses SET {change}")
        facts = plan(prompt, data, output=database, model="mock")
        assert (facts["tokens_out"]["method"], facts["tokens_in"]["method"]) == ("schema", "estimated"), change
        with duckdb.connect(str(database)) as db:
            db.execute("CREATE OR REPLACE TABLE intent_responses AS FROM kept; DROP TABLE kept")
    assert plan(prompt, data, output=database, model="mock")["tokens_out"]["method"] == "stored"
    with duckdb.connect(str(database)) as db:
        db.execute("DELETE FROM intent_responses WHERE tokens_out > 15")  # nine are left
    assert plan(prompt, data, output=database, model="mock")["tokens_out"]["method"] == "schema"


def test_nothing_left_to_ask(tmp_path: Path) -> None:
    prompt, _, database = answered(tmp_path, count=12)
    prices = Prices(date(2026, 11, 1), "USD", {"mock": PRICES.models["m"]})
    facts = plan(prompt, tmp_path / "half.csv", output=database, model="mock", prices=prices)
    assert (facts["cached"], facts["calls"]) == (12, 0)
    assert facts["tokens_in"] is facts["tokens_out"] is None
    assert facts["cost"] == facts["seconds"] == {"low": 0.0, "high": 0.0}


def test_outputs(tmp_path: Path) -> None:
    """A CSV file's answers are beside it; no database is made where there is none; the answers may have a name."""
    prompt, data, database = answered(tmp_path, count=12, name="out.csv")
    assert plan(prompt, data, output=tmp_path / "out.csv", model="mock")["cached"] == 12
    assert plan(prompt, data, output=tmp_path / "new.csv", model="mock")["cached"] == 0
    assert plan(prompt, data, output=tmp_path / "new.duckdb", model="mock")["cached"] == 0
    assert not list(tmp_path.glob("**/new*"))
    with duckdb.connect(str(database)) as db:
        db.execute("CREATE SCHEMA llm; CREATE TABLE llm.shared AS FROM intent_responses; DROP TABLE intent_responses")
    assert plan(prompt, data, output=database, model="mock")["cached"] == 0
    assert plan(prompt, data, output=database, model="mock", responses="llm.shared")["cached"] == 12


def test_tables_of_others_and_open_databases(tmp_path: Path) -> None:
    prompt, data, database = answered(tmp_path, count=1)
    with duckdb.connect(str(database)) as db:
        db.execute("CREATE TABLE mine AS SELECT 1 AS request_hash")
        with pytest.raises(se.RunError, match=r"out\.duckdb is open in this process: close your own connection"):
            plan(prompt, data, output=database, model="mock")
    with pytest.raises(se.ConfigError, match=r"out\.duckdb: mine is no table of answers of this version"):
        plan(prompt, data, output=database, model="mock", responses="mine")


@pytest.mark.parametrize("named", [True, False])
def test_the_source_is_a_table_of_the_output(tmp_path: Path, named: bool) -> None:
    database = tmp_path / "out.duckdb"
    with duckdb.connect(str(database)) as db:
        db.execute(
            "CREATE SCHEMA raw; CREATE TABLE raw.messages AS SELECT i AS id, 'x' || i AS body FROM range(9) AS t(i)"
        )
    prompt = write_prompt(tmp_path, "source: raw.messages\nkey: [id]\n")
    assert call("run", prompt, "--output", database, "--mock", "--max-rows", 4).status == 4
    facts = plan(prompt, database if named else None, output=database, mock=True, endpoint=None, model=None)
    assert (facts["rows"], facts["cached"], facts["calls"]) == (9, 4, 5)


def test_a_run_goes_as_planned(tmp_path: Path) -> None:
    """The same figures as the line that a run prints before its first call."""
    data = write_csv(tmp_path / "in.csv", [(n, f"x{n % 7}") for n in range(20)])
    prompt, out = write_prompt(tmp_path), tmp_path / "out.duckdb"
    call("run", prompt, "--input", data, "--output", out, "--mock", "--mock-failures", "error=0.5", "--max-rows", 5)
    facts = plan(prompt, data, output=out, mock=True, endpoint=None, model=None)
    told = call("run", prompt, "--input", data, "--output", out, "--mock").err.splitlines()[0]
    assert told == (
        f"plan: {facts['rows']} rows, {facts['distinct_requests']} distinct requests, {facts['cached']} already "
        f"answered, {facts['calls']} calls to mock"
    )
    assert facts["calls"] > 2


def test_the_command(tmp_path: Path, counter: Counter) -> None:
    (tmp_path / "prices.toml").write_text("as_of = 2026-11-01\n[models.m]\ninput = 1\noutput = 10\n", encoding="utf-8")
    (tmp_path / "sqlenrich.toml").write_text(
        f'prices = "prices.toml"\n[endpoints.e]\nurl = "{counter.url}"\nrpm = 2\n'
        '[targets.t]\nengine = "duckdb"\ndatabase = "out.duckdb"\n',
        encoding="utf-8",
    )
    table = [*((n, f"b{n}") for n in range(10, 20)), (20, None)]
    prompt, data = write_prompt(tmp_path, LIMITED), write_csv(tmp_path / "in.csv", table)
    shown = call("plan", prompt, "--input", data, "--model", "m")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        f"plan of intent: m at {counter.url}; nothing was asked",
        "rows        11",
        "not asked   1                        1 NO_INPUT",
        "requests    10                       distinct",
        "answered    0                        no --output to look into",
        "calls       10",
        "tokens in   110                      11 p50, 11 p95, 11 max a request; counted by the endpoint on 10 prompts",
        "tokens out  70 to 500                the shortest answer that fits has about 7; max_tokens 50",
        "cost        0.000810 to 0.00511 USD  prices of 2026-11-01, no input assumed to be cached, no retries",
        "time        at least 4 min 36 s      rpm 2",
    ]
    forecast = se.estimate(se.load(prompt), input=data, model="m")
    narrow = forecast.to_text(80)
    assert max(map(len, narrow.splitlines()[1:])) <= 80
    assert narrow.split() == forecast.to_text().split() == shown.out.split()
    asked = call("plan", prompt, "--input", data, "--model", "m", "--target", "t", "--sample", 3, "--json")
    facts = json.loads(asked.out)
    assert asked.out.count("\n") == 1
    assert (facts["tokens_in"]["sampled"], facts["calls"], facts["seconds"]) == (3, 10, {"low": 275.51, "high": None})
    assert list(facts) == [
        "name", "model", "rows", "not_asked", "distinct_requests", "cached", "calls", "tokens_in", "tokens_out",
        "cost_unknown", "currency", "prices_as_of", "limit", "compiled", "pending", "stopped_at", "model_end",
        "endpoint", "cost", "seconds",
    ]  # fmt: skip


def test_words_of_stored_and_unknown(tmp_path: Path) -> None:
    prompt, data, database = answered(tmp_path, count=20)
    options = ("--input", data, "--endpoint", NOBODY)
    shown = call("plan", prompt, *options, "--model", "mock", "--output", database, "--concurrency", 2).out.splitlines()
    assert shown[4].split(maxsplit=2) == ["answered", "20", f"in {database}"]
    assert shown[6].endswith("from 20 stored answers")
    assert shown[7].split(maxsplit=5)[1:] == [
        "out",
        "140",
        "to",
        "500",
        "7 p5, 25 p95 a request; from 20 stored answers",
    ]
    assert shown[8].split(maxsplit=2) == ["cost", "unknown", "no prices given (--prices)"]
    assert shown[9].split(maxsplit=3) == ["time", "1", "s", "100 ms an answer, 2 at a time"]
    nothing = call("plan", prompt, *options, "--model", "m", "--output", tmp_path / "new.duckdb").out.splitlines()
    assert nothing[4].endswith(f"in {tmp_path / 'new.duckdb'}, which does not exist yet")
    assert nothing[6].endswith("estimated: 4 bytes a token, the schema with each")
    assert nothing[9].split(maxsplit=2)[2] == "no rpm or tpm is set, and no stored answer has a latency"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 2, "no model to ask"),
        (("--mock",), 2, "which rows? Give --input PATH"),
        (("--mock", "--input", "no.csv"), 2, "no.csv: no such file"),
        (("--mock", "--input", "in.csv", "--output", "in.csv"), 2, "would write over its own input"),
        (("--mock", "--input", "in.csv", "--prices", "no.toml"), 2, "no.toml: No such file"),
        (("--mock", "--input", "in.csv", "--output", "bad.duckdb"), 2, "bad.duckdb can't be opened"),
    ],
)
def test_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], status: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "in.csv", [(1, "a")])
    (tmp_path / "bad.duckdb").write_text("no database" * 1000)
    result = call("plan", write_prompt(tmp_path), *arguments)
    assert (result.status, result.out) == (status, "")
    assert words in result.error


def test_an_empty_table(tmp_path: Path) -> None:
    facts = plan(write_prompt(tmp_path), write_csv(tmp_path / "in.csv", []), prices=PRICES)
    assert (facts["rows"], facts["calls"], facts["cost"]) == (0, 0, {"low": 0.0, "high": 0.0})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0 s"), (0.2, "1 s"), (59.5, "1 min"), (90, "1 min 30 s"), (1000, "16 min"), (3600, "1 h"),
     (8000, "2 h 13 min"), (100_000, "1 d 3 h"), (864_000_000, "10,000 d")],
)  # fmt: skip
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_database_that_a_killed_run_left(tmp_path: Path) -> None:
    """What stands only in the write-ahead log counts, and stays there."""
    prompt, data, database = answered(tmp_path, count=12)
    log = database.with_name(database.name + ".wal")
    db = duckdb.connect(str(database))
    db.execute("SET checkpoint_threshold = '1GB'; DELETE FROM intent_responses WHERE tokens_out <= 8")
    image, logged = database.read_bytes(), log.read_bytes()
    db.close()
    database.write_bytes(image)
    log.write_bytes(logged)
    assert plan(prompt, data, output=database, model="mock")["cached"] == 10
    assert (database.read_bytes(), log.read_bytes()) == (image, logged)
    assert rows(database, "SELECT count(*) FROM intent_responses") == [(10,)]
