"""DuckDB, embedded: prompts and checks in SQL, the model asked by a Python client between two SQL steps."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

from sqlglot import exp

from ..schema.pattern import FENCE, MAX_BRACKETS, portable
from ..types import Array, Decimal, Scalar, Struct, Type
from .base import (
    BLANK,
    LAST_WORD,
    TRAILING_ZEROS,
    Body,
    Build,
    Engine,
    Fact,
    Sql,
    all_of,
    any_of,
    case,
    cast,
    concat,
    double_divide,
    double_function,
    func,
    lambda_,
    literal,
    named_func,
    plain_decimal,
    replace_table,
    wrapped,
)
from .casing import EXPANDING, FINAL_SIGMA, NEW_CASE, guarded, joined

_TYPES = {
    "string": "VARCHAR",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


def sql_type(value: Type) -> exp.DataType:
    """Give DuckDB's name of a portable type."""
    match value:
        case Scalar(name):
            return exp.DataType.build(_TYPES[name], dialect="duckdb")
        case Decimal(precision, scale):
            return exp.DataType.build(f"DECIMAL({precision}, {scale})", dialect="duckdb")
        case Array(item):
            return exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[sql_type(item)], nested=True)
        case Struct(fields):
            definitions = [
                exp.ColumnDef(this=exp.to_identifier(name, quoted=True), kind=sql_type(kind)) for name, kind in fields
            ]
            return exp.DataType(this=exp.DataType.Type.STRUCT, expressions=definitions, nested=True)


def _trimming(name: str) -> Build:
    return lambda text, chars: func(name, text, chars)


_matches = named_func("REGEXP_MATCHES")


def _upper(text: Sql) -> Sql:
    """Python's upper(): DuckDB maps one to one (measured on 2.0 over all of Unicode), so ß is replaced before."""
    mapped = func("UPPER", func("REPLACE", text, literal("ß"), literal("SS")))
    return guarded(_matches, text, mapped, joined(EXPANDING, NEW_CASE))


def _lower(text: Sql) -> Sql:
    """Python's lower(): DuckDB knows no final sigma."""
    mapped = func("LOWER", func("REPLACE", text, literal("İ"), literal("i̇")))
    return guarded(_matches, text, mapped, f"{NEW_CASE}|{FINAL_SIGMA}")


def _text_timestamp(value: Sql) -> Sql:
    """Python's text: microseconds only where there are some."""
    some = exp.NEQ(this=func("MICROSECOND", value), expression=func("SECOND", value.copy()) * literal(1_000_000))
    second = func("STRFTIME", value.copy(), literal("%Y-%m-%d %H:%M:%S"))
    return case((some, func("STRFTIME", value.copy(), literal("%Y-%m-%d %H:%M:%S.%f"))), default=second)


def _decimal(value: str, scale: int) -> Sql:
    """A constant below 1, or 1, of the least precision: more beside a precise decimal would make both doubles."""
    return cast(exp.Literal.number(value), f"DECIMAL({max(scale, 1)}, {scale})")


def _round_decimal(value: Sql, digits: int, before: Decimal, kind: Decimal) -> Sql:
    """Half to even: ROUND takes a half away from zero, ROUND_EVEN takes doubles only."""
    step, half = (_decimal(f"{PyDecimal(n).scaleb(-at):f}", at) for n, at in ((1, digits), (5, digits + 1)))
    away = func("ROUND", value, literal(digits))
    small = digits == 0 and before.precision == before.scale  # its type can't hold 1
    apart = func("ABS", value.copy() if small else func("MOD", value.copy(), step.copy()))
    even = func("MOD", away.copy(), exp.Literal.number(f"{PyDecimal(2).scaleb(-digits):f}"))
    tie = all_of(exp.EQ(this=apart, expression=half), exp.NEQ(this=even, expression=literal(0)))
    below = exp.LT(this=value.copy(), expression=literal(0))
    back = case(
        (below, exp.Add(this=away.copy(), expression=step)), default=exp.Sub(this=away.copy(), expression=step.copy())
    )
    return cast(case((tie, back), default=away.copy()), sql_type(kind))


def _text_decimal(value: Sql, kind: Decimal) -> Sql:
    """A decimal without a digit before the point would be printed without a zero there."""
    return cast(cast(value, f"DECIMAL(38, {kind.scale})") if kind.precision == kind.scale else value, "VARCHAR")


