"""What an audit finds: a line for what does not hold, and one for what can't be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlenrich.core.plurals import counted
from sqlenrich.core.text_table import shown

MOST = 20
"""The rows of one kind of problem that are named; the others are counted."""
SHOWN_WIDTH = 60


class Problem(NamedTuple):
    """What does not hold: which check, of what, and how it differs."""

    check: str
    place: str
    text: str

    def to_text(self) -> str:
        """Return it as a line."""
        return f"{self.place}: {self.text}"


class NotRebuilt(NamedTuple):
    """What can't be rebuilt, and why."""

    number: int
    what: str
    why: str

    def to_text(self) -> str:
        """Return it as a line."""
        return f"{counted(self.number, self.what)} not rebuilt: {self.why}"


def listed(found: Sequence[Problem], check: str, place: str, others: str) -> Iterator[Problem]:
    """Return the first problems of a kind, and the number of the others."""
    yield from found[:MOST]
    if len(found) > MOST:
        yield Problem(check, place, f"{len(found) - MOST:,} {others}")


def answer_name(request_hash: str, attempt: int) -> str:
    """Return an answer by its request and its attempt."""
    return f"answer {attempt} of request {request_hash[:12]}"


def value_text(value: Any) -> str:
    """Return a value as a problem shows it."""
    return shown(None if value is None else f"{value:,}" if type(value) is int else str(value), SHOWN_WIDTH)
