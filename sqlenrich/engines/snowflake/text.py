"""Snowflake's types, texts and arrays: the functions of the prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from sqlenrich.core.sql import (
    Sql,
    all_of,
    any_of,
    case,
    cast,
    concat,
    data_type,
    double,
    func,
    lambda_,
    literal,
    named_func,
    wrapped,
)
from sqlenrich.core.text_functions import BLANK, LAST_WORD, TRAILING_ZEROS, Body, TextFunctions
from sqlenrich.core.types import BOOLEAN, INSTANT, TIMESTAMP, Array, Coerced, Decimal, Scalar, Struct, Type
from sqlenrich.engines.shared import case_mapping as casing
from sqlenrich.engines.shared.numbers import double_divide, double_function, half_even, plain_decimal
from sqlenrich.engines.shared.timestamps import TextTimes

_TYPES = {
    "string": "VARCHAR",
    "json": "VARCHAR",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    INSTANT.name: "TIMESTAMP_TZ",
}


def sql_type(value: Type) -> exp.DataType:
    """Return Snowflake's type of a portable type; arrays and structs are its semi-structured ones."""
    match value:
        case Coerced(kind):
            return sql_type(kind)
        case Scalar("timestamp"):
            # sqlglot prints TIMESTAMPNTZ, which other tools do not parse.
            return exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="TIMESTAMP_NTZ")
        case Scalar(name):
            return data_type(_TYPES[name], "snowflake")
        case Decimal(precision, scale):
            return data_type(f"DECIMAL({precision}, {scale})", "snowflake")
        case Array():
            return data_type("ARRAY", "snowflake")
        case Struct():
            return data_type("OBJECT", "snowflake")


def exploded(select: exp.Select, array: Sql, name: exp.Identifier) -> exp.Select:
    """Return the SELECT with a row for each element of an array, by a join with FLATTEN."""
    alias = exp.TableAlias(this=exp.to_identifier("exploded"))
    rows = exp.Lateral(this=func("FLATTEN", INPUT=array), alias=alias)
    value = exp.Alias(this=string_of(exp.column("value", table="exploded")), alias=name)
    return select.select(value, copy=False).join(rows, join_type="CROSS", copy=False)


def string_of(value: Sql) -> Sql:
    """Return a value cast to text."""
    return cast(value, sql_type(Scalar("string")))


_CONTROL = {r"\t": "\t", r"\r": "\r", r"\n": "\n", r"\f": "\f", r"\v": "\v"}


def regex(pattern: str) -> Sql:
    r"""Return a pattern with ``\t`` and the like replaced by the characters: Snowflake does not document such escapes.

    https://docs.snowflake.com/en/sql-reference/functions-regexp
    """
    return literal(re.sub(r"\\.", lambda found: _CONTROL.get(found[0], found[0]), pattern, flags=re.DOTALL))


def matches(text: Sql, pattern: Sql) -> Sql:
    """Search with REGEXP_INSTR: REGEXP_LIKE anchors the pattern at both ends."""
    pattern = regex(pattern.name) if pattern.is_string else pattern
    return exp.GT(this=func("REGEXP_INSTR", text, pattern), expression=literal(0))


def _double(value: Sql) -> Sql:
    return cast(value, sql_type(Scalar("double")))


def _nearest(value: Sql) -> Sql:
    """ROUND rounds a half away from zero. A number with a half is halved first: the result then has no half."""
    half = exp.EQ(
        this=func("ABS", exp.Sub(this=wrapped(value), expression=func("TRUNC", value.copy()))), expression=double(0.5)
    )
    halved = func("ROUND", exp.Mul(this=wrapped(value.copy()), expression=double(0.5)))
    return case((half, exp.Mul(this=double(2.0), expression=halved)), default=func("ROUND", value.copy()))


def _fixed(value: Sql, digits: int) -> Sql:
    text = cast(exp.Cast(this=value, to=data_type(f"DECIMAL(38, {digits})")), sql_type(Scalar("string")))
    negative_zero = all_of(
        exp.EQ(this=value.copy(), expression=double(0.0)),
        exp.EQ(this=cast(value.copy(), sql_type(Scalar("string"))), expression=literal("-0")),
    )
    return concat(case((negative_zero, literal("-")), default=literal("")), text)


def _text_double(value: Sql, digits: int) -> Sql:
    """A cast prints 3.0 as 3."""
    text = _fixed(value, max(digits, 1))
    return text if digits < 2 else func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2"))


def _truncated(value: Sql) -> Sql:
    bound = double(float(2**63))
    inside = all_of(
        exp.GT(this=value, expression=exp.Neg(this=bound)), exp.LT(this=value.copy(), expression=bound.copy())
    )
    return case((inside, cast(func("TRUNC", value.copy()), sql_type(Scalar("bigint")))))


