"""The client: it sends many requests at a time from a thread of its own and gives their answers in batches."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, TypeVar

from sqlenrich.core import runtime
from sqlenrich.core.loop_thread import LoopThread
from sqlenrich.llm.health import EndpointHealth, Stopped
from sqlenrich.llm.messages import Answer, AnsweredRequest, Request
from sqlenrich.llm.model import Model
from sqlenrich.llm.stats import ClientStats
from sqlenrich.llm.stream import Stream, StreamContext, StreamEnd, StreamPolicy
from sqlenrich.llm.throttle.budget import Budget

PROBES = 3
"""Requests that a preflight sends at most."""
STOPPING = "waiting for what is in flight (again: without it)"
"""What ends the asking of a stopped client."""
SHORT_OUTAGE_S = 2.0
"""An outage is named as the reason for waiting after this time."""
INSTANT_CHUNK = 16
T = TypeVar("T")

_inherited: list[object] = []
"""What a forked process inherited of open clients. It stays referenced: freeing a loop could disturb its owner."""


class Client:
    """Asks a model from a thread with an event loop of its own. Use it as a context manager, sync or async.

    At most ``concurrency`` requests are in flight; a model with a rate limiter decides that itself, and one that sends
    requests with one another has that many times as many of them in flight. At most that
    number and ``unstored`` more are sent and not yet stored. A batch holds at most ``batch_rows`` answers. It is given
    once its oldest answer is ``batch_s`` seconds old. Where ``batch_rows`` is below ``unstored``, requests are sent
    while the caller stores. A stream ends with RunError after ``give_up_s`` seconds without success (default: two
    minutes, or the model's timeout where that is longer), and without an error at one of the caps of ``budget``.
    Streams and single requests may run at the same time, from any threads; they share the concurrency. After a fork the
    child opens connections of its own.
    """

    def __init__(
        self,
        model: Model,
        *,
        concurrency: int,
        unstored: int | None = None,
        batch_rows: int | None = None,
        batch_s: float | None = None,
        give_up_s: float | None = None,
        budget: Budget | None = None,
        policy: StreamPolicy | None = None,
    ) -> None:
        policy = policy or StreamPolicy()
        unstored = policy.unstored if unstored is None else unstored
        batch_rows = policy.batch_rows if batch_rows is None else batch_rows
        if concurrency < 1 or unstored < 1 or batch_rows < 1:
            raise ValueError("concurrency, unstored and batch_rows must be at least 1")
        self.model = model
        self.traits = model.traits
        self.limiter = self.traits.limiter
        self._together = self.traits.batch
        self.concurrency = concurrency if self.limiter is None else self.limiter.max_concurrency * self._together
        self.budget = budget
        self.warnings = [] if self.traits.warnings is None else self.traits.warnings
        self.reports_health = self.traits.health is not None
        self.health = self.traits.health or EndpointHealth()
        self.policy = replace(
            policy,
            unstored=unstored,
            batch_rows=min(batch_rows, self.concurrency + unstored),
            batch_s=policy.batch_s if batch_s is None else batch_s,
            give_up_s=give_up_s or max(policy.give_up_s, self.traits.timeout_s),
        )
        self._stats = ClientStats()
        self._stops = 0
        self._streams: list[Stream] = []
        self._singles: dict[asyncio.Task[Answer], None] = {}
        self._slots = asyncio.Semaphore(concurrency)
        self._preflight: asyncio.Task[None] | None = None
        self._thread: LoopThread | None = None
        self._pid = os.getpid()

    @property
    def stats(self) -> ClientStats:
        """The counts at this moment."""
        self._stats.calls, self._stats.retries = self.health.calls, self.health.retries
        self._stats.in_flight = sum(stream.workers for stream in self._streams) + len(self._singles)
        return self._stats

    def __enter__(self) -> Client:
        self._pid = os.getpid()
        self._thread = runtime.loop_thread("sqlenrich-client")
        self._thread.start()
        try:
            self._wait(self.model.open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pid != os.getpid():
            return  # a forked process that never used the client: nothing of it is open here
        try:
            for stream in tuple(self._streams):
                self._leave(stream)
            self._wait(self.model.close())
        finally:
            self._end()

    async def __aenter__(self) -> Client:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def preflight(self, requests: Sequence[Request]) -> list[Answer]:
        """Ask a few requests, one after another, until one is answered: can a run start?

        Gives all answers, to be stored like any others. Raises RunError where no request would succeed. Requests that
        failed before prove nothing; without any others it is only found out whether anybody listens.
        """
        answers: list[Answer] = []
        if self.stopped:
            return answers
        with self._ends_at_stop():
            self._wait(self._probe(requests, answers))
        self.count(answers)
        self._stats.exposed_peak = max(self._stats.exposed_peak, len(answers))
        return answers

    def answers_again(self, request: AnsweredRequest) -> bool:
        """Whether the model answers a request that an earlier run asked; where not, or where it can't say, False.

        It is tried once. Its answer may have to be paid.
        """
        again = self.traits.answers_again
        answered = False
        if again is not None and not self.stopped:
            with self._ends_at_stop():
                answered = self._wait(self._look(again, request))
        return answered

    async def request(self, request: Request) -> Answer:
        """Return the answer to one request; await it in any event loop.

        Raises RunError where every request would fail, and Stopped after ``stop`` and at one of the caps of ``budget``.
        """
        future = self._open_thread().submit(self._single(request))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled() and self._stops > 1:
                raise Stopped from None  # abandoned by ``stop``, not cancelled by the caller
            raise

    def stream(self, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        """Ask ``requests`` and give their answers in batches, in the order in which they arrive.

        ``requests`` is read in the caller's thread, no further than the bound on unstored requests allows. An empty
        batch says that there are new warnings (``new_warnings``). Asking for the next batch says that the last one is
        stored.
        Raises, after all answers are given: RunError where the run cannot go on, and whatever ``requests`` raises.
        """
        if self.traits.answers is not None:
            return self._instant(self.traits.answers, iter(requests))
        return self._stream(iter(requests))

    def stop(self) -> None:
        """Send nothing more, wait at most ``policy.grace_s`` seconds for what is in flight, then end all streams.

        A second call abandons what is in flight. For any thread, and for signal handlers.
        """
        self._stops += 1
        self._post(self._on_stop)

    @property
    def stopped(self) -> bool:
        """Whether nothing is sent any more: ``stop`` was called, or a cap is reached."""
        return self._stops > 0 or (self.budget is not None and self.budget.reached is not None)

    def new_warnings(self) -> list[str]:
        """Return the warnings that were not given before: outages, limits that were found, truncated prompts."""
        lines = [*self.warnings]
        del self.warnings[: len(lines)]
        return lines

    def stopping(self) -> str:
        """Say what ends a stream after :meth:`stop`."""
        return STOPPING

    def waiting(self) -> str:
        """Say what the next answer waits for. For any thread."""
        limiter, down_s = self.limiter, self.health.down_s()
        workers = sum(stream.workers for stream in self._streams) if self._streams else 1
        in_flight = limiter.in_flight if limiter is not None else workers
        if down_s >= SHORT_OUTAGE_S or (down_s and not in_flight):
            return f"the endpoint is in trouble ({self.health.last_failure})"
        reason = limiter.wait_times.reason if limiter is not None else ""
        if limiter is not None and reason == "endpoint":
            blocked_s = math.ceil(limiter.blocked_s)
            return f"the endpoint takes nothing for {blocked_s:,} s" if blocked_s else "the endpoint is down"
        if reason not in ("", "concurrency"):
            return f"{reason} holds requests back"
        if not in_flight:
            return "preparing requests"
        return f"waiting for {in_flight:,} {'answer' if in_flight == 1 else 'answers'}"

    def count(self, answers: Sequence[Answer]) -> None:
        """Add answers to the counts."""
        failed = len(answers) - [answer.call_error for answer in answers].count(None)
        self._stats.answered += len(answers) - failed
        self._stats.failed += failed
        if not self.reports_health:
            calls = sum(answer.calls for answer in answers)
            self.health.calls += calls
            self.health.retries += calls - len(answers)

    def _exposed(self) -> None:
        """Measure how many requests are sent and not yet stored."""
        exposed = sum([stream.exposed for stream in self._streams])
        if exposed > self._stats.exposed_peak:
            self._stats.exposed_peak = exposed

    def _context(self) -> StreamContext:
        return StreamContext(
            model=self.model,
            policy=self.policy,
            health=self.health,
            limiter=self.limiter,
            budget=self.budget,
            warnings=self.warnings,
            reports_health=self.reports_health,
            first=not self._streams,
            canary=self.traits.canary_answers,
            concurrency=self._concurrency_now,
            stopped=lambda: self.stopped,
            count=self.count,
            exposed=self._exposed,
        )

    def _concurrency_now(self) -> int:
        if self.limiter is not None:
            return self.limiter.concurrency * self._together
        return max(1, self.concurrency // max(len(self._streams), 1))

    def _stream(self, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        if self.stopped:
            return
        self._reopen_after_fork()
        thread = self._open_thread()
        stream = Stream(self._context(), thread.queue())
        self._streams.append(stream)
        outstanding = 0
        reading = True
        try:
            self._post(stream.start)
            while True:
                limit = self.policy.unstored + (self.concurrency if self.limiter is None else self._concurrency_now())
                while reading and outstanding < limit and not stream.closing and not stream.ready():
                    try:
                        request = next(requests)
                    except StopIteration:
                        reading = False
                        self._post(stream.no_more)
                    except Exception as error:
                        reading = False
                        self._post(stream.wind_down, error)
                    else:
                        outstanding += 1
                        if stream.add(request):
                            self._post(stream.feed)
                batch = stream.take()
                if isinstance(batch, StreamEnd):
                    if batch.error is not None:
                        raise batch.error
                    return
                yield batch
                outstanding -= len(batch)
                stream.stored += len(batch)
        finally:
            self._leave(stream)

    def _instant(
        self, answer: Callable[[list[Request]], list[Answer]], requests: Iterator[Request]
    ) -> Iterator[list[Answer]]:
        """Answer in the caller's thread: nothing waits, so an event loop would only cost time."""
        while not self.stopped:
            until = runtime.monotonic() + self.policy.batch_s
            chunk: list[Request] = []
            while True:  # at least once: this thread may have waited for a processor since
                more = list(islice(requests, min(INSTANT_CHUNK, self.policy.batch_rows - len(chunk))))
                chunk += more
                if not more or len(chunk) >= self.policy.batch_rows or runtime.monotonic() >= until:
                    break
            if self.budget is not None:
                chunk = [request for request in chunk if self.budget.spend_call()]
            if not chunk:
                return
            answers = answer(chunk)
            self.count(answers)
            self._stats.exposed_peak = max(self._stats.exposed_peak, len(answers))
            yield answers

    def _leave(self, stream: Stream) -> None:
        if stream not in self._streams:
            return  # the client was closed before
        self._streams.remove(stream)
        if self._thread is not None and self._thread.is_current:
            stream.cancel()  # the garbage collector ends a forgotten stream in this thread, which must not wait
        else:
            self._wait(stream.abandon())

    async def _single(self, request: Request) -> Answer:
        task: Any = asyncio.current_task()
        self._singles[task] = None
        try:
            if self.stopped:
                raise Stopped
            if self.traits.answers is not None:
                answer = await self._counted(request)
            elif self.limiter is not None:
                answer = await self.model.ask(request)
            else:
                async with self._slots:
                    answer = await self._counted(request)
            self.count((answer,))
            return answer
        finally:
            self._singles.pop(task, None)

    async def _counted(self, request: Request) -> Answer:
        """Ask a model without a limiter: its calls count here."""
        if self.stopped or (self.budget is not None and not await self.budget.take_call()):
            raise Stopped
        return await self.model.ask(request)

    @contextmanager
    def _ends_at_stop(self) -> Iterator[None]:
        """Leave work that a stop has ended."""
        try:
            yield
        except (CancelledError, Stopped):
            if not self.stopped:
                raise

    async def _look(self, again: Callable[[AnsweredRequest], Awaitable[bool]], request: AnsweredRequest) -> bool:
        self._preflight = asyncio.current_task()
        try:
            return await again(request)
        finally:
            self._preflight = None

    async def _probe(self, requests: Sequence[Request], answers: list[Answer]) -> None:
        if self.stopped:
            return
        self._preflight = asyncio.current_task()
        if not self._streams:
            self.health.start()
            if self.limiter is not None:
                self.limiter.resume()
        try:
            if self.traits.probe is not None:
                await self.traits.probe(requests, answers)
                return
            for request in requests[:PROBES]:
                if self.budget is not None and not await self.budget.take_call():
                    raise Stopped
                answers.append(await self.model.ask(request))
                if answers[-1].call_error is None:
                    return
        finally:
            self._preflight = None

    def _on_stop(self) -> None:
        self.health.stop()
        if self.limiter is not None:
            self.limiter.stop()
        for task in (self._preflight, *self._singles):
            if task is not None:
                if self._stops > 1:
                    task.cancel()
                elif self._thread is not None:
                    self._thread.loop.call_later(self.policy.grace_s, task.cancel)
        for stream in tuple(self._streams):
            stream.wind_down()
            if self._stops > 1:
                stream.cancel()

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the loop and give its result."""
        try:
            thread = self._open_thread()
        except BaseException:
            work.close()
            raise
        return thread.run(work)

    def _post(self, action: Callable[..., object], *arguments: object) -> None:
        if self._thread is not None:
            self._thread.post(action, *arguments)

    def _open_thread(self) -> LoopThread:
        self._reopen_after_fork()
        if self._thread is None or self._thread.ended:
            raise RuntimeError("the client is not open: use it as a context manager")
        return self._thread

    def _reopen_after_fork(self) -> None:
        """Open a loop and connections of this process, where the client was opened by the parent of a fork."""
        if self._pid == os.getpid() or self._thread is None:
            return
        _inherited.append((self._thread, self._streams, self._singles))
        self._streams, self._singles, self._preflight = [], {}, None
        self._slots = asyncio.Semaphore(self.concurrency)
        self.health.reset()
        if self.limiter is not None:
            self.limiter.reset()
        self.__enter__()

    def _end(self) -> None:
        """End the loop and its thread; whatever still runs in it is cancelled first."""
        if self._thread is None or self._thread.ended:
            return
        self._thread.end()
        self._streams.clear()
