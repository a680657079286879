"""One stream under way: its queue, its workers and the answers that wait for the caller."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING

from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import OUTAGE_S, Stopped

if TYPE_CHECKING:
    from sqlenrich.llm.client import Client

CHECK_S = 1.0
TOLD_S, TELL_EVERY_S = 10.0, 300.0
FAILS_ENOUGH = 10
"""After so many failures in a row it is no matter any more that the user's own limits leave few tries."""


@dataclass(frozen=True, slots=True)
class End:
    """The last thing that a flight hands over: nothing follows. ``error`` is what to raise, if anything."""

    error: Exception | None


class Flight:
    """Runs a stream's requests. The caller's thread uses ``add``, ``ready`` and ``take``; the loop the rest.

    The queue and the outbox are the only things both threads change, and both are safe for that.
    """

    def __init__(self, client: Client) -> None:
        self.workers = 0
        self.closing = False
        self.stored = 0
        self._client = client
        self._model = client.model
        self._pulse = client.pulse
        self._gate = client.gate
        self._queue: deque[Request] = deque()
        self._feed_due = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._outbox: SimpleQueue[list[Answer] | End] = SimpleQueue()
        self._left: list[Answer] | End | None = None
        self._batch: list[Answer] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._checked_at = time.monotonic()
        self._grace_timer: asyncio.TimerHandle | None = None
        self._doubtful: deque[asyncio.Future[None]] = deque()
        self._sent = 0
        self._told, self._told_at = False, float("-inf")
        self._all_read = False
        self._ended = False
        self._error: Exception | None = None

    # In the caller's thread.

    def add(self, request: Request) -> bool:
        """Queue a request; true if ``feed`` must be posted to the loop for it."""
        self._queue.append(request)
        # Set only where it was false: the loop may clear it at any moment, and then comes back to the queue.
        if self._feed_due:
            return False
        self._feed_due = True
        return True

    def ready(self) -> bool:
        """Say whether ``take`` would give something at once."""
        return self._left is not None or not self._outbox.empty()

    def take(self) -> list[Answer] | End:
        """Wait for the next batch or the end. What gathered meanwhile is joined, up to the batch's size."""
        first = self._outbox.get() if self._left is None else self._left
        self._left = None
        if isinstance(first, End):
            return first
        while not self._outbox.empty():
            more = self._outbox.get()
            if isinstance(more, End) or len(first) + len(more) > self._client.batch_rows:
                self._left = more
                break
            first = first + more
        return first

    # In the loop's thread.

    def start(self) -> None:
        """Begin to watch the endpoint."""
        if self._ended:
            return  # it was stopped before it began
        self._pulse.start()
        self._pulse.on_pause = self.feed
        if self._gate is not None:
            self._gate.begin()
            self._gate.on_room = self.feed
            self._gate.on_cap = self.wind_down
        if self._client.stopped:
            self.wind_down()
        self._check()

    def feed(self) -> None:
        """Put idle capacity to work on what is queued."""
        self._feed_due = False
        if self.workers == 0:
            self._pulse.resume()
        while len(self._queue) > 0 and self.workers - self._paused() < self._width() and not self.closing:
            self.workers += 1
            task = asyncio.get_running_loop().create_task(self._work(self._queue.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _width(self) -> int:
        return self._client.concurrency if self._gate is None else self._gate.width

    def _paused(self) -> int:
        """Give how many workers wait to send again: others take their place, unless nothing is answered at all."""
        return min(self._pulse.paused, self._client.unstored // 2) if self._pulse.down_s() < OUTAGE_S else 0

    def no_more(self) -> None:
        """Take note that the caller has no more requests."""
        self._all_read = True
        self._end_if_done()

    def wind_down(self, error: Exception | None = None) -> None:
        """Send nothing more; end with ``error`` when what is in flight is answered, or the grace is over."""
        if self._error is None:
            self._error = error
        if self.closing:
            return
        self.closing = True
        self._queue.clear()
        self._pulse.stop()
        if self._gate is not None:
            self._gate.stop()
        self._release_doubtful()
        self._grace_timer = asyncio.get_running_loop().call_later(self._client.grace_s, self.cancel)
        self._end_if_done()

    def cancel(self) -> None:
        """Abandon what is in flight and end."""
        self.closing = True
        self._queue.clear()
        for task in self._tasks:
            task.cancel()
        self._end()

    async def abandon(self) -> None:
        """Cancel what is left and wait until nothing of it runs."""
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self, request: Request) -> None:
        client, queue = self._client, self._queue
        try:
            while True:
                if self._gate is None and client.caps is not None and not client.caps.spend_call():
                    self.wind_down()
                    return
                self._sent += 1
                client.exposed(self._sent - self.stored)
                started = time.monotonic()
                try:
                    answer = await self._model.ask(request)
                except Stopped:
                    return
                if answer.retryable and answer.call_error is not None:
                    if not client.watched:
                        self._pulse.failed(started, answer.call_error)
                    await self._doubt()
                else:
                    if not client.watched:
                        self._pulse.alive()
                    if self._doubtful:
                        self._release_doubtful()
                self._answered(answer)
                if not queue or self.closing:
                    return
                spare = self._width() - self.workers + self._paused()
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
                self._pulse.rest()
            elif len(self._doubtful) == self.workers:
                self._release_one()
            self._end_if_done()

    async def _doubt(self) -> None:
        """Hold a failed request back until another one succeeds: is it this row's failure, or everybody's?

        Where all fail, they are let go one at a time: a dead endpoint is asked ever less until the run gives
        up, rather than every remaining row becoming an error.
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
        self._client.count((answer,))
        self._batch.append(answer)
        if len(self._batch) >= self._client.batch_rows:
            self._flush()
        elif self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(self._client.batch_s, self._flush)

    def _flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._batch:
            self._outbox.put(self._batch)
            self._batch = []

    def _check(self) -> None:
        """Give up where nothing succeeded for too long."""
        if self._ended:
            return
        give_up_s, now = self._client.give_up_s, time.monotonic()
        if self._gate is not None and self._gate.waits_for_itself and self._pulse.fails < FAILS_ENOUGH:
            self._pulse.skip(now - self._checked_at)
        self._checked_at = now
        self._tell()
        if not self.closing and self.workers > 0 and self._pulse.down_s() >= give_up_s:
            self._error = RunError(
                f"the model {self._model.name} stopped answering ({self._pulse.trouble});"
                " what was answered is stored, run again to continue"
            )
            self.cancel()
        else:
            loop = asyncio.get_running_loop()
            self._check_timer = loop.call_later(min(CHECK_S, give_up_s / 4), self._check)

    def _tell(self) -> None:
        """Say where nothing is answered for a while: a silence looks like a hang."""
        down_s, warnings = self._pulse.down_s(), self._client.warnings
        now = time.monotonic()
        if not self._told and down_s >= TOLD_S and now - self._told_at >= TELL_EVERY_S:
            self._told, self._told_at = True, now
            end = f"the run ends after {self._client.give_up_s:.0f} s without any"
            warnings.append(f"no answer for {down_s:.0f} s ({self._pulse.trouble}); {end}")
        elif self._told and not down_s:
            self._told = False
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
        self._pulse.on_pause = None
        if self._gate is not None:
            self._gate.end()
        for timer in (self._check_timer, self._grace_timer):
            if timer is not None:
                timer.cancel()
        self._outbox.put(End(self._error))
