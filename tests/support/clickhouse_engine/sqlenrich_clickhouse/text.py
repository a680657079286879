"""ClickHouse's types, texts and arrays: the functions of the prompts.

An array is never NULL and fits in no NULL-able type (26.9): where one may be missing, it is a CASE without ELSE, whose
test the functions over arrays put around their own result. DateTime64 is an instant; a local time is kept as one in
UTC. ``greatest`` and ``least`` skip a NULL. Integers wrap beyond 64 bits. A decimal literal is a double.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlenrich.core.sql import (
    Build,
    Sql,
    all_of,
    any_of,
    case,
    cast,
    double,
    func,
    given,
    lambda_,
    literal,
    named_func,
    wrapped,
)
from sqlenrich.core.text_functions import BLANK, LAST_WORD, TRAILING_ZEROS, Body, TextFunctions
from sqlenrich.core.types import INSTANT, Array, Coerced, Decimal, Scalar, Struct, Type
from sqlenrich.engines.shared import case_mapping as casing
from sqlenrich.engines.shared.numbers import double_divide, double_function
from sqlenrich.engines.shared.timestamps import TextTimes

from . import dialect as _dialect  # registers it  # noqa: F401

_TIME = "DateTime64(6, 'UTC')"
_TYPES = {
    "string": "String",
    "json": "String",
    "bigint": "Int64",
    "double": "Float64",
    "boolean": "Bool",
    "date": "Date32",
    INSTANT.name: _TIME,
    "timestamp": _TIME,
}


def type_text(value: Type) -> str:
    """Return ClickHouse's name of a portable type."""
    match value:
        case Coerced(kind):
            return type_text(kind)
        case Scalar(name):
            return f"Nullable({_TYPES[name]})"
        case Decimal(precision, scale):
            return f"Nullable(Decimal({precision}, {scale}))"
        case Array(item):
            return f"Array({type_text(item)})"
        case Struct(fields):
            return f"Nullable(Tuple({', '.join(f'{_quoted(name)} {type_text(kind)}' for name, kind in fields)}))"


def sql_type(value: Type) -> exp.DataType:
    """Return ClickHouse's type of a portable type."""
    return exp.DataType.build(type_text(value), dialect="clickhouse")


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("clickhouse")


def bigint(value: Sql) -> Sql:
    """Return an integer as bigint: counts and places are unsigned, and wrap below 0."""
    return func("toInt64", value)


matches = named_func("match")


def strict_date(text: Sql) -> Sql:
    """Return whether a text is a day that is there, as ``YYYY-MM-DD``."""
    return exp.EQ(this=func("toString", func("toDate32OrNull", text)), expression=text.copy())


def time_of(text: Sql) -> Sql:
    """Return the instant that a text writes; NULL for a day that is not there."""
    read = func("parseDateTime64BestEffortOrNull", text, literal(6), literal("UTC"))
    return case((strict_date(func("substring", text.copy(), literal(1), literal(10))), read))


def _upper(text: Sql) -> Sql:
    return casing.guarded(matches, text, func("upperUTF8", text), casing.NEW_CASE)


def _lower(text: Sql) -> Sql:
    sigma = all_of(matches(text.copy(), literal("Σ")), matches(text.copy(), literal(casing.NEW_BESIDE_SIGMA)))
    odd = any_of(matches(text.copy(), literal(casing.NEW_CASE)), sigma)
    return case((odd, literal(None)), default=func("lowerUTF8", text))


def _trimming(form: str) -> Build:
    """trimBoth takes its characters for bytes."""

    def trim(text: Sql, chars: Sql) -> Sql:
        listed = "".join(f"\\x{{{ord(char):x}}}" for char in chars.name)
        function = "replaceRegexpAll" if "|" in form else "replaceRegexpOne"
        return func(function, text, literal(form.replace("C", f"[{listed}]+")), literal("")) if listed else text

    return trim


def _at_zone(instant: Sql, zone: Sql) -> Sql:
    return func("toDateTime64", func("toString", func("toTimeZone", instant, zone)), literal(6), literal("UTC"))


def _no_timestamps(values: Sequence[Sql], problem: str) -> Sql:
    is_time = any_of(*(matches(func("toTypeName", value), literal("DateTime")) for value in values))
    return exp.EQ(this=func("throwIf", is_time, literal(problem)), expression=literal(0))


