"""The results of a run for a terminal or a file: ``sqlenrich show`` and ``sqlenrich export``."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.backends.duckdb.database import cannot_open, quote, reason
from sqlenrich.runner.backends.duckdb.files import (
    FILE_SUFFIXES,
    STANDARD_OUTPUT,
    check_replaceable,
    database_path,
    print_rows,
    write_rows,
)


def results(
    name: str,
    output: str | Path,
    *,
    quarantine: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    rows: int | None = None,
    to: str | Path | None = None,
    width: int | None = None,
) -> str | None:
    """Give the accepted or the refused rows of ``output`` as a text, or write them to the file ``to``.

    ``where`` is a condition in DuckDB's SQL. Raises ConfigError for a name, a column or a condition that is not there.
    """
    if to is not None and str(to) != STANDARD_OUTPUT and Path(to).suffix.lower() not in FILE_SUFFIXES:
        raise ConfigError(f"{to}: unknown kind of file; there are: {', '.join(FILE_SUFFIXES)}")
    database = database_path(Path(output))
    if not database.is_file():
        raise ConfigError(f"{output}: no run has written it")
    with _opened(database) as db:
        table = f"{name}_quarantine" if quarantine else name
        if table not in (known := _tables(db)):
            names = sorted(one for one in known if f"{one}_quarantine" in known)
            raise ConfigError(f"{output} has no results of {name}; it has those of: {', '.join(names) or 'none'}")
        try:
            found = db.table(quote(table))
            chosen = list(columns or (_shown(found.columns) if to is None else found.columns))
            if where:
                found = found.filter(where)
            found = found.project(", ".join(map(quote, chosen)))
            if rows is not None:
                found = found.limit(rows)
            if to is None:
                return _as_text(found, width)
            _write(db, found, Path(to))
        except duckdb.Error as error:
            raise ConfigError(f"{output}, table {table}: {reason(error)}") from None
    return None


def _opened(database: Path) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(str(database), read_only=True)
    except duckdb.Error as error:
        raise cannot_open(database, error) from None


def _tables(db: duckdb.DuckDBPyConnection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()}


def _shown(columns: Sequence[str]) -> list[str]:
    """Give the columns that are shown where none is chosen: without prompts and the run's own."""
    if "_error" in columns:
        hidden = {"_repaired", "prompt", "_attempts", "_request_hash", "_asked_at", "_truncated"}
    else:
        hidden = {"_request_hash", "_model", "_version", "_fingerprint", "_asked_at"}
    return [name for name in columns if name not in hidden]


def _as_text(found: duckdb.DuckDBPyRelation, width: int | None) -> str:
    """Give rows as the table that DuckDB draws."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found.show(max_width=width or 10_000, max_rows=100_000)
    return out.getvalue().rstrip("\n")


def _write(db: duckdb.DuckDBPyConnection, found: duckdb.DuckDBPyRelation, to: Path) -> None:
    query = found.sql_query()

    def execute(sql: str) -> None:
        db.execute(sql)

    if str(to) == STANDARD_OUTPUT:
        print_rows(execute, query)
        return
    check_replaceable(to)
    kinds = zip(found.columns, map(str, found.types), strict=True)
    write_rows(execute, query, to, [name for name, kind in kinds if kind.endswith("]") or kind.startswith("STRUCT")])
