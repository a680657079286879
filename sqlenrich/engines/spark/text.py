"""The types, texts and arrays of Spark 4 and Databricks: the functions of the prompts. Measured on 4.3."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlenrich.core.sql import Build, Sql, any_of, case, data_type, func, lambda_, literal, named_func, wrapped
from sqlenrich.core.text_functions import BLANK, LAST_WORD, TRAILING_ZEROS, Body, TextFunctions
from sqlenrich.core.types import INSTANT, Array, Coerced, Decimal, Scalar, Struct, Type
from sqlenrich.engines.shared import case_mapping as casing
from sqlenrich.engines.shared.numbers import double_divide, double_function, half_even, plain_decimal
from sqlenrich.engines.shared.timestamps import TextTimes

_TYPES = {
    "string": "STRING",
    "json": "STRING",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    INSTANT.name: "TIMESTAMP",
    "timestamp": "TIMESTAMP",
}


def type_text(value: Type) -> str:
    """Return Spark's name of a portable type."""
    match value:
        case Coerced(kind):
            return type_text(kind)
        case Scalar(name):
            return _TYPES[name]
        case Decimal(precision, scale):
            return f"DECIMAL({precision}, {scale})"
        case Array(item):
            return f"ARRAY<{type_text(item)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(f'{_quoted(name)}: {type_text(kind)}' for name, kind in fields)}>"


def sql_type(value: Type) -> exp.DataType:
    """Return Spark's type of a portable type."""
    return data_type(type_text(value), "spark")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def try_cast(value: Sql, to: str) -> Sql:
    """Return TRY_CAST. sqlglot prints its own node as CAST for Spark, which fails the query at the first bad value."""
    return func("TRY_CAST", exp.Alias(this=value, alias=exp.var(to)))


def _trimming(position: str) -> Build:
    return lambda text, chars: exp.Trim(this=text, expression=chars, position=position)


def _cast(value: Sql, to: str) -> Sql:
    return exp.Cast(this=value, to=data_type(to, "spark"))


def _text_double(value: Sql, digits: int) -> Sql:
    """A cast prints ten million as 1.0E7."""
    text = func("FORMAT_STRING", literal(f"%.{max(digits, 1)}f"), value)
    return text if digits < 2 else func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal("$1$2"))


def _text_timestamp(value: Sql) -> Sql:
    """A cast prints the decimals up to the last that is not zero. DATE_FORMAT would take the session's time zone."""
    text = _cast(value, "STRING")
    some = exp.GT(this=func("LENGTH", text), expression=literal(len("2026-01-31 09:05:07")))
    padded = func("RPAD", text.copy(), literal(len("2026-01-31 09:05:07.000000")), literal("0"))
    return case((some, padded), default=text.copy())


def _at_zone(instant: Sql, zone: Sql) -> Sql:
    """Count from 1970 in TIMESTAMP_NTZ: whatever else reads an instant takes the session's time zone."""
    seconds = exp.Mul(this=func("UNIX_MICROS", instant), expression=exp.Literal.number("0.000001"))
    zero = literal(0)
    since = func("MAKE_DT_INTERVAL", zero, zero.copy(), zero.copy(), seconds)
    utc = exp.Add(this=func("TO_TIMESTAMP_NTZ", literal("1970-01-01 00:00:00")), expression=since)
    return exp.paren(utc) if zone == literal("UTC") else func("CONVERT_TIMEZONE", literal("UTC"), zone, utc)


def _local_time(value: Sql, zone: Sql) -> Sql:
    """A cast of a text to TIMESTAMP_NTZ drops its offset."""
    return exp.Case(
        this=func("TYPEOF", value),
        ifs=[
            exp.If(this=literal("timestamp"), true=_at_zone(_cast(value.copy(), "TIMESTAMP"), zone)),
            exp.If(this=literal("string"), true=func("RAISE_ERROR", literal(_IS_TEXT))),
        ],
        default=func("CAST", exp.Alias(this=value.copy(), alias=exp.var("TIMESTAMP_NTZ"))),
    )


def _no_timestamps(values: Sequence[Sql], problem: str) -> Sql:
    """TYPEOF is constant for a column: the optimizer removes the test."""
    is_time = any_of(*(func("STARTSWITH", func("TYPEOF", value), literal("timestamp")) for value in values))
    return case((is_time, func("RAISE_ERROR", literal(problem))), default=literal(True))


_IS_TEXT = "a column that the header calls a timestamp is a text in the source; cast it in a source query"


