"""BigQuery: ``AI.GENERATE_TEXT``, a relation in and a relation out; by option the scalar ``AI.GENERATE``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from sqlglot import exp

from ..errors import UnsupportedError
from ..request import compact_json
from ..schema.pattern import FENCE, portable
from ..types import Array, Decimal, Scalar, Struct, Type
from . import casing
from .base import (
    BLANK,
    LAST_WORD,
    TRAILING_ZEROS,
    Answered,
    Body,
    Build,
    Call,
    Engine,
    Fact,
    Sql,
    all_of,
    any_of,
    case,
    concat,
    double,
    func,
    literal,
    named_func,
    replace_table,
)

_DOCS = "https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/"
_TEXT_DOCS = _DOCS + "bigqueryml-syntax-ai-generate-text"
_READ = "2026-08-22"

FIELDS = Fact(
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
    _TEXT_DOCS,
    _READ,
)
"""Names of the answer's columns and places in ``full_response``; a status that starts with ``retryable`` may be asked
again, an empty one is success."""

FINISH = {"MAX_TOKENS": "length", "SAFETY": "content_filter", "PROHIBITED_CONTENT": "content_filter", "STOP": "stop"}

_TYPES = {
    "string": "STRING",
    "bigint": "INT64",
    "double": "FLOAT64",
    "boolean": "BOOL",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


ELEMENT = "element"
"""The field that holds an array inside an array: BigQuery has arrays of structs, but none of arrays."""


def type_text(value: Type) -> str:
    """Give BigQuery's name of a portable type."""
    match value:
        case Scalar(name):
            return _TYPES[name]
        case Decimal(precision, scale):
            kind = "NUMERIC" if precision - scale <= 29 and scale <= 9 else "BIGNUMERIC"
            return f"{kind}({precision}, {scale})"
        case Array(Array() as inner):
            return f"ARRAY<STRUCT<{ELEMENT} {type_text(inner)}>>"
        case Array(item):
            return f"ARRAY<{type_text(item)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'`{name}` {type_text(kind)}' for name, kind in fields)}>"


def sql_type(value: Type) -> exp.DataType:
    """Give BigQuery's type of a portable type."""
    return exp.DataType.build(type_text(value), dialect="bigquery")


def safe_cast(value: Sql, to: str) -> Sql:
    """Give SAFE_CAST."""
    return exp.TryCast(this=value, to=exp.DataType.build(to, dialect="bigquery"))


def _text(value: Sql) -> Sql:
    return exp.Cast(this=value, to=exp.DataType.build("STRING", dialect="bigquery"))


def _double(value: Sql) -> Sql:
    return exp.Cast(this=value, to=exp.DataType.build("FLOAT64", dialect="bigquery"))


def _with_sign(value: Sql, text: Sql) -> Sql:
    """FORMAT drops the sign of a negative zero."""
    zero = exp.EQ(this=value, expression=double(0.0))
    below = exp.LT(this=func("IEEE_DIVIDE", double(1.0), value.copy()), expression=double(0.0))
    return concat(case((all_of(zero, below), literal("-")), default=literal("")), text)


def _round(value: Sql, digits: int) -> Sql:
    """FORMAT rounds the exact value, half to even, as Python does."""
    text = func("FORMAT", literal(f"%.{digits}f"), value)
    return case((exp.EQ(this=value.copy(), expression=double(0.0)), value.copy()), default=_double(text))


def _text_double(value: Sql, digits: int) -> Sql:
    """A cast would print 3.0 as 3."""
    text = func("FORMAT", literal(f"%.{max(digits, 1)}f"), value)
    if digits > 1:
        text = func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2"))
    return _with_sign(value.copy(), text)


def _text_timestamp(value: Sql) -> Sql:
    """Python's text: microseconds only where there are some."""
    some = exp.NEQ(this=func("FORMAT_TIMESTAMP", literal("%E6f"), value), expression=literal("000000"))
    second = func("FORMAT_TIMESTAMP", literal("%F %H:%M:%S"), value.copy())
    return case((some, func("FORMAT_TIMESTAMP", literal("%F %H:%M:%E6S"), value.copy())), default=second)


