"""The checks of an answer as data: each test says what holds, where; a verdict is a test that an answer must not meet.

Built once by :mod:`.build` from the plain schema; :mod:`.sql` prints them for an engine, :mod:`.check` evaluates them
in Python. Every test is true or not: of a value that is missing, or of another type than the test is about, none
holds but :class:`Lacks`, :class:`Not` and :class:`NotOne`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sqlenrich.core.nodes import Node, node

CODES = (
    "NO_INPUT", "BAD_PROMPT", "NOT_ASKED", "CALL_ERROR", "NO_RESPONSE", "TRUNCATED", "REFUSED", "BAD_JSON",
    "NOT_OBJECT", "MISSING_FIELD", "EXTRA_FIELD", "WRONG_TYPE", "NOT_IN_ENUM", "OUT_OF_RANGE", "BAD_LENGTH",
    "BAD_PATTERN", "BAD_ITEMS", "SCHEMA",
)  # fmt: skip
"""Every reason code, in the order of precedence: where several apply, the first one is the row's ``_error``."""

BIGINT_LIMIT = 2**63
LEVELS = 3
"""Elements of an array that must differ are compared this deep: what nests deeper is refused as BAD_ITEMS."""
Operator: TypeAlias = Literal["<", "<=", ">", ">=", "<>"]


@node
class Doc(Node):
    """The whole answer."""


@node
class Get(Node):
    """A named value of an object; missing where there is none."""

    base: Ref
    name: str


@node
class At(Node):
    """An element of an array by its position from 0; missing where there is none."""

    base: Ref
    index: int


@node
class Item(Node):
    """The element or the member's value at hand of the loop of this nesting depth."""

    depth: int


@node
class Name(Node):
    """The member's name at hand of the loop of this nesting depth: a text."""

    depth: int


@node
class Unquoted(Node):
    """A number that may stand in a text, as that number."""

    base: Ref


Ref: TypeAlias = Doc | Get | At | Item | Name | Unquoted


@node
class Fixed(Node):
    """What holds always, or never."""

    holds: bool


@node
class Present(Node):
    """The value is there."""

    ref: Ref


@node
class Is(Node):
    """The value is there and of one of these types (``negated``: there and of none of them)."""

    ref: Ref
    kinds: tuple[str, ...]
    negated: bool = False


@node
class Compare(Node):
    """A number against a limit; ``integer`` compares exactly, else as doubles."""

    ref: Ref
    op: Operator
    limit: int | float
    integer: bool


@node
class TooWide(Node):
    """A number that its column can't hold: an integer beyond 64 bits, else one beyond a double."""

    ref: Ref
    integer: bool


@node
class NotMultiple(Node):
    """A number that is no multiple of ``step``, in exact decimals; so is any of 10**20 or more."""

    ref: Ref
    step: int | float
    integer: bool


@node
class Length(Node):
    """The characters of a text, the elements of an array or the names of an object, against a count."""

    ref: Ref
    what: Literal["text", "items", "names"]
    op: Operator
    count: int


@node
class NoneOf(Node):
    """The value of this type equals none of these."""

    ref: Ref
    kind: Literal["string", "integer", "number", "boolean"]
    values: tuple[Any, ...]


@node
class NoneOfFolded(Node):
    """The text, or a boolean as one, equals none of these in any case (ASCII; the values are in lower case)."""

    ref: Ref
    values: tuple[str, ...]


@node
class NoMatch(Node):
    """The text has no match of the pattern (as written in the schema: ECMA-262)."""

    ref: Ref
    pattern: str


@node
class NoDate(Node):
    """The text's first ten characters, of the form 2026-01-31, name no day of the calendar."""

    ref: Ref


@node
class Lacks(Node):
    """The object has no such name."""

    ref: Ref
    name: str


@node
class OtherNames(Node):
    """The object has a name beside these."""

    ref: Ref
    names: tuple[str, ...]


@node
class AnyItem(Node):
    """The test holds for an element of the array, from position ``start`` on."""

    ref: Ref
    depth: int
    test: Test
    start: int = 0


@node
class AnyMember(Node):
    """The test holds for a member of the object."""

    ref: Ref
    depth: int
    test: Test


@node
class CountItems(Node):
    """How many elements of the array the test does **not** hold for, against a count."""

    ref: Ref
    depth: int
    test: Test
    op: Operator
    count: int


@node
class Repeats(Node):
    """Two elements of the array are equal, or one nests deeper than :data:`LEVELS`; ``levels`` is 0 for scalars."""

    ref: Ref
    depth: int
    levels: int


@node
class All(Node):
    """Each of the tests holds, tried in order: the first is the guard of the next."""

    tests: tuple[Test, ...]


@node
class AnyOf(Node):
    """One of the tests holds."""

    tests: tuple[Test, ...]


@node
class Not(Node):
    """The test does not hold."""

    test: Test


@node
class NotOne(Node):
    """Not exactly one of the tests does **not** hold: of several schemas' violations, not one schema is met."""

    tests: tuple[Test, ...]


Test: TypeAlias = (
    Fixed | Present | Is | Compare | TooWide | NotMultiple | Length | NoneOf | NoneOfFolded | NoMatch
    | NoDate | Lacks | OtherNames | AnyItem | AnyMember | CountItems | Repeats | All | AnyOf | Not | NotOne
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """One way to fail: the code, a text for people, and the test that holds where an answer fails so."""

    code: str
    detail: str
    violated: Test


Verdicts: TypeAlias = tuple[Verdict, ...]
