"""The values of an answer that its tests read more than once: each is read into a column, once a row."""

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
    Verdicts,
)

_PLAIN = re.compile(r"\w{1,60}", re.ASCII)


def fields(verdicts: Verdicts, doc: str) -> dict[Ref, str]:
    """Give the values that are read more than once, none of a loop's, and a name for each that starts with ``doc``.

    ``doc_customer_name`` for ``customer.name``; what is long, odd or taken has its number, ``doc7``.
    """
    reads = Counter(ref for verdict in verdicts for read in _reads(verdict.violated) for ref in _way(read))
    names: dict[Ref, str] = {}
    taken: set[str] = set()
    for ref in (ref for ref, count in reads.items() if count > 1):
        name = "_".join((doc, *(str(one.name if isinstance(one, Get) else one.index) for one in _way(ref))))
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


def _way(ref: Ref) -> list[Get | At]:
    """The steps to a value, itself the last; none to one in a loop."""
    steps: list[Get | At] = []
    while isinstance(ref, Get | At | Unquoted):
        if not isinstance(ref, Unquoted):
            steps.insert(0, ref)
        ref = ref.base
    return steps if isinstance(ref, Doc) else []