TEXT: dict[str, Build] = {
    "upper": _upper,
    "lower": _lower,
    "trim": _trimming("TRIM"),
    "ltrim": _trimming("LTRIM"),
    "rtrim": _trimming("RTRIM"),
    "replace": named_func("REPLACE"),
    "translate": named_func("TRANSLATE"),
    "cut_word": lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    "length": named_func("LENGTH"),
    "substr": named_func("SUBSTRING"),
    "greatest": named_func("GREATEST"),
    "contains": named_func("CONTAINS"),
    "startswith": named_func("STARTS_WITH"),
    "endswith": named_func("ENDS_WITH"),
    "text_bigint": lambda value: cast(value, "VARCHAR"),
    "text_date": lambda value: cast(value, "VARCHAR"),
    "try_add": lambda a, b: exp.Try(this=exp.Add(this=wrapped(a), expression=wrapped(b))),
    "try_subtract": lambda a, b: exp.Try(this=exp.Sub(this=wrapped(a), expression=wrapped(b))),
    "try_multiply": lambda a, b: exp.Try(this=exp.Mul(this=wrapped(a), expression=wrapped(b))),
    "try_negative": lambda a: exp.Try(this=exp.Neg(this=wrapped(a))),
    "double": lambda value: cast(value, "DOUBLE"),
    "double_add": double_function(exp.Add),
    "double_subtract": double_function(exp.Sub),
    "double_multiply": double_function(exp.Mul),
    "double_divide": double_divide,
    "double_abs": named_func("ABS"),
    "double_of_text": lambda text: cast(func("TRIM", text, literal(BLANK)), "DOUBLE"),
    "is_nan": named_func("ISNAN"),
    "floor": named_func("FLOOR"),
    "ceil": named_func("CEIL"),
    "truncated": lambda value: cast(func("TRUNC", value), "BIGINT", safe=True),
    "round": lambda value, digits: cast(func("PRINTF", literal(f"%.{digits}f"), value), "DOUBLE"),
    "decimal": plain_decimal,
    "round_decimal": _round_decimal,
    "fixed": lambda value, digits: func("PRINTF", literal(f"%.{digits}f"), value),
    "strip_zeros": lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    "text_double": lambda value, _: cast(value, "VARCHAR"),
    "text_decimal": _text_decimal,
    "text_timestamp": _text_timestamp,
    **{name: named_func(name.upper()) for name in ("year", "month", "day", "hour", "minute", "second")},
    "divide_whole": lambda a, b: exp.IntDiv(this=wrapped(a), expression=wrapped(b)),
    "bigint": lambda text: cast(func("TRIM", text, literal(BLANK)), "BIGINT", safe=True),
    "matches": _matches,
}

# Arrays: positions count from 0; DuckDB counts from 1 and gives NULL beyond the ends.


def _map(array: Sql, item: str, position: str | None, body: Body, _kind: Type) -> Sql:
    if position is None:
        return func("LIST_TRANSFORM", array, lambda_(item, lambda x: body(x, None)))
    parameters = [exp.to_identifier(item), exp.to_identifier(position)]
    zero_based = exp.paren(exp.Sub(this=exp.column(position), expression=literal(1)), copy=False)
    return func("LIST_TRANSFORM", array, exp.Lambda(this=body(exp.column(item), zero_based), expressions=parameters))


def _where(array: Sql, item: str, test: Body, _kind: Type) -> Sql:
    return func("LIST_FILTER", array, lambda_(item, lambda x: test(x, None)))


def _exists(array: Sql, item: str, position: str | None, test: Body, kind: Type) -> Sql:
    return func("COALESCE", func("LIST_BOOL_OR", _map(array, item, position, test, kind)), literal(False))


def _element(array: Sql, index: Sql, _kind: Type) -> Sql:
    if isinstance(index, exp.Literal):
        return func("LIST_EXTRACT", array, literal(int(index.this) + 1))
    if isinstance(index, exp.Neg):
        return func("LIST_EXTRACT", array, index)
    at = case(
        (exp.LT(this=index, expression=literal(0)), index.copy()),
        default=exp.Try(this=exp.Add(this=index.copy(), expression=literal(1))),
    )
    return func("LIST_EXTRACT", array, at)


def _slice(array: Sql, start: Sql, stop: Sql | None = None) -> Sql:
    first = exp.Add(this=start, expression=literal(1))
    return func("LIST_SLICE", array, first, stop if stop is not None else func("LEN", array.copy()))


def _found(position: Sql) -> Sql:
    return exp.Sub(this=func("NULLIF", position, literal(0)), expression=literal(1))


