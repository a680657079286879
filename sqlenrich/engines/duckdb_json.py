"""DuckDB reads JSON: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..schema.pattern import FENCE, MAX_BRACKETS, portable
from ..types import Array, Scalar, Struct, Type
from .base import (
    BLANK,
    Sql,
    all_of,
    any_of,
    case,
    cast,
    func,
    lambda_,
    literal,
    named_func,
)
from .duckdb_text import sql_type

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
