"""The call of Spark and Databricks: ``ai_query``, a scalar function."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import CallResult, ModelCall, VendorFact
from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, func, literal
from sqlenrich.engines.shared.model_call import answers, or_false, request_text

RETRYABLE = r"(?i)(429|500|502|503|504|rate.?limit|REQUEST_LIMIT_EXCEEDED|RESOURCE_EXHAUSTED|timed? ?out|temporarily)"
"""A pattern for the errors of a row that may be asked again."""

FIELDS = VendorFact(
    {"result": "result", "error": "errorMessage"}, "nine public files; the vendor's page names none", "2026-11-20"
)
"""The fields of the struct that ``failOnError => false`` gives."""


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``ai_query``."""
    arguments: dict[str, Sql] = {}
    if request.response_format is not None:
        arguments["responseFormat"] = literal(compact_json(request.response_format))
    if request.params:
        pairs = [part for name, value in request.params.items() for part in (literal(name), _parameter(value))]
        arguments["modelParameters"] = func("named_struct", *pairs)
    arguments["failOnError"] = literal(False)
    answer = func("ai_query", literal(request.model), request_text(request), **arguments)
    error = func("NULLIF", exp.column(FIELDS.value["error"], table="answer"), literal(""))
    columns = {
        "response": exp.column(FIELDS.value["result"], table="answer"),
        "call_error": error,
        "retryable": or_false(func("REGEXP_LIKE", error.copy(), literal(RETRYABLE))),
        "run_id": exp.Cast(this=exp.CurrentTimestamp(), to=exp.DataType.build("STRING", dialect="spark")),
    }
    return CallResult(answers(pending, request, answer), columns)


def _parameter(value: Any) -> Sql:
    """Give a model parameter: a number, a text, or an array of texts."""
    if isinstance(value, list | tuple):
        return func("array", *(literal(item) for item in value))
    return literal(value)
