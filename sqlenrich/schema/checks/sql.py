"""The checks of an answer as SQL, printed with an engine's JSON functions: :mod:`sqlenrich.core.json_functions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql, all_of, any_of, case, cast, concat, data_type, func, literal, negated
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
from sqlenrich.schema.checks.shared_functions import shared
from sqlenrich.schema.checks.shared_values import Path, path_of

_OPERATORS: Mapping[str, type[exp.Binary]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "<>": exp.NEQ,
}


@dataclass(frozen=True)
class Columns:
    """Columns that hold what :class:`~.shared_values.Shared` names."""

    values: Mapping[Ref, Sql] = field(default_factory=dict)
    integers: Mapping[Ref, Sql] = field(default_factory=dict)
    faults: Mapping[Path, Sql] = field(default_factory=dict)


def value_sql(json: JsonFunctions, doc: Sql, ref: Ref) -> Sql:
    """Return the SQL of a value of the answer; ``doc`` is the parsed answer."""
    return _Printer(json, doc, Columns()).ref(ref)


def integer_sql(json: JsonFunctions, doc: Sql, ref: Ref, columns: Columns) -> Sql:
    """Return the SQL of an integer of the answer; ``columns`` hold values."""
    return _Printer(json, doc, columns).bigint(ref)


def fault_sql(json: JsonFunctions, doc: Sql, checks: Checks, path: Path, columns: Columns) -> Sql:
    """Return the SQL of the first violation in an array's elements, in one pass: the least text, NULL for none.

    A text begins with the place of its check among all checks. A test may be wrong about an element of which an earlier
    check is true; the earlier check's text is less.
    """
    printer, width = _Printer(json, doc, columns), len(str(len(checks)))
    arms: list[tuple[Sql, Sql]] = []
    for place, check in enumerate(checks):
        loops, test = path_of(check.violated)
        if loops == path:
            arms.append((printer.test(test), literal(f"{place:0{width}} {check.code} {check.detail}")))
    found: Sql = case(*arms)
    for ref, depth, start in reversed(path):
        found = json.least_item(printer.ref(ref), _item(depth), lambda _, inner=found: inner, start)  # type: ignore[misc]
    return found


def checks_sql(
    json: JsonFunctions,
    text: Sql,
    doc: Sql,
    checks: Checks,
    *,
    detail: bool,
    columns: Columns | None = None,
) -> Sql:
    """Return the SQL of the result: NULL for an accepted answer, else its reason code.

    With ``detail`` a space and a text for people follow the code. ``doc`` is the parsed ``text``.
    """
    printer = _Printer(json, doc, columns or Columns())
    arms: list[tuple[Sql, str, str]] = [
        (json.blank(text), "NO_RESPONSE", "the model gave no text"),
        (exp.Is(this=doc.copy(), expression=exp.Null()), "BAD_JSON", "the text is not one JSON document"),
        (negated(json.has_type(doc.copy(), ("object",))), "NOT_OBJECT", "the JSON document is not an object"),
    ]
    whens = [(test, literal(f"{code} {words}" if detail else code)) for test, code, words in arms]
    if detail:
        whens += printer.verdicts(checks)
    else:
        grouped: dict[str, list[Sql]] = {}
        for check in checks:
            grouped.setdefault(check.code, []).append(printer.test(check.violated))
        whens += [(any_of(*tests), literal(code)) for code, tests in grouped.items()]
    return case(*whens)


def _item(depth: int) -> str:
    return f"item{depth + 1}" if depth else "item"


def _name(depth: int) -> str:
    return f"name{depth + 1}" if depth else "name"


class _Printer:
    def __init__(self, json: JsonFunctions, doc: Sql, columns: Columns) -> None:
        self.json, self.doc, self.columns = json, doc, columns
        self.outside_loops = shared(json)

    def verdicts(self, checks: Checks) -> list[tuple[Sql, Sql]]:
        """Return each check's test and text. Checks in a row that are in one column of faults are one test."""
        width, arms = len(str(len(checks))), []
        paths = [path_of(check.violated)[0] for check in checks]
        for place, (check, path) in enumerate(zip(checks, paths, strict=True)):
            if path not in self.columns.faults:
                arms.append((self.test(check.violated), literal(f"{check.code} {check.detail}")))
            elif path not in paths[place + 1 : place + 2]:
                fault = self.columns.faults[path]
                found: Sql = exp.Not(this=exp.Is(this=fault.copy(), expression=exp.Null()))
                if path in paths[place + 1 :]:
                    found = exp.LT(this=fault.copy(), expression=literal(f"{place + 1:0{width}}"))
                arms.append((found, func("SUBSTR", fault.copy(), literal(width + 2))))
        return arms

    def bigint(self, ref: Ref) -> Sql:
        if ref in self.columns.integers:
            return self.columns.integers[ref].copy()
        integer: Sql = self.json_of(ref).bigint(self.ref(ref))
        return integer

    def json_of(self, ref: Ref) -> JsonFunctions:
        """Return the functions for a value: shared ones unless a loop has it."""
        root = ref
        while isinstance(root, Get | At | Unquoted):
            root = root.base
        return self.outside_loops if root == Doc() else self.json

    def ref(self, ref: Ref) -> Sql:
        if ref in self.columns.values:
            return self.columns.values[ref].copy()
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
                return exp.column(_item(depth))
            case Name(depth):
                return exp.column(_name(depth))

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
        """Return the SQL of a test that is true or false, never NULL."""
        if isinstance(test, Not | NotOne | Present | Lacks | Fixed) or _on_name(test):
            return self.test(test)
        return func("COALESCE", self.test(test), literal(False))


