"""What several tests of an answer read: each value, each integer and each array's faults are a column, once a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlenrich.schema.checks.ir import (
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
    Lacks,
    NoneOf,
    Not,
    NotMultiple,
    NotOne,
    Ref,
    Test,
    TooWide,
    Unquoted,
)

_PLAIN = re.compile(r"\w{1,60}", re.ASCII)

Path: TypeAlias = tuple[tuple[Ref, int, int], ...]
"""The loops over an array and over the arrays in its elements: each the array, the loop's depth, its first position."""


@dataclass(frozen=True)
class Shared:
    """Column names by what the columns hold."""

    values: Mapping[Ref, str] = field(default_factory=dict)
    """Values outside loops."""
    integers: Mapping[Ref, str] = field(default_factory=dict)
    """Integers within 64 bits, by their values."""
    faults: Mapping[Path, str] = field(default_factory=dict)
    """The first violation in an array's elements: the place of its check, its code and its detail, as one text."""


def shared_values(checks: Checks, doc: str) -> Shared:
    """Return what more than one test reads, with column names.

    ``doc`` is the start of the names: ``doc_customer_name`` for ``customer.name``. A name that is long, odd or taken is
    replaced by a number: ``doc7``.
    """
    names = _Names(doc)
    reads = Counter(ref for check in checks for read in _reads(check.violated) for ref in _steps(read))
    values: dict[Ref, str] = {ref: names.give(ref) for ref, count in reads.items() if count > 1}
    whole = Counter(ref for check in checks for ref in _integers(check.violated) if _steps(ref))
    integers = {ref: names.give(ref, "integer") for ref, count in whole.items() if count > 1}
    paths = Counter(path for check in checks if (path := path_of(check.violated)[0]))
    faults = {path: names.give(path[-1][0], "fault") for path, count in paths.items() if count > 1}
    return Shared(values, integers, faults)


def path_of(test: Test) -> tuple[Path, Test]:
    """Return the loops of a test on the elements of an array, and the test inside them."""
    path: Path = ()
    while isinstance(test, AnyItem):
        path, test = (*path, (test.ref, test.depth, test.start)), test.test
    return path, test


class _Names:
    def __init__(self, doc: str) -> None:
        self.doc, self.taken = doc, {doc}

    def give(self, ref: Ref, suffix: str = "") -> str:
        parts = [str(one.name if isinstance(one, Get) else one.index) for one in _all_steps(ref)]
        name = "_".join((self.doc, *parts, *([suffix] if suffix else ())))
        if not _PLAIN.fullmatch(name) or name.lower() in self.taken:
            name = f"{self.doc}{len(self.taken)}"
        self.taken.add(name.lower())
        return name


def _reads(test: Test) -> Iterator[Ref]:
    match test:
        case Fixed():
            return
        case All(tests) | AnyOf(tests) | NotOne(tests):
            for one in tests:
                yield from _reads(one)
        case Not(inner):
            yield from _reads(inner)
        case Lacks(base, name):
            yield Get(base, name)
        case AnyItem(ref, _, inner) | AnyMember(ref, _, inner) | CountItems(ref, _, inner):
            yield ref
            yield from _reads(inner)
        case _:
            yield test.ref


def _integers(test: Test) -> Iterator[Ref]:
    match test:
        case All(tests) | AnyOf(tests) | NotOne(tests):
            for one in tests:
                yield from _integers(one)
        case Not(inner) | AnyItem(_, _, inner) | AnyMember(_, _, inner) | CountItems(_, _, inner):
            yield from _integers(inner)
        case NoneOf(ref, "integer"):
            yield ref
        case Compare(integer=True) | TooWide(integer=True) | NotMultiple(integer=True):
            yield test.ref


def _steps(ref: Ref) -> list[Get | At]:
    """Return the steps from the answer to a value, the value itself last; none for a value in a loop."""
    root = ref
    while isinstance(root, Get | At | Unquoted):
        root = root.base
    return _all_steps(ref) if root == Doc() else []


def _all_steps(ref: Ref) -> list[Get | At]:
    steps: list[Get | At] = []
    while isinstance(ref, Get | At | Unquoted):
        if not isinstance(ref, Unquoted):
            steps.insert(0, ref)
        ref = ref.base
    return steps
