"""Stored answers: read after they are kept, read again after a fact was mended, and never paid twice."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.engine import VendorFact
from sqlenrich.core.types import STRING, Type
from sqlenrich.engines import get_engine
from sqlenrich.engines.shared.reading import AnswerFacts, StoredJson, reading
from sqlenrich.renderer.statements import plan_statements
from sqlenrich.spec.settings import Config
from tests.prompt.test_conformance import select
from tests.renderer.test_retry_scripts import GOOD, MARKS, RecordingModel, Tables, by_body, enrichment, warehouse

CALLERS = ("bigquery", "snowflake", "spark", "databricks")
each_caller = pytest.mark.parametrize("engine", [pytest.param(e, marks=MARKS.get(e, ())) for e in CALLERS])
COLUMNS: dict[str, Type] = {"id": STRING, "body": STRING}


# One answer -----------------------------------------------------------------------------------------------------------

NOTHING = {"response": None, "call_error": None, "retryable": False}


def gemini(finish: str | None, *, status: str = "", result: str | None = None, **more: Any) -> dict[str, Any]:
    candidate = {} if finish is None else {"finish_reason": finish}
    return {"result": result, "full_response": {"candidates": [candidate], **more}, "status": status}


def complete(**value: Any) -> dict[str, Any]:
    return {"value": value, "error": None}


READ: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "bigquery": [
        (gemini("STOP", result='{"a":"é\\n"}'), {"response": '{"a":"é\\n"}', "finish_reason": "stop"}),
        (gemini("MAX_TOKENS"), {"response": "", "finish_reason": "length", "call_error": None}),
        (gemini("MAX_TOKENS", result=""), {"response": "", "finish_reason": "length"}),
        (gemini("SAFETY"), {"response": "", "finish_reason": "content_filter"}),
        (gemini("SPII"), {"response": "", "finish_reason": "content_filter"}),
        (gemini("OTHER"), {"response": "", "finish_reason": "other"}),
        (gemini(None, prompt_feedback={"block_reason": "PROHIBITED_CONTENT"}), {"finish_reason": "content_filter"}),
        (
            {"result": "x", "status": "", "full_response": {"candidates": [{"finishReason": "MAX_TOKENS"}]}},
            {"response": "x", "finish_reason": "length"},
        ),
        (gemini(None), {"response": "", "finish_reason": None}),
        (
            gemini(None, status="A retryable error occurred: RESOURCE EXHAUSTED error from x"),
            {"response": None, "retryable": True},
        ),
        (
            gemini("STOP", status="INVALID_ARGUMENT: got 50000", result="text"),
            {"response": "text", "call_error": "INVALID_ARGUMENT: got 50000", "retryable": False},
        ),
        (
            gemini(
                "MAX_TOKENS",
                usage_metadata={
                    "prompt_token_count": 9, "cached_content_token_count": 4, "thoughts_token_count": 60,
                },
                response_id="r-1",
                model_version="gemini-2.5-flash-001",
            ),
            {
                "tokens_in": 9, "tokens_cached": 4, "tokens_out": 60, "request_id": "r-1",
                "served_model": "gemini-2.5-flash-001", "served_fingerprint": None,
            },
        ),
        (gemini("STOP", result="x", modelVersion="gemini-3-flash"), {"served_model": "gemini-3-flash"}),
        (gemini("STOP", result="x"), {"served_model": None}),
        (
            gemini("STOP", result="x", usage_metadata={"candidates_token_count": 7, "thoughts_token_count": 60}),
            {"tokens_in": None, "tokens_out": 67},
        ),
        (gemini("STOP", result="x", usage_metadata={"candidates_token_count": 7}), {"tokens_out": 7}),
        ({"answer": "x", "status": ""}, NOTHING),
    ],
    "snowflake": [
        (
            complete(structured_output=[{"raw_message": {"b": 1, "a": "é"}, "type": "json"}]),
            {"response": '{"a":"é","b":1}', "call_error": None},
        ),
        (complete(structured_output=[{"raw_message": '{"a": 1}'}]), {"response": '{"a": 1}'}),
        (complete(choices=[{"messages": " text\n"}]), {"response": " text\n"}),
        (complete(choices=[{"messages": "x"}], usage={"prompt_tokens": 9}), {"response": "x", "tokens_in": 9}),
        (complete(choices=[{"message": {"content": "text"}}]), {"response": "text"}),
        (complete(choices=[{"structured_output": [{"raw_message": {"a": 1}}]}]), {"response": '{"a":1}'}),
        (complete(choices=[{"messages": None}], usage={"completion_tokens": 0}), {"response": "", "tokens_out": 0}),
        (complete(choices=[{"messages": ""}]), {"response": "", "served_model": None}),
        (complete(choices=[{"messages": "x"}], model="llama3.3-70b"), {"served_model": "llama3.3-70b"}),
        (complete(usage={"completion_tokens": "many"}), {**NOTHING, "tokens_out": None}),
        ({"value": None, "error": None}, NOTHING),
        ({"value": None, "error": ""}, NOTHING),
        (
            {"value": None, "error": "Request failed with error 422: not the schema"},
            {"response": None, "finish_reason": "length", "retryable": False},
        ),
        (
            {"value": None, "error": "failed: 4221 tokens, got 50000"},
            {"call_error": "failed: 4221 tokens, got 50000", "finish_reason": None, "retryable": False},
        ),
        ({"value": None, "error": "503"}, {"call_error": "503", "retryable": True}),
    ],
    "spark": [
        ({"result": '{"a":"é\\n"}', "errorMessage": None}, {"response": '{"a":"é\\n"}', "call_error": None}),
        (
            {"result": "x", "errorMessage": ""},
            {"response": "x", "call_error": None, "retryable": False, "served_model": None, "served_fingerprint": None},
        ),
        ({"result": {"a": 1}, "errorMessage": None}, {"response": '{"a":1}'}),
        ({"response": "x", "error": None}, {"response": "x", "call_error": None}),
        ({"result": None, "errorMessage": ""}, {"response": "", "call_error": None}),
        ({"result": None, "errorMessage": "429 Too Many Requests"}, {"response": None, "retryable": True}),
        ({"result": "x", "errorMessage": "no"}, {"response": "x", "call_error": "no", "retryable": False}),
        ({"response": None, "error": "no"}, {"response": None, "call_error": "no"}),
        ({"answer": "x"}, NOTHING),
    ],
}  # fmt: skip
"""Answers as they come, and what is read from them."""
NOT_JSON = ("", "null", "{", "[]", '"text"', "1e999", "NaN", '{"a":1,"a":2}', "\0", "[" * 200, "x" * 100_000, "'")
"""Stored texts in which nothing is found, and which must not fail."""


def read(engine: str, raws: list[str]) -> list[dict[str, Any]]:
    """What an engine reads from stored answers."""
    step = se.compile_plan(enrichment(), engine).responses
    assert step.reading is not None
    values = ", ".join(step.relations.sql(value) for value in step.reading.values())
    rows = select(engine, f"SELECT {values} FROM source", {"raw": STRING}, [(raw,) for raw in raws])
    return [dict(zip(step.reading, row, strict=True)) for row in rows]


@each_caller
def test_every_place_is_read(engine: str) -> None:
    cases = READ["spark" if engine == "databricks" else engine]
    found = read(engine, [json.dumps(raw, ensure_ascii=False) for raw, _ in cases])
    for (raw, expected), row in zip(cases, found, strict=True):
        assert {name: row[name] for name in expected} == expected, raw
        assert row["retryable"] is not None


@each_caller
def test_no_text_makes_a_reading_fail(engine: str) -> None:
    texts = [text for text in NOT_JSON if "\0" not in text or engine not in ("bigquery",)]
    for text, row in zip(texts, read(engine, texts), strict=True):
        name = row.pop("read_by")
        assert name.startswith(get_engine(engine).facts["call"].value.split()[0]), name
        assert row == {**dict.fromkeys(row), "retryable": False}, text[:50]


RETRYABLE = {
    True: (
        "429", "503", "HTTP 503", "HTTP/1.1 502 Bad Gateway", "Error code: 500.", '{"code": 429, "message": "x"}',
        "429 Too Many Requests", "Too Many Requests", "Service Unavailable", "deadline exceeded", "DEADLINE_EXCEEDED",
        "connection reset by peer", "REQUEST_LIMIT_EXCEEDED: x", "RESOURCE_EXHAUSTED", "Rate limit reached",
        "timed out", "the server is overloaded", "ThrottlingException",
        "A retryable error occurred: RESOURCE EXHAUSTED error from x",
    ),
    False: (
        "131500 tokens", "got 50000", "error: got 50000", "500 tokens are the limit", "status 500 tokens",
        "max_tokens must be at most 500", "HTTP 400: maximum 4290 tokens, got 50000", "INVALID_ARGUMENT: 500 items",
        "HTTP 404", "error 4290", "code 50.5", "model gpt-429b is unknown", "permission denied", "é",
    ),
}  # fmt: skip


@each_caller
def test_errors_are_repeated_by_words_and_codes(engine: str) -> None:
    place = get_engine(engine).facts["call_error 1"].value
    errors = [(text, wanted) for wanted, texts in RETRYABLE.items() for text in texts]
    found = read(engine, [json.dumps({place: text}) for text, _ in errors])
    assert {row["call_error"]: row["retryable"] for row in found} == dict(errors)


# Whole scripts --------------------------------------------------------------------------------------------------------


def reply(_model: str, prompt: str, _before: int) -> tuple[str | None, str | None, str]:
    return (None, "429", "STOP") if prompt == "busy" else ("no JSON" if prompt == "prose" else GOOD, None, "STOP")


@contextmanager
def wrong_places(engine: str, **wrong: tuple[VendorFact, ...]) -> Iterator[None]:
    """The engine with another table of facts."""
    module: Any = importlib.import_module(f"sqlenrich.engines.{engine}.engine")
    call: Any = importlib.import_module(f"sqlenrich.engines.{'spark' if engine == 'databricks' else engine}.call")
    facts: AnswerFacts = replace(call.ANSWERS, **wrong)
    json_functions: StoredJson = call.STORED
    right = module.ENGINE
    module.ENGINE = replace(right, reading=reading(facts, json_functions))
    get_engine.cache_clear()
    try:
        yield
    finally:
        module.ENGINE = right
        get_engine.cache_clear()


def run_all(run: Callable[[str], Tables], engine: str, **options: Any) -> Tables:
    return run(se.render(enrichment(), engine, config=Config(), **options))


@each_caller
def test_a_wrong_fact_loses_nothing_and_costs_nothing(engine: str) -> None:
    rows = [(name, name) for name in ("good", "fine", "prose")]
    asked = RecordingModel(reply)
    wrong = (VendorFact("a.path[0].that_is.wrong", "a test", "2026-11-22"),)
    with warehouse(engine, COLUMNS, rows, asked) as run:
        with wrong_places(engine, response=wrong, finish_reason=()):
            first = run_all(run, engine)
            assert by_body(first) == dict.fromkeys(("good", "fine", "prose"), ("UNREADABLE", 1))
            assert all("no known place of the answer" in row["_error_detail"] for row in first["checked"])
            assert any("label" in row["_error_detail"] for row in first["checked"]), "the answer is shown"
            assert by_body(run_all(run, engine)) == by_body(first), "it is not asked again"
            assert by_body(run_all(run, engine, retry=True)) == by_body(first), "nor by a retry of everything"
        assert len(asked.log) == 3
        read_again = run_all(run, engine, reread=True)
        mended = {"good": (None, 1), "fine": (None, 1), "prose": ("BAD_JSON", 1)}
        assert by_body(read_again) == mended
        assert len(read_again["enriched"]) + len(read_again["quarantine"]) == 3
        assert by_body(run_all(run, engine)) == mended
        assert len(asked.log) == 3
        assert len({row["read_by"] for row in read_again["responses"]}) == 1


@each_caller
def test_the_model_that_an_answer_names_is_the_model_of_its_row(engine: str) -> None:
    """Where the answer names none, it is the model that was asked. A place of the text stands for that of the model."""
    call: Any = importlib.import_module(f"sqlenrich.engines.{'spark' if engine == 'databricks' else engine}.call")
    asked = RecordingModel(reply)
    with warehouse(engine, COLUMNS, [("1", "good")], asked) as run:
        with wrong_places(engine, served_model=()):
            first = run_all(run, engine)
        with wrong_places(engine, served_model=call.ANSWERS.response):
            again = run_all(run, engine, reread=True)
    (before,), (after,), (answer,) = first["enriched"], again["enriched"], again["responses"]
    assert (before["_model"], first["responses"][0]["served_model"]) == (answer["model"], None)
    assert after["_model"] == answer["served_model"] == answer["response"] != answer["model"]
    assert answer["served_fingerprint"] is None
    assert len(asked.log) == 1


@each_caller
def test_a_run_reads_what_other_facts_have_read(engine: str) -> None:
    """An error in a place that was not known is read as one, and the request is asked again."""
    asked = RecordingModel(reply)
    wrong = (VendorFact("no.error", "a test", "2026-11-22"),)
    with warehouse(engine, COLUMNS, [("1", "busy"), ("2", "good")], asked) as run:
        with wrong_places(engine, call_error=wrong):
            assert by_body(run_all(run, engine))["busy"][0] in ("UNREADABLE", "NO_RESPONSE")
        assert len(asked.log) == 2
        if not get_engine(engine).updates:
            run_all(run, engine, reread=True)
        assert by_body(run_all(run, engine)) == {"busy": ("CALL_ERROR", 2), "good": (None, 1)}
        assert len(asked.log) == 3


@each_caller
def test_an_answer_that_was_stored_and_not_read_is_not_paid_again(engine: str) -> None:
    """A script that is stopped between the call and the reading."""
    asked = RecordingModel(reply)
    script = se.render(enrichment(), engine, config=Config())
    plan = se.compile_plan(enrichment(), engine)
    statements = [statement.sql for statement in plan_statements(plan)]
    (call,) = [place for place, sql in enumerate(statements) if sql.startswith("INSERT INTO")]
    with warehouse(engine, COLUMNS, [("1", "busy"), ("2", "good")], asked) as run:
        run(";\n".join(statements[: call + 1]) + ";")
        assert len(asked.log) == 2
        assert by_body(run(script)) == {"busy": ("CALL_ERROR", 2), "good": (None, 1)}
        assert len(asked.log) == 3
        again = run(script)
    assert len(asked.log) == 4
    assert {row["read_by"] for row in again["responses"]} == {get_engine(engine).reading.name}  # type: ignore[union-attr]
    assert all(row["raw"] for row in again["responses"])


def test_only_what_asks_by_itself_reads_again() -> None:
    with pytest.raises(se.UnsupportedError, match="duckdb: --reread: a client asks the model there"):
        se.render(enrichment(), "duckdb", config=Config(), reread=True)
    with pytest.raises(se.ConfigError, match="--reread asks nothing"):
        se.render(enrichment(), "snowflake", config=Config(), reread=True, retry=True)
    for engine in CALLERS:
        script = se.render(enrichment(), engine, config=Config(), reread=True)
        assert f"{get_engine(engine).facts['call'].value.split()[0]}(" not in script
        assert ("such as Delta or Iceberg" in script) == (engine == "spark")