matches = named_func("REGEXP_LIKE")
_TIMES = TextTimes(
    matches=matches,
    group=lambda number: f"${number}",
    local=lambda text: try_cast(text, "TIMESTAMP_NTZ"),
    instant=lambda text: try_cast(text, "TIMESTAMP"),
    at_zone=_at_zone,
)
_contains = named_func("CONTAINS")

# Arrays: positions count from 0.


def _map(array: Sql, item: str, position: str | None, body: Body, _kind: Type) -> Sql:
    if position is None:
        return func("TRANSFORM", array, lambda_(item, lambda x: body(x, None)))
    parameters = [exp.to_identifier(item), exp.to_identifier(position)]
    inner = body(exp.column(item), exp.column(position))
    return func("TRANSFORM", array, exp.Lambda(this=inner, expressions=parameters))


def _exists(array: Sql, item: str, position: str | None, test: Body, kind: Type) -> Sql:
    if position is None:
        return func("EXISTS", array, lambda_(item, lambda x: func("COALESCE", test(x, None), literal(False))))
    found = _map(array, item, position, lambda x, i: func("COALESCE", test(x, i), literal(False)), kind)
    return func("ARRAY_CONTAINS", found, literal(True))


def _element(array: Sql, index: Sql, _kind: Type) -> Sql:
    """GET gives NULL beyond the ends; brackets and ELEMENT_AT fail the query."""
    if isinstance(index, exp.Literal):
        return func("GET", array, index)
    from_end = exp.Add(this=func("ARRAY_SIZE", array.copy()), expression=index.copy())
    if isinstance(index, exp.Neg):
        return func("GET", array, from_end)
    at = case((exp.LT(this=index, expression=literal(0)), from_end), default=index.copy())
    return func("GET", array, try_cast(at, "INT"))


def _slice(array: Sql, start: Sql, stop: Sql | None = None) -> Sql:
    end = stop if stop is not None else func("ARRAY_SIZE", array.copy())
    size = func("GREATEST", exp.Sub(this=wrapped(end), expression=wrapped(start.copy())), literal(0))
    return func("SLICE", array, _int(exp.Add(this=wrapped(start), expression=literal(1))), _int(size))


def _int(value: Sql) -> Sql:
    """Array functions take INT. A cast of a number beyond INT fails the query; no array is that long."""
    if isinstance(value, exp.Literal):
        return value
    return exp.Cast(this=value, to=data_type("INT", "spark"))


def _sequence(count: Sql) -> Sql:
    """SEQUENCE(0, -1) counts down: give an empty array instead."""
    empty = exp.Cast(this=func("ARRAY"), to=data_type("ARRAY<BIGINT>", "spark"))
    last = exp.Sub(this=exp.paren(count.copy(), copy=False), expression=literal(1))
    return case(
        (exp.GT(this=count, expression=literal(0)), func("SEQUENCE", _bigint(literal(0)), _bigint(last))), default=empty
    )


def _bigint(value: Sql) -> Sql:
    return exp.Cast(this=value, to=data_type("BIGINT", "spark"))


def _found(position: Sql) -> Sql:
    return exp.Sub(this=func("NULLIF", position, literal(0)), expression=literal(1))


def _sort(array: Sql, item: str, key: Body, _kind: Type, descending: bool) -> Sql:
    """Sort structs of key, position and element; the position is negative in a descending sort, so ties keep order."""
    at = exp.column(f"{item}_at")
    row = func(
        "NAMED_STRUCT",
        *(literal("k"), key(exp.column(item), None)),
        *(literal("i"), exp.Neg(this=at) if descending else at),
        *(literal("v"), exp.column(item)),
    )
    parameters = [exp.to_identifier(item), exp.to_identifier(f"{item}_at")]
    rows = func("TRANSFORM", array, exp.Lambda(this=row, expressions=parameters))
    made = func("SORT_ARRAY", rows, literal(not descending))
    element = exp.to_identifier("v")
    return func("TRANSFORM", made, lambda_(f"{item}_row", lambda x: exp.Dot(this=x, expression=element)))


def _sum(array: Sql) -> Sql:
    parameters = [exp.to_identifier("total"), exp.to_identifier("x")]
    added = exp.Lambda(this=func("TRY_ADD", exp.column("total"), exp.column("x")), expressions=parameters)
    return func("AGGREGATE", array, _bigint(literal(0)), added)


