"""The values that several tests of an answer read: each is read into a column, once a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from sqlenrich.schema.checks.ir import (
    All,
    AnyItem,
    AnyMember,
    AnyOf,
    At,
    Checks,
    CountItems,
    Doc,
    Fixed,
    Get,
    Lacks,
    Not,
    NotOne,
    Ref,
    Test,
    Unquoted,
)

_PLAIN = re.compile(r"\w{1,60}", re.ASCII)


def shared_values(checks: Checks, doc: str) -> dict[Ref, str]:
    """Give the values outside loops that are read more than once, with a column name for each.

    ``doc`` is the start of the names: ``doc_customer_name`` for ``customer.name``. A name that is long, odd or taken is
    replaced by a number: ``doc7``.
    """
    reads = Counter(ref for check in checks for read in _reads(check.violated) for ref in _steps(read))
    names: dict[Ref, str] = {}
    taken: set[str] = set()
    for ref in (ref for ref, count in reads.items() if count > 1):
        name = "_".join((doc, *(str(one.name if isinstance(one, Get) else one.index) for one in _steps(ref))))
        if not _PLAIN.fullmatch(name) or name.lower() in taken:
            name = f"{doc}{len(names) + 1}"
        taken.add(name.lower())
        names[ref] = name
    return names


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


def _steps(ref: Ref) -> list[Get | At]:
    """Give the steps from the answer to a value, the value itself last; none for a value in a loop."""
    steps: list[Get | At] = []
    while isinstance(ref, Get | At | Unquoted):
        if not isinstance(ref, Unquoted):
            steps.insert(0, ref)
        ref = ref.base
    return steps if isinstance(ref, Doc) else []
