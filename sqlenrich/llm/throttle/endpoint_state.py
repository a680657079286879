"""One endpoint of a gate: how many requests are in flight there, whether it answers, and what it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

from sqlenrich.llm.throttle.budget import FREE
from sqlenrich.llm.throttle.circuit_breaker import BRAKE_S, Wall
from sqlenrich.llm.throttle.concurrency import LearntLimit
from sqlenrich.llm.throttle.pace import SMOOTH, Pace
from sqlenrich.llm.throttle.rate_headers import KINDS, Allowance, Told

SURE_S, LATELY_S = 30.0, 5.0
"""What is told is known as a limit after it held requests back for so long, and did so a moment ago."""
NEAR = 0.15
_SETTING = dict(zip(KINDS, ("rpm", "tpm", "input_tpm", "output_tpm"), strict=True))


class Ticket:
    """The right to send one request, and what it was counted with until its own usage is told.

    ``spent`` is what was sent at its door until then and with it, by kind.
    """

    __slots__ = ("at", "cost", "door", "size", "spent", "tokens_in", "tokens_out")

    def __init__(
        self, door: Door, at: float, size: int, tokens_in: float, tokens_out: float, cost: Decimal = FREE
    ) -> None:
        self.door, self.at, self.size = door, at, size
        self.tokens_in, self.tokens_out, self.cost = tokens_in, tokens_out, cost
        self.spent = door.take((1.0, tokens_in + tokens_out, tokens_in, tokens_out), at)


class Door:
    """How one endpoint fares.

    ``failures`` counts the tries that came to nothing since the last answer, ``rests`` how often it was then given none
    for a while. ``closed``: it refuses all and is asked no more.
    """

    def __init__(self, number: int, most: int) -> None:
        self.number = number
        self.pace = Pace(most=most)
        self.learnt = LearntLimit()
        self.wall = Wall()
        self.in_flight = 0
        self.up = True
        self.closed = False
        self.held_until = 0.0
        self.failures = self.unreached = self.rests = 0
        self.answered_at = float("-inf")
        self.latency_s: float | None = None
        self._allowances: dict[str, Allowance] = {}
        self._spent = (0.0, 0.0, 0.0, 0.0)
        self._held: dict[str, tuple[float, float, float]] = {}
        self._known = False

    def held_s(self, now: float) -> float:
        """Give for how long nothing is sent there, since it asked to wait or refuses all."""
        return max(self.held_until, self.wall.until) - now

    def answers(self, ticket: Ticket, now: float) -> None:
        """Take note of an answer."""
        self.failures = self.unreached = self.rests = 0
        self.answered_at = now
        latency_s = now - ticket.at
        self.latency_s = latency_s if self.latency_s is None else self.latency_s + SMOOTH * (latency_s - self.latency_s)
        self.wall.answered(ticket.at, now)

    def refuses(self, ticket: Ticket, now: float) -> None:
        """Take note of a refusal for a limit."""
        latency_s = BRAKE_S if self.latency_s is None else self.latency_s
        if not self.wall.refused(ticket.at, now, latency_s):
            self.pace.pushed_back(now)
        self.unreached = 0

    def restart(self) -> None:
        """A new stream begins."""
        self._held.clear()

    def wait_s(self, needs: Sequence[float], now: float) -> float:
        """Give in how many seconds what the endpoint allows admits a request of so many of each of ``KINDS``.

        0 for at once.
        """
        wait_s = self.learnt.wait_s(now)
        if self._allowances:
            for kind, units, spent in zip(KINDS, needs, self._spent, strict=True):
                if (allowance := self._allowances.get(kind)) is not None:
                    kind_wait_s = allowance.wait_s(units, spent, now)
                    if kind_wait_s > 0:
                        since, spent_then, _ = self._held.get(kind, (now, spent, now))
                        self._held[kind] = (since, spent_then, now)
                        wait_s = max(wait_s, kind_wait_s)
        return wait_s

    def take(self, needs: Sequence[float], now: float) -> tuple[float, float, float, float]:
        """Take note that a request is sent; give what was sent until then and with it."""
        self.learnt.sent(now)
        self.wall.sent(now)
        self.pace.sent(now)
        requests, tokens, tokens_in, tokens_out = self._spent
        self._spent = (requests + 1, tokens + needs[1], tokens_in + needs[2], tokens_out + needs[3])
        if self._allowances:
            for kind, units in zip(KINDS, needs, strict=True):
                if kind in self._allowances:
                    self._allowances[kind].take(units)
        return self._spent

    def tell(self, ticket: Ticket, told: Mapping[str, Told], now: float, *, all_of_it: bool) -> None:
        """Take note of what an answer told; ``all_of_it``: of what it doesn't tell nothing is known any more."""
        for kind, spent in zip(KINDS, ticket.spent, strict=True):
            if kind in told:
                self._allowances.setdefault(kind, Allowance()).tell(told[kind], spent, now, admitted=all_of_it)
            elif all_of_it and kind in self._allowances:
                del self._allowances[kind]

    def found(self, now: float) -> tuple[str, int] | None:
        """Give, once, a limit that was told: the name of its setting, and about how much a minute."""
        if self._known:
            return None
        limit: tuple[str, float] | None = None
        for kind, (since, spent_then, lately) in self._held.items():
            if now - lately > LATELY_S:
                del self._held[kind]
                break
            if now - since >= SURE_S:
                a_minute = (self._spent[KINDS.index(kind)] - spent_then) / (now - since) * 60
                allowance = self._allowances.get(kind)
                whole = allowance.limit if allowance is not None else None
                near = whole is not None and abs(a_minute - whole) <= NEAR * whole
                limit = _SETTING[kind], whole if near and whole is not None else _rounded(a_minute)
        if limit is None or limit[1] < 1:
            return None
        self._known = True
        return limit[0], int(limit[1])


def _rounded(amount: float) -> float:
    return float(f"{amount:.2g}")


def open_files() -> float:
    """Give how many files this process may have open."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit
