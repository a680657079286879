"""BigQuery's call: the scalar ``AI.GENERATE``; for a remote model ``AI.GENERATE_TEXT``, a relation in and out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqlenrich.core.engine import PROBE, CallResult, ModelCall, OutputSpec, ResponseFormat, VendorFact
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.json import compact_json
from sqlenrich.core.sql import Sql, any_of, func, literal
from sqlenrich.engines.bigquery.text import TEXT, safe_cast
from sqlenrich.engines.shared.model_call import request_text, select_carried
from sqlenrich.engines.shared.reading import AnswerFacts, StoredJson, joined, reading
from sqlenrich.schema.columns import nullable_items
from sqlenrich.schema.vendor.dialects import GEMINI
from sqlenrich.schema.vendor.subset import vendor_part

REFERENCE = "https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/"
GENERATE_TEXT_DOCS = REFERENCE + "bigqueryml-syntax-ai-generate-text"
COUNT_TOKENS_DOCS = REFERENCE + "bigqueryml-syntax-ai-count-tokens"
READ_ON = "2026-08-22"

RESPONSE_DOCS = "https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/GenerateContentResponse"

GENERATE_DOCS = REFERENCE + "bigqueryml-syntax-ai-generate"
ENDPOINT = re.compile(r"gemini-[\w.@-]+|https://.+")
"""The names of models that AI.GENERATE takes as its ``endpoint``."""
ENDPOINT_MODEL = VendorFact(
    "gemini-3.5-flash-lite",
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/model-versions",
    "2026-11-25",
)
"""The model that is asked by default, and the endpoint of the remote model that the head of a script makes."""
REQUEST_TYPES = VendorFact(("SHARED", "DEDICATED", "UNSPECIFIED"), GENERATE_DOCS, READ_ON)
"""Which quota a request uses: an argument of AI.GENERATE, a field of AI.GENERATE_TEXT's STRUCT beside all others."""
STRUCT_FIELDS = VendorFact(
    {"max_output_tokens", "top_k", "top_p", "temperature", "stop_sequences", "safety_settings",
     "ground_with_google_search"},
    GENERATE_TEXT_DOCS,
    READ_ON,
)  # fmt: skip
"""The settings of AI.GENERATE_TEXT for models that take no ``model_params``."""
BODY_FIELDS = VendorFact(
    {"safety_settings", "safetySettings", "system_instruction", "systemInstruction", "tools", "tool_config",
     "toolConfig", "labels"},
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference",
    "2026-11-22",
)  # fmt: skip
"""The fields of generateContent's body that stand beside ``generation_config``; other parameters stand inside it."""
THINKING = VendorFact(
    (
        (r"(?i)gemini[-_]?(1|2[-_.]?0)", None),
        (r"(?i)2[-_.]?5[-_]?pro", {"thinking_budget": 128}),
        (r"(?i)2[-_.]?5[-_]?flash", {"thinking_budget": 0}),
        (r"(?i)gemini[-_]?3([-_.][0-6])?[-_]?flash|gemini.*flash[-_]?lite", {"thinking_level": "MINIMAL"}),
        ("", {"thinking_level": "LOW"}),
    ),
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thinking; gemini-3.7-flash and later refuse MINIMAL",
    "2026-11-25",
    settled_by="`sqlenrich probe --model NAME` for each model that you ask",
)
"""The least thinking by the model's name; the first pattern that is found decides. The last is for names that tell
nothing: each model of today takes it."""
THOUGHT_TOKENS = {"MINIMAL": 512, "LOW": 2048, "MEDIUM": 8192, "HIGH": 24_576}
"""What a level adds to the limit of an answer: Gemini counts its thoughts inside ``max_output_tokens``. Tokens that are
not thought are not billed."""
NO_SAMPLING = VendorFact(
    (r"(?i)gemini[-_]?([3-9]|\d\d)", {"temperature": None, "top_p": None}),
    "https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start/gemini-3-prompting-guide",
    "2026-11-25",
)
"""Gemini 3 and later take no sampling parameters: the vendor's page says to remove them."""
ENDS = VendorFact(
    {
        r"gemini-2\.5-(pro|flash|flash-lite)": "2027-03-31",
        r"gemini-3\.1-flash-lite": "2027-05-07",
        r"gemini-3\.5-flash": "2027-05-19",
        r"gemini-3\.5-flash-lite": "2027-07-21",
    },
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/model-versions and a letter to customers of "
    "October 2026: gemini-2.5 is closed to projects that did not use it before 2026-10-20",
    "2026-11-25",
    settled_by="the vendor's page on the day: it moves the days",
)
"""The last day of endpoints, or the earliest day on which they may end."""


def _told(path: str) -> VendorFact:
    return VendorFact(path, GENERATE_TEXT_DOCS, READ_ON)


def _spelt(path: str) -> VendorFact:
    """A place of Gemini's answer, whose names BigQuery's page writes with underscores."""
    return VendorFact(path, RESPONSE_DOCS + ", in the spelling of BigQuery's page", "2026-11-22", settled_by=PROBE)