def _extract(part: str) -> Build:
    return lambda value: exp.Extract(this=exp.var(part), expression=value)


def _contains(text: Sql, part: Sql) -> Sql:
    return exp.GT(this=func("STRPOS", text, part), expression=literal(0))


_matches = named_func("REGEXP_CONTAINS")

TEXT: dict[str, Build] = {
    "upper": casing.upper(_matches),
    "lower": casing.lower(_matches, _contains),
    "trim": named_func("TRIM"),
    "ltrim": named_func("LTRIM"),
    "rtrim": named_func("RTRIM"),
    "replace": named_func("REPLACE"),
    "translate": named_func("TRANSLATE"),
    "cut_word": lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    "length": named_func("CHAR_LENGTH"),
    "substr": named_func("SUBSTR"),
    "greatest": named_func("GREATEST"),
    "contains": _contains,
    "startswith": named_func("STARTS_WITH"),
    "endswith": named_func("ENDS_WITH"),
    "text_bigint": _text,
    "text_date": _text,
    "try_add": named_func("SAFE_ADD"),
    "try_subtract": named_func("SAFE_SUBTRACT"),
    "try_multiply": named_func("SAFE_MULTIPLY"),
    "try_negative": named_func("SAFE_NEGATE"),
    "double": lambda value: _double(value),
    "double_add": named_func("SAFE_ADD"),
    "double_subtract": named_func("SAFE_SUBTRACT"),
    "double_multiply": named_func("SAFE_MULTIPLY"),
    "double_divide": named_func("SAFE_DIVIDE"),
    "double_abs": named_func("ABS"),
    "double_of_text": lambda text: _double(func("TRIM", text, literal(BLANK))),
    "is_nan": named_func("IS_NAN"),
    "floor": named_func("FLOOR"),
    "ceil": named_func("CEIL"),
    "truncated": lambda value: safe_cast(func("TRUNC", value), "INT64"),
    "round": _round,
    "decimal": lambda value, kind: exp.Cast(this=literal(value), to=sql_type(kind)),
    "round_decimal": lambda value, digits, *_: func("ROUND", value, literal(digits), literal("ROUND_HALF_EVEN")),
    "fixed": lambda value, digits: _with_sign(value, func("FORMAT", literal(f"%.{digits}f"), value.copy())),
    "strip_zeros": lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    "text_double": _text_double,
    "text_decimal": lambda value, kind: func("FORMAT", literal(f"%.{kind.scale}f"), value),
    "text_timestamp": _text_timestamp,
    **{name: _extract(name.upper()) for name in ("year", "month", "day", "hour", "minute", "second")},
    "divide_whole": named_func("DIV"),
    "matches": _matches,
    "bigint": lambda text: safe_cast(func("TRIM", text, literal(BLANK)), "INT64"),
}

# Arrays: subqueries over UNNEST, whose order only WITH OFFSET fixes.


def _rows(array: Sql, item: str, position: str) -> exp.Unnest:
    return exp.Unnest(
        expressions=[array],
        alias=exp.TableAlias(columns=[exp.to_identifier(item)]),
        offset=exp.to_identifier(position),
    )


def _array_of(value: Sql, array: Sql, item: str, position: str, test: Sql | None = None) -> Sql:
    query = exp.select(value, copy=False).from_(_rows(array, item, position), copy=False)
    if test is not None:
        query = query.where(test, copy=False)
    return func("ARRAY", query.order_by(exp.column(position), copy=False))


def _map(array: Sql, item: str, position: str | None, body: Body, _kind: Type) -> Sql:
    at = position or f"{item}_at"
    return _array_of(body(exp.column(item), exp.column(at)), array, item, at)


def _where(array: Sql, item: str, test: Body, _kind: Type) -> Sql:
    return _array_of(exp.column(item), array, item, f"{item}_at", test(exp.column(item), None))


def _exists(array: Sql, item: str, position: str | None, test: Body, _kind: Type) -> Sql:
    at = position or f"{item}_at"
    query = exp.select("1", copy=False).from_(_rows(array, item, at), copy=False)
    return exp.Exists(this=query.where(test(exp.column(item), exp.column(at)), copy=False))


