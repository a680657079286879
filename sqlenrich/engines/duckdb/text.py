"""DuckDB's types, texts and arrays: the functions of the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal as PyDecimal

from sqlglot import exp

from sqlenrich.core.sql import (
    Build,
    Sql,
    all_of,
    any_of,
    case,
    cast,
    concat,
    data_type,
    func,
    lambda_,
    literal,
    named_func,
    wrapped,
)
from sqlenrich.core.text_functions import BLANK, LAST_WORD, TRAILING_ZEROS, Body, TextFunctions
from sqlenrich.core.types import INSTANT, Array, Coerced, Decimal, Scalar, Struct, Type
from sqlenrich.engines.shared.case_mapping import EXPANDING, FINAL_SIGMA, NEW_CASE, guarded, joined
from sqlenrich.engines.shared.numbers import double_divide, double_function, plain_decimal
from sqlenrich.engines.shared.timestamps import TextTimes

_TYPES = {
    "string": "VARCHAR",
    "json": "VARCHAR",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    INSTANT.name: "TIMESTAMPTZ",
    "timestamp": "TIMESTAMP",
}


def sql_type(value: Type) -> exp.DataType:
    """Return DuckDB's name of a portable type."""
    match value:
        case Coerced(kind):
            return sql_type(kind)
        case Scalar(name):
            return data_type(_TYPES[name], "duckdb")
        case Decimal(precision, scale):
            return data_type(f"DECIMAL({precision}, {scale})", "duckdb")
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
    """DuckDB maps each character to one character (2.0, measured over all of Unicode): replace ß first."""
    mapped = func("UPPER", func("REPLACE", text, literal("ß"), literal("SS")))
    return guarded(_matches, text, mapped, joined(EXPANDING, NEW_CASE))


def _lower(text: Sql) -> Sql:
    """DuckDB does not map a sigma at the end of a word to ς."""
    mapped = func("LOWER", func("REPLACE", text, literal("İ"), literal("i̇")))
    return guarded(_matches, text, mapped, f"{NEW_CASE}|{FINAL_SIGMA}")


def _text_timestamp(value: Sql) -> Sql:
    """Python prints microseconds only where they are not zero."""
    some = exp.NEQ(this=func("MICROSECOND", value), expression=func("SECOND", value.copy()) * literal(1_000_000))
    second = func("STRFTIME", value.copy(), literal("%Y-%m-%d %H:%M:%S"))
    return case((some, func("STRFTIME", value.copy(), literal("%Y-%m-%d %H:%M:%S.%f"))), default=second)


def _at_zone(instant: Sql, zone: Sql) -> Sql:
    return func("TIMEZONE", zone, instant)


def _local_time(value: Sql, zone: Sql) -> Sql:
    """EPOCH_US takes timestamps with and without a time zone, and refuses a text."""
    utc = func("MAKE_TIMESTAMP", func("EPOCH_US", value))
    if zone == literal("UTC"):
        return utc
    is_instant = exp.EQ(this=func("TYPEOF", value.copy()), expression=literal("TIMESTAMP WITH TIME ZONE"))
    return case((is_instant, _at_zone(func("TIMEZONE", literal("UTC"), utc), zone)), default=utc.copy())


def _no_timestamps(values: Sequence[Sql], problem: str) -> Sql:
    is_time = any_of(*(func("STARTS_WITH", func("TYPEOF", value), literal("TIMESTAMP")) for value in values))
    return case((is_time, func("ERROR", literal(problem))), default=literal(True))


_TIMES = TextTimes(
    matches=_matches,
    group=lambda number: rf"\{number}",
    local=lambda text: cast(text, "TIMESTAMP", safe=True),
    instant=lambda text: cast(text, "TIMESTAMPTZ", safe=True),
    at_zone=_at_zone,
)


def _decimal(value: str, scale: int) -> Sql:
    """A constant of at most 1 with the least precision. With more, DuckDB makes it and a precise decimal doubles."""
    return cast(exp.Literal.number(value), f"DECIMAL({max(scale, 1)}, {scale})")


def _round_decimal(value: Sql, digits: int, before: Decimal, kind: Decimal) -> Sql:
    """ROUND rounds a half away from zero, and ROUND_EVEN takes doubles only."""
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
    """DuckDB prints no zero before the point where the type has no digit there."""
    return cast(cast(value, f"DECIMAL(38, {kind.scale})") if kind.precision == kind.scale else value, "VARCHAR")


