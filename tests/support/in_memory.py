"""DuckDB in memory, for a few queries: to open a database takes longer than they do."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import duckdb

PART = 500


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


def insert(db: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows by statements of many rows: one for each row takes ten times as long."""
    for part in (rows[start : start + PART] for start in range(0, len(rows), PART)):
        marks = f"({', '.join('?' * len(part[0]))})"
        db.execute(f"INSERT INTO {table} VALUES {', '.join([marks] * len(part))}", [one for row in part for one in row])


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()