def _element(array: Sql, index: Sql, _kind: Type) -> Sql:
    from_end = exp.Add(this=func("ARRAY_LENGTH", array.copy()), expression=index.copy())
    if isinstance(index, exp.Literal):
        at: Sql = index
    elif isinstance(index, exp.Neg):
        at = from_end
    else:
        at = case((exp.LT(this=index, expression=literal(0)), from_end), default=index.copy())
    return exp.Bracket(this=array, expressions=[func("SAFE_OFFSET", at)])


def _unused(*values: Sql) -> tuple[str, str]:
    """Names for an element and its position that stand nowhere in these values."""
    taken = {node.name.lower() for value in values for node in value.find_all(exp.Identifier)}
    item = next(name for number in count() if not taken & {name := f"e{number}", f"e{number}_at"})
    return item, f"{item}_at"


def _slice(array: Sql, start: Sql, stop: Sql | None = None) -> Sql:
    item, at = _unused(start) if stop is None else _unused(start, stop)
    tests: list[Sql] = [exp.GTE(this=exp.column(at), expression=start)]
    if stop is not None:
        tests.append(exp.LT(this=exp.column(at), expression=stop))
    return _array_of(exp.column(item), array, item, at, all_of(*tests))


def _array_index(array: Sql, value: Sql) -> Sql:
    item, at = _unused(value)
    query = exp.select(func("MIN", exp.column(at)), copy=False).from_(_rows(array, item, at), copy=False)
    return query.where(exp.EQ(this=exp.column(item), expression=value), copy=False).subquery(copy=False)


def _found(position: Sql) -> Sql:
    return exp.Sub(this=func("NULLIF", position, literal(0)), expression=literal(1))


def _boxed(value: Sql) -> Sql:
    """An array inside an array, which BigQuery takes only inside a struct."""
    return func("STRUCT", exp.alias_(value, ELEMENT, copy=False))


def _unboxed(value: Sql) -> Sql:
    return exp.Dot(this=value, expression=exp.to_identifier(ELEMENT))


def _flat_map(array: Sql, item: str, position: str | None, body: Body, _kind: Type) -> Sql:
    at = position or f"{item}_at"
    inner, inner_at = f"{item}_each", f"{item}_each_at"
    rows = _rows(body(exp.column(item), exp.column(at)), inner, inner_at)
    query = exp.select(exp.column(inner), copy=False).from_(_rows(array, item, at), copy=False)
    query = query.join(rows, join_type="cross", copy=False)
    return func("ARRAY", query.order_by(exp.column(at), exp.column(inner_at), copy=False))


def _sort(array: Sql, item: str, key: Body, _kind: Type, descending: bool) -> Sql:
    at = f"{item}_at"
    query = exp.select(exp.column(item), copy=False).from_(_rows(array, item, at), copy=False)
    by = exp.Ordered(this=key(exp.column(item), None), desc=descending, nulls_first=not descending)
    return func("ARRAY", query.order_by(by, exp.column(at), copy=False))


def _sum(array: Sql) -> Sql:
    """A sum beyond 64 bits would fail the query."""
    item, at = _unused()
    wide = exp.Cast(this=exp.column(item), to=exp.DataType.build("BIGNUMERIC", dialect="bigquery"))
    query = exp.select(func("SUM", wide), copy=False).from_(_rows(array, item, at), copy=False)
    return safe_cast(func("COALESCE", query.subquery(copy=False), literal(0)), "INT64")


def _is_size(count: Sql) -> bool:
    return isinstance(count, exp.Anonymous) and count.this in ("ARRAY_LENGTH", "CHAR_LENGTH")


def _unique(array: Sql, item: str, key: Body, _kind: Type) -> Sql:
    at = exp.column(f"{item}_at")
    first = exp.HavingMax(this=exp.column(item), expression=at, max=False)
    query = exp.select(func("ANY_VALUE", first), copy=False).from_(_rows(array, item, f"{item}_at"), copy=False)
    query = query.group_by(key(exp.column(item), None), copy=False)
    return func("ARRAY", query.order_by(func("MIN", at.copy()), copy=False))


