"""An engine of another distribution: DuckDB's SQL, and ``toy_complete(model, prompt)`` as the call."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlenrich.core.engine import CallResult, ModelCall, OutputSpec, Reading, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, cast, func, literal
from sqlenrich.engines.duckdb.engine import ENGINE as DUCKDB
from sqlenrich.engines.shared.model_call import request_text

_SOURCE, _READ_ON = "tests/support/toy_engine", "2026-11-22"


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return no format: the call takes no schema, so the hint describes the output."""
    return ResponseFormat(None, (f"{output.name}: toy_complete takes no schema",))


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``toy_complete``, which gives NULL for a failure."""
    answer = func("toy_complete", literal(request.model), request_text(request, DUCKDB.text))
    return CallResult(pending, cast(func("JSON_OBJECT", literal("text"), answer), "VARCHAR"))


def read(raw: Sql) -> dict[str, Sql]:
    """Read an answer. A missing text is a failure of ours."""
    response = func("JSON_EXTRACT_STRING", raw, literal("$.text"))
    failed = exp.Is(this=response.copy(), expression=exp.Null())
    return {
        "response": response,
        "call_error": exp.Case(ifs=[exp.If(this=failed, true=literal("no answer"))]),
        "retryable": failed.copy(),
    }


ENGINE = replace(
    DUCKDB,
    name="toy",
    facts={
        "call": VendorFact("toy_complete", _SOURCE, _READ_ON),
        "default_model": VendorFact("toy-1", _SOURCE, _READ_ON),
    },
    params={"temperature": None, "max_tokens": None, "top_p": None, "seed": None, "stop": None},
    params_by_model=(),
    response_format=response_format,
    call=call,
    reading=Reading("toy 1", read),
    must_exist=lambda call: [f"Needs: the function toy_complete(model, prompt), and its model {call.model}"],
    shares_settings_of="",
)