def _unique(array: Sql, item: str, key: Body, _kind: Type) -> Sql:
    keys = func("TRANSFORM", array.copy(), lambda_(item, lambda x: key(x, None)))
    parameters = [exp.to_identifier(item), exp.to_identifier(f"{item}_at")]
    place = exp.Add(this=exp.column(f"{item}_at"), expression=literal(1))
    first = exp.EQ(this=func("ARRAY_POSITION", keys, key(exp.column(item), None)), expression=place)
    return func("FILTER", array, exp.Lambda(this=first, expressions=parameters))


TEXT = TextFunctions(
    upper=casing.upper(matches),
    lower=casing.lower(matches, _contains),
    trim=_trimming("BOTH"),
    ltrim=_trimming("LEADING"),
    rtrim=_trimming("TRAILING"),
    replace=named_func("REPLACE"),
    translate=named_func("TRANSLATE"),
    cut_word=lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    length=named_func("CHAR_LENGTH"),
    bytes=named_func("OCTET_LENGTH"),
    substr=named_func("SUBSTRING"),
    greatest=named_func("GREATEST"),
    contains=_contains,
    startswith=named_func("STARTSWITH"),
    endswith=named_func("ENDSWITH"),
    text_bigint=lambda value: exp.Cast(this=value, to=data_type("STRING", "spark")),
    text_date=lambda value: exp.Cast(this=value, to=data_type("STRING", "spark")),
    try_add=named_func("TRY_ADD"),
    try_subtract=named_func("TRY_SUBTRACT"),
    try_multiply=named_func("TRY_MULTIPLY"),
    try_negative=lambda value: func("TRY_SUBTRACT", literal(0), value),
    double=lambda value: _cast(value, "DOUBLE"),
    double_add=double_function(exp.Add),
    double_subtract=double_function(exp.Sub),
    double_multiply=double_function(exp.Mul),
    double_divide=double_divide,
    double_abs=named_func("ABS"),
    double_of_text=lambda text: _cast(exp.Trim(this=text, expression=literal(BLANK), position="BOTH"), "DOUBLE"),
    is_nan=named_func("ISNAN"),
    floor=lambda value: _cast(func("FLOOR", value), "DOUBLE"),
    ceil=lambda value: _cast(func("CEIL", value), "DOUBLE"),
    truncated=lambda value: try_cast(value, "BIGINT"),
    round=lambda value, digits: half_even(value, digits, named_func("RINT")),
    decimal=plain_decimal,
    round_decimal=lambda value, digits, *_: func("BROUND", value, literal(digits)),
    fixed=lambda value, digits: func(
        "FORMAT_STRING", literal(f"%.{digits}f"), half_even(value, digits, named_func("RINT"))
    ),
    strip_zeros=lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal("$1$2")),
    text_double=_text_double,
    text_decimal=lambda value, _: _cast(value, "STRING"),
    text_timestamp=_text_timestamp,
    at_zone=_at_zone,
    local_time=_local_time,
    no_timestamps=_no_timestamps,
    time_of_text=_TIMES.read,
    constant_time=lambda written: func("TO_TIMESTAMP_NTZ", literal(written)),
    date_of_time=lambda value: _cast(value, "DATE"),
    year=named_func("YEAR"),
    month=named_func("MONTH"),
    day=named_func("DAY"),
    hour=named_func("HOUR"),
    minute=named_func("MINUTE"),
    second=named_func("SECOND"),
    divide_whole=lambda a, b: exp.IntDiv(this=wrapped(a), expression=wrapped(b)),
    matches=matches,
    bigint=lambda text: try_cast(exp.Trim(this=text, expression=literal(BLANK), position="BOTH"), "BIGINT"),
    map=_map,
    unique=_unique,
    flat_map=lambda *args: func("FLATTEN", _map(*args)),
    sort=_sort,
    sum=_sum,
    array_concat=named_func("CONCAT"),
    where=lambda array, item, test, _kind: func("FILTER", array, lambda_(item, lambda x: test(x, None))),
    exists=_exists,
    element=_element,
    array=named_func("ARRAY"),
    array_index=lambda array, value: _found(func("ARRAY_POSITION", array, value)),
    array_join=named_func("ARRAY_JOIN"),
    array_slice=_slice,
    struct=lambda fields: func("NAMED_STRUCT", *(part for name, v in fields.items() for part in (literal(name), v))),
    field=lambda value, name, _kind: exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True)),
    least=named_func("LEAST"),
    sequence=_sequence,
    size=lambda array: _bigint(func("ARRAY_SIZE", array)),
    split=lambda text, separator: func("SPLIT", text, literal("\\Q" + separator.this + "\\E"), literal(-1)),
    text_index=lambda text, part: _found(func("INSTR", text, part)),
)
