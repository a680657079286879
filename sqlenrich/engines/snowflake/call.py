"""Snowflake's call: ``AI_COMPLETE`` in its single-string form, the only one that takes a response format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import PROBE, CallResult, ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.sql import Sql, any_of, func, given, literal
from sqlenrich.engines.shared.model_call import request_text
from sqlenrich.engines.shared.reading import AnswerFacts, StoredJson, joined, reading
from sqlenrich.engines.snowflake.text import TEXT, matches, string_of
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.vendor.dialects import SNOWFLAKE
from sqlenrich.schema.vendor.openai_strict import strict_part
from sqlenrich.schema.vendor.subset import vendor_part

DOCS = "https://docs.snowflake.com/en/sql-reference/functions/"
COMPLETE_DOCS = DOCS + "ai_complete-single-string"

DATABASE_ROLE = "SNOWFLAKE.AI_FUNCTIONS_USER"
"""The narrowest database role of the AI functions. CORTEX_USER has it too, with agents, search and the REST API."""


def grants(function: str) -> list[str]:
    """Return the grants that a function needs: a privilege of the account and a database role."""
    return [
        f"GRANT USE AI FUNCTIONS ON ACCOUNT TO ROLE your_role; -- or USE AI FUNCTION {function} alone",
        f"GRANT DATABASE ROLE {DATABASE_ROLE} TO ROLE your_role;",
    ]


PRIVILEGE_DOCS = "https://docs.snowflake.com/user-guide/snowflake-cortex/aisql-privileges-and-access"
MODEL_ROLE = "CORTEX-MODEL-ROLE-"
"""How the application role of a model begins; the model's name in upper case follows."""
MODEL_ACCESS_DOCS = (
    "https://docs.snowflake.com/en/user-guide/snowflake-cortex/governance-and-availability/model-access-control"
)
_READ_ON = "2026-11-22"
_PUBLIC_USERS = "public users' dbt models and Snowflake's own published skill read it there"


def _documented(path: str) -> VendorFact:
    return VendorFact(path, COMPLETE_DOCS, "2026-11-20")


def _seen(path: str, source: str) -> VendorFact:
    return VendorFact(path, source, _READ_ON, settled_by=PROBE)


ANSWERS = AnswerFacts(
    call="AI_COMPLETE",
    response=(
        _seen("value.structured_output[0].raw_message", _PUBLIC_USERS),
        _documented("value.choices[0].messages"),
        VendorFact(
            "value.choices[0].message.content", _PUBLIC_USERS + " for OpenAI's models", _READ_ON, settled_by=PROBE
        ),
        VendorFact(
            "value.choices[0].structured_output[0].raw_message",
            "an older reading of the page",
            "2026-11-20",
            settled_by=PROBE,
        ),
    ),
    call_error=(_documented("error"),),
    tokens_in=(_documented("value.usage.prompt_tokens"),),
    tokens_out=(_documented("value.usage.completion_tokens"),),
    served_model=(_documented("value.model"),),
    finish_by_error=VendorFact(
        {"(^|[^0-9])422([^0-9]|$)": "length"},
        "https://docs.snowflake.com/en/user-guide/snowflake-cortex/complete-structured-outputs: the output does not "
        "fit the schema, typically since it was cut",
        "2026-11-20",
        settled_by=PROBE,
    ),
)
"""Where an answer holds what: ``return_error_details`` gives value and error, ``show_details`` what is in the value."""


def _at(raw: Sql, path: str) -> Sql:
    return func("GET_PATH", func("TRY_PARSE_JSON", raw), literal(path))


STORED = StoredJson(
    text=lambda raw, path: string_of(_at(raw, path)),
    is_null=lambda raw, paths: any_of(*(given(_at(raw.copy(), path)) for path in paths)),
    integer=lambda raw, path: func("TRY_TO_NUMBER", string_of(_at(raw, path)), literal(38), literal(0)),
    matches=lambda text, parts: matches(text, joined(parts)),
)
READING = reading(ANSWERS, STORED)


def _constant(value: Any) -> str:
    """Return a constant as Snowflake's documentation writes it: ``{'k': v}`` and ``[v]``.

    sqlglot prints OBJECT_CONSTRUCT, which drops names whose value is NULL.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_constant(str(k))}: {_constant(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_constant(v) for v in value) + "]"
    return literal(value).sql("snowflake")


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return the JSON format. OpenAI's models there take only closed objects whose properties are all required."""
    part, left_out = vendor_part(output.schema, SNOWFLAKE)
    if part is not None and output.model.startswith("openai-"):
        part = strict_part(part, left_out=left_out, nullable="null_as_absent" in output.repairs)
        if part is None:
            return ResponseFormat(None, (f"{output.model} takes closed objects with all properties required",))
    return ResponseFormat(None if part is None else {"type": "json", "schema": json_schema(part)}, left_out)


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through ``AI_COMPLETE``."""
    arguments: dict[str, Sql] = {"model": literal(request.model), "prompt": request_text(request, TEXT)}
    if request.params:
        arguments["model_parameters"] = exp.var(_constant(request.params))
    if request.response_format is not None:
        arguments["response_format"] = exp.var(_constant(request.response_format))
    arguments |= {"show_details": literal(True), "return_error_details": literal(True)}
    answer = func("TO_JSON", func("AI_COMPLETE", **arguments))
    return CallResult(pending, func("COALESCE", answer, literal("null")))


def count_tokens(request: ModelCall) -> Sql:
    """Count a request's text by ``AI_COUNT_TOKENS``, without the response format. Some models it does not count."""
    return func("AI_COUNT_TOKENS", literal("ai_complete"), literal(request.model.lower()), request_text(request, TEXT))


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand."""
    model = request.model.upper().replace('"', '""')
    return [
        f"Needs: the model {request.model} in your region (SHOW CORTEX BASE MODELS IN SCHEMA SNOWFLAKE.MODELS), and:",
        *grants("AI_COMPLETE"),
        f'GRANT APPLICATION ROLE SNOWFLAKE."{MODEL_ROLE}{model}" TO ROLE your_role;',
        "(an account grants the first two to PUBLIC unless it revoked them; the last where models are not open to all)",
    ]
