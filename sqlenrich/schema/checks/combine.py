"""Tests made of tests, as short as they can be said."""

from __future__ import annotations

from collections.abc import Sequence

from sqlenrich.schema.checks.ir import All, AnyOf, Doc, Fixed, Is, Name, Not, Ref, Test


def any_of(tests: Sequence[Test]) -> Test:
    """One of the tests holds."""
    flat = [one for test in tests for one in (test.tests if isinstance(test, AnyOf) else (test,))]
    if Fixed(True) in flat:
        return Fixed(True)
    kept = tuple(test for test in flat if test != Fixed(False))
    return kept[0] if len(kept) == 1 else AnyOf(kept) if kept else Fixed(False)


def all_of(*tests: Test) -> Test:
    """Each of the tests holds."""
    if Fixed(False) in tests:
        return Fixed(False)
    kept = tuple(test for test in tests if test != Fixed(True))
    return kept[0] if len(kept) == 1 else All(kept) if kept else Fixed(True)


def not_(test: Test) -> Test:
    """The test does not hold."""
    match test:
        case Fixed(holds):
            return Fixed(not holds)
        case Not(inner):
            return inner
    return Not(test)


def is_(ref: Ref, kinds: Sequence[str], *, negated: bool = False) -> Test:
    """The value is of one of these types; the answer is an object and a name a text."""
    if isinstance(ref, Name | Doc):
        return Fixed((("string" if isinstance(ref, Name) else "object") in kinds) is not negated)
    return Is(ref, tuple(kinds), negated)
