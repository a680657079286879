"""Snowflake: ``AI_COMPLETE`` in its single-string form, the only one that takes a response format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from ..request import json_schema
from ..schema.pattern import FENCE_HEAD, portable
from ..schema.vendor import SHAPE_ONLY
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
    cast,
    concat,
    double,
    double_divide,
    double_function,
    func,
    half_even,
    lambda_,
    literal,
    named_func,
    plain_decimal,
    replace_table,
    wrapped,
)

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

_TYPES = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
}


def sql_type(value: Type) -> exp.DataType:
    """Give Snowflake's type of a portable type; arrays and structs are its semi-structured ones."""
    match value:
        case Scalar("timestamp"):
            # sqlglot prints TIMESTAMPNTZ, a spelling that other tools don't read.
            return exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="TIMESTAMP_NTZ")
        case Scalar(name):
            return exp.DataType.build(_TYPES[name], dialect="snowflake")
        case Decimal(precision, scale):
            return exp.DataType.build(f"DECIMAL({precision}, {scale})", dialect="snowflake")
        case Array():
            return exp.DataType.build("ARRAY", dialect="snowflake")
        case Struct():
            return exp.DataType.build("OBJECT", dialect="snowflake")


def matches(text: Sql, pattern: Sql) -> Sql:
    """Search, not match: REGEXP_LIKE would anchor the pattern at both ends."""
    return exp.GT(this=func("REGEXP_INSTR", text, pattern), expression=literal(0))


def _posix(pattern: str) -> str:
    """Snowflake's regular expressions know no group that starts with (?."""
    return portable(pattern).replace("(?:", "(")


def _double(value: Sql) -> Sql:
    return cast(value, sql_type(Scalar("double")))


def _nearest(value: Sql) -> Sql:
    """ROUND cuts a half away from zero: of an even number of halves it has none to cut."""
    half = exp.EQ(
        this=func("ABS", exp.Sub(this=wrapped(value), expression=func("TRUNC", value.copy()))), expression=double(0.5)
    )
    halved = func("ROUND", exp.Mul(this=wrapped(value.copy()), expression=double(0.5)))
    return case((half, exp.Mul(this=double(2.0), expression=halved)), default=func("ROUND", value.copy()))


def _fixed(value: Sql, digits: int) -> Sql:
    text = cast(exp.Cast(this=value, to=exp.DataType.build(f"DECIMAL(38, {digits})")), sql_type(Scalar("string")))
    negative_zero = all_of(
        exp.EQ(this=value.copy(), expression=double(0.0)),
        exp.EQ(this=cast(value.copy(), sql_type(Scalar("string"))), expression=literal("-0")),
    )
    return concat(case((negative_zero, literal("-")), default=literal("")), text)


def _text_double(value: Sql, digits: int) -> Sql:
    """A cast would print 3.0 as 3."""
    text = _fixed(value, max(digits, 1))
    return text if digits < 2 else func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2"))


def _truncated(value: Sql) -> Sql:
    bound = double(float(2**63))
    inside = all_of(
        exp.GT(this=value, expression=exp.Neg(this=bound)), exp.LT(this=value.copy(), expression=bound.copy())
    )
    return case((inside, cast(func("TRUNC", value.copy()), sql_type(Scalar("bigint")))))


def _divide_whole(a: Sql, b: Sql) -> Sql:
    """A quotient has six decimals, rounded: without the remainder there is none to round."""
    whole = exp.paren(exp.Sub(this=wrapped(a), expression=func("MOD", a.copy(), b.copy())))
    return func("TRUNC", exp.Div(this=whole, expression=wrapped(b), typed=True))


def _within_64_bits(number: Sql) -> Sql:
    inside = exp.Between(this=wrapped(number), low=literal(-(2**63)), high=literal(2**63 - 1))
    return case((inside, number.copy()))


def _text_timestamp(value: Sql) -> Sql:
    """Python's text: microseconds only where there are some."""
    some = exp.NEQ(this=func("TO_CHAR", value, literal("FF6")), expression=literal("000000"))
    second = func("TO_CHAR", value.copy(), literal("YYYY-MM-DD HH24:MI:SS"))
    return case((some, func("TO_CHAR", value.copy(), literal("YYYY-MM-DD HH24:MI:SS.FF6"))), default=second)


# The documentation of UPPER and LOWER says nothing of characters that become several, of final sigma or of a version
# of Unicode (https://docs.snowflake.com/en/sql-reference/functions/upper, .../lower): all of these are guarded.


