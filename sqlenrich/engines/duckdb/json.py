"""DuckDB's JSON: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from sqlenrich.core.json import compact_json
from sqlenrich.core.json_functions import BEYOND_MICROSECONDS, GREATEST_DOUBLE, WIDEST_DECIMAL, JsonFunctions
from sqlenrich.core.sql import (
    Sql,
    all_of,
    any_of,
    case,
    cast,
    concat,
    double,
    func,
    lambda_,
    literal,
    named_func,
    one_of,
)
from sqlenrich.core.text_functions import BLANK
from sqlenrich.core.types import BOOLEAN, Array, Coerced, Scalar, Struct, Type
from sqlenrich.engines.duckdb.text import sql_type
from sqlenrich.engines.shared import strict_json as strict
from sqlenrich.engines.shared.enum_values import as_spelt, lower_ascii
from sqlenrich.engines.shared.numbers import plain_number
from sqlenrich.schema.checks.grammar import MAX_DEPTH
from sqlenrich.schema.checks.patterns import FENCE, portable

_KINDS = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": ("BIGINT", "UBIGINT", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "null": ("NULL",),
}
_INTEGERS = ("BIGINT", "UBIGINT")


def _get(value: Sql, name: str) -> Sql:
    """Read by a JSON pointer (RFC 6901), the only path syntax of DuckDB that takes every name.

    A name of digits needs the other syntax: as a pointer it reads an array's element too. Nested reads become one path.
    """
    if name.isdecimal():
        return func("JSON_EXTRACT", value, literal(f'$."{name}"'))
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    if isinstance(value, exp.Anonymous) and value.this == "JSON_EXTRACT":
        inner, path = value.expressions
        if path.name.startswith("/"):
            return func("JSON_EXTRACT", inner, literal(path.name + pointer))
    return func("JSON_EXTRACT", value, literal(pointer))


def _read_together(values: Mapping[str, Sql], name: str, listed: Sql) -> dict[str, Sql]:
    """Read all paths of a document by one JSON_EXTRACT into a list, and each value from the list.

    Each JSON_EXTRACT parses the whole text.
    """
    reads = {key: value.expressions for key, value in values.items() if isinstance(value.expressions[0], exp.Column)}
    if not reads:
        return dict(values)
    (doc, _), *_ = reads.values()
    every = func("JSON_EXTRACT", doc.copy(), exp.Array(expressions=[path.copy() for _, path in reads.values()]))
    found = {key: func("LIST_EXTRACT", listed.copy(), literal(place)) for place, key in enumerate(reads, 1)}
    return {name: every, **values, **found}


def _at(function: str, value: Sql) -> Sql:
    """``F(doc, path)`` for ``F(JSON_EXTRACT(doc, path))``, which parses the text once more."""
    if isinstance(value, exp.Anonymous) and value.this == "JSON_EXTRACT":
        return func(function, *value.expressions)
    return func(function, value, *([literal("$")] if function == "JSON_EXTRACT_STRING" else []))


def _kind(value: Sql, *labels: str) -> Sql:
    return one_of(_at("JSON_TYPE", value), *labels)


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


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql], start: int = 0) -> Sql:
    kept = func("LIST_FILTER", _from(_items(value), start), lambda_(name, test))
    return exp.GT(this=func("LEN", kept), expression=literal(0))


def _from(items: Sql, start: int) -> Sql:
    return func("LIST_SLICE", items, literal(start + 1), literal(-1)) if start else items


def _least_item(value: Sql, name: str, body: Callable[[Sql], Sql], start: int = 0) -> Sql:
    return func("LIST_MIN", func("LIST_TRANSFORM", _from(_items(value), start), lambda_(name, body)))


def _count_items(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    found = func("LEN", func("LIST_FILTER", _items(value), lambda_(name, test)))
    return case((_kind(value.copy(), "ARRAY"), found))


def _map_items(value: Sql, name: str, body: Callable[[Sql], Sql]) -> Sql:
    return func("LIST_TRANSFORM", _items(value), lambda_(name, body))


def _member(value: Sql, name: Sql) -> Sql:
    """A member by a name that is an expression: as a JSON pointer (RFC 6901)."""
    escaped = func("REPLACE", func("REPLACE", name, literal("~"), literal("~0")), literal("/"), literal("~1"))
    return func("JSON_EXTRACT", value, concat(literal("/"), escaped))


def _over_members(function: str, value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    """Apply a list function to the names of an object. JSON_KEYS gives none for another value."""
    inner = func(
        "LIST_EXTRACT",
        func(
            "LIST_TRANSFORM",
            exp.Array(expressions=[_member(value.copy(), exp.column(key))]),
            lambda_(name, lambda x: body(exp.column(key), x)),
        ),
        literal(1),
    )
    return func(function, func("JSON_KEYS", value), lambda_(key, lambda _: inner))


def _any_member(value: Sql, key: str, name: str, test: Callable[[Sql, Sql], Sql]) -> Sql:
    kept = _over_members("LIST_FILTER", value, key, name, test)
    return exp.GT(this=func("LEN", kept), expression=literal(0))


def _map_members(value: Sql, key: str, name: str, body: Callable[[Sql, Sql], Sql]) -> Sql:
    made = _over_members("LIST_TRANSFORM", value, key, name, body)
    return func("LIST_SORT", made)


def _join_texts(texts: Sql) -> Sql:
    """ARRAY_TO_STRING skips a NULL: give NULL where one text is NULL."""
    joined = concat(exp.column("joined"), literal(","), exp.column("part"))
    fold = exp.Lambda(this=joined, expressions=[exp.to_identifier("joined"), exp.to_identifier("part")])
    return func("LIST_REDUCE", texts, fold, literal(""))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    found = func("JSON_KEYS", value)
    if names:
        allowed = [literal(name) for name in names]
        found = func("LIST_FILTER", found, lambda_("k", lambda k: exp.Not(this=exp.In(this=k, expressions=allowed))))
    return exp.GT(this=func("LEN", found), expression=literal(0))


def _number_text(value: Sql) -> Sql:
    exact = case((_is_integer(value), cast(_bigint(value.copy()), "VARCHAR")))
    return func("COALESCE", exact, cast(_number(value.copy()), "VARCHAR"))


def _is_multiple(value: Sql, step: int | float) -> Sql:
    """A double's shortest text as a decimal, if it has no more digits than that."""
    exact = cast(cast(_number(value), "VARCHAR"), WIDEST_DECIMAL, safe=True)
    rest = exp.Mod(this=exact, expression=cast(exp.Literal.number(plain_number(step)), WIDEST_DECIMAL))
    same = exp.EQ(this=cast(exact.copy(), "DOUBLE"), expression=_number(value.copy()))
    return all_of(exp.EQ(this=rest, expression=literal(0)), same)


