"""How Ctrl-C and SIGTERM end the command: at once and in one line, or once what was sent to a model is answered.

Signals are read by a thread of their own. The main thread runs no Python code while a database makes a table, and an
exception raised there at any moment would end in a traceback sooner or later. An end at once is as safe as a
``kill -9``: each answer was committed, and a table is made wholly or not at all.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Protocol

from sqlenrich.runner.report import EXIT_STOPPED
from sqlenrich.runner.scratch import remove_all

SIGNALS = (signal.SIGINT, signal.SIGTERM)
GOING_ON = "what is answered is stored, run the same command again to continue"


class Stoppable(Protocol):
    """What asks a model: it can end by itself."""

    @property
    def asking(self) -> bool:
        """Whether there is something in flight to wait for."""

    def stop(self) -> None:
        """Ask nothing new and end; a second call abandons what is in flight. From any thread."""


class _Watch:
    """What a signal does now."""

    def __init__(self) -> None:
        self.asked: Stoppable | None = None
        self.stored: Callable[[], bool] = lambda: False
        self.received = 0

    def came(self) -> None:
        self.received += 1
        asked = self.asked
        if asked is None or not asked.asking or self.received > 2:
            leave(f"stopped: {GOING_ON}" if self.stored() else "stopped")
        if self.received == 1:
            say("stopping: waiting for what is in flight (again: without it)")
        with suppress(RuntimeError):  # it has just ended
            asked.stop()


_WATCH = _Watch()


def watch() -> None:
    """Read signals from here on, in the main thread of a process that is the command's own."""
    out, into = os.pipe()
    if os.name != "nt":  # where it must be so
        os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    threading.Thread(target=_read, args=(out,), name="sqlenrich-signals", daemon=True).start()
    for number in SIGNALS:
        signal.signal(number, _nothing)


def stop_gently(asked: Stoppable, stored: Callable[[], bool]) -> None:
    """While ``asked`` asks, let a signal stop it and go on; ``stored`` tells whether an answer was kept so far."""
    _WATCH.asked, _WATCH.stored, _WATCH.received = asked, stored, 0


def say(line: str) -> None:
    """Write a line to stderr, over a line of progress on a terminal; whatever the main thread does."""
    clear = "\r\x1b[K" if os.isatty(2) else ""
    with suppress(OSError):  # nobody reads it
        os.write(2, f"{clear}{line}\n".encode())


def leave(line: str) -> NoReturn:
    """End the process at once."""
    say(line)
    remove_all()
    os._exit(EXIT_STOPPED)


def _read(out: int) -> None:
    while numbers := os.read(out, 1):
        if numbers[0] in SIGNALS:
            _WATCH.came()


def _nothing(*_: object) -> None:
    """The thread does it: a handler must be there for the signal to be told."""
