"""The checks of an answer as data: each test says what violates it, where, and under which reason code.

Built once from the plain schema; :mod:`.sql` prints them for an engine, :mod:`.check` evaluates them in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

CODES = (
    "NO_INPUT", "BAD_PROMPT", "NOT_ASKED", "CALL_ERROR", "NO_RESPONSE", "TRUNCATED", "REFUSED", "BAD_JSON",
    "NOT_OBJECT", "MISSING_FIELD", "EXTRA_FIELD", "WRONG_TYPE", "NOT_IN_ENUM", "OUT_OF_RANGE", "BAD_LENGTH",
    "BAD_PATTERN", "BAD_ITEMS", "SCHEMA",
)  # fmt: skip
"""Every reason code, in the order of precedence: where several apply, the first one is the row's ``_error``."""

BIGINT_LIMIT = 2**63


@dataclass(frozen=True, slots=True)
class Doc:
    """The whole answer."""


@dataclass(frozen=True, slots=True)
class Get:
    """A named value of an object; missing where there is none."""

    base: Ref
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """The element at hand of the array that an :class:`AnyItem` runs over, by nesting depth."""

    depth: int


Ref: TypeAlias = Doc | Get | Item


@dataclass(frozen=True, slots=True)
class Is:
    """The value is there and of one of these types (``negated``: there and of none of them)."""

    ref: Ref
    kinds: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Compare:
    """A number against a limit; ``integer`` compares exactly, else as doubles."""

    ref: Ref
    op: Literal["<", "<=", ">", ">="]
    limit: int | float
    integer: bool


