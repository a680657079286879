"""BigQuery's call: ``AI.GENERATE_TEXT``, a relation in and a relation out; by option the scalar ``AI.GENERATE``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import CallResult, ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, case, func, literal
from sqlenrich.engines.bigquery.text import safe_cast, text_of
from sqlenrich.engines.shared.model_call import answers, or_false, request_text, select_carried
from sqlenrich.schema.columns import nullable_items
from sqlenrich.schema.vendor.dialects import GEMINI
from sqlenrich.schema.vendor.subset import vendor_part

_DOCS = "https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/"
GENERATE_TEXT_DOCS = _DOCS + "bigqueryml-syntax-ai-generate-text"
READ_ON = "2026-08-22"

FIELDS = VendorFact(
    {
        "result": "result",
        "status": "status",
        "full_response": "full_response",
        "finish": "$.candidates[0].finish_reason",
        "tokens_in": "$.usage_metadata.prompt_token_count",
        "tokens_cached": "$.usage_metadata.cached_content_token_count",
        "tokens_out": "$.usage_metadata.candidates_token_count",
        "retryable": "A retryable error occurred",
    },
    GENERATE_TEXT_DOCS,
    READ_ON,
)
"""Names of the answer's columns, and paths in ``full_response``. An empty status is success; a row whose status starts
with ``retryable`` may be asked again."""

FINISH = {"MAX_TOKENS": "length", "SAFETY": "content_filter", "PROHIBITED_CONTENT": "content_filter", "STOP": "stop"}
"""Gemini's finish reasons under the names of this package; others keep theirs in lower case."""


def response_format(output: OutputSpec) -> ResponseFormat:
    """Give Gemini's ``response_schema``: an OpenAPI subset with upper-case types."""
    _no_null_items(output.schema)
    part, left_out = vendor_part(output.schema, GEMINI)
    return ResponseFormat(None if part is None else _gemini(part), left_out)


def _gemini(part: Mapping[str, Any]) -> dict[str, Any]:
    form: dict[str, Any] = {}
    null = {"type": ["null"]}
    if "anyOf" in part:
        form["anyOf"] = [_gemini(branch) for branch in part["anyOf"] if branch != null]
        if null in part["anyOf"]:
            form["nullable"] = True
    else:
        form["type"] = next(kind for kind in part["type"] if kind != "null").upper()
        if "null" in part["type"]:
            form["nullable"] = True
    if "description" in part:
        form["description"] = part["description"]
    if "enum" in part:
        form["enum"] = [value for value in part["enum"] if value is not None]
    if "items" in part:
        form["items"] = _gemini(part["items"])
    form |= {key: part[key] for key in ("format", "minItems", "maxItems", "minimum", "maximum") if key in part}
    if "properties" in part:
        form["properties"] = {name: _gemini(child) for name, child in part["properties"].items()}
        form["propertyOrdering"] = list(part["properties"])
        form |= {key: part[key] for key in ("required",) if key in part}
    return form


def _no_null_items(schema: Mapping[str, Any]) -> None:
    for place in nullable_items(schema):
        raise UnsupportedError(
            "bigquery", f"{place}, an array whose items may be null", "its arrays hold no NULL: require a value"
        )


def _body(request: ModelCall) -> dict[str, Any]:
    """The body of generateContent, without the prompt."""
    config: dict[str, Any] = {}
    if request.response_format is not None:
        config |= {"response_mime_type": "application/json", "response_schema": request.response_format}
    return {"generation_config": {**config, **request.params}}


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through AI.GENERATE_TEXT over the pending relation, or through AI.GENERATE by the option ``function``."""
    prompt = request_text(request)
    chosen = request.options.get("function", "AI.GENERATE_TEXT")
    if chosen == "AI.GENERATE":
        return _scalar(pending, request, prompt)
    if chosen != "AI.GENERATE_TEXT":
        raise UnsupportedError("bigquery", f'no function "{chosen}"', "write AI.GENERATE_TEXT or AI.GENERATE")
    asked = select_carried(pending, request, prompt, "prompt")
    if request.response_format is not None:
        arguments = [exp.alias_(literal(compact_json(_body(request))), "model_params", copy=False)]
    else:
        arguments = [exp.alias_(_parameter(value), name, copy=False) for name, value in request.params.items()]
    generate = exp.GenerateText(
        this=exp.to_table(request.model, dialect="bigquery"),
        expression=asked.subquery(copy=False),
        params_struct=func("STRUCT", *arguments),
    )
    for part in generate.this.parts:
        part.set("quoted", True)
    relation = exp.Table(this=generate, db=exp.to_identifier("AI"))
    return CallResult(relation, _columns(lambda name: exp.column(name)))


def _scalar(pending: Sql, request: ModelCall, prompt: Sql) -> CallResult:
    arguments: dict[str, Sql] = {"endpoint": literal(request.model)}
    if connection := request.options.get("connection"):
        arguments["connection_id"] = literal(str(connection))
    arguments["model_params"] = exp.ParseJSON(this=literal(compact_json(_body(request))), is_literal=True)
    answer = func("AI.GENERATE", prompt, **arguments)
    return CallResult(answers(pending, request, answer), _columns(lambda name: exp.column(name, table="answer")))


def _columns(field: Callable[[str], Sql]) -> dict[str, Sql]:
    names = FIELDS.value
    status, full = field(names["status"]), field(names["full_response"])

    def detail(name: str) -> Sql:
        return func("JSON_VALUE", full.copy(), literal(names[name]))

    finish = detail("finish")
    known = [(exp.EQ(this=finish.copy(), expression=literal(theirs)), literal(ours)) for theirs, ours in FINISH.items()]
    return {
        "response": field(names["result"]),
        "call_error": func("NULLIF", status, literal("")),
        "retryable": or_false(func("STARTS_WITH", status.copy(), literal(names["retryable"]))),
        "finish_reason": case(*known, default=func("LOWER", finish)),
        "tokens_in": safe_cast(detail("tokens_in"), "INT64"),
        "tokens_cached": safe_cast(detail("tokens_cached"), "INT64"),
        "tokens_out": safe_cast(detail("tokens_out"), "INT64"),
        "run_id": text_of(exp.CurrentTimestamp()),
    }


def _parameter(value: Any) -> Sql:
    return exp.Array(expressions=[literal(v) for v in value]) if isinstance(value, list) else literal(value)


def must_exist(request: ModelCall) -> list[str]:
    """Give what the script needs beforehand, with the statement that makes it."""
    if request.options.get("function") == "AI.GENERATE":
        return [f"Needs: access to the Vertex AI endpoint {request.model} (role Vertex AI User)"]
    return [
        f"Needs: the remote model {request.model}, made once by:",
        f"CREATE MODEL `{request.model}` REMOTE WITH CONNECTION DEFAULT OPTIONS (ENDPOINT = 'gemini-2.5-flash');",
    ]
