"""Items in parts of a bounded size: what one statement takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def bounded_parts(
    items: Iterable[T], length: Callable[[T], int], most_length: int, most_items: int | None = None
) -> Iterator[list[T]]:
    """Return items in their order in parts of a bounded sum of lengths, and of at most so many items.

    An item that is longer than the bound is a part of its own.
    """
    part: list[T] = []
    total = 0
    for item in items:
        added = length(item)
        if part and (total + added > most_length or len(part) == most_items):
            yield part
            part, total = [], 0
        part.append(item)
        total += added
    if part:
        yield part
