"""In a worker: asks what the desk leaves to this process. One client per process and desk, kept between tasks."""

from __future__ import annotations

import os
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

import orjson

from sqlenrich.core import runtime
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.core.version import __version__
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.batched_model import endpoint_model
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.local.link import ProcessPlace
from sqlenrich.llm.local.model import LocalConfig, LocalProcessModel
from sqlenrich.llm.messages import Answer, AnsweredRequest, Request
from sqlenrich.llm.model import Model
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.wait_times import WaitTimes
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.assignment import HandedKey, config_of, endpoint_of, price_of
from sqlenrich.spark.journal import Row
from sqlenrich.spark.leases import DeskLeases, LeasedBudget
from sqlenrich.spark.local_places import places_of
from sqlenrich.spark.single_flight import Key, key_of
from sqlenrich.spark.sockets import end_when_lost
from sqlenrich.spark.vllm.placement import PlacementError

WANTED = 128
"""The requests of one question to the desk."""
BATCH_ROWS = 64
UNSTORED = 64
"""Answers that are not told yet. With a batch that is told and not acknowledged, and with those in flight, they are
what a lost process has to ask again."""
KNOWN_AT_ONCE = 4096
"""Known answers that are held at most before they are given on."""
ONE_MORE = Request("0" * 64, 0, "")
"""What stands at the desk for a request that is not one of the run."""
CONNECT_S = 10.0
GONE = "the driver is gone"
T = TypeVar("T")


