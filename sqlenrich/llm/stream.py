"""One stream of requests: its queue, its workers, and the batches of answers that wait for the caller."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue

from sqlenrich.core import runtime
from sqlenrich.core.errors import RunError
from sqlenrich.llm.health import OUTAGE_S, EndpointHealth, Stopped
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import Model
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.limiter import RateLimiter


@dataclass(frozen=True)
class StreamPolicy:
    """Bounds and times of a stream."""

    unstored: int = 256
    """Requests beyond the concurrency that may be sent and not yet stored."""
    batch_rows: int = 256
    batch_s: float = 0.05
    """A batch is given once its oldest answer has this age."""
    give_up_s: float = 120.0
    """The stream ends with an error after this time without any answer, if the model's canary fails as well."""
    canary_after_s: float = 10.0
    """The canary is asked after this time without any answer, and again after each further one, ..."""
    canary_at_end_s: float = 3.0
    """... or after this time where no further request is left to be sent."""
    grace_s: float = 10.0
    """A stopped stream waits this long for what is in flight."""
    check_s: float = 1.0
    """Time between two looks for an outage."""
    outage_warning_s: float = 10.0
    """An outage of this length gives a warning."""
    warning_every_s: float = 300.0
    decisive_failures: int = 10
    """After this many failures in a row an outage counts even where the user's own limits allow few tries."""


