"""Many requests in flight from a thread of its own, and their answers in batches for the caller to store."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import TypeVar

from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import (
    GatedModel,
    InstantModel,
    Model,
    PatientModel,
    ProbingModel,
    Pulse,
    Stopped,
    WarningModel,
    WatchedModel,
)
from sqlenrich.llm.stream import End, Flight
from sqlenrich.llm.throttle.budget import Caps

PROBES = 3
GIVE_UP_S = 120.0
TROUBLE_S = 2.0
"""An endpoint that only fails for longer is what a run waits for."""
T = TypeVar("T")


@dataclass
class ClientStats:
    """What a client did so far, all streams and the preflight together.

    ``calls`` counts sends and ``retries`` those that were sent before; ``answered`` and ``failed`` count
    answers without and with ``call_error``; ``exposed_peak`` is the most requests that were sent and not yet
    stored.
    """

    calls: int = 0
    retries: int = 0
    answered: int = 0
    failed: int = 0
    in_flight: int = 0
    exposed_peak: int = 0


class Client:
    """Asks a model from a thread with an event loop of its own: use it as a context manager.

    ``concurrency`` requests are in flight at most (a model with a gate decides that by itself), and as many and
    ``unstored`` more are sent and not yet stored. A
    batch holds at most ``batch_rows`` answers and is given once its oldest answer is ``batch_s`` seconds old.
    Where ``batch_rows`` is below ``unstored``, new requests are sent while the caller stores. A stream ends
    with RunError when for ``give_up_s`` seconds (two minutes, or as long as the model waits for one answer) every try
    failed, and without an error at one of the ``caps``. One stream at a time.
    """

    grace_s = 10.0

    def __init__(
        self,
        model: Model,
        *,
        concurrency: int,
        unstored: int = 256,
        batch_rows: int = 256,
        batch_s: float = 0.05,
        give_up_s: float | None = None,
        caps: Caps | None = None,
    ) -> None:
        if concurrency < 1 or unstored < 1 or batch_rows < 1:
            raise ValueError("concurrency, unstored and batch_rows must be at least 1")
        self.model = model
        self.gate = model.gate if isinstance(model, GatedModel) else None
        self.concurrency = concurrency if self.gate is None else self.gate.most
        self.unstored = unstored
        self.batch_rows = min(batch_rows, self.concurrency + unstored)
        self.batch_s = batch_s
        self.give_up_s = give_up_s or max(GIVE_UP_S, model.timeout_s if isinstance(model, PatientModel) else 0.0)
        self.caps = caps
        self.warnings = model.warnings if isinstance(model, WarningModel) else []
        self.watched = isinstance(model, WatchedModel)
        self.pulse = model.pulse if isinstance(model, WatchedModel) else Pulse()
        self._stats = ClientStats()
        self._stops = 0
        self._flight: Flight | None = None
        self._preflight: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def stats(self) -> ClientStats:
        """The counts at this moment."""
        self._stats.calls, self._stats.retries = self.pulse.calls, self.pulse.retries
        self._stats.in_flight = self._flight.workers if self._flight else 0
        return self._stats

    def __enter__(self) -> Client:
        loop = _new_loop()
        self._loop = loop
        self._thread = threading.Thread(target=loop.run_forever, name="sqlenrich-client", daemon=True)
        self._thread.start()
        try:
            self._await(self.model.open())
        except BaseException:
            self._shut()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._flight is not None:
                self._leave(self._flight)
            self._await(self.model.close())
        finally:
            self._shut()

    def preflight(self, requests: Sequence[Request], *, suspect: bool = False) -> list[Answer]:
        """Ask up to three requests, one after another, until one is answered: can a run start?

        Gives all answers got, to be stored like any others. Raises RunError where no request would fare
        better; ``suspect`` ones, which failed before, show that only where nobody listens.
        """
        answers: list[Answer] = []
        if self.stopped:
            return answers
        try:
            self._await(self._probe(requests, answers, suspect))
        except (CancelledError, Stopped):
            if not self.stopped:
                raise
        self.count(answers)
        self._stats.exposed_peak = max(self._stats.exposed_peak, len(answers))
        return answers

    def stream(self, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        """Ask ``requests`` and give their answers in batches, in the order in which they come.

        ``requests`` is read in the caller's thread, no further than the bound on what is sent and not yet
        stored allows. A batch may be empty: then there is something to be ``heard``. Asking for the next batch says
        that the last one is stored. Raises, once what was answered is given: RunError where the run can't go on, and
        whatever ``requests`` raises.
        """
        if isinstance(self.model, InstantModel) and self.model.instant:
            return self._instant(self.model, iter(requests))
        return self._stream(iter(requests))

    def stop(self) -> None:
        """Send nothing more, wait at most ``grace_s`` seconds for what is in flight, then end the stream.

        A second call abandons what is in flight. May be called from any thread and from a signal handler.
        """
        self._stops += 1
        self._post(self._on_stop)

    @property
    def stopped(self) -> bool:
        """Whether nothing is sent any more: ``stop`` was called, or a cap is reached."""
        return self._stops > 0 or (self.caps is not None and self.caps.reached is not None)

    def heard(self) -> list[str]:
        """Give, once, what a person should know: outages, an endpoint that cuts prompts."""
        lines = [*self.warnings]
        del self.warnings[: len(lines)]
        return lines

    def waiting(self) -> str:
        """Say what the next answer waits for. May be called from any thread."""
        gate, flight, down_s = self.gate, self._flight, self.pulse.down_s()
        in_flight = gate.in_flight if gate is not None else flight.workers if flight is not None else 1
        if down_s >= TROUBLE_S or (down_s and not in_flight):
            return f"the endpoint is in trouble ({self.pulse.trouble})"
        reason = gate.held.reason if gate is not None else ""
        if gate is not None and reason == "endpoint":
            held_s = math.ceil(gate.held_s)
            return f"the endpoint takes nothing for {held_s:,} s" if held_s else "the endpoint is down"
        if reason not in ("", "concurrency"):
            return f"{reason} holds requests back"
        return f"waiting for {in_flight:,} {'answer' if in_flight == 1 else 'answers'}"

    def count(self, answers: Sequence[Answer]) -> None:
        """Take answers into the counts."""
        failed = sum(answer.call_error is not None for answer in answers)
        self._stats.answered += len(answers) - failed
        self._stats.failed += failed
        if not self.watched:
            calls = sum(answer.calls for answer in answers)
            self.pulse.calls += calls
            self.pulse.retries += calls - len(answers)

    def exposed(self, requests: int) -> None:
        """Take note of how many requests are sent and not yet stored."""
        if requests > self._stats.exposed_peak:
            self._stats.exposed_peak = requests

    def _stream(self, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        if self.stopped:
            return
        if self._flight is not None:
            raise RuntimeError("the client already streams: one stream at a time")
        flight = self._flight = Flight(self)
        outstanding = 0
        reading = True
        try:
            self._post(flight.start)
            while True:
                limit = self.unstored + (self.concurrency if self.gate is None else self.gate.width)
                while reading and outstanding < limit and not flight.closing and not flight.ready():
                    try:
                        request = next(requests)
                    except StopIteration:
                        reading = False
                        self._post(flight.no_more)
                    except Exception as error:
                        reading = False
                        self._post(flight.wind_down, error)
                    else:
                        outstanding += 1
                        if flight.add(request):
                            self._post(flight.feed)
                batch = flight.take()
                if isinstance(batch, End):
                    if batch.error is not None:
                        raise batch.error
                    return
                yield batch
                outstanding -= len(batch)
                flight.stored += len(batch)
        finally:
            self._leave(flight)

    def _instant(self, model: InstantModel, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        """Answer in the caller's thread: nothing waits, so a loop and its hand-overs would only cost time."""
        while not self.stopped:
            until = time.monotonic() + self.batch_s
            chunk: list[Request] = []
            while len(chunk) < self.batch_rows and time.monotonic() < until:
                more = list(islice(requests, min(16, self.batch_rows - len(chunk))))
                chunk += more
                if not more:
                    break
            if self.caps is not None:
                chunk = [request for request in chunk if self.caps.spend_call()]
            if not chunk:
                return
            answers = model.answers(chunk)
            self.count(answers)
            self.exposed(len(answers))
            yield answers

    def _leave(self, flight: Flight) -> None:
        if self._flight is not flight:
            return  # the client was closed before
        self._flight = None
        if threading.current_thread() is self._thread:
            flight.cancel()  # a forgotten stream that the garbage collector found here: nobody may wait
        else:
            self._await(flight.abandon())

    async def _probe(self, requests: Sequence[Request], answers: list[Answer], suspect: bool) -> None:
        if self.stopped:
            return
        self._preflight = asyncio.current_task()
        self.pulse.start()
        if self.gate is not None:
            self.gate.resume()
        try:
            if isinstance(self.model, ProbingModel):
                await self.model.probe(requests, answers, suspect=suspect)
                return
            for request in requests[:PROBES]:
                if self.caps is not None and not self.caps.spend_call():
                    raise Stopped
                answers.append(await self.model.ask(request))
                if answers[-1].call_error is None:
                    return
        finally:
            self._preflight = None

    def _on_stop(self) -> None:
        self.pulse.stop()
        if self.gate is not None:
            self.gate.stop()
        if self._preflight is not None:
            if self._stops > 1:
                self._preflight.cancel()
            elif self._loop is not None:
                self._loop.call_later(self.grace_s, self._preflight.cancel)
        if self._flight is not None:
            self._flight.wind_down()
            if self._stops > 1:
                self._flight.cancel()

    def _await(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the loop and give its result; it is cancelled if the caller is interrupted."""
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is not open: use it as a context manager")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def _post(self, action: Callable[..., object], *arguments: object) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(action, *arguments)

    def _shut(self) -> None:
        """End the loop and its thread; whatever still runs in it is cancelled first."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._thread = None
        self._flight = None


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
