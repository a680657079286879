"""BigQuery reads JSON: the functions of the answer checks."""

from __future__ import annotations

import re
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


def _found(text: Sql, pattern: str) -> Sql:
    return func("REGEXP_CONTAINS", text, literal(pattern))


def _replace(text: Sql, pattern: str, by: str) -> Sql:
    return func("REGEXP_REPLACE", text, literal(pattern), literal(by))


def _rows(items: Sql, name: str, position: str) -> exp.Unnest:
    alias = exp.TableAlias(columns=[exp.to_identifier(name)])
    return exp.Unnest(expressions=[items], alias=alias, offset=exp.to_identifier(position))


def _deeper(brackets: Sql) -> Sql:
    change = strict.step(exp.column("b"), func("CHAR_LENGTH", exp.column("b")))
    order = exp.Order(expressions=[exp.Ordered(this=exp.column("o"), nulls_first=True)])
    depth = exp.Window(this=exp.Sum(this=change), order=order)
    depths = exp.select(exp.alias_(depth, "d"), copy=False)
    depths = depths.from_(_rows(func("REGEXP_EXTRACT_ALL", brackets, literal(strict.RUNS)), "b", "o"), copy=False)
    most = exp.select(exp.Max(this=exp.column("d")), copy=False).from_(
        depths.subquery("depths", copy=False), copy=False
    )
    return exp.GT(this=most.subquery(copy=False), expression=literal(MAX_DEPTH))


_READER = strict.Reader(
    "re2",
    whole=lambda text, pattern: _found(text, f"^(?:{pattern})$"),
    found=_found,
    replace=_replace,
    length=named_func("CHAR_LENGTH"),
    deeper=_deeper,
)


def _names(text: Sql) -> Sql:
    """The number of object names in a JSON text: colons, once the strings are emptied."""
    emptied = _replace(text, r'"(?:[^"\\]|\\.)*"', '""')
    return func("LENGTH", _replace(emptied, "[^:]+", ""))


_LARGEST = "1.7976931348623157e308"
_TOKENS = r'"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*|[^-"0-9]+'
_MAY_BE_WIDE = r"[0-9]{250}|[0-9][eE]\+?[0-9]{2}"


def _narrow(text: Sql) -> Sql:
    """A JSON text with its numbers beyond doubles put at the largest double: the parser refuses them."""
    token = exp.column("t")
    number = exp.And(this=_found(token, "^-?[0-9]"), expression=func("IS_INF", safe_cast(token.copy(), "FLOAT64")))
    largest = case(
        (func("STARTS_WITH", token.copy(), literal("-")), literal(f"-{_LARGEST}")), default=literal(_LARGEST)
    )
    put = case((number, largest), default=token.copy())
    in_order = exp.Order(this=put, expressions=[exp.Ordered(this=exp.column("o"), nulls_first=True)])
    joined = exp.GroupConcat(this=in_order, separator=literal(""))
    tokens = _rows(func("REGEXP_EXTRACT_ALL", text, literal(_TOKENS)), "t", "o")
    return exp.select(joined, copy=False).from_(tokens, copy=False).subquery(copy=False)


def _doc(text: Sql) -> Sql:
    """Without 'round' a wide number would look like broken JSON; one beyond doubles still does."""
    doc = func("SAFE.PARSE_JSON", text, wide_number_mode=literal("round"))
    again = func("SAFE.PARSE_JSON", _narrow(text.copy()), wide_number_mode=literal("round"))
    return exp.Coalesce(this=doc, expressions=[case((_found(text.copy(), _MAY_BE_WIDE), again))])


def _parse(text: Sql) -> Sql:
    """Of two equal names the first would win: the names in the text are counted against those of the document
    printed again."""
    names = _names(text.copy())

    def once(doc: Sql) -> Sql:
        return case((exp.EQ(this=names, expression=_names(func("TO_JSON_STRING", doc))), doc.copy()))

    return strict.parsed(_READER, text, _let(_doc(text.copy()), once, "parsed"))


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


def _let(value: Sql, body: Callable[[Sql], Sql], name: str = "doc") -> Sql:
    rows = exp.Unnest(
        expressions=[exp.Array(expressions=[value])], alias=exp.TableAlias(columns=[exp.to_identifier(name)])
    )
    return exp.select(body(exp.column(name)), copy=False).from_(rows, copy=False).subquery(copy=False)


JSON: dict[str, Callable[..., Any]] = {
    **strict.repairs(_READER),
    "parse": _parse,
    "accepted": _doc,
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
    "let_text": _let,
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