def _sort(array: Sql, item: str, key: Body, _kind: Type, descending: bool) -> Sql:
    """Sorted structs of key, position and element; a position falls where the keys do."""
    row = f"{item}_row"

    def keyed(element: Sql, at: Sql) -> Sql:
        pairs = (("k", key(element, None)), ("i", exp.Neg(this=at) if descending else at), ("v", element.copy()))
        return func("STRUCT_PACK", *(exp.PropertyEQ(this=exp.to_identifier(n), expression=v) for n, v in pairs))

    parameters = [exp.to_identifier(item), exp.to_identifier(f"{item}_at")]
    rows = exp.Lambda(this=keyed(exp.column(item), exp.column(f"{item}_at")), expressions=parameters)
    made = func("LIST_SORT", func("LIST_TRANSFORM", array, rows), *([literal("DESC")] if descending else []))
    return func("LIST_TRANSFORM", made, lambda_(row, lambda x: exp.Dot(this=x, expression=exp.to_identifier("v"))))


def _unique(array: Sql, item: str, key: Body, _kind: Type) -> Sql:
    keys = func("LIST_TRANSFORM", array.copy(), lambda_(item, lambda x: key(x, None)))
    parameters = [exp.to_identifier(item), exp.to_identifier(f"{item}_at")]
    first = exp.EQ(this=func("LIST_POSITION", keys, key(exp.column(item), None)), expression=exp.column(f"{item}_at"))
    return func("LIST_FILTER", array, exp.Lambda(this=first, expressions=parameters))


ARRAYS: dict[str, Build] = {
    "map": _map,
    "unique": _unique,
    "flat_map": lambda *args: func("FLATTEN", _map(*args)),
    "sort": _sort,
    "sum": lambda array: cast(func("COALESCE", func("LIST_SUM", array), literal(0)), "BIGINT", safe=True),
    "array_concat": lambda *arrays: exp.paren(concat(*arrays), copy=False),  # LIST_CONCAT would leave a NULL out
    "where": _where,
    "exists": _exists,
    "element": _element,
    "array": lambda *values: exp.Array(expressions=list(values)),
    "array_index": lambda array, value: _found(func("LIST_POSITION", array, value)),
    "array_join": named_func("ARRAY_TO_STRING"),
    "array_slice": _slice,
    "field": lambda value, name, _kind: exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True)),
    "least": named_func("LEAST"),
    "sequence": named_func("RANGE"),
    "size": named_func("LEN"),
    "split": named_func("STRING_SPLIT"),
    "text_index": lambda text, part: _found(func("STRPOS", text, part)),
    "abs": named_func("ABS"),
}

# JSON -------------------------------------------------------------------------------------------------------------

_KINDS = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": ("BIGINT", "UBIGINT", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "null": ("NULL",),
}
_INTEGERS = ("BIGINT", "UBIGINT")


def _pointer(name: str) -> Sql:
    """RFC 6901: the one path syntax of DuckDB that takes every name."""
    return literal("/" + name.replace("~", "~0").replace("/", "~1"))


def _at(function: str, value: Sql) -> Sql:
    """``F(JSON_EXTRACT(doc, path))`` is ``F(doc, path)``."""
    if isinstance(value, exp.Anonymous) and value.this == "JSON_EXTRACT":
        return func(function, *value.expressions)
    return func(function, value, *([literal("$")] if function == "JSON_EXTRACT_STRING" else []))


def _kind(value: Sql, *labels: str) -> Sql:
    return exp.In(this=_at("JSON_TYPE", value), expressions=[literal(label) for label in labels])


def _string(value: Sql) -> Sql:
    return _at("JSON_EXTRACT_STRING", value)


def _number(value: Sql) -> Sql:
    return cast(_string(value), "DOUBLE", safe=True)


def _bigint(value: Sql) -> Sql:
    return cast(_string(value), "BIGINT", safe=True)


def _is_integer(value: Sql) -> Sql:
    # 1.0 is an integer in JSON Schema.
    whole = exp.EQ(this=_number(value.copy()), expression=func("TRUNC", _number(value.copy())))
    return any_of(_kind(value.copy(), *_INTEGERS), all_of(_kind(value, "DOUBLE"), whole))


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [label for kind in kinds if kind != "integer" for label in _KINDS[kind]]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        tests.append(_is_integer(value))
    return any_of(*tests)


