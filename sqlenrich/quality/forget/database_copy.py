"""A database copied to a new file that takes its place: what was deleted stays in an old file, not in a new one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb

from sqlenrich.core.errors import RunError
from sqlenrich.core.fsync import fsync
from sqlenrich.store.duckdb.database import Database, quote, reason, text

COPY = "sqlenrich_copy"
"""The name of the new file while it is attached."""
SUFFIX = "copying"


def copy_path(database: Path) -> Path:
    """Return the new file until it takes the place of the old one."""
    path = database.resolve()
    return path.with_name(f".{path.name}.{SUFFIX}")


@contextmanager
def copied(database: Database, changed: Mapping[str, Callable[[str], str]]) -> Iterator[None]:
    """Attach a copy of an open database as ``sqlenrich_copy``; at the end of the context it takes the old one's place.

    ``changed`` has, by the quoted name of a table, what gives the query of its rows from a list of columns. Until the
    end the old file is as it was; an error leaves it. Raises RunError where the copy fails.
    """
    path, new = database.path.resolve(), copy_path(database.path)
    discard(new)
    db, old = database.db, quote(database.catalog())
    db.execute("FORCE CHECKPOINT")  # what a killed process left in the write-ahead log comes into the old file
    try:
        db.execute(f"ATTACH {text(str(new))} AS {COPY} (ROW_GROUP_SIZE {database.policy.row_group_rows})")
        try:
            db.execute(f"COPY FROM DATABASE {old} TO {COPY} (SCHEMA)")
            _copy_rows(database, changed)
            yield
            db.execute(f"CHECKPOINT {COPY}")
        finally:
            db.execute(f"DETACH {COPY}")
        shutil.copymode(path, new)
        fsync(new)
        if (log := Path(f"{path}.wal")).exists():
            raise RunError(f"{path}: {log.name} was written meanwhile; do it again")
        os.replace(new, path)  # atomic: while the old file is open here, nobody else can have opened it
        fsync(path.parent)
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise RunError(f"{path} can't be copied: {reason(error)}; nothing was changed") from None
    finally:
        discard(new)


def discard(new: Path) -> None:
    """Remove a copy that did not take its place, and its log."""
    for file in (new, Path(f"{new}.wal")):
        file.unlink(missing_ok=True)


def _copy_rows(database: Database, changed: Mapping[str, Callable[[str], str]]) -> None:
    """Copy the rows of all tables; a table that refers to another one comes after it."""
    waiting = database.rows(
        "SELECT schema_name, table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE database_name = current_database() AND NOT is_generated AND (schema_name, table_name) IN "
        "(SELECT (schema_name, table_name) FROM duckdb_tables() WHERE database_name = current_database()) "
        "GROUP BY ALL ORDER BY ALL"
    )
    while waiting:
        refused = []
        for schema, name, columns in waiting:
            place, listed = f"{quote(schema)}.{quote(name)}", ", ".join(map(quote, columns))
            rows = changed[place](listed) if place in changed else f"SELECT {listed} FROM {place}"
            insert = f"INSERT INTO {COPY}.{place} ({listed}) {rows}"
            try:
                database.roomy(lambda insert=insert: database.execute(insert))  # type: ignore[misc]
            except duckdb.ConstraintException:
                refused.append((schema, name, columns))
        if len(refused) == len(waiting):
            raise RunError(f"{database.path} can't be copied: {refused[0][1]} refers to rows that are not there")
        waiting = refused
