"""The checks of an answer as SQL, printed with an engine's JSON functions: :mod:`sqlenrich.core.json_functions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql, all_of, any_of, case, cast, concat, func, literal
from sqlenrich.schema.checks.ir import (
    BIGINT_LIMIT,
    All,
    AnyItem,
    AnyMember,
    AnyOf,
    At,
    Checks,
    Compare,
    CountItems,
    Doc,
    Fixed,
    Get,
    Is,
    Item,
    Lacks,
    Length,
    Name,
    NoDate,
    NoMatch,
    NoneOf,
    NoneOfFolded,
    Not,
    NotMultiple,
    NotOne,
    OtherNames,
    Present,
    Ref,
    Repeats,
    Test,
    TooWide,
    Unquoted,
)

_OPERATORS: Mapping[str, type[exp.Binary]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "<>": exp.NEQ,
}


def ref_sql(json: JsonFunctions, doc: Sql, ref: Ref) -> Sql:
    """Give the SQL of a value of the answer; ``doc`` is the parsed answer."""
    return _Printer(json, doc, {}).ref(ref)


def checks_sql(
    json: JsonFunctions,
    text: Sql,
    doc: Sql,
    checks: Checks,
    *,
    detail: bool,
    columns: Mapping[Ref, Sql] = MappingProxyType({}),
) -> Sql:
    """Give the SQL of the result: NULL for an accepted answer, else its reason code.

    With ``detail`` a space and a text for people follow the code. ``doc`` is the parsed ``text``; ``columns`` are
    columns that hold some of its values.
    """
    printer = _Printer(json, doc, columns)
    arms: list[tuple[Sql, str, str]] = [
        (json.blank(text), "NO_RESPONSE", "the model gave no text"),
        (exp.Is(this=doc.copy(), expression=exp.Null()), "BAD_JSON", "the text is not one JSON document"),
        (exp.Not(this=json.has_type(doc.copy(), ("object",))), "NOT_OBJECT", "the JSON document is not an object"),
    ]
    whens: list[tuple[Sql, str]] = [(test, f"{code} {words}" if detail else code) for test, code, words in arms]
    if detail:
        whens += [(printer.test(check.violated), f"{check.code} {check.detail}") for check in checks]
    else:
        grouped: dict[str, list[Sql]] = {}
        for check in checks:
            grouped.setdefault(check.code, []).append(printer.test(check.violated))
        whens += [(any_of(*tests), code) for code, tests in grouped.items()]
    return case(*((test, literal(words)) for test, words in whens))


class _Printer:
    def __init__(self, json: JsonFunctions, doc: Sql, columns: Mapping[Ref, Sql]) -> None:
        self.json, self.doc, self.columns = json, doc, columns

    def ref(self, ref: Ref) -> Sql:
        if ref in self.columns:
            return self.columns[ref].copy()
        match ref:
            case Doc():
                return self.doc.copy()
            case Get(base, name):
                return self.json.get(self.ref(base), name)
            case At(base, index):
                return self.json.at(self.ref(base), index)
            case Unquoted(base):
                value = self.ref(base)
                return value if self.json.unquoted is None else self.json.unquoted(value)
            case Item(depth):
                return exp.column(f"x{depth}")
            case Name(depth):
                return exp.column(f"k{depth}")

    def string(self, ref: Ref) -> Sql:
        return self.ref(ref) if isinstance(ref, Name) else self.json.string(self.ref(ref))

    def test(self, test: Test) -> Sql:
        made: Sql = _TESTS[type(test)](self, test)
        return made

    def given(self, ref: Ref) -> Sql:
        return exp.Not(this=exp.Is(this=self.string(ref), expression=exp.Null()))

    def tests(self, tests: Sequence[Test]) -> list[Sql]:
        return [self.test(test) for test in tests]

    def sure(self, test: Test) -> Sql:
        """Give the SQL of a test that is true or false, never NULL."""
        if isinstance(test, Not | NotOne | Present | Lacks | Fixed) or _on_name(test):
            return self.test(test)
        return func("COALESCE", self.test(test), literal(False))


def _on_name(test: Test) -> bool:
    """Tell whether a test is on a name. A name is never missing, so the test is never NULL."""
    if isinstance(test, AnyOf | All):
        return all(map(_on_name, test.tests))
    return isinstance(test, NoMatch | NoneOf | Length) and isinstance(test.ref, Name)


def _negated(test: Sql) -> Sql:
    if isinstance(test, exp.Not):
        inner: Sql = test.this
        return inner
    return exp.Boolean(this=not test.this) if isinstance(test, exp.Boolean) else exp.Not(this=test)


def _is(p: _Printer, test: Is) -> Sql:
    holds: Sql = p.json.has_type(p.ref(test.ref), test.kinds)
    return exp.Not(this=exp.paren(holds, copy=False)) if test.negated else holds


def _compare(p: _Printer, test: Compare) -> Sql:
    value = (p.json.bigint if test.integer else p.json.number)(p.ref(test.ref))
    return _OPERATORS[test.op](this=value, expression=_constant(test.limit))


def _constant(value: str | int | float) -> Sql:
    """Give a literal. Beyond 64 bits a number is a double: engines have no wider integers."""
    return literal(float(value) if isinstance(value, int) and abs(value) >= BIGINT_LIMIT else value)


def _too_wide(p: _Printer, test: TooWide) -> Sql:
    if test.integer:
        if p.json.beyond_bigint is not None:
            return p.json.beyond_bigint(p.ref(test.ref))
        return all_of(p.given(test.ref), exp.Is(this=p.json.bigint(p.ref(test.ref)), expression=exp.Null()))
    wide: Sql = p.json.too_wide(p.ref(test.ref))
    return wide


def _not_multiple(p: _Printer, test: NotMultiple) -> Sql:
    value = p.ref(test.ref)
    if test.integer:
        rest = exp.Mod(this=p.json.bigint(value), expression=literal(int(test.step)))
        return exp.NEQ(this=rest, expression=literal(0))
    number = p.json.number(value)
    small = exp.LT(this=func("ABS", number), expression=exp.Literal.number("1e20"))
    holds = func("COALESCE", all_of(small, p.json.is_multiple(value.copy(), test.step)), literal(False))
    given = exp.Not(this=exp.Is(this=number.copy(), expression=exp.Null()))
    return all_of(given, exp.Not(this=holds))


def _length(p: _Printer, test: Length) -> Sql:
    match test.what:
        case "items":
            value = p.json.count(p.ref(test.ref))
        case "names":
            value = p.json.name_count(p.ref(test.ref))
        case "text":
            value = p.json.length(p.string(test.ref))
    return _OPERATORS[test.op](this=value, expression=literal(test.count))


def _number(p: _Printer, test: NoneOf) -> Sql:
    return (p.json.bigint if test.kind == "integer" else p.json.number)(p.ref(test.ref))


def _none_of(p: _Printer, test: NoneOf) -> Sql:
    value = p.string(test.ref) if test.kind in ("string", "boolean") else _number(p, test)
    texts = ["true" if v is True else "false" if v is False else v for v in test.values]
    return exp.Not(this=exp.In(this=value, expressions=[_constant(v) for v in texts]))


def _none_of_folded(p: _Printer, test: NoneOfFolded) -> Sql:
    lower = p.json.lower_ascii(p.string(test.ref))
    return exp.Not(this=exp.In(this=lower, expressions=[literal(value) for value in test.values]))


def _count_items(p: _Printer, test: CountItems) -> Sql:
    found = p.json.count_items(p.ref(test.ref), f"x{test.depth}", lambda _: _negated(p.sure(test.test)))
    return _OPERATORS[test.op](this=found, expression=literal(test.count))


def _repeats(p: _Printer, test: Repeats) -> Sql:
    texts = p.json.map_items(p.ref(test.ref), f"x{test.depth}", lambda x: _canonical(p, x, test.depth, test.levels))
    made: Sql = p.json.repeats(texts)
    return made


def _canonical(p: _Printer, value: Sql, depth: int, levels: int) -> Sql:
    """Give the SQL of a text that is the same for equal values only; NULL for a value that nests deeper."""
    json = p.json
    name = f"{depth}_{levels}"
    arms: list[tuple[Sql, Sql]] = [
        (json.has_type(value, ("string",)), _measured(p, json.string(value.copy()))),
        (json.has_type(value.copy(), ("integer", "number")), json.number_text(value.copy())),
        (json.has_type(value.copy(), ("boolean",)), json.string(value.copy())),
        (json.has_type(value.copy(), ("null",)), literal("null")),
    ]
    if levels:
        inside = json.map_items(value.copy(), f"y{name}", lambda y: _canonical(p, y, depth, levels - 1))
        arms.append((json.has_type(value.copy(), ("array",)), _bracketed(json.join_texts(inside), "[", "]")))
        members = json.map_members(
            value.copy(),
            f"n{name}",
            f"z{name}",
            lambda n, z: concat(_measured(p, n), _canonical(p, z, depth, levels - 1)),
        )
        arms.append((json.has_type(value.copy(), ("object",)), _bracketed(json.join_texts(members), "{", "}")))
    return case(*arms)


def _measured(p: _Printer, text: Sql) -> Sql:
    """Give the SQL of a text after its length, so that no text reads as two."""
    return concat(cast(p.json.length(text), exp.DataType.build("TEXT")), literal(":"), text.copy())


def _bracketed(text: Sql, left: str, right: str) -> Sql:
    return concat(literal(left), text, literal(right))


def _any_item(p: _Printer, test: AnyItem) -> Sql:
    made: Sql = p.json.any_item(p.ref(test.ref), f"x{test.depth}", lambda _: p.test(test.test), test.start)
    return made


def _any_member(p: _Printer, test: AnyMember) -> Sql:
    made: Sql = p.json.any_member(p.ref(test.ref), f"k{test.depth}", f"x{test.depth}", lambda *_: p.test(test.test))
    return made


def _not_one(p: _Printer, test: NotOne) -> Sql:
    met = [case((one, literal(0)), default=literal(1)) for one in p.tests(test.tests)]
    total: Sql = met[0]
    for one in met[1:]:
        total = exp.Add(this=total, expression=one)
    return exp.NEQ(this=total, expression=literal(1))


_TESTS: Mapping[type, Any] = {
    Fixed: lambda _, test: literal(test.holds),
    All: lambda p, test: all_of(*p.tests(test.tests)),
    AnyOf: lambda p, test: exp.paren(any_of(*p.tests(test.tests)), copy=False),
    Not: lambda p, test: _negated(p.sure(test.test)),
    NotOne: _not_one,
    Present: lambda p, test: exp.Not(this=exp.Is(this=p.ref(test.ref), expression=exp.Null())),
    Is: _is,
    Compare: _compare,
    TooWide: _too_wide,
    NotMultiple: _not_multiple,
    Length: _length,
    NoneOf: _none_of,
    NoneOfFolded: _none_of_folded,
    NoMatch: lambda p, test: exp.Not(this=p.json.search(p.string(test.ref), test.pattern)),
    NoDate: lambda p, test: all_of(p.given(test.ref), _negated(p.json.is_date(p.string(test.ref)))),
    Lacks: lambda p, test: exp.Is(this=p.ref(Get(test.ref, test.name)), expression=exp.Null()),
    OtherNames: lambda p, test: p.json.has_other_names(p.ref(test.ref), test.names),
    AnyItem: _any_item,
    AnyMember: _any_member,
    CountItems: _count_items,
    Repeats: _repeats,
}