def _items(value: Sql) -> Sql:
    return func("JSON_EXTRACT", value, literal("$[*]"))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    kept = func("LIST_FILTER", _items(value), lambda_(name, test))
    return exp.GT(this=func("LEN", kept), expression=literal(0))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    allowed = exp.Array(expressions=[literal(name) for name in names])
    if not names:
        return exp.GT(this=func("LEN", func("JSON_KEYS", value)), expression=literal(0))
    return exp.Not(this=func("LIST_HAS_ALL", allowed, func("JSON_KEYS", value)))


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: strings before a colon, once the strings are emptied."""
    emptied = func("REGEXP_REPLACE", text, literal(r'"(?:[^"\\]|\\.)*"'), literal('""'), literal("g"))
    marks = func("REGEXP_REPLACE", emptied, literal("[^:]+"), literal(""), literal("g"))
    return func("LENGTH", marks)


def _parse(text: Sql) -> Sql:
    """RFC 8259 and nothing else. DuckDB's parser also takes NaN, Infinity and trailing commas (measured on 2.0), and
    keeps repeated names; printed again from VARIANT each name stands once."""
    json = cast(text, "JSON", safe=True)
    emptied = func("REGEXP_REPLACE", text.copy(), literal(r'"(?:[^"\\]|\\.)*"'), literal('""'), literal("g"))
    loose = func("REGEXP_MATCHES", emptied, literal(r"(?i)nan|inf|,\s*[\]}]"))
    again = cast(cast(cast(json.copy(), "VARIANT"), "JSON"), "VARCHAR")
    repeated = exp.NEQ(this=_names(text.copy()), expression=_names(exp.Try(this=again)))
    brackets = func("LENGTH", func("REGEXP_REPLACE", emptied.copy(), literal(r"[^\[{]+"), literal(""), literal("g")))
    # Its parser recurses: 50,000 levels end the process (measured on 2.0).
    too_many = exp.GT(this=brackets, expression=literal(MAX_BRACKETS))
    return case((any_of(too_many, loose), literal(None)), (repeated, literal(None)), default=json)


JSON: dict[str, Callable[..., Any]] = {
    "parse": _parse,
    "accepted": lambda text: cast(text, "JSON"),
    "get": lambda value, name: func("JSON_EXTRACT", value, _pointer(name)),
    "is": _is,
    "string": _string,
    "number": _number,
    "bigint": _bigint,
    "any_item": _any_item,
    "count": lambda value: case((_kind(value, "ARRAY"), func("JSON_ARRAY_LENGTH", value.copy()))),
    "has_other_names": _has_other_names,
    "length": named_func("LENGTH"),
    "search": lambda text, pattern: func("REGEXP_MATCHES", text, literal(portable(pattern))),
    "trim": lambda text: func("TRIM", text, literal(BLANK)),
    "unfence": lambda text: (
        func("REGEXP_MATCHES", text, literal(FENCE)),
        func("REGEXP_EXTRACT", text.copy(), literal(FENCE), literal(1)),
    ),
    "let": lambda value, body: func(
        "LIST_EXTRACT",
        func("LIST_TRANSFORM", exp.Array(expressions=[value]), lambda_("doc", body)),
        literal(1),
    ),
    "first_word": lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
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
        case Array(item):
            name = f"x{depth}"
            elements = func("LIST_TRANSFORM", _items(value), lambda_(name, lambda x: column(x, item, depth + 1)))
            return case((_kind(value.copy(), "ARRAY"), elements))
        case Struct(fields):
            pairs = [
                exp.PropertyEQ(
                    this=exp.to_identifier(name, quoted=True),
                    expression=column(func("JSON_EXTRACT", value.copy(), _pointer(name)), field, depth),
                )
                for name, field in fields
            ]
            return case((_kind(value.copy(), "OBJECT"), exp.Struct(expressions=pairs)))
    return cast(_string(value), sql_type(kind), safe=True)


def response_format(_name: str, _schema: Any) -> Any:
    """A client asks the model here: see :mod:`sqlenrich.schema.vendor`."""
    return None


ENGINE = Engine(
    name="duckdb",
    dialect="duckdb",
    text={**TEXT, **ARRAYS},
    json=JSON,
    sha256=named_func("SHA256"),
    sql_type=sql_type,
    column=column,
    create_table_as=replace_table,
    settings="endpoint",
    facts={
        "call": Fact("a client of any OpenAI-compatible endpoint", "sqlenrich run", "2026-11-20"),
        "default_model": Fact(None, "the endpoint's own, named in sqlenrich.toml or by --model", "2026-11-20"),
    },
    params={"temperature": "temperature", "max_tokens": "max_tokens", "top_p": "top_p", "seed": "seed", "stop": "stop"},
    # https://platform.openai.com/docs/guides/reasoning: these models refuse sampling parameters and max_tokens.
    newer_params=(
        (
            r"(?i)(^|/)(gpt-5|o[134])([-.]|$)",
            {"max_tokens": "max_completion_tokens", "temperature": None, "top_p": None, "stop": None},
        ),
    ),
    response_format=response_format,
)
