"""The repairs of an answer's text: what there is, in which order, and as SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from sqlglot import exp

from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql, all_of, case
from sqlenrich.schema.columns import value_kinds
from sqlenrich.schema.json_schema import subschemas

REPAIRS = ("trim", "fence", "prose", "trailing_comma", "null_as_absent")
"""The known repairs in the order in which they run, whatever the order in which they are declared."""


def kept_nulls(schema: Mapping[str, Any]) -> frozenset[str]:
    """Give the names that a null may not be removed under: required somewhere in a plain schema, and nullable."""
    every = list(_every(schema))
    required = {name for one in every for name in one.get("required", ())}
    nullable = {
        name for one in every for name, child in one.get("properties", {}).items() if "null" in value_kinds(child)
    }
    return frozenset(required & nullable)


def _every(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for child in subschemas(schema):
        yield from _every(child)


def repaired_sql(json: JsonFunctions, text: Sql, repairs: Collection[str], *, keep_null: Collection[str] = ()) -> Sql:
    """Give the text after the declared repairs; ``keep_null`` are names that keep their null."""
    trimmed = json.trim(text)
    repaired = trimmed if "trim" in repairs else text
    if "fence" in repairs:
        fenced, inner = json.unfence(trimmed.copy())
        repaired = case((fenced, json.trim(inner)), default=repaired.copy())
    for name, printed in _PRINTED.items():
        if name in repairs:
            repaired = printed(json, repaired, keep_null)
    return repaired


def _prose(json: JsonFunctions, text: Sql, _: Collection[str]) -> Sql:
    plain: Sql = json.without_prose(text)
    return plain


def _trailing_comma(json: JsonFunctions, text: Sql, _: Collection[str]) -> Sql:
    plain: Sql = json.without_trailing_commas(text)
    return plain


def _null_as_absent(json: JsonFunctions, text: Sql, keep_null: Collection[str]) -> Sql:
    """A text that is no strict JSON stays: without its nulls it might be."""

    def stripped(text: Sql) -> Sql:
        sound = exp.Not(this=exp.Is(this=json.parse(text.copy()), expression=exp.Null()))
        holds = all_of(json.may_hold_null(text.copy()), sound)
        return case((holds, json.without_nulls(text.copy(), sorted(keep_null))), default=text)

    bound: Sql = json.let_text(text, stripped)
    return bound


_PRINTED: Mapping[str, Callable[[JsonFunctions, Sql, Collection[str]], Sql]] = {
    "prose": _prose,
    "trailing_comma": _trailing_comma,
    "null_as_absent": _null_as_absent,
}
