"""The program ``sqlenrich``, also ``python -m sqlenrich``."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn

from .cli import main


def program() -> NoReturn:
    """Run the command line, and end the process at once.

    All that was opened is closed by then. To take an interpreter apart that holds DuckDB, Arrow and sqlglot costs
    another tenth of a second.
    """
    status: object = 0
    try:
        main()
    except SystemExit as done:
        status = done.code
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    program()
