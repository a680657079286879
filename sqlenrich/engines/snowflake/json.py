"""Snowflake's JSON, a VARIANT: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlenrich.core.json_functions import BEYOND_MICROSECONDS, GREATEST_DOUBLE, JsonFunctions
from sqlenrich.core.sql import (
    Sql,
    all_of,
    any_of,
    case,
    cast,
    concat,
    double,
    func,
    is_blank,
    lambda_,
    literal,
    named_func,
    one_of,
)
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BOOLEAN, DOUBLE, TIMESTAMP, Array, Coerced, Scalar, Struct, Type
from sqlenrich.engines.shared import strict_json as strict
from sqlenrich.engines.shared.enum_values import as_spelt, lower_ascii
from sqlenrich.engines.shared.numbers import plain_number
from sqlenrich.engines.snowflake.text import matches, regex, sql_type, string_of, within_64_bits
from sqlenrich.schema.checks.grammar import MAX_DEPTH
from sqlenrich.schema.checks.patterns import FENCE, portable


def _posix(pattern: str) -> Sql:
    """Snowflake's regular expressions have no groups that start with (?."""
    return regex(portable(pattern).replace("(?:", "("))


_KINDS = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": ("INTEGER", "DECIMAL", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "null": ("NULL_VALUE",),
}


def _kind(value: Sql, *labels: str) -> Sql:
    return one_of(func("TYPEOF", value), *labels)


def _number(value: Sql) -> Sql:
    """AS_REAL takes every kind of number; the text of a DOUBLE in a VARIANT has 16 digits only.

    https://docs.snowflake.com/en/sql-reference/functions/as and .../typeof show both.
    """
    return func("AS_REAL", value)


def _unquoted(value: Sql) -> Sql:
    return case((_kind(value, "VARCHAR"), func("TRY_PARSE_JSON", string_of(value.copy()))), default=value.copy())


def _integer(value: Sql) -> Sql:
    return func("TRY_TO_NUMBER", string_of(value), literal(38), literal(0))


def _bigint(value: Sql) -> Sql:
    return within_64_bits(_integer(value))


def _beyond_bigint(value: Sql, integer: Sql) -> Sql:
    """The text of a FLOAT from 1e19 is not documented, so its integer is not asked."""
    large = exp.GTE(this=func("ABS", _number(value)), expression=exp.Literal.number("1e19"))
    wide = any_of(large, exp.Is(this=integer, expression=exp.Null()))
    return all_of(_kind(value.copy(), *_KINDS["number"]), wide)


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [label for kind in kinds if kind != "integer" for label in _KINDS[kind]]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("FLOOR", number.copy()))
        tests.append(exp.paren(all_of(_kind(value, *_KINDS["number"]), whole), copy=False))
    return any_of(*tests)


def _found(text: Sql, pattern: str) -> Sql:
    return matches(text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, regex(pattern), literal(by))


def _deeper(brackets: Sql) -> Sql:
    """SPLIT takes no empty separator: put a comma behind each bracket."""
    parameters = [exp.to_identifier("d"), exp.to_identifier("b")]
    fold = exp.Lambda(
        this=strict.deepest(exp.column("d"), strict.step(string_of(exp.column("b")))), expressions=parameters
    )
    parted = func("SPLIT", _replace(brackets, "(.)", r"\1,"), literal(","))
    return exp.GT(this=func("REDUCE", parted, literal(0), fold), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "posix",
    whole=lambda text, pattern: func("REGEXP_LIKE", text, regex(pattern)),
    found=_found,
    replace=_replace,
    length=named_func("LENGTH"),
    deeper=_deeper,
)


def _parse(text: Sql) -> Sql:
    """TRY_PARSE_JSON refuses repeated names."""
    return strict.parsed(_READER, text, None, func("TRY_PARSE_JSON", text.copy()))


def _items(value: Sql) -> Sql:
    return func("AS_ARRAY", value)


