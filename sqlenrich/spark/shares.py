"""The limits of a run at the desk: workers lease small amounts, and give back what they do not use."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from sqlenrich.core.limits import PER_MINUTE, Limits
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.llm.throttle.concurrency import ConcurrencyLimit
from sqlenrich.llm.throttle.token_bucket import TokenBucket

GRANT_S = 0.1
"""A worker leases at most what its share of a limit gives in this time, and at least one request."""
CALLS_AT_ONCE = 16
"""The calls of a cap that one lease has at most."""


class Grant(NamedTuple):
    """Units of a limit a minute that a worker may use now."""

    worker: int
    name: str
    units: float


class _Wish(NamedTuple):
    worker: int
    least: float


class SharedBuckets:
    """The limits a minute of a run. First come, first served."""

    def __init__(self, limits: Limits, now: float) -> None:
        self._buckets = {
            name: TokenBucket(float(limit), now) for name in PER_MINUTE if (limit := getattr(limits, name)) is not None
        }
        self._waiting: dict[str, deque[_Wish]] = {name: deque() for name in self._buckets}
        self.wait_s = math.inf
        """The seconds until the next grant, after :meth:`grants`."""

    @property
    def names(self) -> list[str]:
        """The limits that are set."""
        return list(self._buckets)

    def wish(self, worker: int, name: str, least: float) -> None:
        """Note that a worker needs units for one request."""
        waiting = self._waiting[name]
        if all(wish.worker != worker for wish in waiting):
            waiting.append(_Wish(worker, least))

    def give_back(self, name: str, units: float, now: float) -> None:
        """Take back units that were not used, or with a negative number take more that were."""
        self._buckets[name].take(-units, now)

    def leave(self, worker: int) -> None:
        """Forget what a worker waits for. What it leased counts as used."""
        for name, waiting in self._waiting.items():
            self._waiting[name] = deque(wish for wish in waiting if wish.worker != worker)

    def grants(self, workers: int, now: float) -> Iterator[Grant]:
        """Return what may be used now by those who wait, of ``workers`` in all."""
        self.wait_s = math.inf
        for name, waiting in self._waiting.items():
            bucket = self._buckets[name]
            at_once = bucket.per_minute / 60 * GRANT_S / max(workers, 1)
            while waiting:
                worker, least = waiting[0]
                if (wait_s := bucket.wait_s(least, now)) > 0:
                    self.wait_s = min(self.wait_s, wait_s)
                    break
                more = max(least, min(at_once, bucket.level))
                units = more if bucket.wait_s(more, now) <= 0 else least
                if name == "rpm":
                    units = max(least, math.floor(units))
                bucket.take(units, now)
                waiting.popleft()
                yield Grant(worker, name, units)


@dataclass
class SharedBudget:
    """The caps of a run. What is leased counts as used until it is given back."""

    budget: Budget
    _calls: dict[int, int] = field(default_factory=dict)
    """By worker: calls that it may give back."""
    _reserved: dict[int, Decimal] = field(default_factory=dict)
    """By worker: money that it may give back."""
    _leased_calls: int = 0
    _leased: Decimal = FREE
    _waiting: dict[int, Decimal] = field(default_factory=dict)
    """By worker: the most that its next request may cost."""
    _granted: Counter[int] = field(default_factory=Counter)
    """By worker: the grants that it was sent."""

    @property
    def capped(self) -> bool:
        """Whether there is a cap."""
        return self.budget.max_calls is not None or self.budget.max_cost is not None

    def wish(self, worker: int, cost: Decimal, held: Decimal, heard: int) -> None:
        """Note that a worker has nothing at hand for a request; ``held`` is what those in flight may cost.

        One that has not ``heard`` of its last grant wishes again once it has used that up.
        """
        if heard == self._granted[worker]:
            self._waiting[worker] = cost
            self._reserved[worker] = held

    def give_back(self, worker: int, calls: int, cost: Decimal, heard: int) -> None:
        """Take back what a worker does not use; less than nothing where its requests cost more than was leased.

        ``heard``: the grants that it has got. What is in a grant on its way to it may be given back later.
        """
        self._leased_calls -= calls
        self._leased -= cost
        if heard == self._granted[worker]:
            self._calls[worker], self._reserved[worker] = 0, FREE

    def leave(self, worker: int) -> None:
        """Forget a worker that is gone. What it leased counts as used."""
        for known in (self._calls, self._reserved, self._waiting, self._granted):
            known.pop(worker, None)

    def close(self) -> None:
        """Count what is leased as used: the account may go on at another desk."""
        self.budget.calls += self._leased_calls
        self.budget.spent += self._leased
        self._leased_calls, self._leased = 0, FREE

    def grants(self, workers: int) -> Iterator[tuple[int, int, Decimal] | tuple[int, str]]:
        """Return to those who wait calls and money, or the cap that is reached."""
        for worker, cost in list(self._waiting.items()):
            calls, money = self._left()
            others = any(self._calls.values()), any(self._reserved.values())
            reached = "max_calls" if calls < 1 else "max_cost" if money is not None and money < cost else None
            if reached is not None:
                if others[reached == "max_cost"]:
                    continue  # somebody may give back
                del self._waiting[worker]
                self.budget.reached = reached
                yield worker, reached
                continue
            del self._waiting[worker]
            share = min(CALLS_AT_ONCE, max(1, calls // (2 * max(workers, 1))))
            granted = FREE if money is None else max(cost, min(cost * share, money / (2 * max(workers, 1))))
            self._leased_calls += share
            self._leased += granted
            self._calls[worker] = share
            self._granted[worker] += 1
            self._reserved[worker] = self._reserved.get(worker, FREE) + granted
            yield worker, share, granted

    def _left(self) -> tuple[int, Decimal | None]:
        budget = self.budget
        calls = 1 << 30 if budget.max_calls is None else budget.max_calls - budget.calls - self._leased_calls
        if budget.max_cost is None:
            return calls, None
        return calls, Decimal(str(budget.max_cost)) - budget.spent - self._leased


class SharedWidth:
    """The requests that may be in flight at all workers together; each gets an equal part."""

    def __init__(self, fixed: int | None, endpoints: int = 1) -> None:
        self.fixed = fixed
        self.limit = ConcurrencyLimit()
        self.endpoints = endpoints
        self._in_flight: dict[int, int] = {}
        self._held: dict[int, int] = {}
        """By worker: what it was given and may still use. Nothing of it is given to another one before it tells."""

    @property
    def width(self) -> int:
        """The requests that may be in flight."""
        return self.fixed or self.limit.limit * self.endpoints

    def parts(self, workers: list[int]) -> Mapping[int, int]:
        """Return the part of each worker that asks. They differ by one at most, once those before them are free."""
        each, rest = divmod(self.width, max(len(workers), 1))
        wanted = {worker: each + (place < rest) for place, worker in enumerate(sorted(workers))}
        free = self.width - sum(self._held.values())
        found: dict[int, int] = {}
        for worker, part in wanted.items():
            held = self._held.get(worker, 0)
            more = min(max(part - held, 0), max(free, 0))
            free -= more
            self._held[worker] = held + more
            found[worker] = min(part, held + more)
        return found

    def narrowed(self, worker: int, width: int) -> None:
        """Note that a worker has no more than this in flight, and will not have."""
        if worker in self._held:
            self._held[worker] = min(self._held[worker], width)

    def report(self, worker: int, in_flight: int, answered: list[float], refused: list[float], now: float) -> None:
        """Take a worker's latencies of answers and refusals since its last report."""
        self._in_flight[worker] = in_flight
        if self.fixed is not None:
            return
        total = sum(self._in_flight.values())
        full = 2 * (total + len(answered)) > self.width
        for latency_s in answered:
            self.limit.sent(now)
            self.limit.answered(now, latency_s, full=full)
        for latency_s in refused:
            self.limit.sent(now)
            self.limit.refused(now - latency_s, total, now)

    def leave(self, worker: int) -> None:
        """Forget a worker that is gone or idle."""
        self._in_flight.pop(worker, None)
        self._held.pop(worker, None)