class Worker:
    """This process's connection to a desk and its client, for one kind of request. From one thread at a time."""

    def __init__(self, address: DeskAddress, assignment: str, asked: Asked | None = None) -> None:
        self.closed = False
        self.problem: str | None = None
        """What every request would meet, and when one met it."""
        self.problem_at = 0.0
        self._socket = _connect(address)
        self._lines = self._socket.makefile("rb", 1 << 20)
        self._sending = threading.Lock()
        self._replies: SimpleQueue[dict[str, Any] | None] = runtime.queue()
        self._stored: SimpleQueue[int | None] = runtime.queue()
        self._events: SimpleQueue[dict[str, Any] | None] = runtime.queue()
        self._gone = threading.Event()
        self._begins = False
        """Whether what the desk told until its next reply is for the task before: nobody takes that any more."""
        self._told_calls = self._told_retries = self._unacknowledged = 0
        hello = {"token": address.token, "version": __version__, "assignment": assignment, "host": socket.gethostname()}
        self._send({**hello, "pid": os.getpid()})
        self._reader: threading.Thread | None = None
        try:
            settings = self._first_line(address)
        except BaseException:
            self._lines.close()
            self._socket.close()
            raise
        self.origin: dict[str, Any] = settings["origin"]
        self._leases = DeskLeases(settings["buckets"], self._tell_limits)
        self._budget = LeasedBudget(price_of(settings["price"]), self._tell_limits, capped=settings["capped"])
        self._assignment = assignment
        self._keys: SimpleQueue[tuple[str | None] | None] = runtime.queue()
        model: Model
        if isinstance(asked, LocalWork):
            model = local = LocalProcessModel(asked.config, places=asked.places)
            concurrency = local.concurrency
        else:
            endpoint = endpoint_of(settings, HandedKey(settings["key"], self._key_again))
            model, concurrency = _model(settings, endpoint, asked, self._budget, self._leases), 1
        self.client = Client(
            model, concurrency=concurrency, unstored=UNSTORED, batch_rows=BATCH_ROWS, budget=self._budget
        )
        self.client.__enter__()
        self._leases.in_flight, self._leases.rest = self._in_flight, self._rest
        for _ in range(settings["stop"]):
            self.client.stop()
        end_when_lost(self._socket, settings["silent_s"])
        self._reader = runtime.start_thread("sqlenrich-desk", self._read)
        runtime.start_thread("sqlenrich-alive", self._live, settings["alive_s"])

    def ask(self, requests: Iterator[Request]) -> Iterator[list[Row]]:
        """Return the answers as they come: those that this process asks, and those that the desk knows or gets.

        Ends early where the desk stops the run. What fails for good is told to the desk, and ends it early too.
        """
        flight = _Flight(self, requests)
        self._begins = True
        self._send({"busy": True})
        try:
            yield from flight.rows()
        except RunError as error:
            self.problem, self.problem_at = str(error), runtime.monotonic()
            self._send({"fatal": self.problem})
        finally:
            self.leave()

    def preflight(self, requests: Sequence[Request]) -> int:
        """Ask a few requests until one is answered; give how many are answered, here or elsewhere.

        Raises RunError where no request would succeed.
        """
        wanted = self.want(requests)
        mine = [requests[place] for place in wanted["yours"]]
        rows: list[Row] = wanted["known"]
        self._send({"busy": True})
        try:
            if mine and not rows:
                rows = [self.row(answer) for answer in self.client.preflight(mine)]
                self.tell(rows)
                self.settle()
        finally:
            self.leave()
        return sum(row["call_error"] is None for row in rows)

    def ask_again(self, known: AnsweredRequest) -> int:
        """Ask a request of an earlier run; give 1 where the model answers it."""
        self.want([ONE_MORE])  # only who has a request to ask gets a part of the limits
        self._send({"busy": True})
        try:
            return int(self.client.answers_again(known))
        finally:
            self.leave()

    def want(self, requests: Sequence[Request]) -> dict[str, Any]:
        """Ask the desk who asks these requests."""
        self._send({"want": [_key(request) for request in requests]})
        return _next(self._replies)

    def tell(self, rows: Sequence[Row]) -> None:
        """Tell the desk answers, and wait until those told before are durable."""
        if not rows:
            return
        self._send({"told": rows} | self._stats())
        self._unacknowledged += 1
        self.settle(1)

    def settle(self, most: int = 0) -> None:
        """Wait until at most so many batches that were told are not durable."""
        while self._unacknowledged > most:
            _next(self._stored)
            self._unacknowledged -= 1

    def leave(self) -> None:
        """Give back what this process has not asked and the limits that it has not used; tell the counts."""
        with suppress(OSError):
            self.settle()
            self.give_back()
            self._send(self._stats() | {"busy": False})

    def give_back(self) -> None:
        """Give back the limits that this process has not used: others may wait for them."""
        self._post(self._rest)

    def events(self, *, wait: bool) -> Iterator[dict[str, Any]]:
        """Return what the desk has told meanwhile; with ``wait`` at least one thing."""
        while wait or not self._events.empty():
            event = _next(self._events)
            wait = False
            yield event

    def row(self, answer: Answer) -> Row:
        """Return an answer as a row of the journal."""
        row = answer._asdict() | self.origin
        row["asked_at"] = answer.asked_at.astimezone(UTC).isoformat()
        return row

    def report(self) -> None:
        """Tell the desk new warnings."""
        if notes := self.client.new_warnings():
            self._send({"notes": notes})

    def close(self) -> None:
        """End the client and the connection."""
        if not self.closed:
            self.closed = True
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            if self._reader is not None:
                self._reader.join()
            self._lines.close()
            self._socket.close()
            with suppress(Exception):
                self.client.__exit__(None, None, None)

    def _in_flight(self) -> int:
        limiter = self.client.limiter
        return self.client.stats.in_flight if limiter is None else limiter.in_flight

    def _stats(self) -> dict[str, Any]:
        sent = self._in_flight()  # read before the calls, which then have all of these
        stats, limiter = self.client.stats, self.client.limiter
        waits = WaitTimes() if limiter is None else limiter.wait_times
        calls, retries = stats.calls - self._told_calls, stats.retries - self._told_retries
        self._told_calls, self._told_retries = stats.calls, stats.retries
        counts = {"calls": calls, "retries": retries, "in_flight": sent}
        return {"stats": {**counts, "seconds": waits.seconds, "waits": dict(waits.by_reason)}}

    def _first_line(self, address: DeskAddress) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            raise WorkerError(
                f"the desk of the driver at {address.host}:{address.port} closes the connection: is another program "
                "listening there?"
            )
        settings: dict[str, Any] = orjson.loads(line)
        if "refused" in settings:
            raise WorkerError(settings["refused"])
        return settings

    def _send(self, message: Mapping[str, Any]) -> None:
        data = orjson.dumps(message) + b"\n"
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            raise ConnectionError(GONE) from None

    def _key_again(self) -> str | None:
        self._send({"key": self._assignment})
        with suppress(ConnectionError):
            return _next(self._keys)[0]
        return None

    def _tell_limits(self, message: Mapping[str, Any]) -> None:
        with suppress(OSError):  # where the desk is gone, the reader ends this worker
            self._send(message)

    def _post(self, action: Callable[..., object], *arguments: object) -> None:
        self.client._post(action, *arguments)

    def _live(self, every_s: float) -> None:
        """Tell the desk regularly that this process is not stopped."""
        with suppress(OSError):
            while not runtime.wait(self._gone, every_s):
                self._send({"alive": True})

    # In the reader's thread ------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            for line in self._lines:
                self._handle(orjson.loads(line))
        except (OSError, ValueError):
            pass
        # The desk is gone: nothing can be stored any more.
        self._gone.set()
        for queue in (self._replies, self._stored, self._events, self._keys):
            queue.put(None)
        for _ in range(2):
            self.client.stop()
        if isinstance(self.client.model, LocalProcessModel):  # its process holds memory, of a GPU too
            runtime.start_thread("sqlenrich-local-end", self.close)

    def _handle(self, message: dict[str, Any]) -> None:
        if "yours" in message:
            while self._begins and not self._events.empty():
                self._events.get()
            self._begins = False
            self._replies.put(message)
        elif "stored" in message:
            self._stored.put(message["stored"])
        elif "key" in message:
            self._keys.put((message["key"],))
        elif "late" in message or "over" in message:
            self._events.put(message)
        elif "stop" in message:
            for _ in range(message["stop"]):
                self.client.stop()
            self._events.put(message)
        elif "spent" in message:
            self._post(self._spent, message["spent"])
            self._events.put(message)
        else:
            self._post(self._granted, message)

    # In the loop's thread --------------------------------------------------------------------------------------------

    def _granted(self, message: dict[str, Any]) -> None:
        now = runtime.monotonic()
        for name, units in message.get("grant", {}).items():
            self._leases.leased[name].granted(units, now)
        if "caps" in message:
            self._budget.granted(message["caps"]["calls"], Decimal(message["caps"]["cost"]))
        if "width" in message:
            self._leases.set_width(message["width"], message["number"])
        if self.client.limiter is not None and self._leases.width == 0 and self._in_flight() == 0:
            self._rest()
        self._share_changed()

    def _rest(self) -> None:
        """Give back what can't be used now."""
        self._leases.give_back()
        self._budget.give_back()

    def _spent(self, cap: str) -> None:
        self._budget.reached = cap
        self._share_changed()

    def _share_changed(self) -> None:
        if self.client.limiter is not None:
            self.client.limiter.share_changed()