ARRAYS: dict[str, Build] = {
    "flat_map": _flat_map,
    "sort": _sort,
    "sum": _sum,
    "array_concat": named_func("ARRAY_CONCAT"),
    "boxed": _boxed,
    "unboxed": _unboxed,
    "map": _map,
    "unique": _unique,
    "where": _where,
    "exists": _exists,
    "element": _element,
    "array": lambda *values: exp.Array(expressions=list(values)),
    "array_index": _array_index,
    "array_join": named_func("ARRAY_TO_STRING"),
    "array_slice": _slice,
    "field": lambda value, name, _kind: exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True)),
    "least": named_func("LEAST"),
    "sequence": lambda count: func(
        "GENERATE_ARRAY",
        literal(0),
        exp.Sub(this=count if _is_size(count) else func("GREATEST", count, literal(0)), expression=literal(1)),
    ),
    "size": named_func("ARRAY_LENGTH"),
    "split": named_func("SPLIT"),
    "text_index": lambda text, part: _found(func("STRPOS", text, part)),
    "abs": named_func("ABS"),
}

# JSON -------------------------------------------------------------------------------------------------------------


def _kind(value: Sql, *labels: str) -> Sql:
    return exp.In(this=func("JSON_TYPE", value), expressions=[literal(label) for label in labels])


def _string(value: Sql) -> Sql:
    return func("JSON_VALUE", value)


def _number(value: Sql) -> Sql:
    return safe_cast(_string(value), "FLOAT64")


