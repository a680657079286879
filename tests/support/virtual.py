"""Minutes in no time: an event loop whose clock jumps to the next timer, and endpoints with limits that run in it."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import orjson
import pytest

from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.http import HttpResponse, Transport
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.messages import Request
from sqlenrich.llm.stream import Stream, StreamEnd
from tests.support.models import endpoint_model

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


class Unlimited:
    """Admits everything."""

    def __init__(self, _: Clock) -> None:
        pass

    def admits(self) -> bool:
        return True


class VirtualEndpoint:
    """Stands for a connection to an endpoint: ``admits`` decides of each request; counts by minutes.

    ``at_a_time``: requests beyond that number are refused. ``transit_s``: a request is on its way for so long.
    ``spread``: the least and the most time of an answer, as multiples of ``latency_s``.
    """

    def __init__(
        self,
        clock: Clock,
        admits: Callable[[], bool],
        latency_s: float,
        at_a_time: int = 10**9,
        *,
        transit_s: float = 0.03,
        spread: tuple[float, float] = (0.7, 1.5),
    ) -> None:
        self.clock, self.admits, self.latency_s, self.at_a_time = clock, admits, latency_s, at_a_time
        self.transit_s, self.spread = transit_s, spread
        self.began, self.in_work = clock.now, 0
        self.taken, self.refused = Counter[int](), Counter[int]()

    def connected(self, *_: object) -> Transport:
        """What reaches this endpoint."""
        return self

    def set_headers(self, _: object) -> None:
        """Nothing is looked at."""

    async def send(self, *_: object, timeout_s: float | None = None) -> HttpResponse:
        """Answer a request of a row. The canary and the list of models, which have a timeout, reach nobody."""
        if timeout_s is not None:
            raise ConnectionRefusedError
        minute = int((self.clock.now - self.began) // 60)
        await asyncio.sleep(self.transit_s)
        if self.in_work >= self.at_a_time or not self.admits():
            self.refused[minute] += 1
            return HttpResponse(429, "Too Many Requests", {}, REFUSED)
        self.taken[minute] += 1
        self.in_work += 1
        try:
            await asyncio.sleep(self.latency_s * random.uniform(*self.spread))
        finally:
            self.in_work -= 1
        return HttpResponse(200, "OK", {}, DONE)

    async def close(self) -> None:
        """Nothing is open."""


async def stream(
    clock: Clock, model: EndpointModel, minutes: float = math.inf, requests: float = math.inf
) -> list[str]:
    """Ask as a client does, for so long or for so many answers; give the warnings."""
    client = Client(model, concurrency=1)
    stream, number, outstanding, answers = Stream(client._context()), 0, 0, 0
    notes: list[str] = []
    end = clock.now + 60 * minutes
    if math.isinf(requests):
        await model.ask(Request("first", 1, "x" * 200))
    stream.start()
    while clock.now < end and answers < requests:
        while outstanding < model.limiter.concurrency + client.policy.unstored and number < requests:
            number, outstanding = number + 1, outstanding + 1
            stream.add(Request(str(number), 1, "x" * 200))
        stream.feed()
        await asyncio.sleep(0.05)
        while stream.ready():
            batch = stream.take()
            if isinstance(batch, StreamEnd):
                raise AssertionError(batch.error)
            outstanding, stream.stored = outstanding - len(batch), stream.stored + len(batch)
            answers += len(batch)
        notes += client.new_warnings()
    stream.cancel()
    await asyncio.sleep(0)
    return notes


@dataclass(frozen=True)
class VirtualRun:
    """What one endpoint took and refused in each minute, the seconds of the run, and its warnings."""

    taken: Counter[int]
    refused: Counter[int]
    seconds: float
    notes: list[str]


def run_virtually(
    rule: Callable[[Clock], Rule],
    *,
    latency_s: float,
    at_a_time: int = 10**9,
    minutes: float = math.inf,
    requests: float = math.inf,
    transit_s: float = 0.03,
    spread: tuple[float, float] = (0.7, 1.5),
    rpm: int | None = None,
    concurrency: int | None = None,
) -> VirtualRun:
    """Run one stream against an endpoint with a rule, on a clock of its own."""
    clock = Clock()
    wire = VirtualEndpoint(clock, rule(clock).admits, latency_s, at_a_time, transit_s=transit_s, spread=spread)

    async def work() -> list[str]:
        model = endpoint_model("http://127.0.0.1:1/v1", transport=wire.connected, concurrency=concurrency, rpm=rpm)
        await model.open()
        return await stream(clock, model, minutes, requests)

    notes = in_no_time(pytest.MonkeyPatch(), clock, work)
    return VirtualRun(wire.taken, wire.refused, clock.now - wire.began, notes)
