"""Snowflake: ``AI_COMPLETE`` in its single-string form, the only one that takes a response format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Answered, Call, Engine, Fact, Output, Told
from sqlenrich.core.sql import Sql, cast, concat, func, literal, replace_table
from sqlenrich.core.types import Scalar
from sqlenrich.engines.snowflake.json import JSON, column
from sqlenrich.engines.snowflake.text import TEXT, sql_type, string_of
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.vendor.response_format import SNOWFLAKE, strict_part, vendor_part

RETRYABLE = ".*(429|500|502|503|504|rate limit|throttl|timed out|temporarily|overloaded).*"
_DOCS = "https://docs.snowflake.com/en/sql-reference/functions/"
_COMPLETE = _DOCS + "ai_complete-single-string"

FIELDS = Fact(
    {
        "value": "value",
        "error": "error",
        "structured": "choices[0].structured_output[0].raw_message",
        "text": "choices[0].messages",
        "tokens_in": "usage.prompt_tokens",
        "tokens_out": "usage.completion_tokens",
    },
    _COMPLETE,
    "2026-11-20",
)
"""Where an answer holds what: ``return_error_details`` gives value and error, ``show_details`` the rest."""


# The call ---------------------------------------------------------------------------------------------------------


def constant(value: Any) -> str:
    """Give Snowflake's text of a constant: ``{'k': v}`` and ``[v]`` as its documentation writes them.

    sqlglot would print OBJECT_CONSTRUCT, which drops names whose value is NULL.
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{constant(str(k))}: {constant(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(constant(v) for v in value) + "]"
    return literal(value).sql("snowflake")


def response_format(output: Output) -> Told:
    """Give the JSON form. OpenAI's models there take closed objects whose properties are all required, nothing else."""
    part, left_out = vendor_part(output.schema, SNOWFLAKE)
    if part is not None and output.model.startswith("openai-"):
        part = strict_part(part, left_out=left_out, nullable="null_as_absent" in output.repairs)
        if part is None:
            return Told(None, (f"{output.model} takes closed objects with all properties required",))
    return Told(None if part is None else {"type": "json", "schema": json_schema(part)}, left_out)


def call(pending: Sql, request: Call) -> Answered:
    """Ask through ``AI_COMPLETE``, written once: the insert stores each answer before anything reads it."""
    prompt: Sql = exp.column("prompt")
    if request.hint is not None:
        prompt = concat(prompt, literal("\n\n" + request.hint))
    arguments: dict[str, Sql] = {"model": literal(request.model), "prompt": prompt}
    if request.params:
        arguments["model_parameters"] = exp.var(constant(request.params))
    if request.response_format is not None:
        arguments["response_format"] = exp.var(constant(request.response_format))
    arguments |= {"show_details": literal(True), "return_error_details": literal(True)}
    answer = func("AI_COMPLETE", **arguments)
    asked = exp.select(*map(exp.column, request.carried), exp.alias_(answer, "answer", copy=False), copy=False).from_(
        pending, copy=False
    )
    fields = FIELDS.value

    def at(path: str) -> Sql:
        return func("GET_PATH", exp.column("answer"), literal(path))

    def detail(name: str) -> Sql:
        return at(f"{fields['value']}.{fields[name]}")

    error = func("NULLIF", string_of(at(fields["error"])), literal(""))
    columns = {
        "response": exp.Coalesce(this=func("TO_JSON", detail("structured")), expressions=[string_of(detail("text"))]),
        "call_error": error,
        "retryable": exp.Coalesce(
            this=func("REGEXP_LIKE", error.copy(), literal(RETRYABLE), literal("is")), expressions=[literal(False)]
        ),
        "tokens_in": cast(detail("tokens_in"), sql_type(Scalar("bigint"))),
        "tokens_out": cast(detail("tokens_out"), sql_type(Scalar("bigint"))),
        "run_id": string_of(exp.CurrentTimestamp()),
    }
    return Answered(exp.alias_(asked.subquery(copy=False), "asked", table=True, copy=False), columns)


def must_exist(request: Call) -> list[str]:
    """Give what the script needs beforehand."""
    return [
        f"Needs: the model {request.model} in your region (SHOW CORTEX BASE MODELS IN SCHEMA SNOWFLAKE.MODELS), and:",
        "GRANT DATABASE ROLE SNOWFLAKE.CORTEX_USER TO ROLE your_role;",
    ]


RESERVED = frozenset(
    [
        "ACCOUNT",
        "ALL",
        "ALTER",
        "AND",
        "ANY",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CHECK",
        "COLUMN",
        "CONNECT",
        "CONNECTION",
        "CONSTRAINT",
        "CREATE",
        "CROSS",
        "CURRENT",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_USER",
        "DATABASE",
        "DELETE",
        "DISTINCT",
        "DROP",
        "ELSE",
        "EXISTS",
        "FALSE",
        "FOLLOWING",
        "FOR",
        "FROM",
        "FULL",
        "GRANT",
        "GROUP",
        "GSCLUSTER",
        "HAVING",
        "ILIKE",
        "IN",
        "INCREMENT",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "IS",
        "ISSUE",
        "JOIN",
        "LATERAL",
        "LEFT",
        "LIKE",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "MINUS",
        "NATURAL",
        "NOT",
        "NULL",
        "OF",
        "ON",
        "OR",
        "ORDER",
        "ORGANIZATION",
        "QUALIFY",
        "REGEXP",
        "REVOKE",
        "RIGHT",
        "RLIKE",
        "ROW",
        "ROWS",
        "SAMPLE",
        "SCHEMA",
        "SELECT",
        "SET",
        "SOME",
        "START",
        "TABLE",
        "TABLESAMPLE",
        "THEN",
        "TO",
        "TRIGGER",
        "TRUE",
        "TRY_CAST",
        "UNION",
        "UNIQUE",
        "UPDATE",
        "USING",
        "VALUES",
        "VIEW",
        "WHEN",
        "WHENEVER",
        "WHERE",
        "WITH",
    ]
)
"""https://docs.snowflake.com/en/sql-reference/reserved-keywords, read 2026-11-20."""

ENGINE = Engine(
    name="snowflake",
    dialect="snowflake",
    text=TEXT,
    json=JSON,
    sha256=lambda text: func("SHA2", text, literal(256)),
    sql_type=sql_type,
    column=column,
    create_table_as=replace_table,
    facts={
        "call": Fact("AI_COMPLETE", _COMPLETE, "2026-11-20"),
        "default_model": Fact("llama3.3-70b", _DOCS + "ai_complete-prompt-object", "2026-11-20"),
        "max_tokens": Fact(4096, _COMPLETE, "2026-11-20"),
        "fields": FIELDS,
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": None, "stop": None},
    response_format=response_format,
    call=call,
    must_exist=must_exist,
    quotes_always=False,
    reserved=RESERVED,
)