ANSWERS = AnswerFacts(
    call="AI.GENERATE",
    response=(_told("result"),),
    call_error=(_told("status"),),
    finish_reason=(
        _told("full_response.candidates[0].finish_reason"),
        VendorFact("full_response.candidates[0].finishReason", RESPONSE_DOCS, "2026-11-22"),
        _spelt("full_response.prompt_feedback.block_reason"),
    ),
    tokens_in=(_told("full_response.usage_metadata.prompt_token_count"),),
    tokens_cached=(_told("full_response.usage_metadata.cached_content_token_count"),),
    tokens_out=(_told("full_response.usage_metadata.candidates_token_count"),),
    tokens_thought=(_spelt("full_response.usage_metadata.thoughts_token_count"),),
    request_id=(_spelt("full_response.response_id"),),
    served_model=(
        _spelt("full_response.model_version"),
        VendorFact("full_response.modelVersion", RESPONSE_DOCS, "2026-11-22"),
    ),
    finish_words=VendorFact(
        {
            "MAX_TOKENS": "length",
            **dict.fromkeys(
                ("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII", "IMAGE_SAFETY"), "content_filter"
            ),
        },
        RESPONSE_DOCS,
        "2026-11-22",
    ),
)
"""The answer's columns, and places in Gemini's own answer. An empty status is success; a text is missing where the
call failed, where a filter blocked it, and where the thoughts took all tokens."""


def _path(path: str) -> Sql:
    return literal(f"$.{path}")


def _is_null(raw: Sql, paths: Sequence[str]) -> Sql:
    """Only the type JSON tells a JSON null from nothing."""
    parsed = func("SAFE.PARSE_JSON", raw, wide_number_mode=literal("round"))
    kinds = [func("JSON_TYPE", func("JSON_QUERY", parsed.copy(), _path(path))) for path in paths]
    return any_of(*(exp.EQ(this=kind, expression=literal("null")) for kind in kinds))


STORED = StoredJson(
    text=lambda raw, path: func("JSON_VALUE", raw, _path(path)),
    is_null=_is_null,
    integer=lambda raw, path: safe_cast(func("JSON_VALUE", raw, _path(path)), "INT64"),
    matches=lambda text, parts: func("REGEXP_CONTAINS", text, joined(parts)),
)
READING = reading(ANSWERS, STORED)


def response_format(output: OutputSpec) -> ResponseFormat:
    """Return Gemini's ``response_schema``: an OpenAPI subset with upper-case types."""
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
    """The body of generateContent, without the prompt.

    What the thoughts may take is added to the limit of an answer.
    """
    config: dict[str, Any] = {}
    if request.response_format is not None:
        config |= {"response_mime_type": "application/json", "response_schema": request.response_format}
    config |= {name: value for name, value in request.params.items() if name not in BODY_FIELDS.value}
    thinking, most = config.get("thinking_config"), config.get("max_output_tokens")
    if isinstance(thinking, Mapping) and isinstance(most, int):
        budget = thinking.get("thinking_budget")
        level = THOUGHT_TOKENS.get(str(thinking.get("thinking_level")).upper(), 0)
        config["max_output_tokens"] = most + (max(budget, 0) if isinstance(budget, int) else level)
    beside = {name: value for name, value in request.params.items() if name in BODY_FIELDS.value}
    return {"generation_config": config, **beside}


def call(pending: Sql, request: ModelCall) -> CallResult:
    """Ask through AI.GENERATE where the model's name is an endpoint of Gemini, else through AI.GENERATE_TEXT.

    The option ``function`` decides for any name.
    """
    prompt, quota = request_text(request, TEXT), request.options.get("request_type")
    if quota is not None and quota not in REQUEST_TYPES.value:
        raise UnsupportedError(
            "bigquery", f'no request_type "{quota}"', f"write one of {', '.join(REQUEST_TYPES.value)}"
        )
    if _function(request) == "AI.GENERATE":
        return _scalar(pending, request, prompt)
    asked = select_carried(pending, request, prompt, "prompt")
    if request.options.get("schema") is not False:
        settings = {"model_params": literal(compact_json(_body(request)))}
    else:
        settings = {name: _parameter(value) for name, value in request.params.items()}
        if unknown := sorted(set(settings) - STRUCT_FIELDS.value):
            raise UnsupportedError(
                "bigquery", f"the parameter {', '.join(unknown)} with schema: false", "it is Gemini's: leave it out"
            )
    if quota is not None:
        settings["request_type"] = literal(quota)
    return asked_over(exp.GenerateText, request, asked, settings)


