"""Spark and Databricks read JSON, as VARIANT: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..schema.grammar import MAX_DEPTH
from ..schema.pattern import FENCE, portable
from ..types import Array, Struct, Type
from . import strict
from .base import (
    BLANK,
    Sql,
    all_of,
    any_of,
    case,
    concat,
    func,
    lambda_,
    literal,
    named_func,
)
from .spark_sql import type_text

# JSON -------------------------------------------------------------------------------------------------------------


def _get(value: Sql, path: str, kind: str) -> Sql:
    """Read a VARIANT; nested reads become one path."""
    if isinstance(value, exp.Anonymous) and value.this == "TRY_VARIANT_GET" and value.expressions[2].this == "variant":
        inner, before, _ = value.expressions
        return func("TRY_VARIANT_GET", inner, literal(before.this + path[1:]), literal(kind))
    return func("TRY_VARIANT_GET", value, literal(path), literal(kind))


def _step(name: str) -> str:
    return "$" + ('["' + name + '"]')


def _schema(value: Sql) -> Sql:
    return func("SCHEMA_OF_VARIANT", value)


def _kind(value: Sql, kind: str) -> Sql:
    schema = _schema(value)
    match kind:
        case "object" | "array":
            return func("STARTSWITH", schema, literal(kind.upper()))
        case "number":
            names = [literal(name) for name in ("BIGINT", "DOUBLE", "FLOAT")]
            return exp.paren(
                any_of(exp.In(this=schema, expressions=names), func("STARTSWITH", schema.copy(), literal("DECIMAL"))),
                copy=False,
            )
        case "integer":
            number = _get(value.copy(), "$", "double")
            # FLOOR gives a BIGINT, and 1e19 would then fail the whole query; RINT stays a double.
            whole = exp.EQ(this=number, expression=func("RINT", number.copy()))
            return exp.paren(all_of(_kind(value, "number"), whole), copy=False)
    return exp.EQ(this=schema, expression=literal(_LABELS[kind]))


_FENCE = FENCE.removesuffix("$") + r"\z"
"""To Java a ``$`` also stands before a line separator at the end."""
_LABELS = {"string": "STRING", "boolean": "BOOLEAN", "null": "VOID"}


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
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
)


def _parse(text: Sql) -> Sql:
    """Spark's parser ignores what follows the first document. Inside an array, before a string that is longer than
    the text and so can't stand in it, nothing can follow."""
    length = func("CHAR_LENGTH", text)
    last = func("REPEAT", literal("0"), exp.Add(this=length, expression=literal(1)))
    wrapped = func("TRY_PARSE_JSON", concat(literal("["), text.copy(), literal(',"'), last, literal('"]')))
    whole = exp.GT(this=func("CHAR_LENGTH", _get(wrapped, "$[1]", "string")), expression=length.copy())
    return strict.parsed(_READER, text, case((whole, _get(wrapped.copy(), "$[0]", "variant"))))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    return func("EXISTS", _get(value, "$", "array<variant>"), lambda_(name, test))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    found = func("MAP_KEYS", _get(value, "$", "map<string, variant>"))
    allowed = [literal(name) for name in names]
    test = lambda k: exp.Not(this=exp.In(this=k, expressions=allowed)) if allowed else literal(True)  # noqa: E731
    return func("EXISTS", found, lambda_("k", test))


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    made = func("TRANSFORM", func("ARRAY", value), lambda_("doc", body))
    return func("ELEMENT_AT", made, literal(1))


JSON: dict[str, Callable[..., Any]] = {
    **strict.repairs(_READER),
    "parse": _parse,
    "accepted": named_func("TRY_PARSE_JSON"),
    "get": lambda value, name: _get(value, _step(name), "variant"),
    "is": _is,
    "string": lambda value: _get(value, "$", "string"),
    "number": lambda value: _get(value, "$", "double"),
    "bigint": lambda value: _get(value, "$", "bigint"),
    "any_item": _any_item,
    "count": lambda value: func("ARRAY_SIZE", _get(value, "$", "array<variant>")),
    "has_other_names": _has_other_names,
    "length": named_func("CHAR_LENGTH"),
    "search": lambda text, pattern: func("REGEXP_LIKE", text, literal(portable(pattern, end=r"\z"))),
    "trim": lambda text: exp.Trim(this=text, expression=literal(BLANK), position="BOTH"),
    "unfence": lambda text: (
        func("REGEXP_LIKE", text, literal(_FENCE)),
        func("REGEXP_EXTRACT", text.copy(), literal(_FENCE), literal(1)),
    ),
    "first_word": lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
    "let": _let,
    "let_text": _let,
}


def column(value: Sql, kind: Type, depth: int = 0) -> Sql:
    """Give the typed column of a JSON value that passed its checks."""
    match kind:
        case Array(item):
            elements = _get(value, "$", "array<variant>")
            return func("TRANSFORM", elements, lambda_(f"x{depth}", lambda x: column(x, item, depth + 1)))
        case Struct(fields):
            pairs: list[Sql] = []
            for name, field in fields:
                pairs += [literal(name), column(_get(value.copy(), _step(name), "variant"), field, depth)]
            return case((_kind(value.copy(), "object"), func("NAMED_STRUCT", *pairs)))
    return _get(value, "$", type_text(kind).lower())
