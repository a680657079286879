"""The checks of an answer, built from its plain schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlenrich.core.types import Decimal, parse_type
from sqlenrich.schema.checks.formats import INTEGER_TEXT, NUMBER_TEXT, format_tests, no_match
from sqlenrich.schema.checks.ir import (
    BIGINT_LIMIT,
    CODES,
    MAX_UNIQUE_DEPTH,
    AnyItem,
    AnyMember,
    At,
    Check,
    Checks,
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
    conjunction,
    disjunction,
    has_type,
    negation,
)
from sqlenrich.schema.columns import value_types
from sqlenrich.schema.json_types import TYPES, json_type, json_types
from sqlenrich.schema.keywords import NEVER, Schema

EXACT = 2**53
"""From here on two integers may be the same double."""
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


def build_checks(schema: Schema) -> Checks:
    """Return the checks of a plain schema, in the order of precedence of their codes.

    Evaluate them in this order: a test whose code comes after WRONG_TYPE assumes that the types are right, which keeps
    its SQL short.
    """
    checks = [check for check in _node(schema, _Place(Doc(), "", 0)) if check.violated != Fixed(False)]
    return tuple(sorted(checks, key=lambda check: CODES.index(check.code)))


@dataclass(frozen=True, slots=True)
class _Place:
    """A value: its reference, its path in messages, the number of loops around it, and whether a column holds it."""

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

    def kinds(self, schema: Schema) -> set[str]:
        """Return the types that the value may have once its type is known to be right."""
        fixed = {"object"} if isinstance(self.ref, Doc) else {"string"} if isinstance(self.ref, Name) else set(TYPES)
        kinds = set(schema.get("type", TYPES))
        return fixed & (kinds | {"integer"} if "number" in kinds else kinds)


def _present(ref: Ref) -> Test:
    return Present(ref) if isinstance(ref, Get | At) else Fixed(True)


def _guarded(schema: Schema, place: _Place, kind: str, test: Test) -> Test:
    """Return a test that applies to values of one type only. No guard is needed if the schema allows no other type."""
    kinds = place.kinds(schema)
    if kind not in kinds and not (kind == "number" and "integer" in kinds):
        return Fixed(False)
    others = kinds - {kind, "null"} - ({"integer"} if kind == "number" else set())
    if schema.get("coerce") or not others:
        return test
    return conjunction(has_type(place.ref, (kind,)), test)


def _fails(schema: Schema, place: _Place) -> Test:
    """Return the test that the value is there and doesn't meet the schema."""
    return disjunction([check.violated for check in _node(schema, replace(place, column=False))])


def _child(schema: Schema, place: _Place, code: str) -> Iterator[Check]:
    if schema == NEVER:
        yield Check(code, f"{place.where} must not be there", _present(place.ref))
    else:
        yield from _node(schema, place)


def _node(schema: Schema, place: _Place) -> Iterator[Check]:
    yield from _type(schema, place)
    if "enum" in schema:
        test = _differs(schema["enum"], place.kinds(schema), place.ref, coerced=bool(schema.get("coerce")))
        yield Check("NOT_IN_ENUM", f"{place.where} is none of the allowed values", test)
    yield from _number(schema, place)
    for suffix, what, kind, code, words in _COUNTS:
        for keyword, op, less, fewer in (("min", "<", "shorter", "fewer"), ("max", ">", "longer", "more")):
            count = schema.get(keyword + suffix)
            if count is not None and (count or op == ">"):
                detail = words.format(where=place.where, less=less, fewer=fewer, count=count)
                length = Length(place.ref, what, "<" if op == "<" else ">", count)
                yield Check(code, detail, _guarded(schema, place, kind, length))
    yield from _text(schema, place)
    yield from _array(schema, place)
    yield from _object(schema, place)
    yield from _members(schema, place)
    yield from _applied(schema, place)


def _type(schema: Schema, place: _Place) -> Iterator[Check]:
    if "type" not in schema:
        return
    kinds, ref = tuple(schema["type"]), place.ref
    wrong = has_type(ref, (*kinds, "string") if schema.get("coerce") and "string" not in kinds else kinds, negated=True)
    if schema.get("coerce") and "string" not in kinds:
        text: Test = NoneOfFolded(ref, ("true", "false"))
        if "boolean" not in kinds:
            text = NoMatch(ref, NUMBER_TEXT if "number" in kinds else INTEGER_TEXT)
        wrong = disjunction([wrong, conjunction(has_type(ref, ("string",)), text)])
    yield Check("WRONG_TYPE", f"{place.where} is not {' or '.join(kinds)}", wrong)