_TIMES = TextTimes(matches, lambda number: rf"\{number}", local=time_of, instant=time_of, at_zone=_at_zone)


def _within(operator: type[exp.Binary]) -> Build:
    """The result of 128 bits, NULL beyond 64."""

    def build(a: Sql, b: Sql) -> Sql:
        return _narrow(operator(this=func("toInt128", a), expression=func("toInt128", b)))

    return build


def _narrow(value: Sql) -> Sql:
    return func("accurateCastOrNull", value, literal("Int64"))


def _truncated(value: Sql) -> Sql:
    """A cast of a decimal beyond 64 bits fails the query, also accurateCastOrNull."""
    near = func("toFloat64", value)
    inside = all_of(
        exp.GTE(this=near, expression=double(-(2.0**63))), exp.LT(this=near.copy(), expression=double(2.0**63))
    )
    whole = case((inside, func("trunc", value.copy())), default=literal(0))
    return case((inside.copy(), _narrow(whole)))


def _chosen(comparison: type[exp.Binary]) -> Build:
    def build(a: Sql, *others: Sql) -> Sql:
        for b in others:
            first = comparison(this=wrapped(a), expression=wrapped(b))
            a = case((first, a.copy()), (exp.Not(this=exp.paren(first.copy())), b.copy()))
        return a

    return build


def _text_double(value: Sql, digits: int) -> Sql:
    text = func("printf", literal(f"%.{max(digits, 1)}f"), value)
    return text if digits < 2 else _stripped(text)


def _stripped(text: Sql) -> Sql:
    return func("replaceRegexpOne", text, literal(TRAILING_ZEROS), literal(r"\1\2"))


def fixed(value: Sql, digits: int) -> Sql:
    """Return a double with this number of decimals: printf rounds by the exact value."""
    return func("printf", literal(f"%.{digits}f"), value)


# Arrays: positions count from 0, ClickHouse counts from 1.

Over = Callable[[Sql], Sql]
NO_ITEMS = "[]"


def _whole(array: Sql) -> tuple[Sql, Sql | None]:
    """Return an array that is there, and the test for it; None where it can't be missing."""
    if isinstance(array, exp.Null):
        return exp.Array(), literal(False)
    if isinstance(array, exp.Paren):
        return _whole(array.this)
    if not isinstance(array, exp.Case):
        return array, None
    arms = [(arm.this, *_whole(arm.args["true"])) for arm in array.args["ifs"]]
    default = array.args.get("default")
    last, last_test = (exp.Array(), literal(False)) if default is None else _whole(default)
    values = case(*((test, value) for test, value, _ in arms), default=last)
    tests = case(
        *((test.copy(), literal(True) if own is None else own) for test, _, own in arms),
        default=literal(True) if last_test is None else last_test,
    )
    return values, tests


def over(array: Sql, body: Over) -> Sql:
    """Return what a body gives for an array; NULL, or a missing array, where the array is missing."""
    found, test = _whole(array)
    return body(found) if test is None else case((test, body(found)))


def _positions(array: Sql) -> Sql:
    return func("range", func("length", array.copy()))


def _lambda(item: str, position: str, body: Sql) -> exp.Lambda:
    return exp.Lambda(this=body, expressions=[exp.to_identifier(item), exp.to_identifier(position)])


ARRAYS = frozenset(
    ("arrayElement", "arraySlice", "arrayMap", "arrayFilter", "arrayConcat", "arraySort", "splitByString")
)
"""Functions here whose result is an array."""


def _may_be_missing(value: Sql) -> bool:
    """Whether a value is an array that may be missing."""
    if isinstance(value, exp.Paren):
        return _may_be_missing(value.this)
    if not isinstance(value, exp.Case):
        return isinstance(value, exp.Array) or (isinstance(value, exp.Anonymous) and value.name in ARRAYS)
    default = value.args.get("default")
    return any(map(_may_be_missing, [arm.args["true"] for arm in value.args["ifs"]] + ([default] if default else [])))