def _found(text: Sql, pattern: str) -> Sql:
    return func("REGEXP_MATCHES", text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by), literal("g"))


def _deeper(brackets: Sql) -> Sql:
    runs = func("REGEXP_EXTRACT_ALL", brackets, literal(strict.RUNS))
    steps = func("LIST_TRANSFORM", runs, lambda_("b", lambda b: strict.step(b, func("LENGTH", b.copy()))))
    start = exp.Array(expressions=[literal(0)])  # LIST_REDUCE fails for an empty list
    parameters = [exp.to_identifier("d"), exp.to_identifier("b")]
    fold = exp.Lambda(this=strict.deepest(exp.column("d"), exp.column("b")), expressions=parameters)
    return exp.GT(this=func("LIST_REDUCE", func("LIST_CONCAT", start, steps), fold), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "re2",
    whole=lambda text, pattern: func("REGEXP_FULL_MATCH", text, literal(pattern)),
    found=_found,
    replace=_replace,
    length=named_func("LENGTH"),
    deeper=_deeper,
)


def _parse(text: Sql) -> Sql:
    """DuckDB's parser also takes NaN, Infinity, trailing commas and repeated names (measured on 2.0).

    ``$..*`` are all values inside a value: an array around the text makes its own object one of them.
    """
    around = cast(concat(literal("["), text.copy(), literal("]")), "JSON", safe=True)
    repeats = lambda_("names", lambda n: exp.LT(this=func("LIST_UNIQUE", n), expression=func("LEN", n.copy())))
    repeating = func("LEN", func("LIST_FILTER", func("JSON_KEYS", around, literal("$..*")), repeats))
    none = exp.EQ(this=repeating, expression=literal(0))
    return strict.parsed(_READER, text, none, cast(text.copy(), "JSON", safe=True))


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    made = func("LIST_TRANSFORM", exp.Array(expressions=[value]), lambda_("doc", body))
    return func("LIST_EXTRACT", made, literal(1))


def _members(value: Sql, names: Sequence[str]) -> Sql:
    """A struct of JSON texts: one parse, and each name is found by its hash (a path is searched from the start)."""
    return func("JSON_TRANSFORM", value, literal(compact_json(dict.fromkeys(names, "JSON"))))


