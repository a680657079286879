"""The installed command. It is no part of the package, so that a signal ends it in one line while that is loaded."""

from __future__ import annotations

import os
import signal

STOPPED = 4
"""The exit status of what was stopped: see ``sqlenrich.report``."""


def main() -> None:
    """Run the command line and exit with its status."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        signal.signal(number, _stop)
    from sqlenrich import signals

    signals.watch()
    from sqlenrich.cli import main

    try:
        main()
    finally:  # all is said: what comes while Python ends changes nothing
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)


def _stop(*_: object) -> None:
    os.write(2, b"\r\x1b[Kstopped\n" if os.isatty(2) else b"stopped\n")
    os._exit(STOPPED)
