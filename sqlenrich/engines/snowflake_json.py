"""Snowflake reads JSON, as VARIANT: the functions of the answer checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..schema.grammar import MAX_DEPTH
from ..schema.pattern import FENCE_HEAD, portable
from ..types import Array, Scalar, Struct, Type
from . import strict
from .base import (
    BLANK,
    Sql,
    all_of,
    any_of,
    func,
    lambda_,
    literal,
    named_func,
)
from .snowflake_text import matches, sql_type, string_of, within_64_bits

# JSON -------------------------------------------------------------------------------------------------------------


def _posix(pattern: str) -> str:
    """Snowflake's regular expressions know no group that starts with (?."""
    return portable(pattern).replace("(?:", "(")


_KINDS = {
    "object": ("OBJECT",),
    "array": ("ARRAY",),
    "string": ("VARCHAR",),
    "number": ("INTEGER", "DECIMAL", "DOUBLE"),
    "boolean": ("BOOLEAN",),
    "null": ("NULL_VALUE",),
}


def _kind(value: Sql, *labels: str) -> Sql:
    return exp.In(this=func("TYPEOF", value), expressions=[literal(label) for label in labels])


def _number(value: Sql) -> Sql:
    return func("TRY_TO_DOUBLE", string_of(value))


def _bigint(value: Sql) -> Sql:
    return within_64_bits(func("TRY_TO_NUMBER", string_of(value), literal(38), literal(0)))


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [label for kind in kinds if kind != "integer" for label in _KINDS[kind]]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("FLOOR", number.copy()))
        tests.append(any_of(_kind(value.copy(), "INTEGER"), all_of(_kind(value, "DECIMAL", "DOUBLE"), whole)))
    return any_of(*tests)


def _found(text: Sql, pattern: str) -> Sql:
    return matches(text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by))


def _deeper(brackets: Sql) -> Sql:
    """SPLIT takes no empty separator."""
    parameters = [exp.to_identifier("d"), exp.to_identifier("b")]
    fold = exp.Lambda(
        this=strict.deepest(exp.column("d"), strict.step(string_of(exp.column("b")))), expressions=parameters
    )
    parted = func("SPLIT", _replace(brackets, "(.)", r"\1,"), literal(","))
    return exp.GT(this=func("REDUCE", parted, literal(0), fold), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "posix",
    whole=lambda text, pattern: func("REGEXP_LIKE", text, literal(pattern)),
    found=_found,
    replace=_replace,
    length=named_func("LENGTH"),
    deeper=_deeper,
)


def _parse(text: Sql) -> Sql:
    """TRY_PARSE_JSON refuses repeated names."""
    return strict.parsed(_READER, text, func("TRY_PARSE_JSON", text.copy()))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    kept = func("FILTER", func("AS_ARRAY", value), lambda_(name, test))
    return exp.GT(this=func("ARRAY_SIZE", kept), expression=literal(0))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    allowed = func("ARRAY_CONSTRUCT", *(literal(name) for name in names))
    other = func("ARRAY_EXCEPT", func("OBJECT_KEYS", func("AS_OBJECT", value)), allowed)
    return exp.GT(this=func("ARRAY_SIZE", other), expression=literal(0))


def _unfence(text: Sql) -> tuple[Sql, Sql]:
    head = literal(FENCE_HEAD)
    fenced = all_of(matches(text, head), func("ENDSWITH", text.copy(), literal("```")))
    body = func("REGEXP_REPLACE", text.copy(), head.copy(), literal(""))
    inner = func(
        "LEFT", body, func("GREATEST", exp.Sub(this=func("LENGTH", body.copy()), expression=literal(3)), literal(0))
    )
    return fenced, inner


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    made = func("TRANSFORM", func("ARRAY_CONSTRUCT", value), lambda_("doc", body))
    return string_of(func("GET", made, literal(0)))


JSON: dict[str, Callable[..., Any]] = {
    **strict.repairs(_READER),
    "parse": _parse,
    "accepted": named_func("TRY_PARSE_JSON"),
    "get": lambda value, name: func("GET", value, literal(name)),
    "is": _is,
    "string": string_of,
    "number": _number,
    "bigint": _bigint,
    "any_item": _any_item,
    "count": lambda value: func("ARRAY_SIZE", func("AS_ARRAY", value)),
    "has_other_names": _has_other_names,
    "length": named_func("LENGTH"),
    "search": lambda text, pattern: matches(text, literal(_posix(pattern))),
    "trim": lambda text: func("TRIM", text, literal(BLANK)),
    "unfence": _unfence,
    "first_word": lambda text: func("SPLIT_PART", text, literal(" "), literal(1)),
    "let": _let,
    "let_text": lambda text, body: _let(text, lambda doc: body(string_of(doc))),
}


def column(value: Sql, kind: Type) -> Sql:
    """Give the typed column of a JSON value that passed its checks."""
    match kind:
        case Scalar("string"):
            return string_of(value)
        case Scalar("bigint"):
            return _bigint(value)
        case Scalar("double"):
            return _number(value)
        case Scalar("boolean"):
            return func("AS_BOOLEAN", value)
        case Array():
            return func("AS_ARRAY", value)
        case Struct():
            return func("AS_OBJECT", value)
    return exp.TryCast(this=string_of(value), to=sql_type(kind))