_FENCE = FENCE.replace("[A-Za-z0-9_-]", r"[\w-]").replace("(.*)", r"[ \t\r\n]*(.*?)[ \t\r\n]*")
"""The group is the text without the blanks at its ends."""


def _trim(text: Sql) -> Sql:
    """TRIM and RTRIM walk through the whole text. RE2 matches a pattern with ``$`` from the end, five times as fast."""
    if isinstance(text, exp.Anonymous) and text.this == "REGEXP_REPLACE" and text.expressions[1].name == _FENCE:
        return text
    return func("REGEXP_REPLACE", func("LTRIM", text, literal(BLANK)), literal(r"[ \t\r\n]+$"), literal(""))


JSON = JsonFunctions(
    **strict.repairs(_READER),
    long=("parse", "is_integer"),
    parse=_parse,
    accepted=lambda text: cast(text, "JSON"),
    get=_get,
    read_together=_read_together,
    members=_members,
    get_member=lambda members, name: func("STRUCT_EXTRACT", members, literal(name)),
    has_type=_is,
    string=_string,
    number=_number,
    bigint=_bigint,
    at=lambda value, index: func("JSON_EXTRACT", value, literal(f"$[{index}]")),
    too_wide=lambda value: exp.GTE(this=func("ABS", _number(value)), expression=double(GREATEST_DOUBLE)),
    number_text=_number_text,
    is_multiple=_is_multiple,
    is_date=lambda text: exp.Not(
        this=exp.Is(this=cast(func("LEFT", text, literal(10)), "DATE", safe=True), expression=exp.Null())
    ),
    lower_ascii=lower_ascii,
    any_item=_any_item,
    least_item=_least_item,
    any_member=_any_member,
    count_items=_count_items,
    map_items=_map_items,
    map_members=_map_members,
    join_texts=_join_texts,
    repeats=lambda texts: exp.LT(this=func("LIST_UNIQUE", texts), expression=func("LEN", texts.copy())),
    count=lambda value: case((_kind(value, "ARRAY"), func("JSON_ARRAY_LENGTH", value.copy()))),
    name_count=lambda value: case((_kind(value, "OBJECT"), func("LEN", func("JSON_KEYS", value.copy())))),
    has_other_names=_has_other_names,
    length=named_func("LENGTH"),
    search=lambda text, pattern: func("REGEXP_MATCHES", text, literal(portable(pattern))),
    trim=_trim,
    blank=lambda text: exp.Not(this=func("COALESCE", _found(text, f"[^{BLANK}]"), literal(False))),
    unfence=lambda text: func("REGEXP_REPLACE", text, literal(_FENCE), literal(r"\1")),
    let=_let,
    let_text=_let,
    first_word=lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
)


def _timestamp(text: Sql) -> Sql:
    """In UTC. Digits beyond microseconds are dropped."""
    cut = func("REGEXP_REPLACE", func("UPPER", text), literal(BEYOND_MICROSECONDS), literal(r"\1"))
    return func("TIMEZONE", literal("UTC"), cast(cut, "TIMESTAMPTZ", safe=True))


def _coerced(value: Sql, kind: Coerced) -> Sql:
    if kind.type == BOOLEAN:
        return cast(func("LOWER", _string(value)), "BOOLEAN", safe=True)
    if kind.values:
        return as_spelt(_string(value), kind.values)
    return typed_column(value, kind.type)


def typed_column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Return the typed column of a JSON value that passed its checks."""
    match kind:
        case Coerced():
            return _coerced(value, kind)
        case Scalar("json"):
            return func("NULLIF", cast(value, "VARCHAR"), literal("null"))
        case Scalar("timestamp"):
            return _timestamp(_string(value))
        case Scalar("string"):
            return _string(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Array(item):
            name = f"x{depth}"
            elements = func("LIST_TRANSFORM", _items(value), lambda_(name, lambda x: typed_column(x, item, depth + 1)))
            return case((_kind(value.copy(), "ARRAY"), elements))
        case Struct(fields):
            pairs = [
                exp.PropertyEQ(
                    this=exp.to_identifier(name, quoted=True),
                    expression=typed_column(_get(value.copy(), name), field, depth),
                )
                for name, field in fields
            ]
            return case((_kind(value.copy(), "OBJECT"), exp.Struct(expressions=pairs)))
    return cast(_string(value), sql_type(kind), safe=True)
