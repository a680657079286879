"""The installed command. It is no part of the package, so that a signal ends it in one line while that is loaded."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

STOPPED = 4
"""The exit status of what was stopped: see ``sqlenrich.report``."""


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    _fill_in()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, _stop)
    from sqlenrich import signals

    signals.watch()
    from sqlenrich.cli import main

    status: object = 0
    try:
        main()
    except SystemExit as done:
        status = done.code
    finally:  # all is said: what comes while Python ends changes nothing
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # To take an interpreter apart that holds DuckDB, Arrow and sqlglot costs another tenth of a second.
    os._exit(status if isinstance(status, int) else 1)


def _fill_in() -> None:
    """Open what the caller closed, as a daemon may: else the next file to be opened would be taken for stderr."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _stop(*_: object) -> None:
    os.write(2, b"\r\x1b[Kstopped\n" if os.isatty(2) else b"stopped\n")
    os._exit(STOPPED)
