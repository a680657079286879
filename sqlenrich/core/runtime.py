"""What a process takes from its surroundings: its clocks, and threads that run event loops.

A simulation runs the same code in another :class:`Runtime`, whose time passes only where something waits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlenrich.core.loop_thread import LoopThread, new_loop


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


@contextmanager
def running_in(runtime: Runtime) -> Iterator[None]:
    """Run everything of this process in another runtime for the context."""
    global _runtime
    before, _runtime = _runtime, runtime
    try:
        yield
    finally:
        _runtime = before