def _number(schema: Schema, place: _Place) -> Iterator[Check]:
    ref, where = Unquoted(place.ref) if schema.get("coerce") else place.ref, place.where
    kinds = place.kinds(schema)
    if not kinds & {"integer", "number"}:
        return
    whole = "number" not in kinds and place.column
    if place.column and "type" in schema:
        size = "64 bits" if whole else "a double"
        yield Check("OUT_OF_RANGE", f"{where} is beyond {size}", _guarded(schema, place, "number", TooWide(ref, whole)))
    for keyword, op, words in _LIMITS:
        if keyword in schema:
            limit = schema[keyword]
            exact = whole and isinstance(limit, int) and abs(limit) < BIGINT_LIMIT
            test = _guarded(schema, place, "number", Compare(ref, op, limit, exact))
            yield Check("OUT_OF_RANGE", f"{where} is {words} {limit}", test)
    if "column" in schema:
        kind = _decimal(schema)
        bound = 10 ** (kind.precision - kind.scale)
        tests: list[Test] = [Compare(ref, ">=", bound, False), Compare(ref, "<=", -bound, False)]
        tests.append(NotMultiple(ref, float(f"1e-{kind.scale}"), False))
        yield Check("OUT_OF_RANGE", f"{where} does not fit {schema['column']}", disjunction(tests))
    if "multipleOf" in schema:
        step = schema["multipleOf"]
        exact = whole and float(step).is_integer() and step < BIGINT_LIMIT
        test = _guarded(schema, place, "number", NotMultiple(ref, step, exact))
        yield Check("OUT_OF_RANGE", f"{where} is no multiple of {step}", test)


def _differs(values: list[Any], kinds: set[str], ref: Ref, *, coerced: bool = False) -> Test:
    """Return the test that the value is there and equals none of these."""
    if isinstance(ref, Name):
        kinds = {"string"}
    tests: list[Test] = []
    if "null" in kinds and None not in values:
        tests.append(has_type(ref, ("null",)))
    others = kinds - {"null"} - ({"integer"} if "number" in kinds else set())
    for kind in sorted(others):
        only = coerced or len(others) == 1
        tests.append(_differs_in(kind, [v for v in values if kind in json_types(v)], ref, only=only, coerced=coerced))
    return disjunction(tests)


def _differs_in(kind: str, values: list[Any], ref: Ref, *, only: bool, coerced: bool) -> Test:
    here = Fixed(True) if only else has_type(ref, (kind,))
    if not values:
        return has_type(ref, (kind,))
    if kind in ("array", "object"):
        # An engine can't tell which names a missing value or a null lacks.
        return conjunction(has_type(ref, (kind,)), *(_differs_inside(value, ref) for value in values))
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
            test = disjunction([TooWide(ref, True), NoneOf(ref, "integer", tuple(values))])
            if kind == "number":
                test = disjunction([has_type(ref, ("integer",), negated=True), test])
    return conjunction(here, test)


def _differs_inside(value: Any, ref: Ref) -> Test:
    """Return the test that an array or object differs from this one; its type is already tested."""
    tests: list[Test] = []
    if isinstance(value, Mapping):
        tests.append(Length(ref, "names", "<>", len(value)))
        for name, part in value.items():
            tests += [Lacks(ref, name), _differs_from(part, Get(ref, name))]
    else:
        tests.append(Length(ref, "items", "<>", len(value)))
        tests += [_differs_from(part, At(ref, index)) for index, part in enumerate(value)]
    return disjunction(tests)


def _differs_from(value: Any, ref: Ref) -> Test:
    kind = json_type(value)
    kinds = ("number", "integer") if kind in ("integer", "number") else (kind,)
    wrong = has_type(ref, kinds[:1], negated=True)
    return wrong if value is None else disjunction([wrong, _differs([value], set(kinds), ref)])


def _text(schema: Schema, place: _Place) -> Iterator[Check]:
    if (pattern := schema.get("pattern")) is not None:
        test = _guarded(schema, place, "string", no_match(place.ref, pattern))
        yield Check("BAD_PATTERN", f"{place.where} does not match {pattern}", test)
    if "column" in schema:
        kind = _decimal(schema)
        whole = f"[0-9]{{1,{kind.precision - kind.scale}}}" if kind.precision > kind.scale else "0"
        digits = rf"^-?{whole}(?:\.[0-9]{{1,{kind.scale}}})?$" if kind.scale else f"^-?{whole}$"
        test = _guarded(schema, place, "string", NoMatch(place.ref, digits))
        yield Check("BAD_PATTERN", f"{place.where} is no {schema['column']}", test)
    if (name := schema.get("format")) is not None:
        tests = format_tests(name, place.ref)
        yield Check("BAD_PATTERN", f"{place.where} is no {name}", _guarded(schema, place, "string", disjunction(tests)))