def _applied(function: str, array: Sql, item: str, position: str | None, body: Body, *, arrays: bool = False) -> Sql:
    """A map is missing where one of the arrays is that its body gives: the row is then refused."""
    value = body(exp.column(item), None if position is None else bigint(exp.column(position)))
    arrays = arrays or (function == "arrayMap" and _may_be_missing(value))
    value, test = _whole(value) if arrays else (value, None)

    def over_items(function: str, made: Sql, a: Sql) -> Sql:
        if position is None:
            return func(function, lambda_(item, lambda _: made), a)
        return func(function, _lambda(item, position, made), a, _positions(a))

    def applied(a: Sql) -> Sql:
        made = over_items(function, value, a)
        return made if test is None else case((over_items("arrayAll", test, a.copy()), made))

    return over(array, applied)


def _flat_map(array: Sql, item: str, position: str | None, body: Body, _kind: Type) -> Sql:
    """groupArrayArray joins arrays and skips a NULL, so that each element is in a tuple."""

    def joined(a: Sql) -> Sql:
        boxes = func("arrayMap", lambda_("a", lambda a: func("arrayMap", lambda_("b", named_func("tuple")), a)), a)
        parts = func("arrayReduce", literal("groupArrayArray"), boxes)
        return func("arrayMap", lambda_("b", lambda b: func("tupleElement", b, literal(1))), parts)

    return over(_applied("arrayMap", array, item, position, body, arrays=True), joined)


def _element(array: Sql, index: Sql, kind: Type) -> Sql:
    if isinstance(index, exp.Literal):
        at: Sql = literal(int(index.this) + 1)
    elif isinstance(index, exp.Neg):
        at = index
    else:
        below = exp.LT(this=index, expression=literal(0))
        at = case((below, index.copy()), default=exp.Add(this=wrapped(index.copy()), expression=literal(1)))
    if not isinstance(kind, Array):
        return over(array, lambda a: func("arrayElementOrNull", a, at))

    def inner(a: Sql) -> Sql:
        """An array of arrays: beyond its ends stands a missing array, not an empty one."""
        size = bigint(func("length", a.copy()))
        inside = exp.Between(this=at.copy(), low=exp.Neg(this=size), high=size.copy())
        return case((inside, func("arrayElement", a, func("ifNull", at, literal(1)))))

    return over(array, inner)


def _slice(array: Sql, start: Sql, stop: Sql | None = None) -> Sql:
    first = exp.Add(this=wrapped(start), expression=literal(1))
    if stop is None:
        return over(array, lambda a: func("arraySlice", a, first))
    size = func("greatest", exp.Sub(this=wrapped(stop), expression=wrapped(start.copy())), literal(0))
    return over(array, lambda a: func("arraySlice", a, first, size))


def _sequence(count: Sql) -> Sql:
    size = func("toUInt64", func("greatest", func("ifNull", count, literal(0)), literal(0)))
    positions = func("arrayMap", lambda_("n", bigint), func("range", size))
    return positions if isinstance(count, exp.Literal) else case((given(count.copy()), positions))


def _split(text: Sql, separator: Sql) -> Sql:
    return case((given(text), func("splitByString", separator, func("ifNull", text.copy(), literal("")))))


def _sort(array: Sql, item: str, key: Body, _kind: Type, descending: bool) -> Sql:
    """The position is negative in a descending sort, so that ties keep their order."""
    at = bigint(exp.column(f"{item}_at"))
    made = func("tuple", key(exp.column(item), None), exp.Neg(this=at) if descending else at)
    function = "arrayReverseSort" if descending else "arraySort"
    return over(array, lambda a: func(function, _lambda(item, f"{item}_at", made), a, _positions(a)))


def _unique(array: Sql, item: str, key: Body, _kind: Type) -> Sql:
    def first(a: Sql) -> Sql:
        keys = func("arrayMap", lambda_(item, lambda x: key(x, None)), a.copy())
        place = func("indexOf", keys, key(exp.column(item), None))
        test = exp.EQ(this=place, expression=exp.Add(this=exp.column(f"{item}_at"), expression=literal(1)))
        return func("arrayFilter", _lambda(item, f"{item}_at", test), a, _positions(a))

    return over(array, first)


def _sum(array: Sql) -> Sql:
    wide = lambda_("n", lambda n: func("toInt128", func("ifNull", n, literal(0))))
    return over(array, lambda a: _narrow(func("arraySum", func("arrayMap", wide, a))))


def _concat(*arrays: Sql) -> Sql:
    wholes = [_whole(array) for array in arrays]
    joined = func("arrayConcat", *(value for value, _ in wholes))
    tests = [test for _, test in wholes if test is not None]
    return case((all_of(*tests), joined)) if tests else joined


