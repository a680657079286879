"""The checks of an answer as data: a test is a condition on a value, a check is a test that a wrong answer meets.

:mod:`.build` makes them from the plain schema; :mod:`.sql` prints them for an engine, :mod:`.evaluate` evaluates them
in Python. A test is true or false, never NULL. It is false for a value that is missing or of another type than it
tests; :class:`Lacks`, :class:`Not` and :class:`NotOne` are the exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlenrich.core.nodes import Node, node

CODES = (
    "NO_INPUT", "BAD_PROMPT", "NOT_ASKED", "CALL_ERROR", "UNREADABLE", "NO_RESPONSE", "TRUNCATED", "REFUSED",
    "BAD_JSON", "NOT_OBJECT", "MISSING_FIELD", "EXTRA_FIELD", "WRONG_TYPE", "NOT_IN_ENUM", "OUT_OF_RANGE", "BAD_LENGTH",
    "BAD_PATTERN", "BAD_ITEMS", "SCHEMA", "CHECK",
)  # fmt: skip
"""Every reason code, in the order of precedence: the first one that applies is the row's ``_error``."""

BIGINT_LIMIT = 2**63
MAX_UNIQUE_DEPTH = 3
"""Unique items of an array are compared to this depth; an item that nests deeper is refused as BAD_ITEMS."""
Operator: TypeAlias = Literal["<", "<=", ">", ">=", "<>"]


@node
class Doc(Node):
    """The whole answer."""


@node
class Get(Node):
    """A member of an object by its name."""

    base: Ref
    name: str


@node
class At(Node):
    """An element of an array by its position, from 0."""

    base: Ref
    index: int


@node
class Item(Node):
    """The current element, or the current member's value, of the loop at this nesting depth."""

    depth: int


@node
class Name(Node):
    """The current member's name, a text, of the loop at this nesting depth."""

    depth: int


@node
class Unquoted(Node):
    """A number, or the number that a text holds."""

    base: Ref


Ref: TypeAlias = Doc | Get | At | Item | Name | Unquoted


@node
class Fixed(Node):
    """A constant: true or false."""

    holds: bool


@node
class Present(Node):
    """The value is not missing."""

    ref: Ref


@node
class Is(Node):
    """The value is not missing and has one of these types; ``negated``: it has none of them."""

    ref: Ref
    kinds: tuple[str, ...]
    negated: bool = False


@node
class Compare(Node):
    """A number compared with a limit: exactly where ``integer`` is set, else as doubles."""

    ref: Ref
    op: Operator
    limit: int | float
    integer: bool


@node
class TooWide(Node):
    """The number doesn't fit its column: beyond 64 bits where ``integer`` is set, else beyond a double."""

    ref: Ref
    integer: bool


@node
class NotMultiple(Node):
    """The number is no multiple of ``step``, in exact decimals. A number of 10**20 or more is no multiple."""

    ref: Ref
    step: int | float
    integer: bool


@node
class Length(Node):
    """The number of characters of a text, elements of an array or names of an object, compared with a count."""

    ref: Ref
    what: Literal["text", "items", "names"]
    op: Operator
    count: int


@node
class NoneOf(Node):
    """The value, of this type, equals none of these."""

    ref: Ref
    kind: Literal["string", "integer", "number", "boolean"]
    values: tuple[Any, ...]


@node
class NoneOfFolded(Node):
    """The text, or the text of a boolean, equals none of these. ASCII case is ignored; the values are in lower case."""

    ref: Ref
    values: tuple[str, ...]


@node
class NoMatch(Node):
    """The text has no match of the pattern, which is ECMA-262, as written in the schema."""

    ref: Ref
    pattern: str


@node
class NoDate(Node):
    """The text's first ten characters, in the form 2026-01-31, are no day of the calendar."""

    ref: Ref


@node
class Lacks(Node):
    """The object has no member of this name."""

    ref: Ref
    name: str


@node
class OtherNames(Node):
    """The object has a member of another name than these."""

    ref: Ref
    names: tuple[str, ...]


@node
class AnyItem(Node):
    """The test is true for an element of the array, from position ``start`` on."""

    ref: Ref
    depth: int
    test: Test
    start: int = 0


@node
class AnyMember(Node):
    """The test is true for a member of the object."""

    ref: Ref
    depth: int
    test: Test


@node
class CountItems(Node):
    """The number of elements of the array for which the test is **false**, compared with a count."""

    ref: Ref
    depth: int
    test: Test
    op: Operator
    count: int


@node
class Repeats(Node):
    """Two elements of the array are equal, or one nests deeper than ``levels``, which is 0 for scalars."""

    ref: Ref
    depth: int
    levels: int


@node
class All(Node):
    """Each of the tests is true. They are evaluated in order: the first guards the next."""

    tests: tuple[Test, ...]


@node
class AnyOf(Node):
    """At least one of the tests is true."""

    tests: tuple[Test, ...]


@node
class Not(Node):
    """The test is false."""

    test: Test


@node
class NotOne(Node):
    """The number of tests that are **false** is not one: ``oneOf``, where each test is a schema's violation."""

    tests: tuple[Test, ...]


Test: TypeAlias = (
    Fixed | Present | Is | Compare | TooWide | NotMultiple | Length | NoneOf | NoneOfFolded | NoMatch
    | NoDate | Lacks | OtherNames | AnyItem | AnyMember | CountItems | Repeats | All | AnyOf | Not | NotOne
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One way for an answer to be wrong: the reason code, a text for people, and the test that is true for it."""

    code: str
    detail: str
    violated: Test


Checks: TypeAlias = tuple[Check, ...]


def disjunction(tests: Sequence[Test]) -> Test:
    """Return the test that one of the tests is true, simplified."""
    flat = [one for test in tests for one in (test.tests if isinstance(test, AnyOf) else (test,))]
    if Fixed(True) in flat:
        return Fixed(True)
    kept = tuple(test for test in flat if test != Fixed(False))
    return kept[0] if len(kept) == 1 else AnyOf(kept) if kept else Fixed(False)


def conjunction(*tests: Test) -> Test:
    """Return the test that each of the tests is true, simplified."""
    if Fixed(False) in tests:
        return Fixed(False)
    kept = tuple(test for test in tests if test != Fixed(True))
    return kept[0] if len(kept) == 1 else All(kept) if kept else Fixed(True)


def negation(test: Test) -> Test:
    """Return the test that a test is false, simplified."""
    match test:
        case Fixed(holds):
            return Fixed(not holds)
        case Not(inner):
            return inner
    return Not(test)


def has_type(ref: Ref, kinds: Sequence[str], *, negated: bool = False) -> Test:
    """Return the test of a value's type. It is a constant for the answer, an object, and for a name, a text."""
    if isinstance(ref, Name | Doc):
        return Fixed((("string" if isinstance(ref, Name) else "object") in kinds) is not negated)
    return Is(ref, tuple(kinds), negated)
