"""The repairs of an answer's text: their names, their order, and their SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sqlglot import exp

from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql, all_of, case, literal
from sqlenrich.core.text_functions import TextFunctions
from sqlenrich.schema.columns import value_types
from sqlenrich.schema.keywords import Schema, walk

REPAIRS = ("trim", "reasoning", "fence", "prose", "trailing_comma", "null_as_absent")
"""The known repairs, in the order in which they run. The order of their declaration is ignored."""

REASONING = ("<think>", "</think>")
"""The marks around the text that a reasoning model writes before its answer."""

_OUTER = frozenset({"trim", "reasoning", "fence"})
"""The repairs that change nothing in a text that begins and ends as an object."""


def kept_nulls(schema: Schema) -> frozenset[str]:
    """Return the names whose null must stay: a plain schema requires them somewhere, and allows null somewhere."""
    parts = [part for _, _, part in walk(schema)]
    required = {name for part in parts for name in part.get("required", ())}
    nullable = {
        name for part in parts for name, child in part.get("properties", {}).items() if "null" in value_types(child)
    }
    return frozenset(required & nullable)


def repaired_sql(
    json: JsonFunctions, texts: TextFunctions, text: Sql, repairs: Collection[str], *, keep_null: Collection[str] = ()
) -> Sql:
    """Return the text after the declared repairs; ``keep_null`` are the names whose null stays."""
    repaired = _repaired(json, texts, text, repairs, keep_null)
    if json.slow_trim and _OUTER.issuperset(repairs):
        bare = all_of(texts.startswith(text.copy(), literal("{")), texts.endswith(text.copy(), literal("}")))
        return case((bare, text.copy()), default=repaired)
    return repaired


def _repaired(
    json: JsonFunctions, texts: TextFunctions, text: Sql, repairs: Collection[str], keep_null: Collection[str]
) -> Sql:
    if "reasoning" in repairs and "trim" in repairs:
        text = _without_reasoning(json, texts, text, text)
    elif "reasoning" in repairs:
        others = [repair for repair in repairs if repair != "reasoning"]
        plain = _without_reasoning(json, texts, text, json.trim(text.copy()))
        bound: Sql = json.let_text(plain, lambda text: _repaired(json, texts, text, others, keep_null))
        return bound
    trimmed = json.trim(text)
    repaired = trimmed if "trim" in repairs else text
    if "fence" in repairs:
        inner = json.unfence(trimmed.copy())
        if "trim" in repairs:
            repaired = json.trim(inner)
        else:
            fenced = exp.NEQ(this=inner, expression=trimmed.copy())
            repaired = case((fenced, json.trim(inner.copy())), default=repaired.copy())
    for name, printed in _PRINTED.items():
        if name in repairs:
            repaired = printed(json, repaired, keep_null)
    return repaired


def _without_reasoning(json: JsonFunctions, texts: TextFunctions, text: Sql, plain: Sql) -> Sql:
    """Return what follows a leading ``<think>...</think>`` in ``plain``, the text or the trimmed text; else text."""
    begin, end = REASONING
    # Most answers have no mark: they are searched once, and not trimmed for this.
    found = texts.contains(text.copy(), literal(end))
    thought = all_of(found, texts.startswith(json.trim(text.copy()), literal(begin)))
    start = exp.Add(this=texts.text_index(plain.copy(), literal(end)), expression=literal(len(end) + 1))
    return case((thought, texts.substr(plain.copy(), start)), default=text.copy())


def _prose(json: JsonFunctions, text: Sql, _: Collection[str]) -> Sql:
    plain: Sql = json.without_prose(text)
    return plain


def _trailing_comma(json: JsonFunctions, text: Sql, _: Collection[str]) -> Sql:
    plain: Sql = json.without_trailing_commas(text)
    return plain


def _null_as_absent(json: JsonFunctions, text: Sql, keep_null: Collection[str]) -> Sql:
    """A text that is not strict JSON is left as it is: removing nulls could make it valid JSON."""

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