def asked_over(
    function: type[exp.GenerateText | exp.GenerateEmbedding],
    request: ModelCall,
    asked: exp.Select,
    settings: Mapping[str, Sql],
) -> CallResult:
    """Return the answers of a function of the schema AI that takes a remote model, a relation and a STRUCT of settings.

    ``raw`` holds the columns that the function adds, whatever they are: none is named here.
    """
    generate = function(
        this=_remote_model(request.model),
        expression=asked.subquery(copy=False),
        params_struct=func("STRUCT", *(exp.alias_(value, name, copy=False) for name, value in settings.items())),
    )
    relation = exp.Table(this=generate, db=exp.to_identifier("AI"))
    relation.set("alias", exp.TableAlias(this=exp.to_identifier("answer")))
    sent = [exp.to_identifier(column.alias_or_name) for column in asked.expressions]
    added = exp.Column(this=exp.Star(except_=sent), table=exp.to_identifier("answer"))
    whole = exp.select(added, copy=False)
    whole.set("kind", "STRUCT")
    return CallResult(relation, func("TO_JSON_STRING", whole.subquery(copy=False)))


def _function(request: ModelCall) -> str:
    chosen = request.options.get("function")
    if chosen is None:
        return "AI.GENERATE" if ENDPOINT.fullmatch(request.model) else "AI.GENERATE_TEXT"
    if chosen not in ("AI.GENERATE", "AI.GENERATE_TEXT"):
        raise UnsupportedError("bigquery", f'no function "{chosen}"', "write AI.GENERATE_TEXT or AI.GENERATE")
    return str(chosen)


def _remote_model(name: str) -> exp.Table:
    """Return the remote model of a name. Raises UnsupportedError for a name that is none, an endpoint's for one."""
    try:
        table = exp.to_table(name, dialect="bigquery")
    except SqlglotError:
        table = None
    parts = list(table.parts) if table is not None else []
    plain = all(isinstance(part, exp.Identifier) and part.name for part in parts) and 1 <= len(parts) <= 3
    # Datasets have no dash, and a model of the default dataset that has one is quoted.
    dashed = plain and len(parts) < 3 and "-" in parts[0].name and not parts[0].args.get("quoted")
    if not plain or dashed or (table is not None and any(table.args.get(key) for key in ("alias", "joins"))):
        raise UnsupportedError(
            "bigquery",
            f'the model "{name}" for AI.GENERATE_TEXT, which asks a remote model',
            "make one by CREATE MODEL ... REMOTE WITH CONNECTION ... OPTIONS (ENDPOINT = '...'), and write its name: "
            "dataset.model",
        )
    assert table is not None
    for part in parts:
        part.set("quoted", True)
    return table


def default_params(model: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the least thinking that a model of Gemini takes: thoughts use up the limit of an answer."""
    if options.get("schema") is False:
        return {}
    known = (config for pattern, config in THINKING.value if re.search(pattern, model))
    return {"thinking_config": config} if (config := next(known, None)) else {}


def _scalar(pending: Sql, request: ModelCall, prompt: Sql) -> CallResult:
    arguments: dict[str, Sql] = {"endpoint": literal(request.model)}
    if quota := request.options.get("request_type"):
        arguments["request_type"] = literal(quota)
    if connection := request.options.get("connection"):
        arguments["connection_id"] = literal(str(connection))
    arguments["model_params"] = exp.ParseJSON(this=literal(compact_json(_body(request))), is_literal=True)
    answer = func("AI.GENERATE", prompt, **arguments)
    return CallResult(pending, func("TO_JSON_STRING", answer))


def _parameter(value: Any) -> Sql:
    if isinstance(value, Mapping):
        return func("STRUCT", *(exp.alias_(_parameter(each), name, copy=False) for name, each in value.items()))
    return exp.Array(expressions=[_parameter(v) for v in value]) if isinstance(value, list) else literal(value)


def count_tokens(request: ModelCall) -> Sql:
    """Count a request's text by ``AI.COUNT_TOKENS``, without the response schema.

    A remote model's name tells no endpoint: it is counted as the function's default one, which is Gemini's.
    """
    named = ENDPOINT.fullmatch(request.model) is not None and not request.model.startswith("https:")
    arguments = {"endpoint": literal(request.model)} if named else {}
    counted = func("AI.COUNT_TOKENS", request_text(request, TEXT), **arguments)
    return exp.Dot(this=counted, expression=exp.to_identifier("result"))


def must_exist(request: ModelCall) -> list[str]:
    """Return what the script needs beforehand, with the statement that makes it."""
    if _function(request) == "AI.GENERATE":
        return [
            f"Needs: access to the Vertex AI endpoint {request.model} (role Vertex AI User), and a dataset in the "
            "multi-region US or EU, which keeps the prompts there: Gemini 3 and later answer 404 in a single region. "
            "The model's full URL with locations/global works everywhere; Google may then process the prompts in any "
            "region.",
        ]
    return [
        "Needs a remote model, made once:",
        f"CREATE MODEL `{request.model}` REMOTE WITH CONNECTION DEFAULT",
        f"OPTIONS (ENDPOINT = '{ENDPOINT_MODEL.value}');",
    ]
