"""DuckDB reads JSON: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..schema.grammar import MAX_DEPTH
from ..schema.pattern import FENCE, portable
from ..types import Array, Scalar, Struct, Type
from . import strict
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


def _found(text: Sql, pattern: str) -> Sql:
    return func("REGEXP_MATCHES", text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by), literal("g"))


def _deeper(brackets: Sql) -> Sql:
    runs = func("REGEXP_EXTRACT_ALL", brackets, literal(strict.RUNS))
    steps = func("LIST_TRANSFORM", runs, lambda_("b", lambda b: strict.step(b, func("LENGTH", b.copy()))))
    start = exp.Array(expressions=[literal(0)])  # an empty list can't be folded
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


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: colons, once the strings are emptied."""
    emptied = _replace(text, r'"(?:[^"\\]|\\.)*"', '""')
    return func("LENGTH", _replace(emptied, "[^:]+", ""))


_ODD_NAME = r'\\.[^"]*"[ \t\r\n]*:|[\[{,:][ \t\r\n]*"[ \t\r\n]*:|"[ \t\r\n]+:'
"""An escape in a name, a string that starts with a colon, a blank behind a name: without them _PLAIN_NAME finds each
name of a sound text, spelt in one way, and nothing else."""
_PLAIN_NAME = r'"[^"\\]*":'


def _repeated(text: Sql, json: Sql) -> Sql:
    """DuckDB's parser keeps repeated names; printed again from VARIANT each name stands once. That is dear: only
    where two names in the text are equal, or may be."""
    names = func("REGEXP_EXTRACT_ALL", text, literal(_PLAIN_NAME))
    distinct = exp.EQ(this=func("LIST_UNIQUE", names), expression=func("LEN", names.copy()))
    again = cast(cast(cast(json, "VARIANT"), "JSON"), "VARCHAR")
    fewer = exp.NEQ(this=_names(text.copy()), expression=_names(exp.Try(this=again)))
    return case((all_of(exp.Not(this=_found(text.copy(), _ODD_NAME)), distinct), literal(False)), default=fewer)


def _parse(text: Sql) -> Sql:
    """DuckDB's parser also takes NaN, Infinity, trailing commas and repeated names (measured on 2.0)."""
    json = cast(text, "JSON", safe=True)
    doc = case((_repeated(text.copy(), json.copy()), literal(None)), default=json)
    return strict.parsed(_READER, text, doc)


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    made = func("LIST_TRANSFORM", exp.Array(expressions=[value]), lambda_("doc", body))
    return func("LIST_EXTRACT", made, literal(1))


JSON: dict[str, Callable[..., Any]] = {
    **strict.repairs(_READER),
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
    "let": _let,
    "let_text": _let,
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