def _divide_whole(a: Sql, b: Sql) -> Sql:
    """A quotient is rounded to six decimals. Subtract the remainder first: the quotient is then whole."""
    whole = exp.paren(exp.Sub(this=wrapped(a), expression=func("MOD", a.copy(), b.copy())))
    return func("TRUNC", exp.Div(this=whole, expression=wrapped(b), typed=True))


def within_64_bits(number: Sql) -> Sql:
    inside = exp.Between(this=wrapped(number), low=literal(-(2**63)), high=literal(2**63 - 1))
    return case((inside, number.copy()))


def _text_timestamp(value: Sql) -> Sql:
    """Python prints microseconds only where they are not zero."""
    some = exp.NEQ(this=func("TO_CHAR", value, literal("FF6")), expression=literal("000000"))
    second = func("TO_CHAR", value.copy(), literal("YYYY-MM-DD HH24:MI:SS"))
    return case((some, func("TO_CHAR", value.copy(), literal("YYYY-MM-DD HH24:MI:SS.FF6"))), default=second)


def _local(value: Sql) -> Sql:
    return cast(value, sql_type(TIMESTAMP))


def _at_zone(instant: Sql, zone: Sql) -> Sql:
    """A TIMESTAMP_TZ that is cast to TIMESTAMP_NTZ keeps its local time and loses its offset."""
    return _local(func("CONVERT_TIMEZONE", zone, instant))


def _local_time(value: Sql, zone: Sql) -> Sql:
    """The type is asked at run time. A cast of a text to TIMESTAMP_NTZ drops its offset; a format refuses it.

    https://docs.snowflake.com/en/sql-reference/functions/typeof
    """
    instant = cast(value.copy(), exp.DataType(this=exp.DataType.Type.USERDEFINED, kind="TIMESTAMP_TZ"))
    at_zone = _at_zone(instant, zone)
    form = literal("YYYY-MM-DD HH24:MI:SS")
    return exp.Case(
        this=func("TYPEOF", func("TO_VARIANT", value)),
        ifs=[
            exp.If(this=literal("TIMESTAMP_TZ"), true=at_zone),
            exp.If(this=literal("TIMESTAMP_LTZ"), true=at_zone.copy()),
            exp.If(this=literal("VARCHAR"), true=func("TO_TIMESTAMP_NTZ", string_of(value.copy()), form)),
        ],
        default=_local(value.copy()),
    )


def _no_timestamps(values: Sequence[Sql], problem: str) -> Sql:
    """A text that is no boolean fails its cast, as no function raises. It reads the row, so that it is no constant."""
    kinds = [func("TYPEOF", func("TO_VARIANT", value)) for value in values]
    is_time = any_of(*(func("STARTSWITH", kind, literal("TIMESTAMP")) for kind in kinds))
    failed = cast(concat(literal(f"{problem}: "), kinds[0].copy()), sql_type(BOOLEAN))
    return case((is_time, failed), default=literal(True))


_TIMES = TextTimes(
    matches=matches,
    group=lambda number: rf"\{number}",
    local=named_func("TRY_TO_TIMESTAMP_NTZ"),
    instant=named_func("TRY_TO_TIMESTAMP_TZ"),
    at_zone=_at_zone,
)


# The documentation of UPPER and LOWER names neither a version of Unicode nor what happens to a final sigma and to
# characters that become several (https://docs.snowflake.com/en/sql-reference/functions/upper, .../lower). All of these
# give NULL.


def _upper(text: Sql) -> Sql:
    return casing.guarded(matches, text, func("UPPER", text), casing.plain(casing.joined("[ß]", *_UPPER_GUARDS)))


def _lower(text: Sql) -> Sql:
    return casing.guarded(matches, text, func("LOWER", text), casing.plain(_LOWER_GUARD))


_UPPER_GUARDS = (casing.EXPANDING, casing.NEW_CASE)
_LOWER_GUARD = f"{casing.joined('[İ]', casing.NEW_CASE)}|{casing.FINAL_SIGMA}"

# Arrays are semi-structured. An element is a VARIANT and is cast where it is read, which turns a JSON null into NULL.


def _typed(value: Sql, kind: Type) -> Sql:
    match kind:
        case Scalar() if kind == INSTANT:  # a cast of a VARIANT would drop its offset
            return value
        case Array():
            return func("AS_ARRAY", value)
        case Struct():
            return func("AS_OBJECT", value)
    return cast(value, sql_type(kind))


