"""BigQuery's types, texts and arrays: the functions of the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlglot import exp

from sqlenrich.core.sql import Build, Sql, all_of, any_of, case, concat, data_type, double, func, literal, named_func
from sqlenrich.core.text_functions import BLANK, LAST_WORD, TRAILING_ZEROS, Body, TextFunctions
from sqlenrich.core.types import INSTANT, Array, Coerced, Decimal, Scalar, Struct, Type
from sqlenrich.engines.shared import case_mapping as casing
from sqlenrich.engines.shared.timestamps import TextTimes

_TYPES = {
    "string": "STRING",
    "json": "STRING",
    "bigint": "INT64",
    "double": "FLOAT64",
    "boolean": "BOOL",
    "date": "DATE",
    INSTANT.name: "TIMESTAMP",
    "timestamp": "TIMESTAMP",
}


ELEMENT = "element"
"""The field that holds an array inside an array: BigQuery has no arrays of arrays, but arrays of structs."""


def type_text(value: Type) -> str:
    """Return BigQuery's name of a portable type."""
    match value:
        case Coerced(read):
            return type_text(read)
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
    """Return BigQuery's type of a portable type."""
    return data_type(type_text(value), "bigquery")


def safe_cast(value: Sql, to: str) -> Sql:
    """Return SAFE_CAST."""
    return exp.TryCast(this=value, to=data_type(to, "bigquery"))


def text_of(value: Sql) -> Sql:
    """Return a value cast to text."""
    return exp.Cast(this=value, to=data_type("STRING", "bigquery"))


def _double(value: Sql) -> Sql:
    return exp.Cast(this=value, to=data_type("FLOAT64", "bigquery"))


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
    """A cast prints 3.0 as 3."""
    text = func("FORMAT", literal(f"%.{max(digits, 1)}f"), value)
    if digits > 1:
        text = func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2"))
    return _with_sign(value.copy(), text)


def _text_timestamp(value: Sql) -> Sql:
    """Python prints microseconds only where they are not zero."""
    some = exp.NEQ(this=func("FORMAT_DATETIME", literal("%E6f"), value), expression=literal("000000"))
    second = func("FORMAT_DATETIME", literal("%F %H:%M:%S"), value.copy())
    return case((some, func("FORMAT_DATETIME", literal("%F %H:%M:%E6S"), value.copy())), default=second)


def _at_zone(instant: Sql, zone: Sql) -> Sql:
    return func("DATETIME", instant, zone)


def _local_time(value: Sql, zone: Sql) -> Sql:
    """JSON has a TIMESTAMP in UTC with a Z, and a DATETIME without one. No function takes both types.

    https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/json_functions#json_encodings
    """
    written = func("NULLIF", func("TO_JSON_STRING", value), literal("null"))
    text = func("TRIM", written, literal('"'))
    instant = exp.Cast(this=text, to=data_type("TIMESTAMP", "bigquery"))
    local = exp.Cast(this=text.copy(), to=data_type("DATETIME", "bigquery"))
    return case((func("ENDS_WITH", text.copy(), literal("Z")), _at_zone(instant, zone)), default=local)


def _no_timestamps(values: Sequence[Sql], problem: str) -> Sql:
    """A value as a literal begins with its type, and a text with a quote.

    https://docs.cloud.google.com/bigquery/docs/reference/standard-sql/format-elements#t_and_t_behavior
    """
    form, types = literal("%T"), literal("^(TIMESTAMP|DATETIME) ")
    is_time = any_of(*(func("REGEXP_CONTAINS", func("FORMAT", form.copy(), v), types.copy()) for v in values))
    return case((is_time, func("ERROR", literal(problem))), default=literal(True))


_TIMES = TextTimes(
    matches=named_func("REGEXP_CONTAINS"),
    group=lambda number: rf"\{number}",
    local=lambda text: safe_cast(text, "DATETIME"),
    instant=lambda text: safe_cast(text, "TIMESTAMP"),
    at_zone=_at_zone,
)


def _extract(part: str) -> Build:
    return lambda value: exp.Extract(this=exp.var(part), expression=value)


def _contains(text: Sql, part: Sql) -> Sql:
    return exp.GT(this=func("STRPOS", text, part), expression=literal(0))


_matches = named_func("REGEXP_CONTAINS")

# Arrays are subqueries over UNNEST. Its rows have no order without WITH OFFSET.


def _rows(array: Sql, item: str, position: str) -> exp.Unnest:
    return exp.Unnest(
        expressions=[array],
        alias=exp.TableAlias(columns=[exp.to_identifier(item)]),
        offset=exp.to_identifier(position),
    )


def exploded(select: exp.Select, array: Sql, name: exp.Identifier) -> exp.Select:
    """Return the SELECT with a row for each element of an array, by a join with the array."""
    rows = exp.Unnest(expressions=[array], alias=exp.TableAlias(columns=[name]))
    return select.select(exp.column(name.copy()), copy=False).join(rows, join_type="CROSS", copy=False)


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
    """Names for an element and its position that do not occur in these values."""
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