def _index(position: Sql) -> Sql:
    return exp.Sub(this=func("nullIf", bigint(position), literal(0)), expression=literal(1))


TEXT = TextFunctions(
    upper=_upper,
    lower=_lower,
    trim=_trimming("^C|C$"),
    ltrim=_trimming("^C"),
    rtrim=_trimming("C$"),
    replace=named_func("replaceAll"),
    translate=named_func("translateUTF8"),
    cut_word=lambda text: func("replaceRegexpOne", text, literal(LAST_WORD), literal("")),
    length=lambda text: bigint(func("lengthUTF8", text)),
    bytes=lambda text: bigint(func("length", text)),
    substr=named_func("substringUTF8"),
    greatest=_chosen(exp.GTE),
    least=_chosen(exp.LTE),
    contains=lambda text, part: exp.GT(this=func("position", text, part), expression=literal(0)),
    startswith=named_func("startsWith"),
    endswith=named_func("endsWith"),
    matches=matches,
    split=_split,
    text_index=lambda text, part: _index(func("positionUTF8", text, part)),
    text_bigint=named_func("toString"),
    text_double=_text_double,
    text_decimal=lambda value, kind: func("toDecimalString", value, literal(kind.scale)),
    text_date=named_func("toString"),
    text_timestamp=lambda value: func(
        "replaceRegexpOne", func("toString", cast(value, sql_type(INSTANT))), literal("[.]0{6}$"), literal("")
    ),
    fixed=fixed,
    strip_zeros=_stripped,
    bigint=lambda text: func("toInt64OrNull", _trimming("^C|C$")(text, literal(BLANK))),
    try_add=_within(exp.Add),
    try_subtract=_within(exp.Sub),
    try_multiply=_within(exp.Mul),
    try_negative=lambda value: _narrow(exp.Neg(this=func("toInt128", value))),
    divide_whole=named_func("intDiv"),
    truncated=_truncated,
    double=named_func("toFloat64"),
    double_of_text=lambda text: func("toFloat64OrNull", _trimming("^C|C$")(text, literal(BLANK))),
    double_add=double_function(exp.Add),
    double_subtract=double_function(exp.Sub),
    double_multiply=double_function(exp.Mul),
    double_divide=double_divide,
    double_abs=named_func("abs"),
    is_nan=named_func("isNaN"),
    floor=named_func("floor"),
    ceil=named_func("ceil"),
    round=lambda value, digits: func("toFloat64OrNull", fixed(value, digits)),
    decimal=lambda value, kind: cast(literal(value), sql_type(kind)),
    round_decimal=lambda value, digits, _, after: cast(func("roundBankers", value, literal(digits)), sql_type(after)),
    at_zone=_at_zone,
    local_time=_at_zone,
    no_timestamps=_no_timestamps,
    time_of_text=_TIMES.read,
    constant_time=lambda written: cast(literal(written), sql_type(INSTANT)),
    date_of_time=named_func("toDate32"),
    year=lambda value: bigint(func("toYear", value)),
    month=lambda value: bigint(func("toMonth", value)),
    day=lambda value: bigint(func("toDayOfMonth", value)),
    hour=lambda value: bigint(func("toHour", value)),
    minute=lambda value: bigint(func("toMinute", value)),
    second=lambda value: bigint(func("toSecond", value)),
    array=lambda *values: exp.Array(expressions=list(values)),
    size=lambda array: over(array, lambda a: bigint(func("length", a))),
    element=_element,
    struct=lambda fields: func("tuple", *(exp.alias_(value, name, quoted=True) for name, value in fields.items())),
    field=lambda value, name, _kind: func("tupleElement", value, literal(name)),
    array_index=lambda array, value: over(array, lambda a: _index(func("indexOf", a, value))),
    array_slice=_slice,
    array_concat=_concat,
    array_join=lambda texts, separator: over(texts, lambda a: func("arrayStringConcat", a, separator)),
    sequence=_sequence,
    sum=_sum,
    map=lambda array, item, position, body, _kind: _applied("arrayMap", array, item, position, body),
    flat_map=_flat_map,
    where=lambda array, item, test, _kind: _applied("arrayFilter", array, item, None, test),
    exists=lambda array, item, position, test, _kind: _applied("arrayExists", array, item, position, test),
    unique=_unique,
    sort=_sort,
)