def _upper(text: Sql) -> Sql:
    return casing.guarded(matches, text, func("UPPER", text), casing.plain(casing.joined("[ß]", *_UPPER_GUARDS)))


def _lower(text: Sql) -> Sql:
    return casing.guarded(matches, text, func("LOWER", text), casing.plain(_LOWER_GUARD))


_UPPER_GUARDS = (casing.EXPANDING, casing.NEW_CASE)
_LOWER_GUARD = f"{casing.joined('[İ]', casing.NEW_CASE)}|{casing.FINAL_SIGMA}"

TEXT: dict[str, Build] = {
    "upper": _upper,
    "lower": _lower,
    "trim": named_func("TRIM"),
    "ltrim": named_func("LTRIM"),
    "rtrim": named_func("RTRIM"),
    "replace": named_func("REPLACE"),
    "translate": named_func("TRANSLATE"),
    "cut_word": lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    "length": named_func("LENGTH"),
    "substr": named_func("SUBSTR"),
    "greatest": named_func("GREATEST"),
    "contains": named_func("CONTAINS"),
    "startswith": named_func("STARTSWITH"),
    "endswith": named_func("ENDSWITH"),
    "text_bigint": lambda value: cast(value, sql_type(Scalar("string"))),
    "text_date": lambda value: func("TO_CHAR", value, literal("YYYY-MM-DD")),
    # Integers have 38 digits here: a sum does not overflow at 64 bits, a product is kept within them.
    "try_add": lambda a, b: exp.Add(this=wrapped(a), expression=wrapped(b)),
    "try_subtract": lambda a, b: exp.Sub(this=wrapped(a), expression=wrapped(b)),
    "try_multiply": lambda a, b: _within_64_bits(exp.Mul(this=wrapped(a), expression=wrapped(b))),
    "try_negative": lambda a: exp.Neg(this=wrapped(a)),
    "double": lambda value: _double(value),
    "double_add": double_function(exp.Add),
    "double_subtract": double_function(exp.Sub),
    "double_multiply": double_function(exp.Mul),
    "double_divide": double_divide,
    "double_abs": named_func("ABS"),
    "double_of_text": lambda text: _double(func("TRIM", text, literal(BLANK))),
    "is_nan": lambda value: exp.EQ(this=value, expression=_double(literal("NaN"))),
    "floor": named_func("FLOOR"),
    "ceil": named_func("CEIL"),
    "truncated": _truncated,
    "round": lambda value, digits: half_even(value, digits, _nearest),
    "decimal": plain_decimal,
    "round_decimal": lambda value, digits, *_: func("ROUND", value, literal(digits), literal("HALF_TO_EVEN")),
    "fixed": lambda value, digits: _fixed(half_even(value, digits, _nearest), digits),
    "strip_zeros": lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    "text_double": _text_double,
    "text_decimal": lambda value, _: cast(value, sql_type(Scalar("string"))),
    "text_timestamp": _text_timestamp,
    **{name: named_func(name.upper()) for name in ("year", "month", "day", "hour", "minute", "second")},
    "divide_whole": _divide_whole,
    "matches": matches,
    "bigint": lambda text: func("TRY_TO_NUMBER", func("TRIM", text, literal(BLANK)), literal(38), literal(0)),
}

# Arrays are semi-structured: an element is a VARIANT, made its type where it is read. That turns a JSON null into NULL.


def _typed(value: Sql, kind: Type) -> Sql:
    match kind:
        case Array():
            return func("AS_ARRAY", value)
        case Struct():
            return func("AS_OBJECT", value)
    return cast(value, sql_type(kind))


def _map(array: Sql, item: str, position: str | None, body: Body, kind: Type) -> Sql:
    """A lambda gets no position: over positions, the elements are read by theirs."""
    if position is None:
        return func("TRANSFORM", array, lambda_(item, lambda x: body(_typed(x, kind), None)))
    positions = func("ARRAY_GENERATE_RANGE", literal(0), func("ARRAY_SIZE", array.copy()))

    def at(i: Sql) -> Sql:
        place = cast(i, sql_type(Scalar("bigint")))
        return body(_typed(func("GET", array.copy(), place), kind), place.copy())

    return func("TRANSFORM", positions, lambda_(position, at))


def _where(array: Sql, item: str, test: Body, kind: Type) -> Sql:
    return func("FILTER", array, lambda_(item, lambda x: test(_typed(x, kind), None)))


