"""The call of Spark and Databricks: ``ai_query``, a scalar function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.engine import PROBE, CallResult, ModelCall, VendorFact
from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, any_of, func, given, literal
from sqlenrich.engines.shared.model_call import request_text
from sqlenrich.engines.shared.reading import AnswerFacts, StoredJson, joined, reading
from sqlenrich.engines.spark.text import TEXT

_NINE_FILES = "nine public files; the vendor's page names none"


def _seen(path: str, source: str, read_on: str) -> VendorFact:
    """Return a place that others' code reads and the vendor's page does not name."""
    return VendorFact(path, source, read_on, settled_by=PROBE)


ANSWERS = AnswerFacts(
    call="ai_query",
    response=(
        _seen("result", _NINE_FILES, "2026-11-20"),
        _seen("response", "three public files, among them the vendor's published skill", "2026-11-20"),
    ),
    call_error=(
        _seen("errorMessage", _NINE_FILES, "2026-11-20"),
        _seen("error", "the vendor's published skill", "2026-11-20"),
        _seen("errorStatus", "public pipelines over ai_query", "2026-11-25"),
    ),
)
"""The fields of the struct that ``failOnError => false`` gives."""


def _at(raw: Sql, path: str, kind: str) -> Sql:
    return func("TRY_VARIANT_GET", func("TRY_PARSE_JSON", raw), literal(f"$.{path}"), literal(kind))


STORED = StoredJson(
    text=lambda raw, path: func("GET_JSON_OBJECT", raw, literal(f"$.{path}")),
    is_null=lambda raw, paths: any_of(*(given(_at(raw.copy(), path, "variant")) for path in paths)),
    integer=lambda raw, path: _at(raw, path, "bigint"),
    matches=lambda text, parts: func("REGEXP_LIKE", text, joined(parts)),
)
READING = reading(ANSWERS, STORED)


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``ai_query``."""
    arguments: dict[str, Sql] = {}
    if request.response_format is not None:
        arguments["responseFormat"] = literal(compact_json(request.response_format))
    if request.params:
        arguments["modelParameters"] = parameter(request.params)
    arguments["failOnError"] = literal(False)
    answer = func("ai_query", literal(request.model), request_text(request, TEXT), **arguments)
    kept = func("map", literal("ignoreNullFields"), literal("false"))
    return CallResult(pending, func("COALESCE", func("to_json", answer, kept), literal("null")))


def parameter(value: Any) -> Sql:
    """Return a model parameter: a constant, an array, or a struct of parameters."""
    if isinstance(value, Mapping):
        return func("named_struct", *(part for key, each in value.items() for part in (literal(key), parameter(each))))
    if isinstance(value, list | tuple):
        return func("array", *(parameter(item) for item in value))
    return literal(value)
