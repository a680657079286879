"""What the prompts of a run were made of, as a comment of their table: the same files give the same prompts.

A run that was killed asks on at once, however many rows there are.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

from sqlenrich.core.version import __version__
from sqlenrich.store.duckdb.input_files import DATABASES, STANDARD_INPUT, local_files
from sqlenrich.store.inputs import Input, is_url

SETTLED_S = 2.0
"""A file that changed within this time may change again without a sign: its times are those of the last clock tick."""


def made_of(statements: Sequence[str], source: Input) -> str | None:
    """Return a digest of statements and of the local files that they read; None where their state is not known."""
    files = _state(source)
    if files is None:
        return None
    told = json.dumps([*statements, __version__, duckdb.__version__, files])
    return f"made of {hashlib.sha256(told.encode()).hexdigest()}"


def _state(source: Input) -> list[tuple[str, int, int, int, int]] | None:
    """Return name, size, times and number of each file of an input.

    The time of a change can't be set as that of the content can: a copied file with old times has a new one.
    """
    if not isinstance(source, str | Path) or str(source) == STANDARD_INPUT or is_url(str(source)):
        return None
    found = []
    for path in local_files(str(source)):
        if not path.is_file() or path.suffix.lower() in DATABASES:
            return None
        stat = path.stat()
        if time.time() - stat.st_ctime < SETTLED_S:
            return None
        found.append((str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    return found