# Arrays: the contract counts positions from 0. DuckDB counts from 1 and gives NULL beyond the ends.


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
    """Sort structs of key, position and element; the position is negative in a descending sort, so ties keep order."""
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


TEXT = TextFunctions(
    upper=_upper,
    lower=_lower,
    trim=_trimming("TRIM"),
    ltrim=_trimming("LTRIM"),
    rtrim=_trimming("RTRIM"),
    replace=named_func("REPLACE"),
    translate=named_func("TRANSLATE"),
    cut_word=lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    length=named_func("LENGTH"),
    bytes=named_func("STRLEN"),
    substr=named_func("SUBSTRING"),
    greatest=named_func("GREATEST"),
    contains=named_func("CONTAINS"),
    startswith=named_func("STARTS_WITH"),
    endswith=named_func("ENDS_WITH"),
    text_bigint=lambda value: cast(value, "VARCHAR"),
    text_date=lambda value: cast(value, "VARCHAR"),
    try_add=lambda a, b: exp.Try(this=exp.Add(this=wrapped(a), expression=wrapped(b))),
    try_subtract=lambda a, b: exp.Try(this=exp.Sub(this=wrapped(a), expression=wrapped(b))),
    try_multiply=lambda a, b: exp.Try(this=exp.Mul(this=wrapped(a), expression=wrapped(b))),
    try_negative=lambda a: exp.Try(this=exp.Neg(this=wrapped(a))),
    double=lambda value: cast(value, "DOUBLE"),
    double_add=double_function(exp.Add),
    double_subtract=double_function(exp.Sub),
    double_multiply=double_function(exp.Mul),
    double_divide=double_divide,
    double_abs=named_func("ABS"),
    double_of_text=lambda text: cast(func("TRIM", text, literal(BLANK)), "DOUBLE"),
    is_nan=named_func("ISNAN"),
    floor=named_func("FLOOR"),
    ceil=named_func("CEIL"),
    truncated=lambda value: cast(func("TRUNC", value), "BIGINT", safe=True),
    round=lambda value, digits: cast(func("PRINTF", literal(f"%.{digits}f"), value), "DOUBLE"),
    decimal=plain_decimal,
    round_decimal=_round_decimal,
    fixed=lambda value, digits: func("PRINTF", literal(f"%.{digits}f"), value),
    strip_zeros=lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    text_double=lambda value, _: cast(value, "VARCHAR"),
    text_decimal=_text_decimal,
    text_timestamp=_text_timestamp,
    at_zone=_at_zone,
    local_time=_local_time,
    no_timestamps=_no_timestamps,
    time_of_text=_TIMES.read,
    constant_time=lambda written: cast(literal(written), "TIMESTAMP"),
    date_of_time=lambda value: cast(value, "DATE"),
    year=named_func("YEAR"),
    month=named_func("MONTH"),
    day=named_func("DAY"),
    hour=named_func("HOUR"),
    minute=named_func("MINUTE"),
    second=named_func("SECOND"),
    divide_whole=lambda a, b: exp.IntDiv(this=wrapped(a), expression=wrapped(b)),
    bigint=lambda text: cast(func("TRIM", text, literal(BLANK)), "BIGINT", safe=True),
    matches=_matches,
    map=_map,
    unique=_unique,
    flat_map=lambda *args: func("FLATTEN", _map(*args)),
    sort=_sort,
    sum=lambda array: cast(func("COALESCE", func("LIST_SUM", array), literal(0)), "BIGINT", safe=True),
    array_concat=lambda *arrays: exp.paren(concat(*arrays), copy=False),  # LIST_CONCAT skips a NULL
    where=_where,
    exists=_exists,
    element=_element,
    array=lambda *values: exp.Array(expressions=list(values)),
    array_index=lambda array, value: _found(func("LIST_POSITION", array, value)),
    array_join=named_func("ARRAY_TO_STRING"),
    array_slice=_slice,
    struct=lambda fields: func(
        "STRUCT_PACK",
        *(exp.PropertyEQ(this=exp.to_identifier(name, quoted=True), expression=v) for name, v in fields.items()),
    ),
    field=lambda value, name, _kind: exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True)),
    least=named_func("LEAST"),
    sequence=named_func("RANGE"),
    size=named_func("LEN"),
    split=named_func("STRING_SPLIT"),
    text_index=lambda text, part: _found(func("STRPOS", text, part)),
)
