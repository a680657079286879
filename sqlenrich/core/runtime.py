"""What a process takes from its surroundings: its clocks, threads, queues between them, and blocking connections.

A simulation runs the same code in another :class:`Runtime`, whose time passes only where something waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from sqlenrich.core.loop_thread import LoopThread, new_loop

if TYPE_CHECKING:
    import socket


class Runtime:
    """The clocks of the machine, and real threads."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that is never set."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the time of day in UTC, of a clock that may be set."""
        return datetime.now(UTC)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until another thread sets an event, or for a time; tell whether it is set."""
        return event.wait(seconds)

    def loop_thread(self, name: str) -> LoopThread:
        """Return a thread with a loop of its own, to be started."""
        return LoopThread(name, new_loop())

    def start_thread(self, name: str, work: Callable[..., object], *arguments: object) -> threading.Thread:
        """Call a function in a thread that does not keep the process alive."""
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        thread.start()
        return thread

    def queue(self) -> SimpleQueue[Any]:
        """Return a queue between threads."""
        return SimpleQueue()

    def open_connection(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Return a connection whose reader waits. Raises OSError."""
        import socket  # what reaches no desk does without it

        return socket.create_connection((host, port), timeout_s)


_runtime = Runtime()


def monotonic() -> float:
    """Return the seconds of a clock that is never set."""
    return _runtime.monotonic()


def now() -> datetime:
    """Return the time of day in UTC, of a clock that may be set."""
    return _runtime.now()


def wait(event: threading.Event, seconds: float) -> bool:
    """Wait until another thread sets an event, or for a time; tell whether it is set."""
    return _runtime.wait(event, seconds)


def loop_thread(name: str) -> LoopThread:
    """Return a thread with a loop of its own, to be started."""
    return _runtime.loop_thread(name)


def start_thread(name: str, work: Callable[..., object], *arguments: object) -> threading.Thread:
    """Call a function in a thread that does not keep the process alive."""
    return _runtime.start_thread(name, work, *arguments)


def queue() -> SimpleQueue[Any]:
    """Return a queue between threads."""
    return _runtime.queue()


def open_connection(host: str, port: int, timeout_s: float) -> socket.socket:
    """Return a connection whose reader waits. Raises OSError."""
    return _runtime.open_connection(host, port, timeout_s)


@contextmanager
def running_in(runtime: Runtime) -> Iterator[None]:
    """Run everything of this process in another runtime for the context."""
    global _runtime
    before, _runtime = _runtime, runtime
    try:
        yield
    finally:
        _runtime = before
