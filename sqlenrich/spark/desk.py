"""The desk: on the driver, for as long as a run asks. Workers learn from it what to ask, and tell it their answers.

It speaks JSON lines over TCP, never pickle. A connection that does not begin with the token is closed. What it hands
out, the endpoint's key too, is not encrypted.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import warnings
from collections import Counter, deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import orjson

from sqlenrich.core import runtime
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.limits import Limits
from sqlenrich.core.version import __version__
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.wait_times import WaitTimes
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.assignment import Assignment
from sqlenrich.spark.journal import Journal, Row
from sqlenrich.spark.shares import SharedBuckets, SharedBudget, SharedWidth
from sqlenrich.spark.single_flight import Key, SingleFlight
from sqlenrich.spark.sockets import end_when_lost

LARGEST_LINE = 1 << 28
"""The bytes of a message: a batch of answers, each of which may be of megabytes."""
DRAIN_POLL_S = 0.02
LAST_WORDS_S = 1.0
"""A desk that closes waits this long for the counts of a worker whose task has just ended."""
KEPT_ANSWERS = 256
"""The answers that the driver may look at: those that came last."""

BEATS = 6
"""The signs of life of a worker in the time after which it is taken for lost."""


@dataclass(frozen=True)
class DeskPolicy:
    """When a desk takes a worker for lost."""

    silent_s: float = 30.0
    """A worker that says nothing for this time is lost: its process is stopped, or its host is gone."""


@dataclass
class DeskCounts:
    """What a desk has seen."""

    told: int = 0
    known: int = 0
    later: int = 0
    released: int = 0
    handed_over: int = 0
    silent: int = 0
    """Workers that were taken for lost."""
    calls: int = 0
    retries: int = 0
    failed: int = 0
    """Answers that are failures."""
    tokens_in: int = 0
    tokens_out: int = 0
    retryable: int = 0


class _Reader(asyncio.StreamReader):
    """Knows when the other end was heard last."""

    heard_at = 0.0

    def feed_data(self, data: Any) -> None:
        self.heard_at = runtime.monotonic()
        super().feed_data(data)


class _Connection:
    def __init__(self, number: int, reader: _Reader, writer: asyncio.StreamWriter, process: str) -> None:
        self.number, self.reader, self.writer, self.process = number, reader, writer, process
        self.busy = False
        self.asks = False
        """Whether it has requests to ask: one that waits for others alone needs no part of the width."""
        self.in_flight = 0
        """The requests that were in flight when it told its calls last."""
        self.width = self.widths = 0
        """The last width that it was told, and how many it was told."""

    def tell_width(self, width: int) -> None:
        if width != self.width:
            self.width = width
            self.widths += 1
            self.send({"width": width, "number": self.widths})

    def send(self, message: Mapping[str, Any]) -> None:
        with suppress(OSError, RuntimeError):
            self.writer.write(orjson.dumps(message) + b"\n")


class Desk:
    """Serves workers from a thread of its own while it is entered. ``assignments`` are named.

    Without an ``endpoint`` workers ask a class of the user, which has no limits.

    ``host`` is where it listens, ``announced`` how workers reach it. A ``lasting`` one serves many queries: it keeps no
    failure that may pass, and what ends one query does not end the next.
    """

    def __init__(
        self,
        journal: Journal,
        endpoint: Endpoint | None,
        *,
        budget: Budget | None = None,
        host: str = "127.0.0.1",
        announced: str | None = None,
        port: int = 0,
        lasting: bool = False,
        policy: DeskPolicy | None = None,
    ) -> None:
        self.policy = policy or DeskPolicy()
        self.journal, self.endpoint = journal, endpoint
        self.assignments: dict[str, Assignment] = {}
        self.counts = DeskCounts()
        self.served: Counter[tuple[str, str | None]] = Counter()
        """The answers by the model that was asked and the model that they name."""
        self.fatal: str | None = None
        """Why the run can't go on."""
        self.held: list[Row] = []
        """Answers that the journal's disk did not take."""
        self.lasting = lasting
        self.flight = SingleFlight(journal)
        self.buckets = SharedBuckets(Limits() if endpoint is None else endpoint.limits, runtime.monotonic())
        self.budget = SharedBudget(budget or Budget())
        self.width = SharedWidth(None) if endpoint is None else SharedWidth(endpoint.concurrency, len(endpoint.urls))
        self._host, self._announced, self._port = host, announced or host, port
        self._token = secrets.token_hex(32)
        self._connections: dict[int, _Connection] = {}
        self._number = 0
        self._stops = 0
        self._notes: list[str] = []
        self._noted: set[str] = set()
        self._answers: deque[tuple[str | None, str | None, str | None]] = deque(maxlen=KEPT_ANSWERS)
        self._waits: dict[int, WaitTimes] = {}
        self._unsynced: list[tuple[_Connection, int, Sequence[Row]]] = []
        self._syncing = False
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._keys: dict[str, str | None] = {}
        """The keys of the assignments' endpoints, read when the first worker needs them."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = runtime.loop_thread("sqlenrich-desk")
        self._disk = ThreadPoolExecutor(1, "sqlenrich-journal")
        self._server: asyncio.AbstractServer | None = None

    @property
    def address(self) -> DeskAddress:
        """What travels with a task."""
        return DeskAddress(self._announced, self._port, self._token)

    @property
    def wait_times(self) -> list[WaitTimes]:
        """The time for which each limit delayed requests, by worker."""
        return list(self._waits.values())

    @property
    def stopped(self) -> bool:
        """Whether nothing more is asked."""
        return self._stops > 0

    def __enter__(self) -> Self:
        """Listen. Raises RunError where the port can't be had."""
        self._thread.start()
        try:
            self._thread.run(self._listen())
        except OSError as error:
            self._end()
            raise RunError(
                f"the driver can't listen at {self._host}:{self._port} ({error.strerror or error}); set "
                "spark.driver.bindAddress to an address of this host, or desk_port to a free port"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._wait_until_idle(LAST_WORDS_S)
        self._thread.run(self._close())
        self._end()
        self.budget.close()

    def stop(self) -> None:
        """Let workers send nothing new; a second call abandons what is in flight. From any thread."""
        self._stops += 1
        self._thread.post(self._tell_all, {"stop": self._stops})

    def drain(self, most_s: float = 10.0) -> None:
        """Wait until no worker asks: at most this long for what is in flight, and as long again for its end."""
        for _ in range(2):
            self.stop()
            self._wait_until_idle(most_s)

    def _wait_until_idle(self, most_s: float) -> None:
        polling, until = threading.Event(), runtime.monotonic() + most_s
        while self.busy() and runtime.monotonic() < until:
            runtime.wait(polling, DRAIN_POLL_S)

    def resume(self) -> None:
        """Let workers send again."""
        self._stops = 0

    def new_notes(self) -> list[str]:
        """Return the warnings of workers since the last call, each once."""
        notes, self._notes = self._notes, []
        return notes

    def new_answers(self) -> list[tuple[str | None, str | None, str | None]]:
        """Return ``response, call_error, finish_reason`` of the last answers not given before, a few of all."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def busy(self) -> int:
        """Return how many workers ask."""
        return sum(connection.busy for connection in self._connections.values())

    # In the loop's thread --------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(_Reader(LARGEST_LINE, loop), self._serve, loop)

        self._server = await loop.create_server(protocol, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self._begin(self._watch())

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.writer.close()
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self._thread.end()
        self._disk.shutdown()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._thread.loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _watch(self) -> None:
        """Take workers for lost that say nothing: what they had is asked by others."""
        every_s = self.policy.silent_s / BEATS
        while True:
            before = runtime.monotonic()
            await asyncio.sleep(every_s)
            now = runtime.monotonic()
            for one in list(self._connections.values()):
                if now - before > 2 * every_s:
                    one.reader.heard_at = now  # this thread was held up itself, and read nothing
                elif now - one.reader.heard_at > self.policy.silent_s:
                    self.counts.silent += 1
                    self._notes.append(
                        f"warning: {one.process} says nothing for {self.policy.silent_s:g} s: it is taken for lost, "
                        "and its requests are left to others"
                    )
                    one.writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection: _Connection | None = None
        try:
            assert isinstance(reader, _Reader)
            end_when_lost(writer.get_extra_info("socket"), self.policy.silent_s)
            connection = await self._admit(reader, writer)
            while connection is not None and (line := await reader.readline()):
                self._handle(connection, orjson.loads(line))
                if writer.transport.get_write_buffer_size() > LARGEST_LINE:
                    await writer.drain()
        except (OSError, ValueError, KeyError, TypeError, asyncio.IncompleteReadError):
            pass  # a worker that is gone, or that speaks another language
        except asyncio.CancelledError:
            return  # the desk is closed
        finally:
            if connection is not None:
                self._leave(connection)
            writer.close()

    async def _admit(self, reader: _Reader, writer: asyncio.StreamWriter) -> _Connection | None:
        """Return the connection of a worker that has the token and this version; close any other."""
        hello = orjson.loads(await asyncio.wait_for(reader.readline(), 10.0))
        if not secrets.compare_digest(str(hello.get("token")), self._token):
            return None
        self._number += 1
        process = f"the worker process {hello.get('pid')} of {hello.get('host')}"
        connection = _Connection(self._number, reader, writer, process)
        if hello["version"] != __version__:
            connection.send({"refused": _version_problem(hello)})
            return None
        assignment = self.assignments.get(hello["assignment"])
        if assignment is None:
            connection.send({"refused": "the run that this task belongs to is over"})
            return None
        try:
            settings = await self._settings(hello["assignment"], assignment)
        except ConfigError as error:
            connection.send({"refused": str(error)})
            return None
        except Exception as error:  # the worker is to tell, not to guess
            connection.send({"refused": f"the desk can't say what to ask: {type(error).__name__}; please report this"})
            return None
        self._connections[connection.number] = connection
        connection.send({**settings, "stop": self._stops})
        return connection

    async def _settings(self, name: str, assignment: Assignment) -> dict[str, Any]:
        if name not in self._keys:  # a command that prints a key may take long
            self._keys[name] = await asyncio.to_thread(assignment.resolve_key)
        found = {
            **assignment.to_dict(),
            "key": self._keys[name],
            "price": None if self.budget.budget.max_cost is None else assignment.price,
            "buckets": self.buckets.names,
            "capped": self.budget.capped,
            "silent_s": self.policy.silent_s,
            "alive_s": self.policy.silent_s / BEATS,
        }
        orjson.dumps(found)  # what is no JSON fails here
        return found

    def _leave(self, connection: _Connection) -> None:
        worker = connection.number
        self._connections.pop(worker, None)
        if (sent := self.flight.owned(worker) - connection.in_flight) > 0:
            self.counts.calls += sent
            self._notes.append(
                f"warning: {connection.process} ended without telling all of its calls: {sent:,} requests that it may "
                "have sent count as calls"
            )
        self._hand_over(self.flight.release(worker))
        self.buckets.leave(worker)
        self.budget.leave(worker)
        self.width.leave(worker)
        self._share()
        self._grant_caps()  # nobody gives back what it held

    def _handle(self, connection: _Connection, message: dict[str, Any]) -> None:
        for name, value in message.items():
            getattr(self, f"_on_{name}")(connection, value)

    def _on_key(self, connection: _Connection, assignment: str) -> None:
        """Read the endpoint's key again: the one that a worker has is refused."""
        self._begin(self._hand_key(connection, assignment))

    async def _hand_key(self, connection: _Connection, name: str) -> None:
        try:
            self._keys[name] = await asyncio.to_thread(self.assignments[name].resolve_key)
            connection.send({"key": self._keys[name]})
        except ConfigError as error:
            connection.send({"key": None})
            self._fail(str(error))

    def _on_want(self, connection: _Connection, keys: list[list[Any]]) -> None:
        wanted = self.flight.want(connection.number, [(key[0], key[1]) for key in keys])
        self.counts.known += len(wanted.known)
        self.counts.later += len(wanted.later)
        connection.send(wanted._asdict())
        self._note_asking()

    def _on_told(self, connection: _Connection, rows: list[dict[str, Any]]) -> None:
        kept = [row for row in rows if not row["retryable"]] if self.lasting else rows
        try:
            self.journal.add(*kept)
        except RunError as error:
            self._hold(kept, str(error))
        by_key: dict[Key, Any] = {(row["request_hash"], row["attempt"]): row for row in rows}
        for key, worker in self.flight.told(connection.number, by_key):
            if worker in self._connections:
                self._connections[worker].send({"late": by_key[key]})
        if not self.lasting:
            self._answers.extend((row["response"], row["call_error"], row["finish_reason"]) for row in rows)
        counts = self.counts
        counts.told += len(rows)
        self.served.update((row["model"], row.get("served_model")) for row in rows if row["call_error"] is None)
        counts.failed += sum(row["call_error"] is not None for row in rows)
        counts.tokens_in += sum(row["tokens_in"] or 0 for row in rows)
        counts.tokens_out += sum(row["tokens_out"] or 0 for row in rows)
        counts.retryable += sum(row["retryable"] for row in rows)
        self._note_asking()
        self._unsynced.append((connection, len(rows), kept))
        if not self._syncing:
            self._syncing = True
            self._begin(self._sync())

    async def _sync(self) -> None:
        """Make answers durable, those of several workers at a time, then acknowledge them."""
        while self._unsynced:
            told, self._unsynced = self._unsynced, []
            try:
                await self._thread.loop.run_in_executor(self._disk, self.journal.sync)
            except RunError as error:
                self._hold([row for _, _, rows in told for row in rows], str(error))
            for connection, count, _ in told:
                connection.send({"stored": count})
        self._syncing = False

    def _hold(self, rows: Iterable[Row], problem: str) -> None:
        """Keep answers that the disk does not take, and end the run: they go to their table at its end."""
        if not self.lasting:
            self.held += rows
            if self.fatal is None:  # again would abandon what is in flight
                self._fail(problem)
        elif problem not in self._noted:
            self._noted.add(problem)
            warnings.warn(problem, RuntimeWarning, stacklevel=1)

    def _on_alive(self, connection: _Connection, alive: bool) -> None:
        """Take a sign of life; the reader knows its time."""

    def _hand_over(self, handed: list[tuple[Key, int]]) -> None:
        for key, worker in handed:
            self.counts.handed_over += 1
            if worker in self._connections:
                self._connections[worker].send({"over": key})
        self._note_asking()

    def _note_asking(self) -> None:
        """Share the width again where another worker has something to ask, or one has nothing more."""
        changed = False
        for one in self._connections.values():
            asks = one.busy and self.flight.owned(one.number) > 0
            changed, one.asks = changed or asks != one.asks, asks
        if changed:
            self._share()

    def _on_busy(self, connection: _Connection, busy: bool) -> None:
        connection.busy = busy
        if not busy:  # nor does it ask what was handed to it meanwhile
            self.counts.released += self.flight.owned(connection.number)
            self.width.leave(connection.number)
            connection.tell_width(0)
            self._hand_over(self.flight.release(connection.number))
        self._note_asking()

    def _on_kept(self, connection: _Connection, number: int) -> None:
        """A worker keeps to a width: what it held beyond is free, unless it was told another one since."""
        if number == connection.widths:
            self.width.narrowed(connection.number, connection.width)
            self._share()

    def _on_lease(self, connection: _Connection, wish: dict[str, float]) -> None:
        for name, least in wish.items():
            self.buckets.wish(connection.number, name, least)
        self._grant()

    def _on_returned(self, connection: _Connection, units: dict[str, float]) -> None:  # noqa: ARG002
        for name, amount in units.items():
            self.buckets.give_back(name, amount, runtime.monotonic())
        self._grant()

    def _on_spend(self, connection: _Connection, wish: dict[str, Any]) -> None:
        self.budget.give_back(connection.number, int(wish["calls"]), Decimal(wish["left"]), wish["heard"])
        self.budget.wish(connection.number, Decimal(wish["cost"]), Decimal(wish["held"]), wish["heard"])
        self._grant_caps()

    def _on_unspent(self, connection: _Connection, left: dict[str, Any]) -> None:
        self.budget.give_back(connection.number, int(left["calls"]), Decimal(left["left"]), left["heard"])
        self._grant_caps()

    def _on_pace(self, connection: _Connection, pace: dict[str, Any]) -> None:
        self.width.report(connection.number, pace["in_flight"], pace["answered"], pace["refused"], runtime.monotonic())
        self._share()

    def _on_stats(self, connection: _Connection, stats: dict[str, Any]) -> None:
        self.counts.calls += stats["calls"]
        connection.in_flight = stats["in_flight"]
        self.counts.retries += stats["retries"]
        waits = self._waits.setdefault(connection.number, WaitTimes())
        waits.seconds, waits.by_reason = stats["seconds"], stats["waits"]
        if self.budget.budget.max_cost is None:
            waits.by_reason.pop("max_cost", None)  # the wait for a lease of calls

    def _on_notes(self, connection: _Connection, notes: list[str]) -> None:  # noqa: ARG002
        for note in notes:
            if note not in self._noted:  # many workers see the same
                self._noted.add(note)
                self._notes.append(note)

    def _on_fatal(self, connection: _Connection, problem: str) -> None:  # noqa: ARG002
        if not self.lasting:
            self._fail(problem)

    def _fail(self, problem: str) -> None:
        if self.fatal is None:
            self.fatal = problem
        self._stops += 1
        self._tell_all({"stop": self._stops})

    def _tell_all(self, message: Mapping[str, Any]) -> None:
        for connection in self._connections.values():
            connection.send(message)

    # What limits allow -----------------------------------------------------------------------------------------------

    def _share(self) -> None:
        """Tell each worker how many requests it may have in flight, where that has changed."""
        for one in self._connections.values():
            if one.busy and not one.asks:
                one.tell_width(0)
        asking = [one.number for one in self._connections.values() if one.asks]
        for worker, width in self.width.parts(asking).items():
            self._connections[worker].tell_width(width)

    def _grant(self) -> None:
        for worker, name, units in self.buckets.grants(self.busy(), runtime.monotonic()):
            if worker in self._connections:
                self._connections[worker].send({"grant": {name: units}})
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.buckets.wait_s < float("inf"):
            self._timer = self._thread.loop.call_later(self.buckets.wait_s, self._grant)

    def _grant_caps(self) -> None:
        for worker, *granted in self.budget.grants(self.busy()):
            connection = self._connections.get(worker)
            if connection is None:
                continue
            if len(granted) == 1:
                connection.send({"spent": granted[0]})
            else:
                connection.send({"caps": {"calls": granted[0], "cost": str(granted[1])}})


def _version_problem(hello: Mapping[str, Any]) -> str:
    return (
        f"sqlenrich {hello['version']} is installed on the executor {hello.get('host')}, and {__version__} on the "
        "driver: install the same version on both"
    )
