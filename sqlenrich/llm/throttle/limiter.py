"""When a request may be sent, and where: widths, limits a minute, caps, and endpoints that are down."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from sqlenrich.core.tokens import BYTES_PER_TOKEN
from sqlenrich.llm.model import Stopped
from sqlenrich.llm.throttle.budget import FREE, Caps
from sqlenrich.llm.throttle.concurrency import Finding
from sqlenrich.llm.throttle.endpoint_state import Door, Ticket, open_files
from sqlenrich.llm.throttle.pace import most_each
from sqlenrich.llm.throttle.rate_headers import Told
from sqlenrich.llm.throttle.token_bucket import Bucket
from sqlenrich.llm.throttle.wait_times import Held

__all__ = ["Door", "Gate", "Limits", "Ticket"]

FAILURES_DOWN = 3
FAILURES_REST = 5
REST_S, LONGEST_REST_S = 0.25, 5.0
GUESSED_OUT = 256
_LEARN = 0.05


@dataclass(frozen=True)
class Limits:
    """What the user sets: requests in flight (None: found by trying), requests and tokens a minute (None: no limit)."""

    concurrency: int | None = None
    rpm: int | None = None
    tpm: int | None = None
    input_tpm: int | None = None
    output_tpm: int | None = None


_PER_MINUTE = tuple(field.name for field in fields(Limits) if field.name != "concurrency")


class Gate:
    """Lets requests through, first come first served; those that are sent again go first. In the loop's thread alone.

    ``doors`` is the number of endpoints that serve the same model. ``max_out`` is the most tokens of one answer, where
    that is set; whoever sends with another limit sets it. ``held`` tells for how many seconds each limit held
    requests back: ``concurrency``, those a minute, ``endpoint`` (none is up, or takes any now), ``endpoint_rate``
    (a limit that it told, or that was learnt), ``max_cost``. ``on_limit`` is told once of a told limit: where, the name
    of its setting, how much a minute; ``on_learnt`` of one that is learnt from what an endpoint refuses.
    """

    def __init__(self, doors: int, limits: Limits, *, max_out: int | None = None, caps: Caps | None = None) -> None:
        most = most_each(doors, open_files())
        self.doors = tuple(Door(number, most) for number in range(doors))
        self.fixed = limits.concurrency
        self.caps = caps
        self.in_flight = 0
        self.held = Held()
        self.on_room: Callable[[], None] = _nothing
        self.on_cap: Callable[[], None] = _nothing
        self.on_down: Callable[[Door], None] = _ignore
        self.on_limit: Callable[[Door, str, int], None] = _ignore
        self.on_learnt: Callable[[Door, Finding], None] = _ignore
        now = time.monotonic()
        self._buckets = {n: Bucket(float(limit), now) for n in _PER_MINUTE if (limit := getattr(limits, n)) is not None}
        self._waiting: deque[tuple[int, asyncio.Future[Ticket]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._ratio = 1.0
        self._out = float(min(max_out or GUESSED_OUT, GUESSED_OUT))
        self._out_told = False
        self.max_out = max_out
        self._hidden = 0
        self._stopping = False

    @property
    def most(self) -> int:
        """The most requests that may ever be in flight."""
        return self.fixed or sum(door.pace.most for door in self.doors)

    @property
    def width(self) -> int:
        """How many requests may be in flight now."""
        if self.fixed is not None:
            return self.fixed
        return max(1, sum(door.pace.width for door in self.doors if door.up))

    @property
    def held_s(self) -> float:
        """For how many seconds more no endpoint that is up takes anything."""
        now = time.monotonic()
        return max(0.0, min((door.held_s(now) for door in self.doors if door.up), default=0.0))

    @property
    def waits_for_itself(self) -> bool:
        """Whether nothing is in flight because the user's limits a minute hold requests back."""
        return self.in_flight == 0 and self.held.reason in _PER_MINUTE

    def reopen(self) -> None:
        """Take it that all endpoints answer: whoever watched those that did not is gone. A closed one stays closed."""
        for door in self.doors:
            door.up = not door.closed
            door.failures, door.unreached, door.rests = 0, 0, 0

    def resume(self) -> None:
        """Let requests through again after ``stop``."""
        self._stopping = False

    def begin(self) -> None:
        """A stream begins: from here on time counts."""
        self.resume()
        self.held.begin(time.monotonic())
        for door in self.doors:
            door.restart()

    def end(self) -> None:
        """The stream ended, and nobody is to be told of anything."""
        self.on_room = self.on_cap = _nothing
        self._forget_timer()
        self.held.end(time.monotonic())

    def try_enter(self, size: int) -> Ticket | None:
        """Give a ticket for a request of so many bytes if it may be sent at once. Raises Stopped at a cap."""
        if self._stopping:
            raise Stopped
        if self._waiting:
            return None
        now = time.monotonic()
        ticket, reason, _ = self._admit(size, now)
        if ticket is None or self.in_flight >= self.width:
            self.held.mark(reason or "concurrency", now)
        elif self.held.reason:
            self.held.mark("", now)
        return ticket

    async def enter(self, size: int, *, again: bool = False) -> Ticket:
        """Wait for a ticket. Raises Stopped at a cap, and from ``stop`` on."""
        if self._stopping:
            raise Stopped
        waiting: asyncio.Future[Ticket] = asyncio.get_running_loop().create_future()
        if again:
            self._waiting.appendleft((size, waiting))
        else:
            self._waiting.append((size, waiting))
        self._pump()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.leave(waiting.result())
            raise

    def stop(self) -> None:
        """Send away whoever waits, and whoever comes."""
        self._stopping = True
        self._forget_timer()
        self.held.mark("", time.monotonic())
        while self._waiting:
            _, waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(Stopped())

    def answered(
        self, ticket: Ticket, tokens_in: int | None = None, tokens_out: int | None = None, cached: int | None = None
    ) -> None:
        """Take note of an answer, or of a refusal of the row: the endpoint is well. Its usage, where it is told."""
        door, now = ticket.door, time.monotonic()
        # Answers that come together are told one by one, before anybody could take the places that they left.
        full = 2 * door.in_flight > door.pace.width and self.fixed is None
        if self.fixed is None:
            door.pace.answered(now, now - ticket.at, full=full)
        door.answers(ticket, now)
        if (found := door.found(now)) is not None:
            self.on_limit(door, *found)
        if (learnt := door.learnt.answered(now)) is not None:
            self.on_learnt(door, learnt)
        self._settle(ticket, now, tokens_in, tokens_out, cached)
        self._out_of(door, now)

    def told(self, ticket: Ticket, told: Mapping[str, Told], *, all_of_it: bool) -> None:
        """Take note of what an answer's headers tell of limits; ``all_of_it``: what they don't tell is not known."""
        ticket.door.tell(ticket, told, time.monotonic(), all_of_it=all_of_it)

    def refused(self, ticket: Ticket, wait_s: float) -> None:
        """Take note of a limit that was met (429, 503): fewer at a time, and none until it is over where all are."""
        door, now = ticket.door, time.monotonic()
        door.refuses(ticket, now)
        if (learnt := door.learnt.refused(ticket.at, now)) is not None:
            self.on_learnt(door, learnt)
        for bucket in self._buckets.values():
            bucket.slower()
        if wait_s > 0 and now - door.answered_at > 1.0:
            door.held_until = max(door.held_until, now + wait_s)
        self._rest(door, now)
        self._settle(ticket, now, 0, 0, 0)
        self._out_of(door, now)

    def failed(self, ticket: Ticket, *, unreachable: bool, timeout: bool, begun: bool = False) -> None:
        """Take note of a try that came to nothing; ``begun``: it may have to be paid for all the same."""
        door, now = ticket.door, time.monotonic()
        if timeout:
            door.pace.pushed_back(now)
        self._drop(ticket, now, begun)
        self._rest(door, now)
        if not unreachable:
            door.unreached = 0
        else:
            door.unreached += 1
            others = any(other.up for other in self.doors if other is not door)
            if door.up and door.unreached >= (1 if others else FAILURES_DOWN):
                door.up = False
                self.on_down(door)
                door.rests += 1
        self._out_of(door, now)

    def leave(self, ticket: Ticket, *, begun: bool = False) -> None:
        """Give a ticket back: its request was abandoned; ``begun``: it may have to be paid for all the same."""
        now = time.monotonic()
        self._drop(ticket, now, begun)
        self._out_of(ticket.door, now)

    def open_door(self, door: Door) -> None:
        """Take note that an endpoint answers again."""
        if door.closed:
            return
        door.up, door.unreached = True, 0
        if door.rests > 1:
            door.failures = FAILURES_REST  # it answered probes before, and nothing else
        self._pump()
        self.on_room()

    def close_door(self, door: Door) -> None:
        """Take note that an endpoint refuses all."""
        door.up, door.closed = False, True

    def _admit(self, size: int, now: float) -> tuple[Ticket | None, str, float]:
        """Give a ticket, or why there is none and in how many seconds that may be over (0: when something else ends).

        Raises Stopped at a cap.
        """
        if self.fixed is not None and self.in_flight >= self.fixed:
            return self._held_back("concurrency", 0.0)
        tokens_in = size / BYTES_PER_TOKEN * self._ratio
        tokens_out = self._out
        door, reason, wait_s = self._door((1.0, tokens_in + tokens_out, tokens_in, tokens_out), now)
        if door is None:
            return self._held_back(reason, wait_s)
        cost = FREE
        if (caps := self.caps) is not None:
            # No token is less than a byte, but a server may put a text of its own before each prompt.
            cost = caps.most(size + self._hidden, self.max_out or math.ceil(tokens_out))
            allowed = caps.allows(cost)
            if allowed is None:
                return None, "max_cost", 0.0
            if not allowed:
                self.on_cap()
                raise Stopped
        if self._buckets:
            needs = {"rpm": 1.0, "tpm": tokens_in + tokens_out, "input_tpm": tokens_in, "output_tpm": tokens_out}
            for name, bucket in self._buckets.items():
                if (wait_s := bucket.wait_s(needs[name], now)) > 0:
                    return None, name, wait_s
        if caps is not None:
            caps.sent(cost)
        if self._buckets:
            for name, bucket in self._buckets.items():
                bucket.take(needs[name], now)
        door.in_flight += 1
        self.in_flight += 1
        return Ticket(door, now, size, tokens_in, tokens_out, cost), "", 0.0

    def _held_back(self, reason: str, wait_s: float) -> tuple[None, str, float]:
        """Give why a request must wait. Raises Stopped where no call is left: it would wait for nothing."""
        if self.caps is not None and self.caps.allows(FREE) is False:
            self.on_cap()
            raise Stopped
        return None, reason, wait_s

    def _door(self, needs: Sequence[float], now: float) -> tuple[Door | None, str, float]:
        """Give the endpoint with most room, or why none has any."""
        best: Door | None = None
        choice = len(self.doors) > 1 and self._any_well()
        held = paced = math.inf
        anyone = rated = False
        for door in self.doors:
            if not door.up:
                continue
            if (held_s := door.held_s(now)) > 0:
                held = min(held, held_s)
                continue
            anyone = True
            if self.fixed is None and door.in_flight >= door.pace.width:
                continue
            if choice and door.failures >= FAILURES_REST and door.in_flight:
                continue  # one request at a time finds out whether it answers again
            if (wait_s := door.wait_s(needs, now)) > 0:
                rated, paced = True, min(paced, wait_s)
                continue
            if best is None or self._load(door) < self._load(best):
                best = door
        if best is not None:
            return best, "", 0.0
        wait_s = min(held, paced)
        reason = "endpoint_rate" if rated else "concurrency" if anyone else "endpoint"
        return None, reason, 0.0 if wait_s == math.inf else wait_s

    def _load(self, door: Door) -> tuple[float, int]:
        # Where the width is fixed, that of one endpoint is not tried out.
        return door.in_flight / (door.pace.width if self.fixed is None else 1), door.failures

    def _any_well(self) -> bool:
        return any(door.up and door.failures < FAILURES_REST for door in self.doors)

    def _rest(self, door: Door, now: float) -> None:
        """Give an endpoint that only fails nothing for a while, where others answer: whoever fails at once has room."""
        door.failures += 1
        if door.failures >= FAILURES_REST and now >= door.held_until and len(self.doors) > 1 and self._any_well():
            door.held_until = now + min(REST_S * 2.0 ** min(door.rests, 16), LONGEST_REST_S)
            door.rests += 1

    def _drop(self, ticket: Ticket, now: float, begun: bool) -> None:
        used = None if begun else 0
        self._settle(ticket, now, used, used, used)

    def _settle(
        self, ticket: Ticket, now: float, tokens_in: int | None, tokens_out: int | None, cached: int | None
    ) -> None:
        """Count what a request used in place of what was thought, and learn from it."""
        if tokens_in and ticket.tokens_in:
            learnt = self._ratio * tokens_in / ticket.tokens_in
            self._ratio += _LEARN * (min(max(learnt, 0.1), 8.0) - self._ratio)
        if tokens_out:
            self._out += (_LEARN if self._out_told else 1.0) * (tokens_out - self._out)
            self._out_told = True
        used_in = ticket.tokens_in if tokens_in is None else tokens_in
        used_out = ticket.tokens_out if tokens_out is None else tokens_out
        for name, bucket in self._buckets.items():
            if name != "rpm":
                counts_in, counts_out = name != "output_tpm", name != "input_tpm"
                more = counts_in * (used_in - ticket.tokens_in) + counts_out * (used_out - ticket.tokens_out)
                bucket.take(more, now)
        if self.caps is not None:
            self._hidden = max(self._hidden, (tokens_in or 0) - ticket.size)
            self.caps.settled(ticket.cost, tokens_in, tokens_out, cached)

    def _out_of(self, door: Door, now: float) -> None:
        door.in_flight -= 1
        self.in_flight -= 1
        if self._waiting:
            self._pump()
        elif self.held.reason == "concurrency":
            self.held.mark("", now)

    def _pump(self) -> None:
        """Let through who may pass, and come back when the next one may."""
        now = time.monotonic()
        reason, wait_s = "", 0.0
        while self._waiting:
            size, waiting = self._waiting[0]
            if waiting.done():
                self._waiting.popleft()
                continue
            try:
                ticket, reason, wait_s = self._admit(size, now)
            except Stopped:
                self.stop()
                break
            if ticket is None:
                break
            self._waiting.popleft()
            waiting.set_result(ticket)
        self._forget_timer()
        if self._waiting and wait_s > 0:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._pump)
        self.held.mark(reason or ("concurrency" if self.in_flight >= self.width else ""), now)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _nothing() -> None:
    """Do nothing."""


def _ignore(*_: object) -> None:
    """Do nothing."""
