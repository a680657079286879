"""Minutes in no time: an event loop whose clock jumps to the next timer, and endpoints with limits that run in it."""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

import orjson
import pytest

from sqlenrich.llm.endpoint.http import Reply

DONE = orjson.dumps(
    {
        "choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 5},
    }
)
T = TypeVar("T")
REFUSED = orjson.dumps({"error": {"message": "slow down"}})


class Clock:
    """The time that everybody is told."""

    def __init__(self) -> None:
        self.now = 1000.0


class _Selector(selectors.SelectSelector):
    clock: Clock

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout:
            self.clock.now += timeout
        return found


def in_no_time(patch: pytest.MonkeyPatch, clock: Clock, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine where no time passes but what it sleeps."""
    selector = _Selector()
    selector.clock = clock
    loop = asyncio.SelectorEventLoop(selector)
    patch.setattr(loop, "time", lambda: clock.now)
    patch.setattr(time, "monotonic", lambda: clock.now)
    try:
        return loop.run_until_complete(work())
    finally:
        loop.close()
        patch.undo()


class Rule(Protocol):
    """Decides of each request, when it comes."""

    def admits(self) -> bool: ...


class Sliding:
    """So many requests in any 60 seconds; ``used`` of them were taken by others, so many seconds ago."""

    def __init__(self, clock: Clock, most: int, used: int = 0, ago_s: float = 0.0) -> None:
        self.clock, self.most = clock, most
        self.taken = deque([clock.now - ago_s] * used)

    def admits(self) -> bool:
        while self.taken and self.taken[0] <= self.clock.now - 60:
            self.taken.popleft()
        if len(self.taken) >= self.most:
            return False
        self.taken.append(self.clock.now)
        return True


class Minutes:
    """So many requests in each minute of the clock."""

    def __init__(self, clock: Clock, most: int) -> None:
        self.clock, self.most = clock, most
        self.minute, self.taken = 0, 0

    def admits(self) -> bool:
        if (minute := int(self.clock.now // 60)) != self.minute:
            self.minute, self.taken = minute, 0
        self.taken += 1
        return self.taken <= self.most


class Refilled:
    """A bucket of so many, that takes a minute for as many as it allows."""

    def __init__(self, clock: Clock, a_minute: int, holds: int) -> None:
        self.clock, self.rate, self.holds = clock, a_minute / 60, holds
        self.left, self.at = float(holds), clock.now

    def admits(self) -> bool:
        self.left = min(self.holds, self.left + (self.clock.now - self.at) * self.rate)
        self.at = self.clock.now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Chance:
    """Refuses a share of the requests, however many there are."""

    def __init__(self, _: Clock, share: float) -> None:
        self.share = share

    def admits(self) -> bool:
        return random.random() >= self.share


class Phases:
    """One rule after the other, each for so many seconds, the last one to the end."""

    def __init__(self, clock: Clock, *phases: tuple[float, Rule]) -> None:
        self.clock, self.began, self.phases = clock, clock.now, phases

    def admits(self) -> bool:
        at = self.clock.now - self.began
        for for_s, rule in self.phases:
            if at < for_s:
                return rule.admits()
            at -= for_s
        return rule.admits()


class Wire:
    """Stands for a connection to an endpoint: ``admits`` decides of each request; counts by minutes."""

    def __init__(self, clock: Clock, admits: Callable[[], bool], latency_s: float, at_a_time: int = 10**9) -> None:
        self.clock, self.admits, self.latency_s, self.at_a_time = clock, admits, latency_s, at_a_time
        self.began, self.in_flight = clock.now, 0
        self.taken, self.refused = Counter[int](), Counter[int]()

    async def send(self, *_: object, **__: object) -> Reply:
        """Answer a request."""
        minute = int((self.clock.now - self.began) // 60)
        self.in_flight += 1
        try:
            await asyncio.sleep(0.03)
            if self.in_flight > self.at_a_time or not self.admits():
                self.refused[minute] += 1
                return Reply(429, "Too Many Requests", {}, REFUSED)
            self.taken[minute] += 1
            await asyncio.sleep(self.latency_s * random.uniform(0.7, 1.5))
            return Reply(200, "OK", {}, DONE)
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """Nothing is open."""
