"""The plain schema to the tests of an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlenrich.core.types import Decimal, parse_type
from sqlenrich.schema.checks.combine import all_of, any_of, is_, not_
from sqlenrich.schema.checks.formats import INTEGER_TEXT, NUMBER_TEXT, format_tests, no_match
from sqlenrich.schema.checks.ir import (
    BIGINT_LIMIT,
    CODES,
    LEVELS,
    AnyItem,
    AnyMember,
    At,
    Compare,
    CountItems,
    Doc,
    Fixed,
    Get,
    Item,
    Lacks,
    Length,
    Name,
    NoMatch,
    NoneOf,
    NoneOfFolded,
    NotMultiple,
    NotOne,
    OtherNames,
    Present,
    Ref,
    Repeats,
    Test,
    TooWide,
    Unquoted,
    Verdict,
    Verdicts,
)
from sqlenrich.schema.columns import value_kinds
from sqlenrich.schema.keywords import TYPES, json_kind, kinds_of

FALSE: Mapping[str, Any] = {"not": {}}
"""The schema that no value meets."""
EXACT = 2**53
"""Beyond it two integers can be one double."""
_LIMITS: tuple[tuple[str, Literal["<", "<=", ">", ">="], str], ...] = (
    ("minimum", "<", "below"),
    ("exclusiveMinimum", "<=", "not above"),
    ("maximum", ">", "above"),
    ("exclusiveMaximum", ">=", "not below"),
)
_COUNTS: tuple[tuple[str, Literal["text", "items", "names"], str, str, str], ...] = (
    ("Length", "text", "string", "BAD_LENGTH", "{where} is {less} than {count}"),
    ("Items", "items", "array", "BAD_ITEMS", "{where} has {fewer} than {count} items"),
    ("Properties", "names", "object", "SCHEMA", "{where} has {fewer} than {count} names"),
)


def build_tests(schema: Mapping[str, Any]) -> Verdicts:
    """Give the verdicts of a plain schema (see :mod:`.normalise`), in the order of precedence of their codes.

    They are meant to be tried in this order: a test whose code comes after WRONG_TYPE relies on the types being
    right, so that its SQL stays short. A missing value violates no test but those that say so.
    """
    verdicts = [verdict for verdict in _node(schema, _Place(Doc(), "", 0)) if verdict.violated != Fixed(False)]
    return tuple(sorted(verdicts, key=lambda verdict: CODES.index(verdict.code)))


@dataclass(frozen=True, slots=True)
class _Place:
    """A value: how it is reached, its path for people, the loops around it, and whether a column holds it."""

    ref: Ref
    path: str
    depth: int
    column: bool = True

    @property
    def where(self) -> str:
        return self.path or "the answer"

    def get(self, name: str) -> _Place:
        return replace(self, ref=Get(self.ref, name), path=f"{self.path}.{name}" if self.path else name)

    def at(self, index: int) -> _Place:
        return replace(self, ref=At(self.ref, index), path=f"{self.path}[{index}]", column=False)

    def item(self, *, column: bool) -> _Place:
        return _Place(Item(self.depth), f"{self.path}[]", self.depth + 1, self.column and column)

    def member(self) -> _Place:
        return _Place(Item(self.depth), f"{self.path}.*" if self.path else "*", self.depth + 1, False)

    def name(self) -> _Place:
        return _Place(Name(self.depth), f"a name of {self.where}", self.depth + 1, False)

    def kinds(self, schema: Mapping[str, Any]) -> set[str]:
        """The types that the value has where it violates no type."""
        fixed = {"object"} if isinstance(self.ref, Doc) else {"string"} if isinstance(self.ref, Name) else set(TYPES)
        kinds = set(schema.get("type", TYPES))
        return fixed & (kinds | {"integer"} if "number" in kinds else kinds)


def _present(ref: Ref) -> Test:
    return Present(ref) if isinstance(ref, Get | At) else Fixed(True)


def _guarded(schema: Mapping[str, Any], place: _Place, kind: str, test: Test) -> Test:
    """The test where the value is of its kind; its type was tested before where there is only this one."""
    kinds = place.kinds(schema)
    if kind not in kinds and not (kind == "number" and "integer" in kinds):
        return Fixed(False)
    others = kinds - {kind, "null"} - ({"integer"} if kind == "number" else set())
    if schema.get("coerce") or not others:
        return test
    return all_of(is_(place.ref, (kind,)), test)


def _fails(schema: Mapping[str, Any], place: _Place) -> Test:
    """The value is there and does not meet the schema."""
    return any_of([verdict.violated for verdict in _node(schema, replace(place, column=False))])


def _child(schema: Mapping[str, Any], place: _Place, code: str) -> Iterator[Verdict]:
    if schema == FALSE:
        yield Verdict(code, f"{place.where} must not be there", _present(place.ref))
    else:
        yield from _node(schema, place)


def _node(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    yield from _type(schema, place)
    if "enum" in schema:
        test = _differs(schema["enum"], place.kinds(schema), place.ref, coerced=bool(schema.get("coerce")))
        yield Verdict("NOT_IN_ENUM", f"{place.where} is none of the allowed values", test)
    yield from _number(schema, place)
    for suffix, what, kind, code, words in _COUNTS:
        for keyword, op, less, fewer in (("min", "<", "shorter", "fewer"), ("max", ">", "longer", "more")):
            count = schema.get(keyword + suffix)
            if count is not None and (count or op == ">"):
                detail = words.format(where=place.where, less=less, fewer=fewer, count=count)
                length = Length(place.ref, what, "<" if op == "<" else ">", count)
                yield Verdict(code, detail, _guarded(schema, place, kind, length))
    yield from _text(schema, place)
    yield from _array(schema, place)
    yield from _object(schema, place)
    yield from _members(schema, place)
    yield from _applied(schema, place)


def _type(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    if "type" not in schema:
        return
    kinds, ref = tuple(schema["type"]), place.ref
    wrong = is_(ref, (*kinds, "string") if schema.get("coerce") and "string" not in kinds else kinds, negated=True)
    if schema.get("coerce") and "string" not in kinds:
        text: Test = NoneOfFolded(ref, ("true", "false"))
        if "boolean" not in kinds:
            text = NoMatch(ref, NUMBER_TEXT if "number" in kinds else INTEGER_TEXT)
        wrong = any_of([wrong, all_of(is_(ref, ("string",)), text)])
    yield Verdict("WRONG_TYPE", f"{place.where} is not {' or '.join(kinds)}", wrong)


def _number(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    ref, where = Unquoted(place.ref) if schema.get("coerce") else place.ref, place.where
    kinds = place.kinds(schema)
    if not kinds & {"integer", "number"}:
        return
    whole = "number" not in kinds and place.column
    if place.column and "type" in schema:
        size = "64 bits" if whole else "a double"
        yield Verdict(
            "OUT_OF_RANGE", f"{where} is beyond {size}", _guarded(schema, place, "number", TooWide(ref, whole))
        )
    for keyword, op, words in _LIMITS:
        if keyword in schema:
            limit = schema[keyword]
            exact = whole and isinstance(limit, int) and abs(limit) < BIGINT_LIMIT
            test = _guarded(schema, place, "number", Compare(ref, op, limit, exact))
            yield Verdict("OUT_OF_RANGE", f"{where} is {words} {limit}", test)
    if "column" in schema:
        kind = _decimal(schema)
        bound = 10 ** (kind.precision - kind.scale)
        tests: list[Test] = [Compare(ref, ">=", bound, False), Compare(ref, "<=", -bound, False)]
        tests.append(NotMultiple(ref, float(f"1e-{kind.scale}"), False))
        yield Verdict("OUT_OF_RANGE", f"{where} does not fit {schema['column']}", any_of(tests))
    if "multipleOf" in schema:
        step = schema["multipleOf"]
        exact = whole and float(step).is_integer() and step < BIGINT_LIMIT
        test = _guarded(schema, place, "number", NotMultiple(ref, step, exact))
        yield Verdict("OUT_OF_RANGE", f"{where} is no multiple of {step}", test)


def _differs(values: list[Any], kinds: set[str], ref: Ref, *, coerced: bool = False) -> Test:
    """The value is there and equals none of these."""
    if isinstance(ref, Name):
        kinds = {"string"}
    tests: list[Test] = []
    if "null" in kinds and None not in values:
        tests.append(is_(ref, ("null",)))
    others = kinds - {"null"} - ({"integer"} if "number" in kinds else set())
    for kind in sorted(others):
        only = coerced or len(others) == 1
        tests.append(_differs_in(kind, [v for v in values if kind in kinds_of(v)], ref, only=only, coerced=coerced))
    return any_of(tests)


def _differs_in(kind: str, values: list[Any], ref: Ref, *, only: bool, coerced: bool) -> Test:
    here = Fixed(True) if only else is_(ref, (kind,))
    if not values:
        return is_(ref, (kind,))
    if kind in ("array", "object"):
        # Of what is missing or null an engine can't tell what it lacks.
        return all_of(is_(ref, (kind,)), *(_differs_inside(value, ref) for value in values))
    test: Test
    if kind == "string" and coerced:
        test = NoneOfFolded(ref, tuple(dict.fromkeys(value.lower() for value in values)))
    elif kind == "boolean" and coerced:
        test = NoneOfFolded(ref, tuple("true" if value else "false" for value in values))
    elif kind in ("string", "boolean"):
        test = NoneOf(ref, "string" if kind == "string" else "boolean", tuple(values))
    else:
        ref = Unquoted(ref) if coerced else ref
        test = NoneOf(ref, "number", tuple(values))
        if any(abs(v) >= EXACT for v in values) and all(abs(v) < BIGINT_LIMIT and isinstance(v, int) for v in values):
            test = any_of([TooWide(ref, True), NoneOf(ref, "integer", tuple(values))])
            if kind == "number":
                test = any_of([is_(ref, ("integer",), negated=True), test])
    return all_of(here, test)


def _differs_inside(value: Any, ref: Ref) -> Test:
    """An array or object, known to be one, is not this one."""
    tests: list[Test] = []
    if isinstance(value, Mapping):
        tests.append(Length(ref, "names", "<>", len(value)))
        for name, part in value.items():
            tests += [Lacks(ref, name), _differs_from(part, Get(ref, name))]
    else:
        tests.append(Length(ref, "items", "<>", len(value)))
        tests += [_differs_from(part, At(ref, index)) for index, part in enumerate(value)]
    return any_of(tests)


def _differs_from(value: Any, ref: Ref) -> Test:
    kind = json_kind(value)
    kinds = ("number", "integer") if kind in ("integer", "number") else (kind,)
    wrong = is_(ref, kinds[:1], negated=True)
    return wrong if value is None else any_of([wrong, _differs([value], set(kinds), ref)])


def _text(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    if (pattern := schema.get("pattern")) is not None:
        test = _guarded(schema, place, "string", no_match(place.ref, pattern))
        yield Verdict("BAD_PATTERN", f"{place.where} does not match {pattern}", test)
    if "column" in schema:
        kind = _decimal(schema)
        whole = f"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
        digits = rf"^-?{whole}(?:\.[0-9]{{1,{kind.scale}}})?$" if kind.scale else f"^-?{whole}$"
        test = _guarded(schema, place, "string", NoMatch(place.ref, digits))
        yield Verdict("BAD_PATTERN", f"{place.where} is no {schema['column']}", test)
    if (name := schema.get("format")) is not None:
        tests = format_tests(name, place.ref)
        yield Verdict("BAD_PATTERN", f"{place.where} is no {name}", _guarded(schema, place, "string", any_of(tests)))


def _array(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    ref, where, depth = place.ref, place.where, place.depth
    if "array" not in place.kinds(schema):
        return
    first = schema.get("prefixItems", ())
    for index, child in enumerate(first):
        yield from _child(child, place.at(index), "BAD_ITEMS")
    if schema.get("items") == FALSE:
        yield Verdict("BAD_ITEMS", f"{where} has more than {len(first)} items", Length(ref, "items", ">", len(first)))
    elif "items" in schema:
        for verdict in _node(schema["items"], place.item(column=not first)):
            test = AnyItem(ref, depth, verdict.violated, len(first))
            yield replace(verdict, violated=test if verdict.violated != Fixed(False) else Fixed(False))
    if "contains" in schema:
        fails = _fails(schema["contains"], place.item(column=False))
        low, high = schema.get("minContains", 1), schema.get("maxContains")
        if low:
            detail = f"{where} has fewer than {low} items of the kind that it must contain"
            yield Verdict("BAD_ITEMS", detail, CountItems(ref, depth, fails, "<", low))
        if high is not None:
            detail = f"{where} has more than {high} items of the kind that it may contain"
            yield Verdict("BAD_ITEMS", detail, CountItems(ref, depth, fails, ">", high))
    if schema.get("uniqueItems"):
        kinds = value_kinds(schema["items"]) if "items" in schema and not first else set(TYPES)
        levels = LEVELS if kinds & {"array", "object"} else 0
        yield Verdict("BAD_ITEMS", f"{where} repeats an item", Repeats(ref, depth, levels))


def _object(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    ref, where = place.ref, place.where
    if "object" not in place.kinds(schema):
        return
    for name in schema.get("required", ()):
        missing = all_of(is_(ref, ("object",)), Lacks(ref, name))
        yield Verdict("MISSING_FIELD", f"{place.get(name).where} is missing", missing)
    for name, names in schema.get("dependentRequired", {}).items():
        for other in names:
            detail = f"{place.get(other).where} is missing beside {name}"
            yield Verdict("MISSING_FIELD", detail, all_of(Present(Get(ref, name)), Lacks(ref, other)))
    for name, child in schema.get("properties", {}).items():
        yield from _child(child, place.get(name), "EXTRA_FIELD")
    for name, child in schema.get("dependentSchemas", {}).items():
        test = all_of(Present(Get(ref, name)), _fails(child, place))
        yield Verdict("SCHEMA", f"{where} does not fit the schema beside {name}", test)


def _members(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    """What is said of members by their names."""
    ref, where, depth = place.ref, place.where, place.depth
    if "object" not in place.kinds(schema):
        return
    patterns: Mapping[str, Any] = schema.get("patternProperties", {})
    for pattern, child in patterns.items():
        for verdict in _child(child, place.member(), "EXTRA_FIELD"):
            test = all_of(not_(no_match(Name(depth), pattern)), verdict.violated)
            yield replace(verdict, violated=test if test == Fixed(False) else AnyMember(ref, depth, test))
    names = tuple(schema.get("properties", {}))
    if (extra := schema.get("additionalProperties", True)) is False or extra == FALSE:
        detail = f"{where} has a name that is not in the schema"
        other: Test = OtherNames(ref, names)
        if patterns:
            other = AnyMember(ref, depth, _unnamed(Name(depth), names, tuple(patterns)))
        yield Verdict("EXTRA_FIELD", detail, other)
    elif extra is not True:
        for verdict in _node(extra, place.member()):
            test = all_of(_unnamed(Name(depth), names, tuple(patterns)), verdict.violated)
            yield replace(verdict, violated=test if test == Fixed(False) else AnyMember(ref, depth, test))
    if "propertyNames" in schema:
        fails = _fails(schema["propertyNames"], place.name())
        test = fails if fails == Fixed(False) else AnyMember(ref, depth, fails)
        yield Verdict("SCHEMA", f"{where} has a name that propertyNames refuses", test)


def _decimal(schema: Mapping[str, Any]) -> Decimal:
    kind = parse_type(schema["column"])
    assert isinstance(kind, Decimal)
    return kind


def _unnamed(ref: Name, names: tuple[str, ...], patterns: tuple[str, ...]) -> Test:
    named: list[Test] = [NoneOf(ref, "string", names)] if names else []
    return all_of(*named, *(no_match(ref, pattern) for pattern in patterns))


def _applied(schema: Mapping[str, Any], place: _Place) -> Iterator[Verdict]:
    """Schemas over the same value."""
    ref, where = place.ref, place.where
    for part in schema.get("allOf", ()):
        yield from _child(part, place, "SCHEMA")
    if "anyOf" in schema:
        test = all_of(*(_fails(choice, place) for choice in schema["anyOf"]))
        yield Verdict("SCHEMA", f"{where} fits none of anyOf", test)
    if "oneOf" in schema:
        tests = tuple(_fails(choice, place) for choice in schema["oneOf"])
        yield Verdict("SCHEMA", f"{where} fits not exactly one of oneOf", all_of(_present(ref), NotOne(tests)))
    if "not" in schema:
        test = all_of(_present(ref), not_(_fails(schema["not"], place)))
        yield Verdict("SCHEMA", f"{where} is what not forbids", test)
    if "if" in schema:
        unmet = _fails(schema["if"], place)
        for keyword, condition in (("then", not_(unmet)), ("else", unmet)):
            if keyword in schema:
                test = all_of(condition, _fails(schema[keyword], place))
                yield Verdict("SCHEMA", f"{where} does not fit {keyword}", test)