@dataclass(frozen=True, slots=True)
class TooWide:
    """An integer that no 64-bit column holds."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class Length:
    """The characters of a text, or the elements of an array, against a count."""

    ref: Ref
    what: Literal["text", "items"]
    op: Literal["<", ">"]
    count: int


@dataclass(frozen=True, slots=True)
class NoneOf:
    """The value of this type equals none of these."""

    ref: Ref
    kind: Literal["string", "integer", "number", "boolean"]
    values: tuple[str | int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class NoMatch:
    """The text has no match of the pattern (as written in the schema: ECMA-262)."""

    ref: Ref
    pattern: str


@dataclass(frozen=True, slots=True)
class Lacks:
    """The object has no such name."""

    ref: Ref
    name: str


@dataclass(frozen=True, slots=True)
class OtherNames:
    """The object has a name beside these."""

    ref: Ref
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnyItem:
    """The test holds for an element of the array."""

    ref: Ref
    depth: int
    test: Test


@dataclass(frozen=True, slots=True)
class All:
    """Each of the tests holds, tried in order: the first is the guard of the next."""

    tests: tuple[Test, ...]


Test: TypeAlias = Is | Compare | TooWide | Length | NoneOf | NoMatch | Lacks | OtherNames | AnyItem | All


@dataclass(frozen=True, slots=True)
class Verdict:
    """One way to fail: the code, a text for people, and the test that holds where an answer fails so."""

    code: str
    detail: str
    violated: Test


Verdicts: TypeAlias = tuple[Verdict, ...]


def build_tests(schema: Mapping[str, Any]) -> Verdicts:
    """Give the verdicts of a plain schema (see :mod:`.normalise`), in the order of precedence of their codes.

    They are meant to be tried in this order: a test whose code comes after WRONG_TYPE relies on the types being
    right, so that its SQL stays short. A missing value or a null violates no test but those that say so.
    """
    verdicts = list(_node(schema, Doc(), "", 0))
    return tuple(sorted(verdicts, key=lambda verdict: CODES.index(verdict.code)))


def _node(schema: Mapping[str, Any], ref: Ref, path: str, depth: int) -> Iterator[Verdict]:
    kinds: list[str] = schema["type"]
    where = path or "the answer"
    if not isinstance(ref, Doc):
        yield Verdict("WRONG_TYPE", f"{where} is not {' or '.join(kinds)}", Is(ref, tuple(kinds), negated=True))
    if "enum" in schema:
        for test in _not_in(schema["enum"], kinds, ref):
            yield Verdict("NOT_IN_ENUM", f"{where} is none of the allowed values", test)
    if "integer" in kinds or "number" in kinds:
        yield from _number(schema, ref, where, integer="number" not in kinds)
    if "string" in kinds:
        yield from _text(schema, ref, where)
    if "array" in kinds:
        yield from _array(schema, ref, path, where, depth)
    if "object" in kinds:
        yield from _object(schema, ref, path, depth)


def _not_in(values: list[Any], kinds: list[str], ref: Ref) -> Iterator[Test]:
    if "null" in kinds and None not in values:
        yield Is(ref, ("null",))
    texts = tuple(v for v in values if isinstance(v, str))
    truths = tuple(v for v in values if isinstance(v, bool))
    numbers = tuple(v for v in values if isinstance(v, int | float) and not isinstance(v, bool))
    if "string" in kinds:
        yield NoneOf(ref, "string", texts)
    elif "boolean" in kinds:
        yield NoneOf(ref, "boolean", truths)
    else:
        exact = "number" not in kinds and all(abs(v) < BIGINT_LIMIT and isinstance(v, int) for v in numbers)
        yield NoneOf(ref, "integer" if exact else "number", numbers)


def _number(schema: Mapping[str, Any], ref: Ref, where: str, *, integer: bool) -> Iterator[Verdict]:
    limits: tuple[tuple[str, Literal["<", "<=", ">", ">="], str], ...] = (
        ("minimum", "<", "below"),
        ("exclusiveMinimum", "<=", "not above"),
        ("maximum", ">", "above"),
        ("exclusiveMaximum", ">=", "not below"),
    )
    if integer:
        yield Verdict("OUT_OF_RANGE", f"{where} is beyond 64 bits", TooWide(ref))
    for keyword, op, words in limits:
        if keyword in schema:
            limit = schema[keyword]
            exact = integer and isinstance(limit, int) and abs(limit) < BIGINT_LIMIT
            yield Verdict("OUT_OF_RANGE", f"{where} is {words} {limit}", Compare(ref, op, limit, exact))


def _text(schema: Mapping[str, Any], ref: Ref, where: str) -> Iterator[Verdict]:
    if count := schema.get("minLength"):
        yield Verdict("BAD_LENGTH", f"{where} is shorter than {count}", Length(ref, "text", "<", count))
    if (count := schema.get("maxLength")) is not None:
        yield Verdict("BAD_LENGTH", f"{where} is longer than {count}", Length(ref, "text", ">", count))
    if (pattern := schema.get("pattern")) is not None:
        yield Verdict("BAD_PATTERN", f"{where} does not match {pattern}", NoMatch(ref, pattern))


def _array(schema: Mapping[str, Any], ref: Ref, path: str, where: str, depth: int) -> Iterator[Verdict]:
    if count := schema.get("minItems"):
        yield Verdict("BAD_ITEMS", f"{where} has fewer than {count} items", Length(ref, "items", "<", count))
    if (count := schema.get("maxItems")) is not None:
        yield Verdict("BAD_ITEMS", f"{where} has more than {count} items", Length(ref, "items", ">", count))
    if "items" in schema:
        for verdict in _node(schema["items"], Item(depth), f"{path}[]", depth + 1):
            over: Test = AnyItem(ref, depth, verdict.violated)
            if CODES.index(verdict.code) <= CODES.index("WRONG_TYPE"):
                over = All((Is(ref, ("array",)), over))
            yield Verdict(verdict.code, verdict.detail, over)


def _object(schema: Mapping[str, Any], ref: Ref, path: str, depth: int) -> Iterator[Verdict]:
    def on_object(test: Test) -> Test:
        return test if isinstance(ref, Doc) else All((Is(ref, ("object",)), test))

    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", ()):
        yield Verdict("MISSING_FIELD", f"{_join(path, name)} is missing", on_object(Lacks(ref, name)))
    if schema.get("additionalProperties") is False:
        detail = f"{path or 'the answer'} has a name that is not in the schema"
        yield Verdict("EXTRA_FIELD", detail, on_object(OtherNames(ref, tuple(properties))))
    for name, child in properties.items():
        yield from _node(child, Get(ref, name), _join(path, name), depth)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