def _array(schema: Schema, place: _Place) -> Iterator[Check]:
    ref, where, depth = place.ref, place.where, place.depth
    if "array" not in place.kinds(schema):
        return
    first = schema.get("prefixItems", ())
    for index, child in enumerate(first):
        yield from _child(child, place.at(index), "BAD_ITEMS")
    if schema.get("items") == NEVER:
        yield Check("BAD_ITEMS", f"{where} has more than {len(first)} items", Length(ref, "items", ">", len(first)))
    elif "items" in schema:
        for check in _node(schema["items"], place.item(column=not first)):
            test = AnyItem(ref, depth, check.violated, len(first))
            yield replace(check, violated=test if check.violated != Fixed(False) else Fixed(False))
    if "contains" in schema:
        fails = _fails(schema["contains"], place.item(column=False))
        low, high = schema.get("minContains", 1), schema.get("maxContains")
        if low:
            detail = f"{where} has fewer than {low} items of the kind that it must contain"
            yield Check("BAD_ITEMS", detail, CountItems(ref, depth, fails, "<", low))
        if high is not None:
            detail = f"{where} has more than {high} items of the kind that it may contain"
            yield Check("BAD_ITEMS", detail, CountItems(ref, depth, fails, ">", high))
    if schema.get("uniqueItems"):
        kinds = value_types(schema["items"]) if "items" in schema and not first else set(TYPES)
        levels = MAX_UNIQUE_DEPTH if kinds & {"array", "object"} else 0
        yield Check("BAD_ITEMS", f"{where} repeats an item", Repeats(ref, depth, levels))


def _object(schema: Schema, place: _Place) -> Iterator[Check]:
    ref, where = place.ref, place.where
    if "object" not in place.kinds(schema):
        return
    for name in schema.get("required", ()):
        missing = conjunction(has_type(ref, ("object",)), Lacks(ref, name))
        yield Check("MISSING_FIELD", f"{place.get(name).where} is missing", missing)
    for name, names in schema.get("dependentRequired", {}).items():
        for other in names:
            detail = f"{place.get(other).where} is missing beside {name}"
            yield Check("MISSING_FIELD", detail, conjunction(Present(Get(ref, name)), Lacks(ref, other)))
    for name, child in schema.get("properties", {}).items():
        yield from _child(child, place.get(name), "EXTRA_FIELD")
    for name, child in schema.get("dependentSchemas", {}).items():
        test = conjunction(Present(Get(ref, name)), _fails(child, place))
        yield Check("SCHEMA", f"{where} does not fit the schema beside {name}", test)


def _members(schema: Schema, place: _Place) -> Iterator[Check]:
    """Return the checks of an object's members by their names."""
    ref, where, depth = place.ref, place.where, place.depth
    if "object" not in place.kinds(schema):
        return
    patterns: Schema = schema.get("patternProperties", {})
    for pattern, child in patterns.items():
        for check in _child(child, place.member(), "EXTRA_FIELD"):
            test = conjunction(negation(no_match(Name(depth), pattern)), check.violated)
            yield replace(check, violated=test if test == Fixed(False) else AnyMember(ref, depth, test))
    names = tuple(schema.get("properties", {}))
    if (extra := schema.get("additionalProperties", True)) is False or extra == NEVER:
        detail = f"{where} has a name that is not in the schema"
        other: Test = OtherNames(ref, names)
        if patterns:
            other = AnyMember(ref, depth, _unnamed(Name(depth), names, tuple(patterns)))
        yield Check("EXTRA_FIELD", detail, other)
    elif extra is not True:
        for check in _node(extra, place.member()):
            test = conjunction(_unnamed(Name(depth), names, tuple(patterns)), check.violated)
            yield replace(check, violated=test if test == Fixed(False) else AnyMember(ref, depth, test))
    if "propertyNames" in schema:
        fails = _fails(schema["propertyNames"], place.name())
        test = fails if fails == Fixed(False) else AnyMember(ref, depth, fails)
        yield Check("SCHEMA", f"{where} has a name that propertyNames refuses", test)


def _decimal(schema: Schema) -> Decimal:
    kind = parse_type(schema["column"])
    assert isinstance(kind, Decimal)
    return kind


def _unnamed(ref: Name, names: tuple[str, ...], patterns: tuple[str, ...]) -> Test:
    named: list[Test] = [NoneOf(ref, "string", names)] if names else []
    return conjunction(*named, *(no_match(ref, pattern) for pattern in patterns))


def _applied(schema: Schema, place: _Place) -> Iterator[Check]:
    """Return the checks of the keywords that hold schemas for the same value."""
    ref, where = place.ref, place.where
    for part in schema.get("allOf", ()):
        yield from _child(part, place, "SCHEMA")
    if "anyOf" in schema:
        test = conjunction(*(_fails(choice, place) for choice in schema["anyOf"]))
        yield Check("SCHEMA", f"{where} fits none of anyOf", test)
    if "oneOf" in schema:
        tests = tuple(_fails(choice, place) for choice in schema["oneOf"])
        yield Check("SCHEMA", f"{where} fits not exactly one of oneOf", conjunction(_present(ref), NotOne(tests)))
    if "not" in schema:
        test = conjunction(_present(ref), negation(_fails(schema["not"], place)))
        yield Check("SCHEMA", f"{where} is what not forbids", test)
    if "if" in schema:
        unmet = _fails(schema["if"], place)
        for keyword, condition in (("then", negation(unmet)), ("else", unmet)):
            if keyword in schema:
                test = conjunction(condition, _fails(schema[keyword], place))
                yield Check("SCHEMA", f"{where} does not fit {keyword}", test)
