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
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    # To take an interpreter apart that holds DuckDB, Arrow and sqlglot costs another tenth of a second.
    os._exit(status if isinstance(status, int) else 1)


def _stop(*_: object) -> None:
    os.write(2, b"\r\x1b[Kstopped\n" if os.isatty(2) else b"stopped\n")
    os._exit(STOPPED)
