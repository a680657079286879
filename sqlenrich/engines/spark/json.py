"""JSON on Spark and Databricks, a VARIANT: the functions of the answer checks."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from sqlenrich.core.json_functions import BEYOND_MICROSECONDS, GREATEST_DOUBLE, WIDEST_DECIMAL, JsonFunctions
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
    is_blank,
    lambda_,
    literal,
    named_func,
)
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BIGINT, Array, Coerced, Scalar, Struct, Type
from sqlenrich.engines.shared import strict_json as strict
from sqlenrich.engines.shared.enum_values import as_spelt, lower_ascii
from sqlenrich.engines.shared.numbers import plain_number
from sqlenrich.engines.spark.text import try_cast, type_text
from sqlenrich.schema.checks.grammar import MAX_DEPTH
from sqlenrich.schema.checks.patterns import FENCE, portable


def _get(value: Sql, path: str, kind: str) -> Sql:
    """Read a VARIANT; nested reads become one path."""
    if isinstance(value, exp.Anonymous) and value.this == "TRY_VARIANT_GET" and value.expressions[2].this == "variant":
        inner, before, _ = value.expressions
        return func("TRY_VARIANT_GET", inner, literal(before.this + path[1:]), literal(kind))
    return func("TRY_VARIANT_GET", value, literal(path), literal(kind))


_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""Names that stand in a path without quotes."""
_STEP = re.compile(r"\w(?:[\w .-]*\w)?")
"""Names that a path takes on Spark and on Databricks. A path can't hold a quote, ``?`` or an empty name."""
_LIST, _MAP = "array<variant>", "map<string, variant>"


def _field(value: Sql, name: str) -> Sql:
    if _PLAIN.fullmatch(name):
        return _get(value, f"$.{name}", "variant")
    if _STEP.fullmatch(name):
        return _get(value, f'$["{name}"]', "variant")
    return func("TRY_ELEMENT_AT", _get(value, "$", _MAP), literal(name))


def _items(value: Sql) -> Sql:
    return _get(value, "$", _LIST)


def _members(value: Sql) -> Sql:
    return _get(value, "$", _MAP)


def _string(value: Sql) -> Sql:
    return _get(value, "$", "string")


def _number(value: Sql) -> Sql:
    return _get(value, "$", "double")


def _bigint(value: Sql) -> Sql:
    return _get(value, "$", "bigint")


def _schema(value: Sql) -> Sql:
    return func("SCHEMA_OF_VARIANT", value)


def _labelled(schema: Sql, *names: str) -> exp.Paren:
    """Whether a schema has one of these names or is a decimal, whose name also gives its digits."""
    listed = exp.In(this=schema, expressions=[literal(name) for name in names])
    return exp.paren(any_of(listed, func("STARTSWITH", schema.copy(), literal("DECIMAL"))), copy=False)


def _kind(value: Sql, kind: str) -> Sql:
    schema = _schema(value)
    match kind:
        case "object":
            # A struct of one field reads at most that field; the schema is of all that the value holds.
            return exp.Not(this=exp.Is(this=_get(value, "$", "struct<x: variant>"), expression=exp.Null()))
        case "array":
            return exp.Not(this=exp.Is(this=_items(value), expression=exp.Null()))
        case "number":
            return _labelled(schema, "BIGINT", "DOUBLE", "FLOAT")
        case "integer":
            number = _get(value.copy(), "$", "double")
            # FLOOR gives a BIGINT, which fails the query for 1e19; RINT gives a double.
            whole = exp.EQ(this=number, expression=func("RINT", number.copy()))
            # To read a number as another type is slow: Spark makes a Cast expression for each row (4.3).
            bigint = exp.EQ(this=schema, expression=literal("BIGINT"))
            return exp.paren(any_of(bigint, all_of(_labelled(schema.copy(), "DOUBLE", "FLOAT"), whole)), copy=False)
    return exp.EQ(this=schema, expression=literal(_LABELS[kind]))


_FENCE = FENCE.removesuffix("$") + r"\z"
"""Java's ``$`` also matches before a line separator at the end."""
_LABELS = {"string": "STRING", "boolean": "BOOLEAN", "null": "VOID"}


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    if {"object", "array"} == set(kinds):  # NULL for a missing value
        return func("REGEXP_LIKE", _schema(value), literal("^(OBJECT|ARRAY)"))
    return any_of(*(_kind(value.copy(), kind) for kind in kinds if not (kind == "integer" and "number" in kinds)))


def _found(text: Sql, pattern: str) -> Sql:
    return func("REGEXP_LIKE", text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by.replace("\\", "$")))


