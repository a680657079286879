"""Single flight: of all that want a request, one asks it and the others get its answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlenrich.spark.journal import Journal, Row

Key = tuple[str, int]
"""A request: its hash and the number of the attempt."""


def key_of(row: Row) -> Key:
    """Return the request that an answer is for."""
    return row["request_hash"], row["attempt"]


class Wanted(NamedTuple):
    """What becomes of the requests that a worker wants, by their places in its list."""

    known: list[Row]
    """Answers that are there."""
    yours: list[int]
    """The worker asks these."""
    later: list[int]
    """Another worker asks these: each answer follows, or the request is handed over."""


@dataclass
class SingleFlight:
    """Knows who asks what. Workers are numbers. Answers are in the journal."""

    journal: Journal
    _owner: dict[Key, int] = field(default_factory=dict)
    _owned: dict[int, dict[Key, None]] = field(default_factory=dict)
    """In the order in which they are asked, and handed over."""
    _waiting: dict[Key, list[int]] = field(default_factory=dict)

    def want(self, worker: int, keys: Sequence[Key]) -> Wanted:
        """Settle who asks the requests that a worker wants."""
        found = Wanted([], [], [])
        for place, key in enumerate(keys):
            if key in self.journal and (row := self.journal.get(*key)) is not None:
                found.known.append(row)
            elif key in self._owner:
                found.later.append(place)
                waiting = self._waiting.setdefault(key, [])
                if worker not in waiting:
                    waiting.append(worker)
            else:
                self._own(worker, key)
                found.yours.append(place)
        return found

    def told(self, worker: int, keys: Iterable[Key]) -> list[tuple[Key, int]]:
        """Record that a worker has answers; give the requests and the other workers that wait for them."""
        waiting: list[tuple[Key, int]] = []
        for key in keys:
            owner = self._owner.pop(key, worker)
            self._owned.get(owner, {}).pop(key, None)
            waiting += [(key, other) for other in self._waiting.pop(key, ())]
        return waiting

    def release(self, worker: int) -> list[tuple[Key, int]]:
        """Record that a worker asks nothing more and waits for nothing.

        Gives the requests of it that others wait for, each with the worker that asks it now.
        """
        for key, others in list(self._waiting.items()):
            if worker in others:
                others.remove(worker)
                if not others:
                    del self._waiting[key]
        handed: list[tuple[Key, int]] = []
        for key in self._owned.pop(worker, {}):
            del self._owner[key]
            if others := self._waiting.pop(key, []):
                self._own(others[0], key)
                handed.append((key, others[0]))
                if others[1:]:
                    self._waiting[key] = others[1:]
        return handed

    def owned(self, worker: int) -> int:
        """Return how many requests a worker has to ask and has not told."""
        return len(self._owned.get(worker, ()))

    def _own(self, worker: int, key: Key) -> None:
        self._owner[key] = worker
        self._owned.setdefault(worker, {})[key] = None
