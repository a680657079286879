"""DuckDB in memory, for a few queries: to open a database takes longer than they do."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb


@contextmanager
def in_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a session of this process's one database, in a transaction: what it makes is gone at its end."""
    db = _database().cursor()
    db.begin()
    try:
        yield db
    finally:
        with suppress(duckdb.Error):  # a statement that failed has ended it
            db.rollback()
        db.close()


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()