def _map(array: Sql, item: str, position: str | None, body: Body, kind: Type) -> Sql:
    """A lambda gets no position: map over the positions, and read each element by its position."""
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
    """Integers have 38 digits here: give NULL for a sum beyond 64 bits."""
    parameters = [exp.to_identifier("total"), exp.to_identifier("x")]
    item = cast(exp.column("x"), sql_type(Scalar("bigint")))
    added = exp.Lambda(this=exp.Add(this=exp.column("total"), expression=item), expressions=parameters)
    made = func("REDUCE", array, literal(0), added)
    return within_64_bits(made)


def _concatenated(first: Sql, *rest: Sql) -> Sql:
    for array in rest:
        first = func("ARRAY_CAT", first, array)
    return first


def _unique(array: Sql, item: str, key: Body, kind: Type) -> Sql:
    """A lambda gets no position: map over the positions, and read each element by its position."""
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


TEXT = TextFunctions(
    upper=_upper,
    lower=_lower,
    trim=named_func("TRIM"),
    ltrim=named_func("LTRIM"),
    rtrim=named_func("RTRIM"),
    replace=named_func("REPLACE"),
    translate=named_func("TRANSLATE"),
    cut_word=lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    length=named_func("LENGTH"),
    bytes=named_func("OCTET_LENGTH"),
    substr=named_func("SUBSTR"),
    greatest=named_func("GREATEST"),
    contains=named_func("CONTAINS"),
    startswith=named_func("STARTSWITH"),
    endswith=named_func("ENDSWITH"),
    text_bigint=lambda value: cast(value, sql_type(Scalar("string"))),
    text_date=lambda value: func("TO_CHAR", value, literal("YYYY-MM-DD")),
    # Integers have 38 digits here: a sum of two can not overflow, a product beyond 64 bits becomes NULL.
    try_add=lambda a, b: exp.Add(this=wrapped(a), expression=wrapped(b)),
    try_subtract=lambda a, b: exp.Sub(this=wrapped(a), expression=wrapped(b)),
    try_multiply=lambda a, b: within_64_bits(exp.Mul(this=wrapped(a), expression=wrapped(b))),
    try_negative=lambda a: exp.Neg(this=wrapped(a)),
    double=lambda value: _double(value),
    double_add=double_function(exp.Add),
    double_subtract=double_function(exp.Sub),
    double_multiply=double_function(exp.Mul),
    double_divide=double_divide,
    double_abs=named_func("ABS"),
    double_of_text=lambda text: _double(func("TRIM", text, literal(BLANK))),
    is_nan=lambda value: exp.EQ(this=value, expression=_double(literal("NaN"))),
    floor=named_func("FLOOR"),
    ceil=named_func("CEIL"),
    truncated=_truncated,
    round=lambda value, digits: half_even(value, digits, _nearest),
    decimal=plain_decimal,
    round_decimal=lambda value, digits, *_: func("ROUND", value, literal(digits), literal("HALF_TO_EVEN")),
    fixed=lambda value, digits: _fixed(half_even(value, digits, _nearest), digits),
    strip_zeros=lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    text_double=_text_double,
    text_decimal=lambda value, _: cast(value, sql_type(Scalar("string"))),
    text_timestamp=_text_timestamp,
    at_zone=_at_zone,
    local_time=_local_time,
    no_timestamps=_no_timestamps,
    time_of_text=_TIMES.read,
    constant_time=lambda written: _local(literal(written)),
    date_of_time=lambda value: cast(value, "DATE"),
    year=named_func("YEAR"),
    month=named_func("MONTH"),
    day=named_func("DAY"),
    hour=named_func("HOUR"),
    minute=named_func("MINUTE"),
    second=named_func("SECOND"),
    divide_whole=_divide_whole,
    matches=matches,
    bigint=lambda text: func("TRY_TO_NUMBER", func("TRIM", text, literal(BLANK)), literal(38), literal(0)),
    map=_map,
    unique=_unique,
    flat_map=lambda *args: func("ARRAY_FLATTEN", _map(*args)),
    sum=_sum,
    array_concat=_concatenated,
    where=_where,
    exists=_exists,
    element=_element,
    array=named_func("ARRAY_CONSTRUCT"),
    array_index=lambda array, value: func("ARRAY_POSITION", func("TO_VARIANT", value), array),
    array_join=named_func("ARRAY_TO_STRING"),
    array_slice=_slice,
    struct=lambda fields: func(
        "OBJECT_CONSTRUCT_KEEP_NULL", *(part for name, v in fields.items() for part in (literal(name), v))
    ),
    field=lambda value, name, kind: _typed(func("GET", value, literal(name)), kind),
    least=named_func("LEAST"),
    sequence=lambda count: func("ARRAY_GENERATE_RANGE", literal(0), func("GREATEST", count, literal(0))),
    size=named_func("ARRAY_SIZE"),
    split=named_func("SPLIT"),
    text_index=lambda text, part: _found(func("POSITION", part, text)),
)