def boxed(value: Sql) -> Sql:
    """Return an array in a struct: BigQuery has no arrays of arrays."""
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
    """SUM of INT64 fails the query beyond 64 bits: sum as BIGNUMERIC."""
    item, at = _unused()
    wide = exp.Cast(this=exp.column(item), to=data_type("BIGNUMERIC", "bigquery"))
    query = exp.select(func("SUM", wide), copy=False).from_(_rows(array, item, at), copy=False)
    return safe_cast(func("COALESCE", query.subquery(copy=False), literal(0)), "INT64")


def _is_size(count: Sql) -> bool:
    return isinstance(count, exp.Anonymous) and count.this in ("ARRAY_LENGTH", "LENGTH")


def _unique(array: Sql, item: str, key: Body, _kind: Type) -> Sql:
    at = exp.column(f"{item}_at")
    first = exp.HavingMax(this=exp.column(item), expression=at, max=False)
    query = exp.select(func("ANY_VALUE", first), copy=False).from_(_rows(array, item, f"{item}_at"), copy=False)
    query = query.group_by(key(exp.column(item), None), copy=False)
    return func("ARRAY", query.order_by(func("MIN", at.copy()), copy=False))


TEXT = TextFunctions(
    upper=casing.upper(_matches),
    lower=casing.lower(_matches, _contains),
    trim=named_func("TRIM"),
    ltrim=named_func("LTRIM"),
    rtrim=named_func("RTRIM"),
    replace=named_func("REPLACE"),
    translate=named_func("TRANSLATE"),
    cut_word=lambda text: func("REGEXP_REPLACE", text, literal(LAST_WORD), literal("")),
    length=named_func("LENGTH"),
    bytes=named_func("BYTE_LENGTH"),
    substr=named_func("SUBSTR"),
    greatest=named_func("GREATEST"),
    contains=_contains,
    startswith=named_func("STARTS_WITH"),
    endswith=named_func("ENDS_WITH"),
    text_bigint=text_of,
    text_date=text_of,
    try_add=named_func("SAFE_ADD"),
    try_subtract=named_func("SAFE_SUBTRACT"),
    try_multiply=named_func("SAFE_MULTIPLY"),
    try_negative=named_func("SAFE_NEGATE"),
    double=lambda value: _double(value),
    double_add=named_func("SAFE_ADD"),
    double_subtract=named_func("SAFE_SUBTRACT"),
    double_multiply=named_func("SAFE_MULTIPLY"),
    double_divide=named_func("SAFE_DIVIDE"),
    double_abs=named_func("ABS"),
    double_of_text=lambda text: _double(func("TRIM", text, literal(BLANK))),
    is_nan=named_func("IS_NAN"),
    floor=named_func("FLOOR"),
    ceil=named_func("CEIL"),
    truncated=lambda value: safe_cast(func("TRUNC", value), "INT64"),
    round=_round,
    decimal=lambda value, kind: exp.Cast(this=literal(value), to=sql_type(kind)),
    round_decimal=lambda value, digits, *_: func("ROUND", value, literal(digits), literal("ROUND_HALF_EVEN")),
    fixed=lambda value, digits: _with_sign(value, func("FORMAT", literal(f"%.{digits}f"), value.copy())),
    strip_zeros=lambda text: func("REGEXP_REPLACE", text, literal(TRAILING_ZEROS), literal(r"\1\2")),
    text_double=_text_double,
    text_decimal=lambda value, kind: func("FORMAT", literal(f"%.{kind.scale}f"), value),
    text_timestamp=_text_timestamp,
    at_zone=_at_zone,
    local_time=_local_time,
    no_timestamps=_no_timestamps,
    time_of_text=_TIMES.read,
    constant_time=lambda written: exp.Cast(this=literal(written), to=data_type("DATETIME", "bigquery")),
    date_of_time=lambda value: exp.Cast(this=value, to=data_type("DATE", "bigquery")),
    year=_extract("YEAR"),
    month=_extract("MONTH"),
    day=_extract("DAY"),
    hour=_extract("HOUR"),
    minute=_extract("MINUTE"),
    second=_extract("SECOND"),
    divide_whole=named_func("DIV"),
    matches=_matches,
    bigint=lambda text: safe_cast(func("TRIM", text, literal(BLANK)), "INT64"),
    flat_map=_flat_map,
    sort=_sort,
    sum=_sum,
    array_concat=named_func("ARRAY_CONCAT"),
    boxed=boxed,
    unboxed=_unboxed,
    map=_map,
    unique=_unique,
    where=_where,
    exists=_exists,
    element=_element,
    array=lambda *values: exp.Array(expressions=list(values)),
    array_index=_array_index,
    array_join=named_func("ARRAY_TO_STRING"),
    array_slice=_slice,
    struct=lambda fields: func("STRUCT", *(exp.alias_(v, name, quoted=True) for name, v in fields.items())),
    field=lambda value, name, _kind: exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True)),
    least=named_func("LEAST"),
    sequence=lambda count: func(
        "GENERATE_ARRAY",
        literal(0),
        exp.Sub(this=count if _is_size(count) else func("GREATEST", count, literal(0)), expression=literal(1)),
    ),
    size=named_func("ARRAY_LENGTH"),
    split=named_func("SPLIT"),
    text_index=lambda text, part: _found(func("STRPOS", text, part)),
)
