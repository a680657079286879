"""Snowflake's call: ``AI_COMPLETE`` in its single-string form, the only one that takes a response format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import CallResult, ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, cast, func, literal
from sqlenrich.core.types import Scalar
from sqlenrich.engines.shared.model_call import answers, or_false, request_text
from sqlenrich.engines.snowflake.text import sql_type, string_of
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.vendor.dialects import SNOWFLAKE
from sqlenrich.schema.vendor.openai_strict import strict_part
from sqlenrich.schema.vendor.subset import vendor_part

RETRYABLE = ".*(429|500|502|503|504|rate limit|throttl|timed out|temporarily|overloaded).*"
"""A pattern for the errors of a row that may be asked again."""
DOCS = "https://docs.snowflake.com/en/sql-reference/functions/"
COMPLETE_DOCS = DOCS + "ai_complete-single-string"

FIELDS = VendorFact(
    {
        "value": "value",
        "error": "error",
        "structured": "choices[0].structured_output[0].raw_message",
        "text": "choices[0].messages",
        "tokens_in": "usage.prompt_tokens",
        "tokens_out": "usage.completion_tokens",
    },
    COMPLETE_DOCS,
    "2026-11-20",
)
"""Paths in an answer: ``return_error_details`` gives value and error, ``show_details`` what is inside the value."""


def _constant(value: Any) -> str:
    """Give a constant as Snowflake's documentation writes it: ``{'k': v}`` and ``[v]``.

    sqlglot prints OBJECT_CONSTRUCT, which drops names whose value is NULL.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_constant(str(k))}: {_constant(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_constant(v) for v in value) + "]"
    return literal(value).sql("snowflake")


def response_format(output: OutputSpec) -> ResponseFormat:
    """Give the JSON format. OpenAI's models there take only closed objects whose properties are all required."""
    part, left_out = vendor_part(output.schema, SNOWFLAKE)
    if part is not None and output.model.startswith("openai-"):
        part = strict_part(part, left_out=left_out, nullable="null_as_absent" in output.repairs)
        if part is None:
            return ResponseFormat(None, (f"{output.model} takes closed objects with all properties required",))
    return ResponseFormat(None if part is None else {"type": "json", "schema": json_schema(part)}, left_out)


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``AI_COMPLETE``. The insert stores each answer before anything reads it."""
    arguments: dict[str, Sql] = {"model": literal(request.model), "prompt": request_text(request)}
    if request.params:
        arguments["model_parameters"] = exp.var(_constant(request.params))
    if request.response_format is not None:
        arguments["response_format"] = exp.var(_constant(request.response_format))
    arguments |= {"show_details": literal(True), "return_error_details": literal(True)}
    answer = func("AI_COMPLETE", **arguments)
    fields = FIELDS.value

    def at(path: str) -> Sql:
        return func("GET_PATH", exp.column("answer"), literal(path))

    def detail(name: str) -> Sql:
        return at(f"{fields['value']}.{fields[name]}")

    error = func("NULLIF", string_of(at(fields["error"])), literal(""))
    columns = {
        "response": exp.Coalesce(this=func("TO_JSON", detail("structured")), expressions=[string_of(detail("text"))]),
        "call_error": error,
        "retryable": or_false(func("REGEXP_LIKE", error.copy(), literal(RETRYABLE), literal("is"))),
        "tokens_in": cast(detail("tokens_in"), sql_type(Scalar("bigint"))),
        "tokens_out": cast(detail("tokens_out"), sql_type(Scalar("bigint"))),
        "run_id": string_of(exp.CurrentTimestamp()),
    }
    return CallResult(answers(pending, request, answer), columns)


def must_exist(request: ModelCall) -> list[str]:
    """Give what the script needs beforehand."""
    return [
        f"Needs: the model {request.model} in your region (SHOW CORTEX BASE MODELS IN SCHEMA SNOWFLAKE.MODELS), and:",
        "GRANT DATABASE ROLE SNOWFLAKE.CORTEX_USER TO ROLE your_role;",
    ]
