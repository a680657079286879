"""The health of a model's endpoints: counters, the current outage, the retry budget, and the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakSet

from sqlenrich.core import runtime

OUTAGE_S = 1.0
"""Failures alone for at least this long are an outage; a shorter series is taken for single failures."""


class Stopped(Exception):  # noqa: N818 (the end of a request, not an error)
    """Raised for a request that is not sent, or not sent again, because the run is stopping.

    Such a request has no answer: nothing of it is stored, and a later run asks it again.
    """


@dataclass(frozen=True)
class HealthPolicy:
    """The retry budget of a run, in requests."""

    retry_budget: float = 200.0
    """Retries that are available at the start."""
    retries_per_answer: float = 2.0
    """Retries that each answer adds."""


class StopSignal:
    """Says which tasks may send requests: all, none, or all but those of streams that ended."""

    def __init__(self) -> None:
        self._all = False
        self._tasks: WeakSet[asyncio.Task[object]] = WeakSet()

    def set(self, tasks: Collection[asyncio.Task[None]] | None = None) -> None:
        """Stop these tasks; without any, stop all."""
        if tasks is None:
            self._all = True
        else:
            self._tasks.update(tasks)

    def clear(self) -> None:
        """Let tasks send again."""
        self._all = False

    def __bool__(self) -> bool:
        """Whether the current task is stopped."""
        return self._all or (len(self._tasks) > 0 and asyncio.current_task() in self._tasks)

    def covers(self, task: asyncio.Task[object] | None) -> bool:
        """Whether a task is stopped."""
        return self._all or task in self._tasks


class EndpointHealth:
    """Counts sends and failures, and measures the current outage. For the event loop's thread alone.

    ``calls`` counts sends and ``retries`` those of them that were sent before. ``last_failure`` is the text of the last
    failure, ``failures_in_a_row`` the number of failures since the last success, ``paused`` the number of requests that
    wait before a retry. ``on_pause`` holds functions that are called when a request begins such a wait.
    """

    def __init__(self, policy: HealthPolicy | None = None) -> None:
        self.policy = policy or HealthPolicy()
        self.calls = 0
        self.retries = 0
        self.last_failure = ""
        self.failures_in_a_row = 0
        self.paused = 0
        self.on_pause: dict[Callable[[], None], None] = {}
        self._retry_budget = self.policy.retry_budget
        self._failing_since: float | None = None
        self._succeeded_at = 0.0
        self._canary_answered_at = 0.0
        self._idle_since: float | None = None
        self._busy_streams = 0
        self._stop = StopSignal()
        self._pauses: dict[asyncio.Future[bool], asyncio.Task[object] | None] = {}
        self._delays: dict[asyncio.Future[bool], None] = {}
        self._unsent: dict[asyncio.Task[object], None] = {}

    def sent(self, *, again: bool) -> None:
        """Count one send."""
        self.calls += 1
        self.retries += again

    def succeeded(self) -> None:
        """Record a definite response; the refusal of one row is one."""
        self._succeeded_at = runtime.monotonic()
        self._failing_since = None
        self.failures_in_a_row = 0
        self._retry_budget += self.policy.retries_per_answer

    def succeeded_since(self, started: float) -> bool:
        """Whether a request was answered after the monotonic time ``started``."""
        return self._succeeded_at > started

    def canary_answered(self) -> None:
        """Record that the endpoint works, although the requests in flight fail."""
        self._failing_since = None
        self.failures_in_a_row = 0
        self._succeeded_at = self._canary_answered_at = runtime.monotonic()

    def canary_failed(self) -> None:
        """Record that the endpoint was tried once more, whether or not the user's limits allowed other requests."""
        self.failures_in_a_row += 1

    def canary_answered_since(self, started: float) -> bool:
        """Whether the endpoint was found to work after the monotonic time ``started``."""
        return self._canary_answered_at > started

    def spend_retry(self) -> bool:
        """Take one retry from the budget of the run; False where it is used up.

        All retries share one budget, which each answer fills up. Where most requests fail, each fails after one try.
        """
        if self._retry_budget < 1.0:
            return False
        self._retry_budget -= 1.0
        return True

    def failed(self, started: float, text: str) -> None:
        """Record a failure that may be tried again, of a try sent at the monotonic time ``started``."""
        since = max(started, self._succeeded_at)
        self._failing_since = since if self._failing_since is None else min(self._failing_since, since)
        self.last_failure = text
        self.failures_in_a_row += 1

    def down_s(self) -> float:
        """Return the seconds for which requests were sent and none succeeded, else 0. For any thread."""
        since = self._failing_since
        return 0.0 if since is None else runtime.monotonic() - since

    def idle(self) -> None:
        """Record that one stream has nothing in flight; while none has, an outage does not grow."""
        self._busy_streams = max(self._busy_streams - 1, 0)
        if self._busy_streams == 0:
            self._idle_since = runtime.monotonic()

    def busy(self) -> None:
        """Record that one stream sends requests again."""
        self._busy_streams += 1
        if self._idle_since is not None and self._failing_since is not None:
            self._failing_since += runtime.monotonic() - self._idle_since
        self._idle_since = None

    def exclude(self, seconds: float) -> None:
        """Take seconds off the outage: the user's own limits allowed no request then."""
        if self._failing_since is not None:
            self._failing_since = min(self._failing_since + seconds, runtime.monotonic())

    async def pause(self, seconds: float, *, fails: bool = False) -> None:
        """Wait before a retry, or where a request ``fails`` before that is told. Raises Stopped once the run stops."""
        if self._stop:
            raise Stopped
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(seconds, _settle, done, True)
        self._pauses[done] = asyncio.current_task()
        if fails:
            self._delays[done] = None
        self.paused += 1
        for listener in tuple(self.on_pause):
            listener()
        try:
            if not await done:
                raise Stopped
        finally:
            self.paused -= 1
            timer.cancel()
            del self._pauses[done]
            self._delays.pop(done, None)

    def end_delays(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """Let requests of these tasks fail now: no others are left to be kept from failing as well."""
        for delay in self._delays:
            if self._pauses[delay] in tasks:
                _settle(delay, True)

    @contextmanager
    def unsent(self) -> Iterator[None]:
        """Let the task begin what comes before a request is sent. Raises Stopped as soon as the whole run stops."""
        task = asyncio.current_task()
        assert task is not None
        self._unsent[task] = None
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._unsent:
                task.uncancel()
                raise Stopped from None
            raise
        finally:
            self._unsent.pop(task, None)

    @property
    def stopped(self) -> bool:
        """Whether the current task may send nothing more."""
        return bool(self._stop)

    def stop(self, tasks: Collection[asyncio.Task[None]] | None = None) -> None:
        """End the pauses of these tasks with Stopped, now and later. Without any: of all, and what is not sent yet."""
        self._stop.set(tasks)
        for pause, task in self._pauses.items():
            if self._stop.covers(task):
                _settle(pause, False)
        if tasks is None:
            unsent, self._unsent = self._unsent, {}
            for one in unsent:
                one.cancel()

    def reset(self) -> None:
        """Forget what the parent of a forked process had under way; counts and the retry budget stay."""
        self._pauses, self._delays, self._unsent, self._stop, self.paused = {}, {}, {}, StopSignal(), 0
        self.on_pause = {}
        self.start()

    def start(self) -> None:
        """Begin anew: pauses are allowed, and no outage is known."""
        self._stop.clear()
        self._failing_since = self._idle_since = None
        self._busy_streams = 0
        self.failures_in_a_row = 0


def _settle(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)
