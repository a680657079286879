"""The tests of an answer to SQL, through an engine's table of JSON functions.

The table holds, by name: ``parse`` (text to JSON, NULL unless it is one RFC 8259 text), ``accepted`` (the same for a
text known to be one), ``get`` (by name), ``is``
(one of some types; NULL for a missing value), ``string``, ``number`` (as double), ``bigint`` (NULL if too wide),
``any_item``, ``count``, ``has_other_names``, ``length``, ``search`` (of an ECMA-262 pattern), ``trim``,
``unfence`` (of a trimmed text: the test for a fence and what it holds), ``without_prose``,
``without_trailing_commas``, ``may_hold_null``, ``without_nulls`` (of a sound text, and the names that keep theirs),
``first_word``, ``let`` (a value under a name for an expression that gives a text), ``let_text`` (the same of a text).
``string``, ``number``, ``bigint`` and ``count`` give NULL for a missing value and for a JSON null.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from ..engines.base import Sql, all_of, any_of, case, literal
from .repairs import JsonFunctions
from .tests import (
    All,
    AnyItem,
    Compare,
    Doc,
    Get,
    Is,
    Item,
    Lacks,
    Length,
    NoMatch,
    NoneOf,
    OtherNames,
    Ref,
    Test,
    TooWide,
    Verdicts,
)

_READ = {"string": "string", "boolean": "string", "number": "number", "integer": "bigint"}
_OPERATORS: Mapping[str, type[exp.Binary]] = {"<": exp.LT, "<=": exp.LTE, ">": exp.GT, ">=": exp.GTE}


def verdict_sql(json: JsonFunctions, text: Sql, doc: Sql, verdicts: Verdicts, *, detail: bool) -> Sql:
    """Give NULL for an accepted text, else its code, with ``detail`` followed by a space and a text for people.

    ``doc`` is the parsed ``text``.
    """
    printer = _Printer(json, doc)
    blank = exp.EQ(this=exp.Coalesce(this=json["trim"](text), expressions=[literal("")]), expression=literal(""))
    arms: list[tuple[Sql, str, str]] = [
        (blank, "NO_RESPONSE", "the model gave no text"),
        (exp.Is(this=doc.copy(), expression=exp.Null()), "BAD_JSON", "the text is not one JSON document"),
        (exp.Not(this=json["is"](doc.copy(), ("object",))), "NOT_OBJECT", "the JSON document is not an object"),
    ]
    whens: list[tuple[Sql, str]] = [(test, f"{code} {words}" if detail else code) for test, code, words in arms]
    if detail:
        whens += [(printer.test(v.violated), f"{v.code} {v.detail}") for v in verdicts]
    else:
        grouped: dict[str, list[Sql]] = {}
        for verdict in verdicts:
            grouped.setdefault(verdict.code, []).append(printer.test(verdict.violated))
        whens += [(any_of(*tests), code) for code, tests in grouped.items()]
    return case(*((test, literal(words)) for test, words in whens))


class _Printer:
    def __init__(self, json: JsonFunctions, doc: Sql) -> None:
        self.json, self.doc = json, doc

    def ref(self, ref: Ref) -> Sql:
        match ref:
            case Doc():
                return self.doc.copy()
            case Get(base, name):
                found: Sql = self.json["get"](self.ref(base), name)
                return found
            case Item(depth):
                return exp.column(f"x{depth}")

    def test(self, test: Test) -> Sql:
        json = self.json
        match test:
            case All(tests):
                return all_of(*map(self.test, tests))
            case Is(ref, kinds, negated):
                holds: Sql = json["is"](self.ref(ref), kinds)
                return exp.Not(this=exp.paren(holds, copy=False)) if negated else holds
            case Compare(ref, op, limit, integer):
                value = json["bigint" if integer else "number"](self.ref(ref))
                return _OPERATORS[op](this=value, expression=literal(limit))
            case TooWide(ref):
                given = exp.Not(this=exp.Is(this=json["string"](self.ref(ref)), expression=exp.Null()))
                return all_of(given, exp.Is(this=json["bigint"](self.ref(ref)), expression=exp.Null()))
            case Length(ref, what, op, count):
                value = (
                    json["count"](self.ref(ref)) if what == "items" else json["length"](json["string"](self.ref(ref)))
                )
                return _OPERATORS[op](this=value, expression=literal(count))
            case NoneOf(ref, kind, values):
                value = json[_READ[kind]](self.ref(ref))
                texts = ["true" if v is True else "false" if v is False else v for v in values]
                return exp.Not(this=exp.In(this=value, expressions=[literal(v) for v in texts]))
            case NoMatch(ref, pattern):
                return exp.Not(this=json["search"](json["string"](self.ref(ref)), pattern))
            case Lacks(ref, name):
                return exp.Is(this=json["get"](self.ref(ref), name), expression=exp.Null())
            case OtherNames(ref, names):
                other: Sql = json["has_other_names"](self.ref(ref), names)
                return other
            case AnyItem(ref, depth, inner):
                some: Sql = json["any_item"](self.ref(ref), f"x{depth}", lambda _: self.test(inner))
                return some
