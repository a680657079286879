"""The runtime of a simulation: virtual time, an event loop that jumps to its next timer, and the moments of faults."""

from __future__ import annotations

import asyncio
import math
import random
import socket
import threading
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from sqlenrich.core.loop_thread import LoopThread
from sqlenrich.core.runtime import Runtime

T = TypeVar("T")
BEGINNING = datetime(2026, 3, 1, tzinfo=UTC)
MOST_TURNS = 500_000
"""Turns of the loop in one seed at most: more is a loop that never waits."""


class Killed(BaseException):
    """The process is dead: whatever it would still do must not happen."""


class Hung(BaseException):
    """Nothing is left that could ever go on."""


class World(Runtime):
    """Virtual time, which passes only where something waits, and a record of what happens.

    ``on_moment`` is called at each moment: a turn of the loop, a statement, a commit. A moment has a kind and, of that
    kind, a number.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"order {seed}")
        self.seconds = 0.0
        self.wall_ahead_s = 0.0
        self.dead = False
        self.trace: list[str] = []
        self.numbers: dict[str, int] = {}
        self.on_moment: Callable[[str, int], None] = lambda *_: None
        self.connect: Callable[[SimLoop, int, asyncio.Protocol], asyncio.Transport] | None = None
        self.refuses: Callable[[int], bool] = lambda _: False
        self.stalls: Callable[[int], bool] = lambda _: False
        """Whether a connection to a port is begun and never made."""
        self.stalled: list[socket.socket] = []
        self.unmade = 0
        """The connections that were tried and not made, ever, ..."""
        self.unmade_at = -math.inf
        """... and when the last of them ended."""
        self.shuffles = False
        self._threads: list[SimThread] = []
        self._raised: list[str] = []

    def monotonic(self) -> float:
        """Return the virtual seconds since the machine's start."""
        return 1000.0 + self.seconds

    def now(self) -> datetime:
        """Return the wall clock, which jumps."""
        return BEGINNING + timedelta(seconds=self.seconds + self.wall_ahead_s)

    def moment_of(self, seconds: float) -> datetime:
        """Return the time of day at virtual seconds, as an honest clock has it."""
        return BEGINNING + timedelta(seconds=seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Let time pass, unless the event is set: nothing else runs that could set it meanwhile."""
        self.moment("wait")
        if not event.is_set():
            self.elapse(seconds)
        return event.is_set()

    def loop_thread(self, name: str) -> LoopThread:  # noqa: ARG002
        """Return what runs a loop while its caller waits."""
        self._threads.append(thread := SimThread(self))
        return thread

    def note(self, text: str) -> None:
        """Add a line to the record."""
        self.trace.append(f"{self.seconds:12.6f}  {text}")

    def moment(self, kind: str) -> None:
        """Tell what happens now; a fault may be planned for it."""
        if self.dead:
            raise Killed
        number = self.numbers[kind] = self.numbers.get(kind, 0) + 1
        if kind == "turn" and number > MOST_TURNS:
            raise Hung("the loop turns without end")
        self.on_moment(kind, number)

    def elapse(self, seconds: float) -> None:
        """Let time pass in the caller's thread, while the loop goes on."""
        if self._threads and not self._threads[-1].loop.is_closed():
            self._threads[-1].run(asyncio.sleep(seconds))
        else:
            self.seconds += seconds

    def bury(self) -> list[str]:
        """Free what an ended process has left; return what its callbacks raised while it lived."""
        for thread in self._threads:
            thread.sim_loop.abandon()
        self._threads.clear()
        if not self.dead and any(one.fileno() >= 0 for one in self.stalled):
            self._raised.append("the socket of a connection that was never made is left open")
        self.close_stalled()
        self.dead = False
        raised, self._raised = self._raised, []
        return raised

    def close_stalled(self) -> None:
        """Close the sockets of connections that were never made."""
        for one in self.stalled:
            one.close()
        self.stalled.clear()

    def raised(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Take what a callback of a living process raised.

        What a dead one has left is freed later. It may then begin a timer in the loop that runs at that moment, and
        find its own loop closed.
        """
        error = context.get("exception")
        of_the_dead = isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
        if error is not None and not self.dead and not loop.is_closed() and not of_the_dead:
            self._raised.append(f"a callback raised {error!r}: {context['message']}")


class _Jumps:
    """The selector of a loop without files: waiting moves the clock."""

    def __init__(self, world: World) -> None:
        self.world = world

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Hung("nothing is left that could wake the loop")
        self.world.seconds += timeout
        return []

    def close(self) -> None:
        pass


class SimLoop(base_events.BaseEventLoop):
    """A loop in virtual time. Its connections are those of the world's network."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._selector = _Jumps(world)
        self._ports: dict[int, int] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._room = 1000
        self.set_exception_handler(world.raised)

    def time(self) -> float:
        return self.world.monotonic()

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._tasks.append(task)
        if len(self._tasks) > self._room:
            self._tasks = self.tasks
            self._room = 2 * len(self._tasks) + 1000
        return task

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """Those that have not ended, in the order in which they began: that of a set differs from run to run."""
        return [task for task in self._tasks if not task.done()]

    def _run_once(self) -> None:
        self.world.moment("turn")
        if self.world.shuffles and len(self._ready) > 1:
            self._draw_order()
        super()._run_once()  # type: ignore[misc]

    def _draw_order(self) -> None:
        """Draw the order of tasks that may go on; all else keeps its place."""
        ready = list(self._ready)
        places = [place for place, one in enumerate(ready) if _runs_task(one)]
        drawn = self.world.random.sample(places, len(places))
        self._ready.clear()
        order = dict(zip(places, drawn, strict=True))
        self._ready.extend(ready[order.get(place, place)] for place in range(len(ready)))

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Call a function at once: no time passes for this process while another thread works."""
        made = self.create_future()
        try:
            made.set_result(func(*args))
        except Exception as error:
            made.set_exception(error)
        return made

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await asyncio.sleep(0.001)
        if self.world.refuses(address[1]):
            self.world.unmade += 1
            self.world.unmade_at = self.world.seconds
            raise ConnectionRefusedError(111, "Connection refused")
        self._ports[sock.fileno()] = address[1]

    async def create_connection(self, protocol_factory: Any, *_: Any, sock: Any = None, **__: Any) -> Any:
        port, protocol = self._ports.pop(sock.fileno()), protocol_factory()
        if self.world.stalls(port):
            self.world.unmade += 1
            self.world.stalled.append(sock)
            try:
                await asyncio.Event().wait()
            finally:
                self.world.unmade_at = self.world.seconds
        sock.close()
        assert self.world.connect is not None
        transport = self.world.connect(self, port, protocol)
        protocol.connection_made(transport)
        return transport, protocol

    def abandon(self) -> None:
        """Close the loop with all that is in it.

        Tasks are ended here, since they would be when their memory is freed: at any moment of a later life.
        """
        self._ready.clear()
        self._scheduled.clear()
        if not self.is_closed():
            self.close()
        for task in self.tasks:
            with suppress(Exception, Killed):
                task.get_coro().close()
        self._tasks.clear()


def _runs_task(handle: asyncio.Handle) -> bool:
    callback = handle._callback  # type: ignore[attr-defined]
    return type(callback).__name__ == "TaskStepMethWrapper" or getattr(callback, "__name__", "") == "task_wakeup"


class SimQueue:
    """A queue whose reader runs the loop until something is there."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop, self._items = loop, deque[Any]()
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Any) -> None:
        self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def get(self) -> Any:
        if not self._items:
            self._waiter = self._loop.create_future()
            self._loop.run_until_complete(self._waiter)
            self._waiter = None
        return self._items.popleft()

    def empty(self) -> bool:
        return not self._items


class SimThread(LoopThread):
    """A loop without a thread: it runs while its caller waits for it."""

    def __init__(self, world: World) -> None:
        self.sim_loop = self.loop = SimLoop(world)

    @property
    def is_current(self) -> bool:
        return False

    def start(self) -> None:
        pass

    def run(self, work: Coroutine[object, object, T]) -> T:
        if self.sim_loop.world.dead:
            work.close()
            raise Killed
        try:
            return self.loop.run_until_complete(work)
        except asyncio.CancelledError:
            raise CancelledError from None  # as a thread's future does

    def post(self, action: Callable[..., object], *arguments: object) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon(action, *arguments)

    def queue(self) -> Any:
        return SimQueue(self.sim_loop)

    def end(self) -> None:
        self.run(_cancel_others())
        self.loop.close()


async def _cancel_others() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    others = [task for task in loop.tasks if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