def _on_name(test: Test) -> bool:
    """Tell whether a test is on a name. A name is never missing, so the test is never NULL."""
    if isinstance(test, AnyOf | All):
        return all(map(_on_name, test.tests))
    return isinstance(test, NoMatch | NoneOf | Length) and isinstance(test.ref, Name)


def _is(p: _Printer, test: Is) -> Sql:
    holds: Sql = p.json_of(test.ref).has_type(p.ref(test.ref), test.kinds)
    if not test.negated:
        return holds
    if isinstance(holds, exp.Not):  # a test for NULL, which is false for a missing value
        return all_of(exp.Not(this=exp.Is(this=p.ref(test.ref), expression=exp.Null())), negated(holds))
    return negated(holds)


def _compare(p: _Printer, test: Compare) -> Sql:
    value = p.bigint(test.ref) if test.integer else p.json.number(p.ref(test.ref))
    return _OPERATORS[test.op](this=value, expression=_constant(test.limit))


def _constant(value: str | int | float) -> Sql:
    """Return a literal. Beyond 64 bits a number is a double: engines have no wider integers."""
    return literal(float(value) if isinstance(value, int) and abs(value) >= BIGINT_LIMIT else value)


def _too_wide(p: _Printer, test: TooWide) -> Sql:
    if test.integer:
        if (beyond := p.json_of(test.ref).beyond_bigint) is not None:
            return beyond(p.ref(test.ref), p.bigint(test.ref))
        return all_of(p.given(test.ref), exp.Is(this=p.bigint(test.ref), expression=exp.Null()))
    wide: Sql = p.json.too_wide(p.ref(test.ref))
    return wide


def _not_multiple(p: _Printer, test: NotMultiple) -> Sql:
    if test.integer:
        rest = exp.Mod(this=p.bigint(test.ref), expression=literal(int(test.step)))
        return exp.NEQ(this=rest, expression=literal(0))
    value = p.ref(test.ref)
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
    return p.bigint(test.ref) if test.kind == "integer" else p.json.number(p.ref(test.ref))


def _none_of(p: _Printer, test: NoneOf) -> Sql:
    value = p.string(test.ref) if test.kind in ("string", "boolean") else _number(p, test)
    texts = ["true" if v is True else "false" if v is False else v for v in test.values]
    return exp.Not(this=exp.In(this=value, expressions=[_constant(v) for v in texts]))


def _none_of_folded(p: _Printer, test: NoneOfFolded) -> Sql:
    lower = p.json.lower_ascii(p.string(test.ref))
    return exp.Not(this=exp.In(this=lower, expressions=[literal(value) for value in test.values]))


def _count_items(p: _Printer, test: CountItems) -> Sql:
    found = p.json.count_items(p.ref(test.ref), _item(test.depth), lambda _: negated(p.sure(test.test)))
    return _OPERATORS[test.op](this=found, expression=literal(test.count))


def _repeats(p: _Printer, test: Repeats) -> Sql:
    texts = p.json.map_items(p.ref(test.ref), _item(test.depth), lambda x: _canonical(p, x, test.depth, test.levels))
    made: Sql = p.json.repeats(texts)
    return made


def _canonical(p: _Printer, value: Sql, depth: int, levels: int) -> Sql:
    """Return the SQL of a text that is the same for equal values only; NULL for a value that nests deeper."""
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
    """Return the SQL of a text after its length, so that no text reads as two."""
    return concat(cast(p.json.length(text), data_type("TEXT")), literal(":"), text.copy())


def _bracketed(text: Sql, left: str, right: str) -> Sql:
    return concat(literal(left), text, literal(right))


def _any_item(p: _Printer, test: AnyItem) -> Sql:
    made: Sql = p.json.any_item(p.ref(test.ref), _item(test.depth), lambda _: p.test(test.test), test.start)
    return made


def _any_member(p: _Printer, test: AnyMember) -> Sql:
    made: Sql = p.json.any_member(p.ref(test.ref), _name(test.depth), _item(test.depth), lambda *_: p.test(test.test))
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
    Not: lambda p, test: negated(p.sure(test.test)),
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
    NoDate: lambda p, test: all_of(p.given(test.ref), negated(p.json.is_date(p.string(test.ref)))),
    Lacks: lambda p, test: exp.Is(this=p.ref(Get(test.ref, test.name)), expression=exp.Null()),
    OtherNames: lambda p, test: p.json.has_other_names(p.ref(test.ref), test.names),
    AnyItem: _any_item,
    AnyMember: _any_member,
    CountItems: _count_items,
    Repeats: _repeats,
}
