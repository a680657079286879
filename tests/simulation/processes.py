"""Several processes in one simulation: their threads run one at a time, on one loop, and can be killed together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from sqlenrich.core.loop_thread import LoopThread
from tests.simulation.world import Killed, SimLoop, World

T = TypeVar("T")
CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
DELAY_S = 0.0005
"""The time that a message takes from one process to another."""


class Process:
    """A process: its threads, its part of the loop, and its connections."""

    def __init__(self, world: ProcessWorld, name: str) -> None:
        self.world, self.name = world, name
        self.dead = False
        self.lost = False
        """Whether a connection of it was broken or held."""
        self.strands: dict[Strand, None] = {}
        self.wires: list[Any] = []
        """Its connections to servers."""
        self.sockets: list[SimSocket] = []
        world.processes.append(self)

    def begin(self, work: Callable[..., object], *arguments: object) -> Strand:
        """Run a function in a thread of this process."""
        return Strand(self, work, arguments)

    def kill(self) -> None:
        """End the process here."""
        if self.dead:
            return
        self.world.note(f"{self.name} is killed")
        self.dead = True
        loop = self.world.loop
        for handle in (*loop._ready, *loop._scheduled):
            if handle._context.get(CURRENT) is self:  # type: ignore[attr-defined]
                handle.cancel()
        for wire in self.wires:
            wire.leave()
            wire.closed = True
        for one in self.sockets:
            one.close()
        for strand in tuple(self.strands):
            if strand is not self.world.strand:
                loop.call_soon(strand.resume, context=self.world.outside)


class Strand:
    """A thread that runs while the loop waits for it, until it waits for the loop."""

    def __init__(self, process: Process, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self.process, self.world = process, process.world
        self.error: BaseException | None = None
        self.ended = self.world.loop.create_future()
        self._turn, self._back = threading.Lock(), threading.Lock()
        self._turn.acquire()
        self._back.acquire()
        self._over = False
        context = copy_context()
        context.run(CURRENT.set, process)
        self._thread = threading.Thread(target=context.run, args=(self._run, work, arguments), daemon=True)
        process.strands[self] = None
        self._thread.start()
        self.world.loop.call_soon(self.resume, context=self.world.outside)

    def _run(self, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._turn.acquire()
        try:
            if not self.process.dead:
                work(*arguments)
        except BaseException as error:
            self.error = error
        self._over = True
        self.process.strands.pop(self, None)
        if not self.ended.done():
            self.ended.set_result(None)
        self._back.release()

    def resume(self, _: object = None) -> None:
        """Let it run until it waits again."""
        if self._over:
            return
        before, self.world.strand = self.world.strand, self
        self._turn.release()
        self._back.acquire()
        self.world.strand = before

    def wait(self, future: asyncio.Future[T]) -> T:
        """Wait, in this thread, until the loop has a result."""
        if not future.done():
            future.add_done_callback(self.resume, context=self.world.outside)
        while not future.done():
            self._back.release()
            self._turn.acquire()
            if self.process.dead and future.done() and not future.cancelled():
                future.exception()  # the dead read nothing, and a future complains of an error that nobody has read
            self.process.world.alive()
        return future.result()

    def join(self, timeout: float | None = None) -> None:  # noqa: ARG002
        """Wait, in another thread, until this one has ended."""
        self.world.wait_for(self.ended)

    def is_alive(self) -> bool:
        """Whether it runs."""
        return not self._over


class ProcessWorld(World):
    """A world of several processes on one loop."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.outside = Context()
        """The context of what belongs to no process."""
        self.processes: list[Process] = []
        self.strand: Strand | None = None
        self.loop = ProcessLoop(self)

    def alive(self) -> None:
        """Raise Killed in what a dead process would still do."""
        process = CURRENT.get()
        if process is not None and process.dead:
            raise Killed

    def wait_for(self, future: asyncio.Future[T]) -> T:
        """Wait in the thread that runs now."""
        self.alive()
        assert self.strand is not None, "the loop itself must not wait"
        return self.strand.wait(future)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for a time; an event ends it no earlier."""
        if not event.is_set():
            passed = self.loop.create_future()
            self.loop.call_later(seconds, _set, passed)
            self.wait_for(passed)
        return event.is_set()

    def loop_thread(self, name: str) -> LoopThread:  # noqa: ARG002
        """Return this process's part of the loop."""
        return ProcessThread(self)

    def start_thread(self, name: str, work: Callable[..., object], *arguments: object) -> Any:
        """Begin a thread of this process. What ends it is told by :meth:`bury`."""
        process = CURRENT.get()
        assert process is not None

        def working() -> None:
            try:
                work(*arguments)
            except Exception as error:
                self._raised.append(f"the thread {name} ended with {error!r}")

        return process.begin(working)

    def queue(self) -> Any:
        """Return a queue between threads."""
        return WaitingQueue(self)

    def open_connection(self, host: str, port: int, timeout_s: float) -> Any:  # noqa: ARG002
        """Return a connection to what listens at a port. Raises OSError."""
        self.alive()
        served = self.loop.served.get(port)
        if served is None or served.owner.dead:
            raise ConnectionRefusedError(111, "Connection refused")
        return SimSocket(self, served)

    def raised(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Take what a callback raised, but for the end of a process."""
        if not isinstance(context.get("exception"), Killed):
            super().raised(loop, context)

    def bury(self) -> list[str]:
        """End all processes and free what they have left; return what callbacks raised while they lived."""
        self.numbers["turn"] = 0  # what is counted is what the living do
        for process in self.processes:
            process.kill()
        for _ in range(1000):
            if not any(process.strands for process in self.processes):
                break
            self.loop.run_until_complete(asyncio.sleep(0.01))
        self.processes.clear()
        self.close_stalled()
        raised, self._raised = self._raised, []
        self.loop.abandon()
        self.loop = ProcessLoop(self)
        return raised


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ProcessLoop(SimLoop):
    """The loop of all processes."""

    world: ProcessWorld

    def __init__(self, world: ProcessWorld) -> None:
        super().__init__(world)
        self.served: dict[int, Served] = {}
        self.owner_of: WeakKeyDictionary[asyncio.Task[Any], Process | None] = WeakKeyDictionary()
        self.set_task_factory(self._task)

    def _task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, **options)
        self.owner_of[task] = CURRENT.get()
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Call a function in a thread of the process, since it may wait."""
        made, process = self.create_future(), CURRENT.get()
        if process is None:
            return super().run_in_executor(executor, func, *args)

        def work() -> None:
            try:
                found = func(*args)
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(found)

        process.begin(work)
        return made

    async def create_connection(self, protocol_factory: Any, *given: Any, **options: Any) -> Any:
        transport, protocol = await super().create_connection(protocol_factory, *given, **options)
        if (process := CURRENT.get()) is not None:
            process.wires.append(transport)
        return transport, protocol

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:  # noqa: ARG002
        owner = CURRENT.get()
        assert owner is not None
        self.served[number] = served = Served(number := 9000 + len(self.served), protocol_factory, owner)
        return served


class Served:
    """A listening port, as a server and as its socket."""

    def __init__(self, port: int, protocol: Callable[[], Any], owner: Process) -> None:
        self.port, self.protocol, self.owner = port, protocol, owner
        self.context = copy_context()
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def close(self) -> None:
        pass


class ProcessThread(LoopThread):
    """The part of the loop that belongs to a process."""

    def __init__(self, world: ProcessWorld) -> None:
        self.world, self.loop = world, world.loop
        self._has_ended = False

    @property
    def ended(self) -> bool:
        return self._has_ended

    @property
    def is_current(self) -> bool:
        return self.world.strand is None

    def start(self) -> None:
        pass

    def run(self, work: Coroutine[object, object, T]) -> T:
        try:
            self.world.alive()
        except Killed:
            work.close()
            raise
        try:
            return self.world.wait_for(self.loop.create_task(work))
        except asyncio.CancelledError:
            raise CancelledError from None

    def post(self, action: Callable[..., object], *arguments: object) -> None:
        self.world.alive()
        self.loop.call_soon(action, *arguments)

    def queue(self) -> Any:
        return WaitingQueue(self.world)

    def end(self) -> None:
        self.run(self._cancel_own())
        self._has_ended = True

    async def _cancel_own(self) -> None:
        process, this = CURRENT.get(), asyncio.current_task()
        loop = self.world.loop
        own = [task for task in loop.tasks if loop.owner_of.get(task) is process and task is not this]
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)


