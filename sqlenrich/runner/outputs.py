"""The files that a run writes: an earlier run's are replaced, anybody else's are left alone."""

from __future__ import annotations

import csv
from pathlib import Path

from sqlenrich.core.errors import ConfigError

_OURS = ({"_request_hash", "_fingerprint"}, {"_request_hash", "_error"})
"""Columns of NAME and of NAME_quarantine: a file with them was written by a run, whatever became of its database."""


def check_replaceable(*files: Path) -> None:
    """Refuse to write over a file that no run wrote; an empty one holds nothing to lose. Raises ConfigError."""
    for path in files:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; give another --output")
        if path.is_file() and path.stat().st_size > 0:
            columns = set(_columns(path))
            if not any(ours <= columns for ours in _OURS):
                raise ConfigError(f"{path} was not written by sqlenrich: remove it, or give another --output")


def _columns(path: Path) -> list[str]:
    """Give the columns that a file names; none where it can't be read as what it is called."""
    if path.suffix.lower() == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError):
            return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error):
        return []
