"""What a model is to the client: something that answers one request at a time, and says how it fares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from sqlenrich.llm.messages import Answer, Request

if TYPE_CHECKING:
    from sqlenrich.llm.throttle.limiter import Gate

RETRIES, RETRIES_PER_ANSWER = 200.0, 2.0
OUTAGE_S = 1.0
"""An endpoint that only fails for longer is in trouble, not just unlucky."""


class Model(Protocol):
    """Answers requests. Every method but the constructor runs in the client's own event loop.

    A failure of one row is an Answer with ``call_error`` and ``retryable``. A failure that every other row
    would meet too raises RunError with one line that says what to do. ``ask`` may raise Stopped.
    """

    name: str

    async def open(self) -> None:
        """Make what the model needs while a client runs, such as its connections."""

    async def close(self) -> None:
        """Give all of it back; nothing is asked afterwards."""

    async def ask(self, request: Request) -> Answer:
        """Give the answer to one request, tried again as often as the model sees fit."""
        ...


@runtime_checkable
class WatchedModel(Protocol):
    """A model that tells the client of every try as it happens, not just of the answer after the last one."""

    pulse: Pulse


@runtime_checkable
class GatedModel(Protocol):
    """A model that decides by itself when each request is sent, and how many at a time."""

    gate: Gate


@runtime_checkable
class WarningModel(Protocol):
    """A model that notices what a person should know, a line each."""

    warnings: list[str]


@runtime_checkable
class ProbingModel(Protocol):
    """A model that knows by itself how to find out, with few requests, whether a run can start."""

    async def probe(self, requests: Sequence[Request], answers: list[Answer], *, suspect: bool) -> None:
        """Ask one request after another until one is answered; append to ``answers`` as they come.

        Raises RunError where no request of a run would fare better. ``suspect`` requests failed before: that they fail
        again says nothing about others.
        """


@runtime_checkable
class PatientModel(Protocol):
    """A model that waits so many seconds for an answer."""

    timeout_s: float


@runtime_checkable
class InstantModel(Protocol):
    """A model that, while ``instant`` is true, answers at once: the client asks it in the caller's thread."""

    instant: bool

    def answers(self, requests: list[Request]) -> list[Answer]:
        """Give the answers to ``requests``, in their order."""
        ...


class Stopped(Exception):  # noqa: N818 (a request's end, not an error)
    """Raised by ``ask`` for a request that failed and may not be sent again, because the run is stopping.

    Such a request has no answer: nothing of it is stored, and a later run asks it again.
    """


class Pulse:
    """How a model's endpoint fares: counters, and since when it only fails. Used in the loop's thread alone.

    ``calls`` counts sends, ``retries`` those of them that were sent before; ``trouble`` is the last failure's
    text, ``fails`` how many failed in a row.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.retries = 0
        self._down_since: float | None = None
        self.trouble = ""
        self.fails = 0
        self.paused = 0
        self.on_pause: Callable[[], None] | None = None
        self._budget = RETRIES
        self._alive_at = 0.0
        self._rested_at: float | None = None
        self._stopping = False
        self._pauses: set[asyncio.Future[bool]] = set()

    def sent(self, *, again: bool) -> None:
        """Count one send."""
        self.calls += 1
        self.retries += again

    def alive(self) -> None:
        """Take note that the endpoint answered something definite (a refusal counts)."""
        self._alive_at = time.monotonic()
        self._down_since = None
        self.fails = 0
        self._budget += RETRIES_PER_ANSWER

    def may_retry(self) -> bool:
        """Say whether a failed request may be sent again at once, and count it if so.

        All retries of a run come out of one budget, which each answer fills up: where most fails, a request fails
        after one try, rather than each of them as often as it may.
        """
        if self._budget < 1.0:
            return False
        self._budget -= 1.0
        return True

    def failed(self, started: float, trouble: str) -> None:
        """Take note of a try that failed and may be repeated, sent at the monotonic time ``started``."""
        since = max(started, self._alive_at)
        self._down_since = since if self._down_since is None else min(self._down_since, since)
        self.trouble = trouble
        self.fails += 1

    def down_s(self) -> float:
        """Give the seconds for which nothing succeeded although something was tried and failed, else 0."""
        since = self._down_since  # another thread may ask
        return 0.0 if since is None else time.monotonic() - since

    def rest(self) -> None:
        """Take note that nothing is in flight: until ``resume`` no time passes for the endpoint."""
        self._rested_at = time.monotonic()

    def resume(self) -> None:
        """Take note that requests are sent again."""
        if self._rested_at is not None and self._down_since is not None:
            self._down_since += time.monotonic() - self._rested_at
        self._rested_at = None

    def skip(self, seconds: float) -> None:
        """Take note that for so long nothing was sent, by our own choice: that is no outage."""
        if self._down_since is not None:
            self._down_since = min(self._down_since + seconds, time.monotonic())

    async def pause(self, seconds: float) -> None:
        """Wait before a request is sent again. Raises Stopped as soon as the run is to stop."""
        if self._stopping:
            raise Stopped
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _settle, done, True)
        self._pauses.add(done)
        self.paused += 1
        if self.on_pause is not None:
            self.on_pause()
        try:
            if not await done:
                raise Stopped
        finally:
            self.paused -= 1
            timer.cancel()
            self._pauses.discard(done)

    def stop(self) -> None:
        """End every pause with Stopped, now and later."""
        self._stopping = True
        for pause in self._pauses:
            _settle(pause, False)

    def start(self) -> None:
        """Allow pauses again: a new stream begins."""
        self._stopping = False
        self._down_since = self._rested_at = None
        self.fails = 0


def _settle(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