def _bigint(value: Sql) -> Sql:
    # 1.0 is an integer in JSON Schema; a text "1.0" is none to INT64.
    return safe_cast(safe_cast(_string(value), "BIGNUMERIC"), "INT64")


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [kind for kind in kinds if kind != "integer"]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("TRUNC", number.copy()))
        tests.append(exp.paren(all_of(_kind(value, "number"), whole), copy=False))
    return any_of(*tests)


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: colons, once the strings are emptied."""
    emptied = func("REGEXP_REPLACE", text, literal(r'"(?:[^"\\]|\\.)*"'), literal('""'))
    return func("LENGTH", func("REGEXP_REPLACE", emptied, literal("[^:]+"), literal("")))


def _parse(text: Sql) -> Sql:
    """Without 'round' a wide number would look like broken JSON. Of two equal names the first would win: the names in
    the text are counted against those of the document printed again."""
    doc = func("SAFE.PARSE_JSON", text, wide_number_mode=literal("round"))
    again = func("TO_JSON_STRING", doc.copy())
    no_bom = exp.Not(this=func("STARTS_WITH", text.copy(), literal("\ufeff")))  # the parser would skip it
    return case((all_of(no_bom, exp.EQ(this=_names(text.copy()), expression=_names(again))), doc))


def _unnest(items: Sql, name: str, test: Sql) -> Sql:
    rows = exp.Unnest(expressions=[items], alias=exp.TableAlias(columns=[exp.to_identifier(name)]))
    return exp.Exists(this=exp.select("1", copy=False).from_(rows, copy=False).where(test, copy=False))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    return _unnest(func("JSON_QUERY_ARRAY", value), name, test(exp.column(name)))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    keys = func("JSON_KEYS", value, literal(1))
    # JSON_KEYS quotes a name that is no plain word.
    allowed = [literal(name if re.fullmatch(r"\w+", name) else f'"{name}"') for name in names]
    other = exp.Not(this=exp.In(this=exp.column("k"), expressions=allowed)) if allowed else literal(True)
    return _unnest(keys, "k", other)


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    rows = exp.Unnest(
        expressions=[exp.Array(expressions=[value])], alias=exp.TableAlias(columns=[exp.to_identifier("doc")])
    )
    return exp.select(body(exp.column("doc")), copy=False).from_(rows, copy=False).subquery(copy=False)


JSON: dict[str, Callable[..., Any]] = {
    "parse": _parse,
    "accepted": lambda text: func("SAFE.PARSE_JSON", text, wide_number_mode=literal("round")),
    "get": lambda value, name: exp.Bracket(this=value, expressions=[literal(name)]),
    "is": _is,
    "string": _string,
    "number": _number,
    "bigint": _bigint,
    "any_item": _any_item,
    "count": lambda value: func("ARRAY_LENGTH", func("JSON_QUERY_ARRAY", value)),
    "has_other_names": _has_other_names,
    "length": named_func("CHAR_LENGTH"),
    "search": lambda text, pattern: func("REGEXP_CONTAINS", text, literal(portable(pattern))),
    "trim": lambda text: func("TRIM", text, literal(BLANK)),
    "unfence": lambda text: (
        func("REGEXP_CONTAINS", text, literal(FENCE)),
        func("REGEXP_EXTRACT", text.copy(), literal(FENCE)),
    ),
    "first_word": lambda text: func("REGEXP_EXTRACT", text, literal("^[^ ]+")),
    "let": _let,
}


def column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Give the typed column of a JSON value that passed its checks."""
    match kind:
        case Scalar("string"):
            return _string(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Scalar("boolean"):
            return safe_cast(_string(value), "BOOL")
        case Array(item):
            name, position = f"x{depth}", f"o{depth}"
            rows = exp.Unnest(
                expressions=[func("JSON_QUERY_ARRAY", value)],
                alias=exp.TableAlias(columns=[exp.to_identifier(name)]),
                offset=exp.to_identifier(position),
            )
            element = column(exp.column(name), item, depth + 1)
            if isinstance(item, Array):
                element = _boxed(element)
            query = exp.select(element, copy=False).from_(rows, copy=False).order_by(exp.column(position), copy=False)
            return func("ARRAY", query)
        case Struct(fields):
            pairs = [
                exp.alias_(
                    column(exp.Bracket(this=value.copy(), expressions=[literal(name)]), field, depth), name, quoted=True
                )
                for name, field in fields
            ]
            return case((_kind(value.copy(), "object"), func("STRUCT", *pairs)))
    return safe_cast(_string(value), type_text(kind))


# The call ---------------------------------------------------------------------------------------------------------


def response_format(_name: str, schema: Mapping[str, Any]) -> Any:
    """Give Gemini's ``response_schema``: an OpenAPI subset with upper-case types."""
    _no_null_items(schema)
    return _gemini(schema)


def _gemini(schema: Mapping[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in schema["type"] if kind != "null"]
    kind = "number" if "number" in kinds else kinds[0]
    form: dict[str, Any] = {"type": kind.upper()}
    if "null" in schema["type"]:
        form["nullable"] = True
    if "description" in schema:
        form["description"] = schema["description"]
    if "enum" in schema and kind == "string":
        form["enum"] = [value for value in schema["enum"] if value is not None]
    if "items" in schema:
        form["items"] = _gemini(schema["items"])
    for keyword in ("minItems", "maxItems", "minimum", "maximum"):
        if keyword in schema:
            form[keyword] = schema[keyword]
    if schema.get("properties"):
        form["properties"] = {name: _gemini(child) for name, child in schema["properties"].items()}
        form["propertyOrdering"] = list(schema["properties"])
        if schema.get("required"):
            form["required"] = list(schema["required"])
    return form


def _no_null_items(schema: Mapping[str, Any]) -> None:
    if "items" in schema:
        if "null" in schema["items"]["type"]:
            raise UnsupportedError(
                "bigquery", "an array whose items may be null", "its arrays hold no NULL: require a value"
            )
        _no_null_items(schema["items"])
    for child in schema.get("properties", {}).values():
        _no_null_items(child)


def _body(request: Call) -> dict[str, Any]:
    """The body of generateContent that goes beside the prompt."""
    config: dict[str, Any] = {}
    if request.response_format is not None:
        config |= {"response_mime_type": "application/json", "response_schema": request.response_format}
    return {"generation_config": {**config, **request.params}}


def call(pending: Sql, request: Call) -> Answered:
    """Ask through AI.GENERATE_TEXT over the pending relation, or through AI.GENERATE by ``function``."""
    prompt: Sql = exp.column("prompt")
    if request.hint is not None:
        prompt = concat(prompt, literal("\n\n" + request.hint))
    chosen = request.options.get("function", "AI.GENERATE_TEXT")
    if chosen == "AI.GENERATE":
        return _scalar(pending, request, prompt)
    if chosen != "AI.GENERATE_TEXT":
        raise UnsupportedError("bigquery", f'no function "{chosen}"', "write AI.GENERATE_TEXT or AI.GENERATE")
    asked = exp.select(
        exp.column("request_hash"), exp.column("attempt"), exp.alias_(prompt, "prompt", copy=False), copy=False
    ).from_(pending, copy=False)
    if request.response_format is not None:
        settings = [exp.alias_(literal(compact_json(_body(request))), "model_params", copy=False)]
    else:
        settings = [exp.alias_(_setting(value), name, copy=False) for name, value in request.params.items()]
    generate = exp.GenerateText(
        this=exp.to_table(request.model, dialect="bigquery"),
        expression=asked.subquery(copy=False),
        params_struct=func("STRUCT", *settings),
    )
    for part in generate.this.parts:
        part.set("quoted", True)
    relation = exp.Table(this=generate, db=exp.to_identifier("AI"))
    return Answered(relation, _columns(lambda name: exp.column(name)))


def _scalar(pending: Sql, request: Call, prompt: Sql) -> Answered:
    arguments: dict[str, Sql] = {"endpoint": literal(request.model)}
    if connection := request.options.get("connection"):
        arguments["connection_id"] = literal(str(connection))
    arguments["model_params"] = exp.ParseJSON(this=literal(compact_json(_body(request))), is_literal=True)
    answer = func("AI.GENERATE", prompt, **arguments)
    asked = exp.select(
        exp.column("request_hash"), exp.column("attempt"), exp.alias_(answer, "answer", copy=False), copy=False
    ).from_(pending, copy=False)
    source = exp.alias_(asked.subquery(copy=False), "asked", table=True, copy=False)
    return Answered(source, _columns(lambda name: exp.column(name, table="answer")))


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
        "retryable": exp.Coalesce(
            this=func("STARTS_WITH", status.copy(), literal(names["retryable"])), expressions=[literal(False)]
        ),
        "finish_reason": case(*known, default=func("LOWER", finish)),
        "tokens_in": safe_cast(detail("tokens_in"), "INT64"),
        "tokens_cached": safe_cast(detail("tokens_cached"), "INT64"),
        "tokens_out": safe_cast(detail("tokens_out"), "INT64"),
        "run_id": _text(exp.CurrentTimestamp()),
    }


def _setting(value: Any) -> Sql:
    return exp.Array(expressions=[literal(v) for v in value]) if isinstance(value, list) else literal(value)


def must_exist(request: Call) -> list[str]:
    """Give what the script needs beforehand, with the statement that makes it."""
    if request.options.get("function") == "AI.GENERATE":
        return [f"Needs: access to the Vertex AI endpoint {request.model} (role Vertex AI User)"]
    return [
        f"Needs: the remote model {request.model}, made once by:",
        f"CREATE MODEL `{request.model}` REMOTE WITH CONNECTION DEFAULT OPTIONS (ENDPOINT = 'gemini-2.5-flash');",
    ]


def name_problem(name: str) -> str | None:
    """Columns hold letters, digits and a few marks; a backtick or a line break can't be quoted."""
    found = re.search(r"[`!\"$()*,./;?@\[\]\\^{}~\x00-\x1f]", name)
    return f"holds {found[0]!r}, which no BigQuery column may" if found else None


ENGINE = Engine(
    name="bigquery",
    dialect="bigquery",
    text={**TEXT, **ARRAYS},
    json=JSON,
    sha256=lambda text: func("TO_HEX", func("SHA256", text)),
    sql_type=sql_type,
    column=column,
    create_table_as=replace_table,
    facts={
        "call": Fact("AI.GENERATE_TEXT (or AI.GENERATE)", _TEXT_DOCS, _READ),
        "default_model": Fact("sqlenrich.gemini", "the remote model that you make once", _READ),
        "max_tokens": Fact(1024, _TEXT_DOCS, _READ),
        "fields": FIELDS,
    },
    params={
        "temperature": "temperature",
        "max_tokens": "max_output_tokens",
        "top_p": "top_p",
        "seed": "seed",
        "stop": "stop_sequences",
    },
    response_format=response_format,
    call=call,
    must_exist=must_exist,
    name_problem=name_problem,
    options=("function", "connection", "schema"),
)