class WorkerError(RuntimeError):
    """A worker can't work for a desk; the message says why and what to do."""


class _Flight:
    """The requests of one task on their way through a worker."""

    def __init__(self, worker: Worker, requests: Iterator[Request]) -> None:
        self.worker, self.requests = worker, requests
        self.ready: deque[Row] = deque()
        self.elsewhere: dict[Key, Request] = {}
        self.over: deque[Request] = deque()
        self.all_read = False

    def rows(self) -> Iterator[list[Row]]:
        """Return the rows of the answers."""
        client = self.worker.client
        while not client.stopped and not (self.all_read and not self.over):
            for batch in client.stream(self._mine()):
                told = [self.worker.row(answer) for answer in batch]
                self.worker.tell(told)
                self.worker.report()
                self._hear(wait=False)
                yield from self._given(told)
            yield from self._given([])
            while self.all_read and self.elsewhere and not self.over and not client.stopped:
                self.worker.give_back()
                self._hear(wait=True)
                yield from self._given([])
        yield from self._given([])

    def _mine(self) -> Iterator[Request]:
        """Return the requests that this process asks; ends where many known answers are to be given on first."""
        while self.over:
            yield self.over.popleft()
        while len(self.ready) < KNOWN_AT_ONCE:
            chunk = list(islice(self.requests, WANTED))
            if not chunk:
                self.all_read = True
                return
            wanted = self.worker.want(chunk)
            self.ready += wanted["known"]
            self.elsewhere |= {_key(chunk[place]): chunk[place] for place in wanted["later"]}
            yield from (chunk[place] for place in wanted["yours"])

    def _given(self, told: list[Row]) -> Iterator[list[Row]]:
        rows = [*told, *self.ready]
        self.ready.clear()
        if rows:
            yield rows

    def _hear(self, *, wait: bool) -> None:
        """Take the answers of others, and the requests that are handed over."""
        for event in self.worker.events(wait=wait):
            if (row := event.get("late")) is not None:
                if self.elsewhere.pop(key_of(row), None) is not None:
                    self.ready.append(row)
            elif (given := event.get("over")) is not None:
                key = (given[0], given[1])
                if (request := self.elsewhere.pop(key, None)) is not None:
                    self.over.append(request)


