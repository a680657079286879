"""What the commands need of a terminal: its width, a question, and a line on stderr from any thread."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress

import click

STDERR = 2
"""The file descriptor of standard error."""

CLEAR_LINE = "\r\x1b[K"
"""Goes to the beginning of the terminal's line and clears it."""

WARNING, PLAIN = "\x1b[33m", "\x1b[0m"
"""The colour of what a person should look at, and the end of it."""


def coloured() -> bool:
    """Whether a terminal may get colours: see no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(*, least: int = 60, most: int | None = None) -> int:
    """Return the terminal's width in columns, within bounds."""
    columns = max(shutil.get_terminal_size((100, 24)).columns, least)
    return columns if most is None else min(columns, most)


def can_ask() -> bool:
    """Whether a person can read a question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask a yes-or-no question. Ctrl-D means no."""
    try:
        return click.confirm(question, default=True, err=True)
    except click.Abort:
        click.echo(err=True)  # the next output begins on a new line
        return False


def write_line(line: str, file: int = STDERR) -> None:
    """Write a line to stderr, over the line of progress on a terminal. Works from any thread at any moment."""
    clear = CLEAR_LINE if os.isatty(file) else ""
    with suppress(OSError):  # stderr may be closed
        os.write(file, f"{clear}{line}\n".encode())


def write_last_line(line: str) -> None:
    """Write a line to stderr, and discard what any thread writes there afterwards."""
    with suppress(OSError):  # stderr may be closed
        last = os.dup(STDERR)
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDERR)
        write_line(line, last)
