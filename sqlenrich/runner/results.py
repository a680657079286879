"""The results of a run for a terminal or a file: ``sqlenrich show`` and ``sqlenrich export``."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Unpack

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.place import Output, PlaceOptions, is_paths, place_in
from sqlenrich.runner.repair_advice import TRIED, WITHOUT_TEXT, repair_advice
from sqlenrich.spec.settings import Config, find_config
from sqlenrich.store.backend import Backend
from sqlenrich.store.duckdb.copied import copied_rows
from sqlenrich.store.duckdb.database import cannot_open, quote, reason
from sqlenrich.store.duckdb.files import (
    FILE_SUFFIXES,
    STANDARD_OUTPUT,
    check_replaceable,
    database_path,
    outputs_of,
    print_rows,
    write_rows,
)
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.shared_request import read_request
from sqlenrich.store.store import Store, stored_contract


def results(
    name: str,
    output: Output | None = None,
    *,
    quarantine: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    rows: int | None = None,
    to: str | Path | None = None,
    width: int | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> str | None:
    """Return the accepted or the refused rows of ``output`` as a text, or write them to the file ``to``.

    ``options`` name a warehouse as those of :func:`~sqlenrich.run` do. ``where`` is a condition in the SQL of the
    place. Raises ConfigError for a name, a column or a condition that is not there.
    """
    if to is not None:
        check_kind(to)
    table = f"{name}_quarantine" if quarantine else name
    place = place_in(config or find_config(None), output, options, None)  # type: ignore[arg-type]
    with _opened_place(name, place, quarantine=quarantine, where=where, rows=rows) as (db, shown, left):
        try:
            found = db.table(quote(table))
            chosen = list(columns or (_shown(found.columns) if to is None else found.columns))
            if left:
                found = found.filter(left)
            found = found.project(", ".join(map(quote, chosen)))
            if rows is not None:
                found = found.limit(rows)
            if to is None:
                return _as_text(found, width)
            write_relation(db, found, Path(to))
        except duckdb.Error as error:
            raise ConfigError(f"{shown}, table {table}: {reason(error)}") from None
    return None


@contextlib.contextmanager
def _opened_place(
    name: str, place: Output | None, *, quarantine: bool, where: str | None, rows: int | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, str, str | None]]:
    """Open the results as DuckDB reads them: the database, its name, and the condition that is still to be applied."""
    if place is None:
        raise ConfigError("of which runs? Give --output out.duckdb, or --target")
    if isinstance(place, Backend):
        with place as backend:
            database = backend.as_database()
            contract = stored_contract(database, name)
            if contract is None:
                raise ConfigError(f"{backend.output} has no results of {name}: run it first")
            store = Store(database, name, contract, backend.output)
            role = "quarantine" if quarantine else "enriched"
            if not store.has(role):
                raise ConfigError(f"{backend.output} has no table {store.table(role)}: run {name} first")
            with copied_rows(store, role, where=where, limit=rows) as db:
                yield db, backend.output, None
        return
    assert is_paths(place)
    outputs = outputs_of(place)
    with open_results(name, str(outputs), outputs.database) as db:
        yield db, str(outputs), where


def check_kind(to: str | Path) -> None:
    """Refuse a file of an unknown kind. Raises ConfigError."""
    if str(to) != STANDARD_OUTPUT and Path(to).suffix.lower() not in FILE_SUFFIXES:
        raise ConfigError(f"{to}: unknown kind of file; there are: {', '.join(FILE_SUFFIXES)}")


@contextlib.contextmanager
def open_results(name: str, output: str | Path, database: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the database of an output to read it. Raises ConfigError where it has no results of an enrichment."""
    if not database.is_file():
        raise ConfigError(f"{output}: no run has written it")
    with _opened(database) as db:
        known = _tables(db)
        if not {name, f"{name}_quarantine"} <= known:
            names = sorted(one for one in known if f"{one}_quarantine" in known)
            raise ConfigError(f"{output} has no results of {name}; it has those of: {', '.join(names) or 'none'}")
        yield db


def stored_advice(name: str, output: str | Path) -> list[str]:
    """Return a line for each repair that was off in the last run and would accept its refused rows."""
    with _opened(database_path(Path(output))) as db:
        if LEDGER not in _tables(db):
            return []
        last = f"FROM {LEDGER} WHERE name = ? AND request IS NOT NULL ORDER BY started_at DESC LIMIT 1"
        try:
            found = db.execute(f"SELECT request, CAST(snapshot AS JSON)->>'file' {last}", [name]).fetchone()
            request, file = read_request(found[0]).request if found else None, found[1] if found else None
            if request is None or request.contract.embedding is not None:
                return []
            codes = ", ".join(f"'{code}'" for code in WITHOUT_TEXT)
            refused = f"FROM {quote(f'{name}_quarantine')} WHERE _error NOT IN ({codes})"
            texts = db.execute(f"SELECT response {refused} LIMIT {TRIED}").fetchall()
            count = db.execute(f"SELECT count(*) {refused}").fetchall()[0][0]
        except (duckdb.Error, ValueError):  # of another version
            return []
    place = f"{name}.prompt" if file is None else str(database_path(Path(output)).parent / file)
    return repair_advice(request.contract, place, (text for (text,) in texts), count).lines()


def _opened(database: Path) -> duckdb.DuckDBPyConnection:
    try:
        db = duckdb.connect(str(database), read_only=True)
        db.execute("SET TimeZone = 'UTC'")
        return db
    except duckdb.Error as error:
        raise cannot_open(database, error) from None


def _tables(db: duckdb.DuckDBPyConnection) -> set[str]:
    return {str(name) for (name,) in db.execute("SELECT table_name FROM duckdb_tables()").fetchall()}


def _shown(columns: Sequence[str]) -> list[str]:
    """Return the columns that are shown where none is chosen: without prompts and the run's own."""
    if "_error" in columns:
        hidden = {"_repaired", "prompt", "_attempts", "_request_hash", "_asked_at", "_truncated"}
    else:
        hidden = {"_request_hash", "_model", "_version", "_fingerprint", "_asked_at"}
    return [name for name in columns if name not in hidden]


def _as_text(found: duckdb.DuckDBPyRelation, width: int | None) -> str:
    """Return rows as the table that DuckDB draws."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found.show(max_width=width or 10_000, max_rows=100_000)
    return out.getvalue().rstrip("\n")


def write_relation(db: duckdb.DuckDBPyConnection, found: duckdb.DuckDBPyRelation, to: Path) -> None:
    """Write rows to a file, or to standard output as JSON lines. Raises ConfigError for a file that no run wrote."""
    query = found.sql_query()

    def execute(sql: str) -> None:
        db.execute(sql)

    if str(to) == STANDARD_OUTPUT:
        print_rows(execute, query)
        return
    check_replaceable(to)
    kinds = zip(found.columns, map(str, found.types), strict=True)
    write_rows(execute, query, to, [name for name, kind in kinds if kind.endswith("]") or kind.startswith("STRUCT")])