def _from(items: Sql, start: int) -> Sql:
    return func("ARRAY_SLICE", items, literal(start), func("ARRAY_SIZE", items.copy())) if start else items


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql], start: int = 0) -> Sql:
    kept = func("FILTER", _from(_items(value), start), lambda_(name, test))
    return exp.GT(this=func("ARRAY_SIZE", kept), expression=literal(0))


def _least_item(value: Sql, name: str, body: Callable[[Sql], Sql], start: int = 0) -> Sql:
    texts = func("TRANSFORM", _from(_items(value), start), lambda_(name, body))
    return string_of(func("ARRAY_MIN", func("ARRAY_COMPACT", texts)))


def _map_items(value: Sql, name: str, body: Callable[[Sql], Sql]) -> Sql:
    return func("TRANSFORM", _items(value), lambda_(name, body))


def _over_members(function: str, value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    """A lambda over the names of an object, which reads each member by its name."""
    members = func("AS_OBJECT", value)

    def bound(node: Sql) -> Sql:
        if not isinstance(node, exp.Column) or node.name not in (key, name):
            return node
        text = string_of(exp.column(key))
        return text if node.name == key else func("GET", members.copy(), text)

    made = body(exp.column(key), exp.column(name)).transform(bound, copy=False)
    return func(function, func("OBJECT_KEYS", members), lambda_(key, lambda _: made))


def _any_member(value: Sql, key: str, name: str, test: Callable[[Sql, Sql], Sql]) -> Sql:
    kept = _over_members("FILTER", value, key, name, test)
    return exp.GT(this=func("ARRAY_SIZE", kept), expression=literal(0))


def _join_texts(texts: Sql) -> Sql:
    """ARRAY_TO_STRING takes a NULL for an empty text: give NULL where one text is NULL."""
    joined = concat(exp.column("joined"), literal(","), string_of(exp.column("part")))
    fold = exp.Lambda(this=joined, expressions=[exp.to_identifier("joined"), exp.to_identifier("part")])
    return func("REDUCE", texts, literal(""), fold)


def _repeats(texts: Sql) -> Sql:
    distinct = func("ARRAY_DISTINCT", func("ARRAY_COMPACT", texts))
    return exp.LT(this=func("ARRAY_SIZE", distinct), expression=func("ARRAY_SIZE", texts.copy()))


def _number_text(value: Sql) -> Sql:
    exact = case((_is(value, ("integer",)), string_of(_bigint(value.copy()))))
    return func("COALESCE", exact, string_of(_number(value.copy())))


def _is_multiple(value: Sql, step: int | float) -> Sql:
    small = exp.LT(
        this=func("ABS", _number(value)), expression=exp.Literal.number("1e20")
    )  # the text of a larger one is not documented
    exact = func("TRY_TO_NUMBER", case((small, string_of(value.copy()))), literal(38), literal(18))
    rest = func("MOD", exact, exp.Literal.number(plain_number(step)))
    same = exp.EQ(this=cast(exact.copy(), sql_type(DOUBLE)), expression=_number(value.copy()))
    return all_of(exp.EQ(this=rest, expression=literal(0)), same)


def _is_date(text: Sql) -> Sql:
    day = func("TRY_TO_DATE", func("LEFT", text, literal(10)), literal("YYYY-MM-DD"))
    return exp.Not(this=exp.Is(this=day, expression=exp.Null()))


def _too_wide(value: Sql) -> Sql:
    wide = exp.GTE(this=func("ABS", _number(value)), expression=double(GREATEST_DOUBLE))
    return all_of(_is(value.copy(), ("number",)), func("COALESCE", wide, literal(True)))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    allowed = func("ARRAY_CONSTRUCT", *(literal(name) for name in names))
    other = func("ARRAY_EXCEPT", func("OBJECT_KEYS", func("AS_OBJECT", value)), allowed)
    return exp.GT(this=func("ARRAY_SIZE", other), expression=literal(0))


def _unfence(text: Sql) -> Sql:
    pattern = regex(FENCE.removeprefix("(?s)"))
    return func("REGEXP_REPLACE", text, pattern, literal(r"\1"), literal(1), literal(1), literal("s"))


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    made = func("TRANSFORM", func("ARRAY_CONSTRUCT", value), lambda_("doc", body))
    return string_of(func("GET", made, literal(0)))


JSON = JsonFunctions(
    **strict.repairs(_READER),
    long=("parse", "bigint", "is_integer", "beyond_bigint"),
    parse=_parse,
    accepted=named_func("TRY_PARSE_JSON"),
    get=lambda value, name: func("GET", value, literal(name)),
    has_type=_is,
    string=string_of,
    number=_number,
    bigint=_bigint,
    beyond_bigint=_beyond_bigint,
    unquoted=_unquoted,
    at=lambda value, index: func("GET", value, literal(index)),
    too_wide=_too_wide,
    number_text=_number_text,
    is_multiple=_is_multiple,
    is_date=_is_date,
    lower_ascii=lower_ascii,
    any_item=_any_item,
    least_item=_least_item,
    any_member=_any_member,
    count_items=lambda value, name, test: func("ARRAY_SIZE", func("FILTER", _items(value), lambda_(name, test))),
    map_items=_map_items,
    map_members=lambda *arguments: func("ARRAY_SORT", _over_members("TRANSFORM", *arguments)),
    join_texts=_join_texts,
    repeats=_repeats,
    name_count=lambda value: func("ARRAY_SIZE", func("OBJECT_KEYS", func("AS_OBJECT", value))),
    count=lambda value: func("ARRAY_SIZE", func("AS_ARRAY", value)),
    has_other_names=_has_other_names,
    length=named_func("LENGTH"),
    search=lambda text, pattern: matches(text, _posix(pattern)),
    trim=lambda text: func("TRIM", text, literal(BLANK)),
    blank=lambda text: is_blank(func("TRIM", text, literal(BLANK))),
    unfence=_unfence,
    first_word=lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
    let=_let,
    let_text=lambda text, body: _let(text, lambda doc: body(string_of(doc))),
)


def _timestamp(text: Sql) -> Sql:
    """In UTC. Digits beyond microseconds are dropped."""
    cut = func("REGEXP_REPLACE", func("UPPER", text), literal(BEYOND_MICROSECONDS), literal(r"\1"))
    moment = func("CONVERT_TIMEZONE", literal("UTC"), func("TRY_TO_TIMESTAMP_TZ", cut))
    return cast(moment, sql_type(TIMESTAMP))


def _coerced(value: Sql, kind: Coerced) -> Sql:
    if kind.type == BOOLEAN:
        return func("TRY_TO_BOOLEAN", string_of(value))
    if kind.values:
        return as_spelt(string_of(value), kind.values)
    return typed_column(_unquoted(value), kind.type)


def typed_column(value: Sql, kind: Type) -> Sql:
    """Return the typed column of a JSON value that passed its checks."""
    match kind:
        case Coerced():
            return _coerced(value, kind)
        case Scalar("json"):
            return func("NULLIF", func("TO_JSON", value), literal("null"))
        case Scalar("date"):
            return func("TRY_TO_DATE", string_of(value), literal("YYYY-MM-DD"))
        case Scalar("timestamp"):
            return _timestamp(string_of(value))
        case Scalar("string"):
            return string_of(value)
        case Scalar("bigint"):
            return _integer(value)
        case Scalar("double"):
            return _number(value)
        case Scalar("boolean"):
            return func("AS_BOOLEAN", value)
        case Array():
            return func("AS_ARRAY", value)
        case Struct():
            return func("AS_OBJECT", value)
    return exp.TryCast(this=string_of(value), to=sql_type(kind))