class WaitingQueue:
    """A queue between threads and the loop."""

    def __init__(self, world: ProcessWorld) -> None:
        self.world, self.items = world, deque[Any]()
        self.waiters: list[asyncio.Future[None]] = []

    def put(self, item: Any) -> None:
        self.items.append(item)
        for one in self.waiters:
            if not one.done():
                one.set_result(None)
        self.waiters.clear()

    def get(self) -> Any:
        self.world.alive()
        while not self.items:
            self.waiters.append(waiter := self.world.loop.create_future())
            self.world.wait_for(waiter)
        return self.items.popleft()

    def empty(self) -> bool:
        return not self.items


class SimSocket:
    """A worker's end of a connection to the desk, as a blocking socket and the file that reads it."""

    def __init__(self, world: ProcessWorld, served: Served) -> None:
        self.world, self.served = world, served
        self.process = CURRENT.get()
        assert self.process is not None
        self.process.sockets.append(self)
        self.buffer = b""
        self.at_end = self.closed = False
        self.held_until = 0.0
        """Nothing arrives before this time of the loop, at either end."""
        self._last = 0.0
        self._readers: list[asyncio.Future[None]] = []
        self.transport = DeskEnd(self)
        self.protocol = served.context.run(served.protocol)
        self.later(self.protocol.connection_made, self.transport)

    def later(self, action: Callable[..., object], *arguments: object) -> None:
        """Do something at the desk's end, after all before it."""
        self._at(self.served.context, action, *arguments)

    def _at(self, context: Context, action: Callable[..., object], *arguments: object) -> None:
        loop = self.world.loop
        if self.served.owner.dead and context is self.served.context:
            return
        self._last = max(self._last + 1e-7, loop.time() + DELAY_S, self.held_until)
        loop.call_at(self._last, action, *arguments, context=context)

    # What the worker does.

    def sendall(self, data: bytes) -> None:
        self.world.alive()
        if self.closed or self.at_end:
            raise BrokenPipeError(32, "Broken pipe")
        self.world.moment("message")
        self.later(self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if not self.transport.closed:
            self.protocol.data_received(data)

    def makefile(self, *_: Any) -> SimSocket:
        return self

    def readline(self) -> bytes:
        while b"\n" not in self.buffer and not self.at_end:
            self.world.alive()
            self._readers.append(reader := self.world.loop.create_future())
            self.world.wait_for(reader)
        self.world.alive()
        line, end, self.buffer = self.buffer.partition(b"\n")
        return line + end

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def shutdown(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = self.at_end = True
            self._wake()
            self.later(self.transport.lost)

    def settimeout(self, *_: Any) -> None:
        pass

    setsockopt = settimeout

    # What comes from the desk.

    def take(self, data: bytes) -> None:
        self.buffer += data
        self._wake()

    def end(self) -> None:
        self.at_end = True
        self._wake()

    def _wake(self) -> None:
        for one in self._readers:
            if not one.done():
                one.set_result(None)
        self._readers.clear()

    def deliver(self, action: Callable[..., object], *arguments: object) -> None:
        """Let something arrive at the worker."""
        self._at(self.world.outside, action, *arguments)


class DeskEnd(asyncio.Transport):
    """The desk's end of a connection."""

    def __init__(self, socket: SimSocket) -> None:
        super().__init__()
        self.socket, self.closed = socket, False

    def write(self, data: Any) -> None:
        if not self.closed:
            self.socket.deliver(self.socket.take, bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: Any, default: Any = None) -> Any:
        return self.socket if name == "socket" else default

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.socket.deliver(self.socket.end)
            self.socket.later(self.socket.protocol.connection_lost, None)

    def lost(self) -> None:
        """The other end is gone."""
        if not self.closed:
            self.closed = True
            self.socket.protocol.connection_lost(None)