@dataclass(frozen=True)
class StreamContext:
    """What a stream uses of its client. ``first``: no other stream of the client is open."""

    model: Model
    policy: StreamPolicy
    health: EndpointHealth
    limiter: RateLimiter | None
    budget: Budget | None
    warnings: list[str]
    reports_health: bool
    first: bool
    canary: Callable[[], Awaitable[bool]] | None
    """Whether the model answers a request that it answered before; None for a model that can't say."""
    concurrency: Callable[[], int]
    """The requests that the stream may have in flight now."""
    stopped: Callable[[], bool]
    count: Callable[[Sequence[Answer]], None]
    """Adds answers to the client's counts."""
    exposed: Callable[[], None]
    """Called when one more request is sent and not yet stored."""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The last item of a stream. ``error`` is the exception to raise, if any."""

    error: Exception | None


class Stream:
    """Runs the requests of a stream.

    The caller's thread uses ``add``, ``ready`` and ``take``, the event loop's thread the rest. Both threads change the
    queue and the outbox only, and both of these allow that.
    """

    def __init__(self, context: StreamContext, outbox: SimpleQueue[list[Answer] | StreamEnd] | None = None) -> None:
        self.workers = 0
        self.closing = False
        self.stored = 0
        self._context = context
        self._policy = context.policy
        self._model = context.model
        self._together = context.model.traits.batch
        self._health = context.health
        self._limiter = context.limiter
        self._queue: deque[Request] = deque()
        self._feed_due = False
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        self._outbox = SimpleQueue() if outbox is None else outbox
        self._left: list[Answer] | StreamEnd | None = None
        self._batch: list[Answer] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._checked_at = runtime.monotonic()
        self._canary: asyncio.Task[None] | None = None
        self._canary_failed_at = self._canary_asked_at = float("-inf")
        self._grace_timer: asyncio.TimerHandle | None = None
        self._doubtful: deque[asyncio.Future[None]] = deque()
        self._sent = 0
        self._warned, self._warned_at = False, float("-inf")
        self._all_read = False
        self._started = self._ended = False
        self._error: Exception | None = None

    @property
    def exposed(self) -> int:
        """The requests that are sent and not yet stored."""
        return self._sent - self.stored

    # In the caller's thread.

    def add(self, request: Request) -> bool:
        """Queue a request. True: the caller must post ``feed`` to the loop."""
        self._queue.append(request)
        # The loop may clear the flag at any moment; it reads the queue after that.
        if self._feed_due:
            return False
        self._feed_due = True
        return True

    def ready(self) -> bool:
        """Whether ``take`` returns at once."""
        return self._left is not None or not self._outbox.empty()

    def take(self) -> list[Answer] | StreamEnd:
        """Wait for the next batch or the end. Small batches that wait already are joined, up to ``batch_rows``."""
        first = self._outbox.get() if self._left is None else self._left
        self._left = None
        if isinstance(first, StreamEnd):
            return first
        while not self._outbox.empty():
            more = self._outbox.get()
            if isinstance(more, StreamEnd) or len(first) + len(more) > self._policy.batch_rows:
                self._left = more
                break
            first = first + more
        return first

    # In the loop's thread.

    def start(self) -> None:
        """Begin to send, and to look for outages."""
        if self._ended:
            return  # it was stopped before it began
        self._started = True
        if self._context.first:
            self._health.start()
        self._health.on_pause[self._replace_paused] = None
        if self._limiter is not None:
            self._limiter.begin(first=self._context.first)
            self._limiter.on_capacity[self.feed] = None
            self._limiter.on_budget_spent[self.send_no_more] = None
        if self._context.stopped():
            self.wind_down()
        self._check()

    def feed(self) -> None:
        """Start workers for queued requests, as far as the concurrency allows."""
        self._feed_due = False
        while len(self._queue) > 0 and self.workers - self._paused() < self._context.concurrency() and not self.closing:
            if self.workers == 0:
                self._health.busy()
            self.workers += 1
            task = asyncio.get_running_loop().create_task(self._work(self._queue.popleft()))
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def _replace_paused(self) -> None:
        """Send other requests while some wait; without any, do not wait before failures."""
        self.feed()
        if self._all_read and not self._queue:
            self._health.end_delays(self._tasks)

    def _paused(self) -> int:
        """Return the number of workers that wait before a retry and are replaced: none during an outage."""
        paused = self._health.paused * self._together
        return min(paused, self._policy.unstored // 2) if self._health.down_s() < OUTAGE_S else 0

    def no_more(self) -> None:
        """Record that the caller has no more requests."""
        self._all_read = True
        if not self._queue:
            self._health.end_delays(self._tasks)
        self._end_if_done()

    def wind_down(self, error: Exception | None = None) -> None:
        """Send nothing more; end with ``error`` when what is in flight is answered, or the grace is over."""
        if self._error is None:
            self._error = error
        self.send_no_more()
        if self._grace_timer is None and not self._ended:
            self._grace_timer = asyncio.get_running_loop().call_later(self._policy.grace_s, self.cancel)

    def send_no_more(self) -> None:
        """Send nothing more; end when what is in flight is answered, however long that takes: it has to be paid."""
        if self.closing:
            return
        self.closing = True
        self._queue.clear()
        if self._canary is not None:
            self._canary.cancel()
        self._health.stop(self._tasks)
        if self._limiter is not None:
            self._limiter.stop(self._tasks)
        self._release_doubtful()
        self._end_if_done()

    def cancel(self) -> None:
        """Abandon what is in flight and end."""
        self.closing = True
        self._queue.clear()
        for task in tuple(self._tasks):
            task.cancel()
        if self._canary is not None:
            self._canary.cancel()
        self._end()

    async def abandon(self) -> None:
        """Cancel what is left and wait until nothing of it runs."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, request: Request) -> None:
        context, queue = self._context, self._queue
        try:
            while True:
                if self._limiter is None and context.budget is not None and not await context.budget.take_call():
                    self.send_no_more()
                    return
                self._sent += 1
                context.exposed()
                started = runtime.monotonic()
                try:
                    answer = await self._model.ask(request)
                except Stopped:
                    return
                if answer.retryable and answer.call_error is not None:
                    if not context.reports_health:
                        self._health.failed(started, answer.call_error)
                    self._check_budget()
                    await self._doubt()
                else:
                    if not context.reports_health:
                        self._health.succeeded()
                    if self._doubtful:
                        self._release_doubtful()
                self._answered(answer)
                if not queue or self.closing:
                    return
                spare = context.concurrency() - self.workers + self._paused()
                if spare + len(self._doubtful) < 0:
                    return
                request = queue.popleft()
                if spare > 0 and queue:
                    self.feed()
        except Exception as error:
            self.wind_down(error)
        finally:
            self.workers -= 1
            if self.workers == 0:
                self._health.idle()
            elif len(self._doubtful) == self.workers:
                self._release_one()
            else:
                self._check_budget()
            self._end_if_done()

    def _check_budget(self) -> None:
        """Send nothing more where that was the last call: a wait before a retry may be long, and in vain."""
        if self._health.paused and self._limiter is not None:
            with suppress(Stopped):
                self._limiter.check_budget()

    async def _doubt(self) -> None:
        """Delay the failure of a request until another one succeeds: only then it is known to be this row's failure.

        Where all requests fail, they are released one at a time. An endpoint that is down then gets fewer and fewer
        requests until the stream gives up, and the remaining rows do not become errors.
        """
        if self.closing or len(self._doubtful) + 1 >= self.workers:
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._doubtful.append(waiting)
        try:
            await waiting
        finally:
            if waiting in self._doubtful:
                self._doubtful.remove(waiting)

    def _release_one(self) -> None:
        while self._doubtful:
            waiting = self._doubtful.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    def _release_doubtful(self) -> None:
        while self._doubtful:
            self._release_one()

    def _answered(self, answer: Answer) -> None:
        if self._ended:
            return
        self._context.count((answer,))
        self._batch.append(answer)
        if len(self._batch) >= self._policy.batch_rows:
            self._flush()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(self._policy.batch_s, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._batch:
            self._outbox.put(self._batch)
            self._batch = []

    def _check(self) -> None:
        """End the stream where nothing succeeded for too long."""
        if self._ended:
            return
        give_up_s, now = self._policy.give_up_s, runtime.monotonic()
        if (
            self._limiter is not None
            and self._limiter.waits_for_own_rate
            and self._health.failures_in_a_row < self._policy.decisive_failures
        ):
            self._health.exclude(now - self._checked_at)
        self._checked_at = now
        self._warn()
        down_s = self._health.down_s()
        waits = self.closing or self._canary is not None  # for the end, or for what the canary shows
        if not waits and self.workers > 0 and down_s >= give_up_s and self._canary_failed(now, down_s):
            self._error = RunError(
                f"the model {self._model.name} stopped answering ({self._health.last_failure});"
                " what was answered is stored, run again to continue"
            )
            self.cancel()
            return
        after_s = self._canary_after_s()
        if down_s >= after_s and now - self._canary_asked_at >= after_s and not self.closing:
            self._ask_canary(now)
        loop = asyncio.get_running_loop()
        self._check_timer = loop.call_later(min(self._policy.check_s, give_up_s / 4), self._check)

    def _canary_failed(self, now: float, down_s: float) -> bool:
        """Whether the canary failed in the current outage. A model without one is trusted to be down."""
        return self._context.canary is None or now - self._canary_failed_at <= down_s

    def _canary_after_s(self) -> float:
        policy, at_end = self._policy, self._all_read and not self._queue
        return min(policy.canary_at_end_s if at_end else policy.canary_after_s, policy.give_up_s / 2)

    def _ask_canary(self, now: float) -> None:
        if self._context.canary is not None and self._canary is None:
            self._canary_asked_at = now
            self._canary = asyncio.get_running_loop().create_task(self._hear_canary(self._context.canary))

    async def _hear_canary(self, canary: Callable[[], Awaitable[bool]]) -> None:
        """Ask the canary. Where it answers, the requests that fail are at fault themselves: they are let go."""
        try:
            if await canary():
                self._health.canary_answered()
                self._release_doubtful()
            else:
                self._canary_failed_at = runtime.monotonic()
                self._health.canary_failed()
        except Stopped:
            return
        finally:
            self._canary = None
        self._check_budget()

    def _warn(self) -> None:
        """Warn of an outage, and of its end."""
        down_s, warnings, policy = self._health.down_s(), self._context.warnings, self._policy
        now = runtime.monotonic()
        if not self._warned and down_s >= policy.outage_warning_s and now - self._warned_at >= policy.warning_every_s:
            self._warned, self._warned_at = True, now
            end = f"the run ends after {policy.give_up_s:.0f} s without any"
            warnings.append(f"no answer for {down_s:.0f} s ({self._health.last_failure}); {end}")
        elif self._warned and not down_s:
            self._warned = False
            warnings.append("answers come again")
        if warnings and self._outbox.empty():
            self._outbox.put([])

    def _end_if_done(self) -> None:
        if self.workers == 0 and (self.closing or (self._all_read and not self._queue)):
            self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._flush()
        self._ended = True
        self._health.on_pause.pop(self._replace_paused, None)
        if self._limiter is not None and self._started:
            self._limiter.on_capacity.pop(self.feed, None)
            self._limiter.on_budget_spent.pop(self.send_no_more, None)
            self._limiter.end()
        for timer in (self._check_timer, self._grace_timer):
            if timer is not None:
                timer.cancel()
        self._outbox.put(StreamEnd(self._error))
