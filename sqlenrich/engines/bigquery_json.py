"""BigQuery reads JSON: the functions of the answer checks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ..schema.pattern import FENCE, portable
from ..types import Array, Scalar, Struct, Type
from .base import (
    BLANK,
    Sql,
    all_of,
    any_of,
    case,
    func,
    literal,
    named_func,
)
from .bigquery_text import boxed, safe_cast, type_text

# JSON -------------------------------------------------------------------------------------------------------------


def _kind(value: Sql, *labels: str) -> Sql:
    return exp.In(this=func("JSON_TYPE", value), expressions=[literal(label) for label in labels])


def _string(value: Sql) -> Sql:
    return func("JSON_VALUE", value)


def _number(value: Sql) -> Sql:
    return safe_cast(_string(value), "FLOAT64")


def _bigint(value: Sql) -> Sql:
    # 1.0 is an integer in JSON Schema; a text "1.0" is none to INT64.
    return safe_cast(safe_cast(_string(value), "BIGNUMERIC"), "INT64")


def _is(value: Sql, kinds: tuple[str, ...]) -> Sql:
    labels = [kind for kind in kinds if kind != "integer"]
    tests = [_kind(value.copy(), *labels)] if labels else []
    if "integer" in kinds and "number" not in kinds:
        number = _number(value.copy())
        whole = exp.EQ(this=number, expression=func("TRUNC", number.copy()))
        tests.append(exp.paren(all_of(_kind(value, "number"), whole), copy=False))
    return any_of(*tests)


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: colons, once the strings are emptied."""
    emptied = func("REGEXP_REPLACE", text, literal(r'"(?:[^"\\]|\\.)*"'), literal('""'))
    return func("LENGTH", func("REGEXP_REPLACE", emptied, literal("[^:]+"), literal("")))


def _parse(text: Sql) -> Sql:
    """Without 'round' a wide number would look like broken JSON. Of two equal names the first would win: the names in
    the text are counted against those of the document printed again."""
    doc = func("SAFE.PARSE_JSON", text, wide_number_mode=literal("round"))
    again = func("TO_JSON_STRING", doc.copy())
    no_bom = exp.Not(this=func("STARTS_WITH", text.copy(), literal("\ufeff")))  # the parser would skip it
    return case((all_of(no_bom, exp.EQ(this=_names(text.copy()), expression=_names(again))), doc))


def _unnest(items: Sql, name: str, test: Sql) -> Sql:
    rows = exp.Unnest(expressions=[items], alias=exp.TableAlias(columns=[exp.to_identifier(name)]))
    return exp.Exists(this=exp.select("1", copy=False).from_(rows, copy=False).where(test, copy=False))


def _any_item(value: Sql, name: str, test: Callable[[Sql], Sql]) -> Sql:
    return _unnest(func("JSON_QUERY_ARRAY", value), name, test(exp.column(name)))


def _has_other_names(value: Sql, names: tuple[str, ...]) -> Sql:
    keys = func("JSON_KEYS", value, literal(1))
    # JSON_KEYS quotes a name that is no plain word.
    allowed = [literal(name if re.fullmatch(r"\w+", name) else f'"{name}"') for name in names]
    other = exp.Not(this=exp.In(this=exp.column("k"), expressions=allowed)) if allowed else literal(True)
    return _unnest(keys, "k", other)


def _let(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    rows = exp.Unnest(
        expressions=[exp.Array(expressions=[value])], alias=exp.TableAlias(columns=[exp.to_identifier("doc")])
    )
    return exp.select(body(exp.column("doc")), copy=False).from_(rows, copy=False).subquery(copy=False)


JSON: dict[str, Callable[..., Any]] = {
    "parse": _parse,
    "accepted": lambda text: func("SAFE.PARSE_JSON", text, wide_number_mode=literal("round")),
    "get": lambda value, name: exp.Bracket(this=value, expressions=[literal(name)]),
    "is": _is,
    "string": _string,
    "number": _number,
    "bigint": _bigint,
    "any_item": _any_item,
    "count": lambda value: func("ARRAY_LENGTH", func("JSON_QUERY_ARRAY", value)),
    "has_other_names": _has_other_names,
    "length": named_func("CHAR_LENGTH"),
    "search": lambda text, pattern: func("REGEXP_CONTAINS", text, literal(portable(pattern))),
    "trim": lambda text: func("TRIM", text, literal(BLANK)),
    "unfence": lambda text: (
        func("REGEXP_CONTAINS", text, literal(FENCE)),
        func("REGEXP_EXTRACT", text.copy(), literal(FENCE)),
    ),
    "first_word": lambda text: func("REGEXP_EXTRACT", text, literal("^[^ ]+")),
    "let": _let,
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
        case Scalar("boolean"):
            return safe_cast(_string(value), "BOOL")
        case Array(item):
            name, position = f"x{depth}", f"o{depth}"
            rows = exp.Unnest(
                expressions=[func("JSON_QUERY_ARRAY", value)],
                alias=exp.TableAlias(columns=[exp.to_identifier(name)]),
                offset=exp.to_identifier(position),
            )
            element = column(exp.column(name), item, depth + 1)
            if isinstance(item, Array):
                element = boxed(element)
            query = exp.select(element, copy=False).from_(rows, copy=False).order_by(exp.column(position), copy=False)
            return func("ARRAY", query)
        case Struct(fields):
            pairs = [
                exp.alias_(
                    column(exp.Bracket(this=value.copy(), expressions=[literal(name)]), field, depth), name, quoted=True
                )
                for name, field in fields
            ]
            return case((_kind(value.copy(), "object"), func("STRUCT", *pairs)))
    return safe_cast(_string(value), type_text(kind))
