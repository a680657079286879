"""Ctrl-C and SIGTERM: end the command at once with one line, or after the answers to the requests in flight.

A thread of its own reads the signals, for two reasons. The main thread runs no Python code while a database makes a
table. An exception at any point of the main thread could end in a traceback. Ending at once is as safe as ``kill -9``:
each answer is committed, and a table is made as a whole or not at all.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Protocol

from sqlenrich.cli.terminal import write_last_line, write_line
from sqlenrich.core.exit_status import EXIT_STOPPED
from sqlenrich.store.scratch import remove_all

SIGNALS = (signal.SIGINT, signal.SIGTERM)
CONTINUE = "what is answered is stored, run the same command again to continue"


class Stoppable(Protocol):
    """A run that asks a model and can be stopped."""

    @property
    def asking(self) -> bool:
        """Whether requests are in flight."""

    def stopping(self) -> str:
        """What ends the run after a stop."""

    def stop(self) -> None:
        """Send nothing new and end. A second call abandons the requests in flight. Works from any thread."""


class _Handler:
    """What the next signal does."""

    def __init__(self) -> None:
        self.run: Stoppable | None = None
        self.stored: Callable[[], bool] = lambda: False
        self.received = 0

    def handle(self) -> None:
        self.received += 1
        run = self.run
        if run is None or not run.asking or self.received > 2:
            end(f"stopped: {CONTINUE}" if self.stored() else "stopped")
        if self.received == 1:
            write_line(f"stopping: {run.stopping()}")
        with suppress(RuntimeError):  # the run has just ended
            run.stop()


_HANDLER = _Handler()


def watch() -> None:
    """Handle signals from here on. To be called in the main thread of the command's own process."""
    out, into = os.pipe()
    if os.name != "nt":  # signal.set_wakeup_fd requires it there alone
        os.set_blocking(into, False)
    signal.set_wakeup_fd(into, warn_on_full_buffer=False)
    threading.Thread(target=_read, args=(out,), name="sqlenrich-signals", daemon=True).start()
    for number in SIGNALS:
        signal.signal(number, _nothing)


def wait_for_answers(run: Stoppable, stored: Callable[[], bool]) -> None:
    """Let a signal stop ``run`` while it asks, not end the process. ``stored`` says whether an answer was stored."""
    _HANDLER.run, _HANDLER.stored, _HANDLER.received = run, stored, 0


def end(line: str) -> NoReturn:
    """End the process at once."""
    write_last_line(line)
    remove_all()
    os._exit(EXIT_STOPPED)


def _read(out: int) -> None:
    while numbers := os.read(out, 1):
        if numbers[0] in SIGNALS:
            _HANDLER.handle()


def _nothing(*_: object) -> None:
    """Python writes a signal to the pipe only if a handler is set."""