def _deeper(brackets: Sql) -> Sql:
    parameters = [exp.to_identifier("d"), exp.to_identifier("b")]
    change = strict.step(exp.column("b"), func("CHAR_LENGTH", exp.column("b")))
    fold = exp.Lambda(this=strict.deepest(exp.column("d"), change), expressions=parameters)
    runs = func("REGEXP_EXTRACT_ALL", brackets, literal(strict.RUNS), literal(0))
    depth = func("AGGREGATE", runs, literal(0), fold)
    return exp.GT(this=depth, expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "possessive",
    whole=lambda text, pattern: _found(text, rf"^(?:{pattern})\z"),
    found=_found,
    replace=_replace,
    length=named_func("CHAR_LENGTH"),
    deeper=_deeper,
    size=named_func("OCTET_LENGTH"),
    brackets=lambda text: func("REGEXP_COUNT", text, literal(r"[\[{]")),
)


def _alone(text: Sql) -> Sql:
    """Whether a text is no more than one document: Spark's parser ignores what follows the first.

    An array of one document has one element, and an array of it and a number has two. Behind a bracket in the text that
    closes the array both have as many.
    """

    def elements(end: str) -> Sql:
        return func("JSON_ARRAY_LENGTH", concat(literal("["), text.copy(), literal(end)))

    alone = exp.EQ(this=elements("]"), expression=literal(1))
    return all_of(alone, exp.EQ(this=elements(",0]"), expression=literal(2)))


def _parse(text: Sql) -> Sql:
    """Spark's parser refuses repeated names and all else that is no JSON (4.3)."""
    doc = func("TRY_PARSE_JSON", text.copy())
    return strict.parsed_if(_READER, text, _alone(text), doc, "one JSON document and nothing behind it")


def parse_by_grammar(text: Sql) -> Sql:
    """Parse only what the grammar's pattern matches, where the parser is not known to be strict."""
    return strict.parsed(_READER, text, _alone(text), func("TRY_PARSE_JSON", text.copy()))


def _beyond_bigint(value: Sql, integer: Sql) -> Sql:
    """Spark reads the double 2**63 as the greatest bigint, 2**63 - 1."""
    largest = exp.EQ(this=integer.copy(), expression=literal(2**63 - 1))
    written = exp.In(this=_schema(value.copy()), expressions=[literal("BIGINT"), literal("STRING")])
    beyond = any_of(exp.Is(this=integer, expression=exp.Null()), all_of(largest, exp.Not(this=written)))
    return all_of(exp.paren(beyond), exp.Not(this=exp.Is(this=_string(value.copy()), expression=exp.Null())))


def _lambda(first: str, second: str, body: Callable[[Sql, Sql], Sql]) -> exp.Lambda:
    made = body(exp.column(first), exp.column(second))
    return exp.Lambda(this=made, expressions=[exp.to_identifier(first), exp.to_identifier(second)])


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql], start: int = 0) -> Sql:
    return func("EXISTS", _from(_items(value), name, start), lambda_(name, test))


def _from(items: Sql, name: str, start: int) -> Sql:
    later = _lambda(name, "i", lambda _, i: exp.GTE(this=i, expression=literal(start)))
    return func("FILTER", items, later) if start else items


def _least_item(value: Sql, name: str, body: Callable[[Sql], Sql], start: int = 0) -> Sql:
    return func("ARRAY_MIN", func("TRANSFORM", _from(_items(value), name, start), lambda_(name, body)))


def _any_member(value: Sql, key: str, name: str, test: Callable[[Sql, Sql], Sql]) -> Sql:
    kept = func("MAP_FILTER", _members(value), _lambda(key, name, test))
    return exp.GT(this=func("SIZE", kept), expression=literal(0))