def _exists(array: Sql, item: str, position: str | None, test: Body, kind: Type) -> Sql:
    found = _map(array, item, position, lambda x, i: func("COALESCE", test(x, i), literal(False)), kind)
    return func("ARRAY_CONTAINS", func("TO_VARIANT", literal(True)), found)


def _element(array: Sql, index: Sql, kind: Type) -> Sql:
    from_end = exp.Add(this=func("ARRAY_SIZE", array.copy()), expression=index.copy())
    if isinstance(index, exp.Literal):
        at: Sql = index
    elif isinstance(index, exp.Neg):
        at = from_end
    else:
        at = case((exp.LT(this=index, expression=literal(0)), from_end), default=index.copy())
    return _typed(func("GET", array, at), kind)


def _slice(array: Sql, start: Sql, stop: Sql | None = None) -> Sql:
    end = stop if stop is not None else func("ARRAY_SIZE", array.copy())
    return func("ARRAY_SLICE", array, start, func("GREATEST", end, start.copy()))


def _found(position: Sql) -> Sql:
    return exp.Sub(this=func("NULLIF", position, literal(0)), expression=literal(1))


def _sum(array: Sql) -> Sql:
    """Integers have 38 digits here: the sum is cut to 64 bits as everywhere."""
    parameters = [exp.to_identifier("total"), exp.to_identifier("x")]
    item = cast(exp.column("x"), sql_type(Scalar("bigint")))
    added = exp.Lambda(this=exp.Add(this=exp.column("total"), expression=item), expressions=parameters)
    made = func("REDUCE", array, literal(0), added)
    return _within_64_bits(made)


def _concatenated(first: Sql, *rest: Sql) -> Sql:
    for array in rest:
        first = func("ARRAY_CAT", first, array)
    return first


def _unique(array: Sql, item: str, key: Body, kind: Type) -> Sql:
    """A lambda gets no position: over positions, the elements are read by theirs."""
    keys = func("TRANSFORM", array.copy(), lambda_(item, lambda x: key(_typed(x, kind), None)))
    positions = func("ARRAY_GENERATE_RANGE", literal(0), func("ARRAY_SIZE", array.copy()))

    def first(at: Sql) -> Sql:
        place = cast(at, sql_type(Scalar("bigint")))
        own = key(_typed(func("GET", array.copy(), place), kind), None)
        return exp.EQ(this=func("ARRAY_POSITION", func("TO_VARIANT", own), keys), expression=place.copy())

    kept = func("FILTER", positions, lambda_(f"{item}_at", first))
    return func(
        "TRANSFORM", kept, lambda_(f"{item}_in", lambda at: func("GET", array, cast(at, sql_type(Scalar("bigint")))))
    )


ARRAYS: dict[str, Build] = {
    "map": _map,
    "unique": _unique,
    "flat_map": lambda *args: func("ARRAY_FLATTEN", _map(*args)),
    "sum": _sum,
    "array_concat": _concatenated,
    "where": _where,
    "exists": _exists,
    "element": _element,
    "array": named_func("ARRAY_CONSTRUCT"),
    "array_index": lambda array, value: func("ARRAY_POSITION", func("TO_VARIANT", value), array),
    "array_join": named_func("ARRAY_TO_STRING"),
    "array_slice": _slice,
    "field": lambda value, name, kind: _typed(func("GET", value, literal(name)), kind),
    "least": named_func("LEAST"),
    "sequence": lambda count: func("ARRAY_GENERATE_RANGE", literal(0), func("GREATEST", count, literal(0))),
    "size": named_func("ARRAY_SIZE"),
    "split": named_func("SPLIT"),
    "text_index": lambda text, part: _found(func("POSITION", part, text)),
    "abs": named_func("ABS"),
}

# JSON -------------------------------------------------------------------------------------------------------------

_KINDS = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": ("INTEGER", "DECIMAL", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "null": ("NULL_VALUE",),
}


def _kind(value: Sql, *labels: str) -> Sql:
    return exp.In(this=func("TYPEOF", value), expressions=[literal(label) for label in labels])


def _string(value: Sql) -> Sql:
    return cast(value, sql_type(Scalar("string")))


def _number(value: Sql) -> Sql:
    return func("TRY_TO_DOUBLE", _string(value))