@dataclass(frozen=True)
class LocalWork:
    """A class of the user and where its processes are."""

    config: LocalConfig
    places: tuple[ProcessPlace, ...]


def _local_work(config: LocalConfig) -> LocalWork:
    try:
        return LocalWork(config, places_of(config))
    except (OSError, PlacementError) as error:
        raise WorkerError(
            f'LocalModel {config.name}: per="{config.per}" on {socket.gethostname()}: {error}; per="process" needs no '
            "process that workers share"
        ) from None


Asked: TypeAlias = RequestConfig | LocalWork
_WORKERS: dict[tuple[DeskAddress, str, str], Worker] = {}


def worker_of(address: DeskAddress, assignment: str, config: RequestConfig | LocalConfig | None = None) -> Worker:
    """Return this process's worker for a desk. Those of desks that are gone are closed.

    ``config`` is what it asks; None: what the desk says. Raises WorkerError.
    """
    asked = _local_work(config) if isinstance(config, LocalConfig) else config
    name = "" if asked is None else repr(asked)
    key = (address, assignment, name)
    found = _WORKERS.get(key)
    if found is not None and not found.client.stopped:
        return found
    for known, worker in list(_WORKERS.items()):
        if known[0] != address or known == key:
            del _WORKERS[known]
            worker.close()
    _WORKERS[key] = Worker(address, assignment, asked)
    return _WORKERS[key]


def _next(queue: SimpleQueue[T | None]) -> T:
    """Wait for the next thing that the desk says. Raises ConnectionError once the desk is gone, to all who ask."""
    found = queue.get()
    if found is None:
        queue.put(None)
        raise ConnectionError(GONE)
    return found


def _connect(address: DeskAddress) -> socket.socket:
    try:
        found = runtime.open_connection(address.host, address.port, CONNECT_S)
    except OSError as error:
        raise WorkerError(
            f"the executor {socket.gethostname()} can't reach the driver at {address.host}:{address.port} "
            f"({error.strerror or error}): set spark.driver.host to an address that executors reach, and desk_port to "
            "a port that is open to them"
        ) from None
    found.settimeout(None)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def _model(
    settings: Mapping[str, Any],
    endpoint: Endpoint,
    config: RequestConfig | None,
    budget: LeasedBudget,
    leases: DeskLeases,
) -> EndpointModel:
    sent = config if config is not None else config_of(settings["config"])
    limiter = RateLimiter(
        len(endpoint.urls),
        endpoint.limits,
        max_out=sent.max_out,
        nearest_room=endpoint.nearest_room,
        budget=budget,
        leases=leases,
    )
    model = endpoint_model(endpoint, sent, limiter=limiter, budget=budget)
    if settings["answered"] is not None:
        model.set_canary(AnsweredRequest(*settings["answered"]))
    return model


def _key(request: Request) -> Key:
    return request.request_hash, request.attempt
