"""The installed command, also ``python -m sqlenrich``: a signal ends it in one line even while modules load."""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

STOPPED = 4
"""The exit status of a stopped command: ``EXIT_STOPPED`` of ``sqlenrich.core.exit_status``, not loaded yet here."""
COLLECT_AFTER = 50_000
"""Objects between two searches for cycles. Loading modules and asking make many objects and hardly a cycle."""


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    _open_standard_streams()
    gc.set_threshold(COLLECT_AFTER)
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, _stop)
    from sqlenrich.cli import signals

    signals.watch()
    from sqlenrich.cli.main import main

    status: object = 0
    try:
        main()
    except SystemExit as done:
        status = done.code
    finally:  # the output is complete: a signal changes nothing while Python ends
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    # Finalizing an interpreter that holds DuckDB, Arrow and sqlglot takes another 0.1 s.
    os._exit(status if isinstance(status, int) else 1)


def _open_standard_streams() -> None:
    """Open the streams that the caller closed, as a daemon may: else the next opened file becomes stderr."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w", closefd=False))  # noqa: SIM115


def _stop(*_: object) -> None:
    os.write(2, b"\r\x1b[Kstopped\n" if os.isatty(2) else b"stopped\n")
    os._exit(STOPPED)


if __name__ == "__main__":
    main()