def _bigint(value: Sql) -> Sql:
    return _within_64_bits(func("TRY_TO_NUMBER", _string(value), literal(38), literal(0)))


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [label for kind in kinds if kind != "integer" for label in _KINDS[kind]]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("FLOOR", number.copy()))
        tests.append(any_of(_kind(value.copy(), "INTEGER"), all_of(_kind(value, "DECIMAL", "DOUBLE"), whole)))
    return any_of(*tests)


def _parse(text: Sql) -> Sql:
    """TRY_PARSE_JSON refuses repeated names, but takes trailing commas and words such as NaN."""
    emptied = func("REGEXP_REPLACE", text, literal(r'"([^"\\]|\\.)*"'), literal('""'))
    loose = matches(emptied, literal(r"[Nn]a[Nn]|[Ii]nf|undefined|,[ \t\r\n]*[]}]"))
    return case((exp.Not(this=loose), func("TRY_PARSE_JSON", text.copy())))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    kept = func("FILTER", func("AS_ARRAY", value), lambda_(name, test))
    return exp.GT(this=func("ARRAY_SIZE", kept), expression=literal(0))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    allowed = func("ARRAY_CONSTRUCT", *(literal(name) for name in names))
    other = func("ARRAY_EXCEPT", func("OBJECT_KEYS", func("AS_OBJECT", value)), allowed)
    return exp.GT(this=func("ARRAY_SIZE", other), expression=literal(0))


def _unfence(text: Sql) -> tuple[Sql, Sql]:
    head = literal(FENCE_HEAD)
    fenced = all_of(matches(text, head), func("ENDSWITH", text.copy(), literal("```")))
    body = func("REGEXP_REPLACE", text.copy(), head.copy(), literal(""))
    inner = func(
        "LEFT", body, func("GREATEST", exp.Sub(this=func("LENGTH", body.copy()), expression=literal(3)), literal(0))
    )
    return fenced, inner


JSON: dict[str, Callable[..., Any]] = {
    "parse": _parse,
    "accepted": named_func("TRY_PARSE_JSON"),
    "get": lambda value, name: func("GET", value, literal(name)),
    "is": _is,
    "string": _string,
    "number": _number,
    "bigint": _bigint,
    "any_item": _any_item,
    "count": lambda value: func("ARRAY_SIZE", func("AS_ARRAY", value)),
    "has_other_names": _has_other_names,
    "length": named_func("LENGTH"),
    "search": lambda text, pattern: matches(text, literal(_posix(pattern))),
    "trim": lambda text: func("TRIM", text, literal(BLANK)),
    "unfence": _unfence,
    "first_word": lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
    "let": lambda value, body: _string(
        func("GET", func("TRANSFORM", func("ARRAY_CONSTRUCT", value), lambda_("doc", body)), literal(0))
    ),
}


def column(value: Sql, kind: Type) -> Sql:
    """Give the typed column of a JSON value that passed its checks."""
    match kind:
        case Scalar("string"):
            return _string(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Scalar("boolean"):
            return func("AS_BOOLEAN", value)
        case Array():
            return func("AS_ARRAY", value)
        case Struct():
            return func("AS_OBJECT", value)
    return exp.TryCast(this=_string(value), to=sql_type(kind))


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


def response_format(_name: str, schema: Mapping[str, Any]) -> Any:
    """Give the JSON form with the keywords that Snowflake takes: no ranges, lengths, patterns or counts."""
    return {"type": "json", "schema": json_schema(schema, (*SHAPE_ONLY, "additionalProperties"))}


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
    asked = exp.select(
        exp.column("request_hash"), exp.column("attempt"), exp.alias_(answer, "answer", copy=False), copy=False
    ).from_(pending, copy=False)
    fields = FIELDS.value

    def at(path: str) -> Sql:
        return func("GET_PATH", exp.column("answer"), literal(path))

    def detail(name: str) -> Sql:
        return at(f"{fields['value']}.{fields[name]}")

    error = func("NULLIF", _string(at(fields["error"])), literal(""))
    columns = {
        "response": exp.Coalesce(this=func("TO_JSON", detail("structured")), expressions=[_string(detail("text"))]),
        "call_error": error,
        "retryable": exp.Coalesce(
            this=func("REGEXP_LIKE", error.copy(), literal(RETRYABLE), literal("is")), expressions=[literal(False)]
        ),
        "tokens_in": cast(detail("tokens_in"), sql_type(Scalar("bigint"))),
        "tokens_out": cast(detail("tokens_out"), sql_type(Scalar("bigint"))),
        "run_id": _string(exp.CurrentTimestamp()),
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
    text={**TEXT, **ARRAYS},
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