def _map_members(value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    made = func("TRANSFORM_VALUES", _members(value), _lambda(key, name, body))
    return func("SORT_ARRAY", func("MAP_VALUES", made))


def _join_texts(texts: Sql) -> Sql:
    """ARRAY_JOIN skips a NULL: give NULL where one text is NULL."""
    joined = _lambda("joined", "part", lambda joined, part: concat(joined, literal(","), part))
    return func("AGGREGATE", texts, literal(""), joined)


def _let(name: str, value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    """Name a value that the body reads several times."""
    return func("ELEMENT_AT", func("TRANSFORM", func("ARRAY", value), lambda_(name, body)), literal(1))


def _repeats(texts: Sql) -> Sql:
    def fewer(found: Sql) -> Sql:
        different = func("ARRAY_SIZE", func("ARRAY_DISTINCT", func("ARRAY_COMPACT", found)))
        return exp.LT(this=different, expression=func("ARRAY_SIZE", found.copy()))

    return _let("texts", texts, fewer)


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    found = func("MAP_KEYS", _members(value))
    allowed = [literal(name) for name in names]
    test = lambda k: exp.Not(this=exp.In(this=k, expressions=allowed)) if allowed else literal(True)  # noqa: E731
    return func("EXISTS", found, lambda_("k", test))


def _number_text(value: Sql) -> Sql:
    """Print as a double: in a VARIANT 1.10 and 1.1 are decimals of different scales."""
    whole = case((_kind(value, "integer"), exp.Cast(this=_bigint(value.copy()), to=data_type("TEXT"))))
    return func("COALESCE", whole, exp.Cast(this=_number(value.copy()), to=data_type("TEXT")))


def _is_multiple(value: Sql, step: int | float) -> Sql:
    """A double's text as a decimal, if it has no more digits than that."""
    exact = try_cast(_number(value), WIDEST_DECIMAL)
    rest = exp.Mod(this=exact, expression=cast(exp.Literal.number(plain_number(step)), WIDEST_DECIMAL))
    same = exp.EQ(this=cast(exact.copy(), "DOUBLE"), expression=_number(value.copy()))
    return all_of(exp.EQ(this=rest, expression=literal(0)), same)


def _is_date(text: Sql) -> Sql:
    day = try_cast(func("LEFT", text, literal(10)), "DATE")
    return exp.Not(this=exp.Is(this=day, expression=exp.Null()))


def _unquoted(value: Sql) -> Sql:
    """A number in a string, as a JSON number: Spark reads no BIGINT from the text 5.0."""
    whole = func("REGEXP_REPLACE", _string(value.copy()), literal("[.]0+$"), literal(""))
    number = func("COALESCE", func("TRY_PARSE_JSON", whole), value.copy())
    return case((_kind(value, "string"), number), default=value.copy())


JSON = JsonFunctions(
    **strict.repairs(_READER),
    long=("parse", "is_integer", "beyond_bigint"),
    slow_trim=True,
    parse=_parse,
    accepted=named_func("TRY_PARSE_JSON"),
    get=_field,
    at=lambda value, index: _get(value, f"$[{index}]", "variant"),
    has_type=_is,
    string=_string,
    number=_number,
    bigint=_bigint,
    beyond_bigint=_beyond_bigint,
    unquoted=_unquoted,
    too_wide=lambda value: exp.GTE(this=func("ABS", _number(value)), expression=double(GREATEST_DOUBLE)),
    number_text=_number_text,
    is_multiple=_is_multiple,
    is_date=_is_date,
    lower_ascii=lower_ascii,
    any_item=_any_item,
    least_item=_least_item,
    any_member=_any_member,
    count_items=lambda value, name, test: func("ARRAY_SIZE", func("FILTER", _items(value), lambda_(name, test))),
    map_items=lambda value, name, body: func("TRANSFORM", _items(value), lambda_(name, body)),
    map_members=_map_members,
    join_texts=_join_texts,
    repeats=_repeats,
    count=lambda value: func("ARRAY_SIZE", _items(value)),
    name_count=lambda value: func("ARRAY_SIZE", func("MAP_KEYS", _members(value))),
    has_other_names=_has_other_names,
    length=named_func("CHAR_LENGTH"),
    search=lambda text, pattern: func("REGEXP_LIKE", text, literal(portable(pattern, end=r"\z"))),
    trim=lambda text: exp.Trim(this=text, expression=literal(BLANK), position="BOTH"),
    # LEADING stops at the first character that is not blank; BOTH walks through the whole text.
    blank=lambda text: is_blank(exp.Trim(this=text, expression=literal(BLANK), position="LEADING")),
    unfence=lambda text: func("REGEXP_REPLACE", text, literal(_FENCE), literal("$1")),
    first_word=lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
    let=lambda value, body: _let("doc", value, body),
    let_text=lambda value, body: _let("doc", value, body),
)


def _timestamp(text: Sql) -> Sql:
    """An instant. Digits beyond microseconds are dropped."""
    cut = func("REGEXP_REPLACE", func("UPPER", text), literal(BEYOND_MICROSECONDS), literal("$1"))
    return try_cast(cut, "TIMESTAMP")


def _coerced(value: Sql, kind: Coerced) -> Sql:
    if kind.values:
        return as_spelt(_string(value), kind.values)
    return typed_column(_unquoted(value) if kind.type == BIGINT else value, kind.type)


def typed_column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Return the typed column of a JSON value that passed its checks."""
    match kind:
        case Coerced():
            return _coerced(value, kind)
        case Scalar("json"):
            return func("NULLIF", func("TO_JSON", value), literal("null"))
        case Scalar("timestamp"):
            return _timestamp(_string(value))
        case Array(item):
            return func("TRANSFORM", _items(value), lambda_(f"x{depth}", lambda x: typed_column(x, item, depth + 1)))
        case Struct(fields):
            pairs: list[Sql] = []
            for name, field in fields:
                pairs += [literal(name), typed_column(_field(value.copy(), name), field, depth)]
            return case((_kind(value.copy(), "object"), func("NAMED_STRUCT", *pairs)))
    return _get(value, "$", type_text(kind).lower())
