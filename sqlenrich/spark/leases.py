"""A worker's part of the limits of a run, as its rate limiter sees it: leases of the desk that lapse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlenrich.core import runtime
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.llm.throttle.leases import Bucket

LAPSE_S = 1.0
"""What is not used after this time is given back: the limits hold for every minute, whenever a lease is used."""
WAIT_S = 0.25
"""A request looks again after this time; a grant wakes it before."""
CALL_POLL_S = 0.005
"""A canary, and a request of a model without a rate limiter, look for a granted call after this time."""
AFFORDS_S = 2.0
"""A canary waits this long for a granted call."""
PACE_S = 0.1
"""Latencies are told to the desk after this time."""
Send = Callable[[Mapping[str, Any]], None]


class LeasedBucket:
    """Units of one limit a minute. For the event loop's thread alone."""

    def __init__(self, name: str, send: Send) -> None:
        self.name, self._send = name, send
        self.left = 0.0
        self._lapses_at = 0.0
        self._lapse: asyncio.TimerHandle | None = None
        self._wished = 0.0

    def wait_s(self, units: float, now: float) -> float:
        """Return the seconds until ``units`` can be taken: 0, or a while in which the desk may grant them."""
        if self.left > 0 and now >= self._lapses_at:
            self.give_back()
        if self.left >= units - 1e-9:
            return 0.0
        if not self._wished:
            self._wished = units
            self._send({"lease": {self.name: units - self.left}})
        return WAIT_S

    def take(self, units: float, now: float) -> None:  # noqa: ARG002
        """Take units; what a request took beyond its estimate is paid for by the next lease, or as this one lapses."""
        self.left -= units

    def settle(self, units: float, taken_at: float) -> None:
        """Take more, or give back what was not used."""
        self.take(units, taken_at)

    def granted(self, units: float, now: float) -> None:
        """Take units from the desk."""
        self.left += units
        self._lapses_at, self._wished = now + LAPSE_S, 0.0
        if self._lapse is not None:
            self._lapse.cancel()
        # Nobody looks during an outage. What all workers give back after it would be a burst.
        self._lapse = asyncio.get_running_loop().call_later(LAPSE_S, self.give_back)

    def give_back(self) -> None:
        """Give back what is left; a debt is paid."""
        if self.left:
            self._send({"returned": {self.name: self.left}})
        self.left = 0.0


class LeasedBudget(Budget):
    """Calls and money of a run's caps. For the event loop's thread alone."""

    def __init__(self, price: Callable[[int, int, int], Decimal] | None, send: Send, *, capped: bool) -> None:
        super().__init__(price=price)
        self._send, self._capped = send, capped
        self.left_calls, self.left = 0, FREE
        self._wished: Decimal | None = None
        self._heard = 0
        """The grants of the desk that have arrived."""
        self._leases = False
        """Whether the desk takes it that something may be given back."""

    def allows(self, cost: Decimal) -> bool | None:
        """Whether one more request may be sent. None: the desk is asked."""
        if not self._capped:
            return True
        if self.reached is not None:
            return False
        if self.left_calls >= 1 and (self.price is None or self.left >= cost):
            return True
        if cost == FREE and self.left_calls >= 1:
            return True
        if self._wished is None or (self._wished > FREE and self.reserved == FREE):
            self._wished = self.reserved
            # A call is of no use without the money for it, nor money without a call: others may have the use.
            given = {"calls": self.left_calls, "left": str(self.left), "heard": self._heard}
            self._send({"spend": {"cost": str(cost), "held": str(self.reserved), **given}})
            self.left_calls, self.left = 0, FREE
        return None

    async def affords(self, cost: Decimal) -> bool:
        """Whether one more request may be sent now, or as soon as the desk has granted it."""
        until = runtime.monotonic() + AFFORDS_S
        while (allowed := self.allows(cost)) is None and runtime.monotonic() < until:
            await asyncio.sleep(CALL_POLL_S)
        return allowed is True

    @property
    def exhausted(self) -> bool:
        """Whether no request may be sent any more. It wishes for none: who asks may have no part of the width."""
        return self.reached is not None

    def spend_call(self) -> bool:
        """Count a request that costs nothing; False where none is left at hand."""
        if self._capped and not self.allows(FREE):
            return False
        self.calls += 1
        self.left_calls -= 1
        return True

    async def take_call(self) -> bool:
        """Count a request that costs nothing, once the desk has said whether one is left; False where none is."""
        while self.allows(FREE) is None:
            await asyncio.sleep(CALL_POLL_S)
        return self.spend_call()

    def sent(self, cost: Decimal) -> None:
        """Record a request that is sent and may cost this much."""
        super().sent(cost)
        self.left_calls -= 1
        self.left -= cost

    def settled(
        self, reserved: Decimal, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None
    ) -> None:
        """Record what a request used: the rest of what was reserved for it is at hand again."""
        before = self.spent
        super().settled(reserved, tokens_in, tokens_out, tokens_cached)
        self.left += reserved - (self.spent - before)

    def granted(self, calls: int, cost: Decimal) -> None:
        """Take calls and money from the desk."""
        self.left_calls += calls
        self.left += cost
        self._heard += 1
        self._wished, self._leases = None, True

    def give_back(self) -> None:
        """Give back what is left, once: the desk waits for it before it says that a cap is reached."""
        if self._capped and self._leases:
            self._leases = False
            self._send({"unspent": {"calls": self.left_calls, "left": str(self.left), "heard": self._heard}})
            self.left_calls, self.left = 0, FREE


class DeskLeases:
    """A worker's part of the limits: buckets, width, and the latencies that the desk finds the width by."""

    def __init__(self, names: Sequence[str], send: Send) -> None:
        self.leased = {name: LeasedBucket(name, send) for name in names}
        self.buckets: Mapping[str, Bucket] = self.leased
        self.width = 0
        self.in_flight: Callable[[], int] = lambda: 0
        self.rest: Callable[[], None] = self.give_back
        """Gives back all shares: called where the width is 0 and nothing is in flight."""
        self._send = send
        self._answered: list[float] = []
        self._refused: list[float] = []
        self._told_at = 0.0
        self._number: int | None = None
        """The number of a width that is not kept yet."""

    def set_width(self, width: int, number: int) -> None:
        """Take another part of the width; the desk is told as soon as no more is in flight."""
        self.width, self._number = width, number
        self.freed()

    def answered(self, latency_s: float) -> None:
        """Tell of an answer."""
        self._answered.append(latency_s)
        self._tell()

    def refused(self, latency_s: float) -> None:
        """Tell of a refusal, or a timeout."""
        self._refused.append(latency_s)
        self._tell()

    def freed(self) -> None:
        """Take it that one request fewer is in flight: the desk is told once a narrower width is kept to."""
        if self._number is not None and self.in_flight() <= self.width:
            self._send({"kept": self._number})
            self._number = None
            if self.width == 0:
                self.rest()

    def give_back(self) -> None:
        """Give back what is left of all limits."""
        for bucket in self.leased.values():
            bucket.give_back()

    def _tell(self) -> None:
        now = runtime.monotonic()
        if now - self._told_at < PACE_S:
            return
        self._told_at = now
        rounded = [[round(one, 4) for one in each] for each in (self._answered, self._refused)]
        self._answered, self._refused = [], []
        self._send({"pace": {"in_flight": self.in_flight(), "answered": rounded[0], "refused": rounded[1]}})
