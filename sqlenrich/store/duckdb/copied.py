"""The tables of an enrichment copied from any engine into a scratch database, for what reads all rows.

An audit computes each request and each verdict again, so it needs every row. What is copied is deleted at the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from sqlenrich.core.names import column
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import STRING, Decimal, Type, stored, uncoerced, without_zones
from sqlenrich.engines.duckdb.engine import ENGINE
from sqlenrich.plan.checking import compile_checking
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.relations import symbol
from sqlenrich.store import queries
from sqlenrich.store.database import selected
from sqlenrich.store.duckdb.database import quote, text
from sqlenrich.store.duckdb.tables import DuckDBTables, StoredOutput
from sqlenrich.store.forgotten_lines import FORGOTTEN, FORGOTTEN_COLUMNS
from sqlenrich.store.inputs import TableInMemory
from sqlenrich.store.ledger import COLUMNS, LEDGER
from sqlenrich.store.scratch import scratch_folder
from sqlenrich.store.store import HASHED, ROLES, Store
from sqlenrich.store.values import read_value, shown_value, text_of

PART_ROWS = 50_000
"""About the rows of one query: a driver gives its rows as one list."""
LONGEST_LINE = 2**28
"""The bytes of a row as JSON, at most."""


@contextmanager
def copied_output(store: Store, key: Mapping[str, str] | None = None) -> Iterator[StoredOutput]:
    """Copy the tables of an enrichment, or with ``key`` those rows that the requests of a key's rows have."""
    with _scratch() as (db, folder):
        _Copy(store, db, folder / "rows.jsonl").all_tables(key)
        yield StoredOutput(DuckDBTables(db, Path(store.output), store.output), store.name, store.contract, store.output)


@contextmanager
def copied_rows(
    store: Store, role: str, *, where: str | None = None, limit: int | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Copy the rows of one table of results: those that meet a condition in the engine's SQL, or the first few.

    Raises ConfigError for a condition that can't be read.
    """
    with _scratch() as (db, folder):
        _Copy(store, db, folder / "rows.jsonl").table(role, None if where is None else store.condition(where), limit)
        yield db


def table_in_memory(
    parts: Iterable[list[tuple[Any, ...]]], types: Mapping[str, Type | None], name: str
) -> TableInMemory:
    """Return rows that any engine's driver gave as a table in memory, with portable types."""
    kinds = {column: _portable(kind) for column, kind in types.items()}
    with _scratch() as (db, folder):
        _fill(db, folder / "rows.jsonl", "rows", kinds, parts)
        return TableInMemory(db.sql("FROM rows").to_arrow_table(), once=False, name=name)


@contextmanager
def _scratch() -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    with scratch_folder() as folder:
        db = duckdb.connect(str(folder / "copied.duckdb"), config={"temp_directory": str(folder / "spill")})
        try:
            db.execute("SET TimeZone = 'UTC'")
            yield db, folder
        finally:
            db.close()


class _Copy:
    def __init__(self, store: Store, db: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.store, self.db, self.path = store, db, path

    @cached_property
    def judged(self) -> dict[str, Mapping[str, Type]]:
        """The columns of the tables that judging makes, as the plan of the last run knows them."""
        steps = compile_checking(self.store.name, self.store.request.contract, "duckdb", {})
        return {step.name: step.columns for step in steps}

    def table(self, role: str, where: Sql | None, limit: int | None) -> None:
        """Copy the rows of one table."""
        types = self._types(role)
        query = self._query(role, types)
        if where is not None:
            query = query.where(where)
        parts: Iterable[list[tuple[Any, ...]]] = self._parts(role, query, HASHED[role])
        if limit is not None:
            parts = [self.store.rows(query.order_by(column(self.store.engine, HASHED[role])).limit(limit))]
        self._fill(ROLES[role].format(self.store.name), types, parts)

    def all_tables(self, key: Mapping[str, str] | None) -> None:
        store = self.store
        for table, columns in ((LEDGER, COLUMNS), (FORGOTTEN, FORGOTTEN_COLUMNS)):
            named = store.database.named(table)
            found = store.database.columns(named) or {}
            if known := {name: kind for name, kind in columns.items() if name in found}:
                self._fill(table, known, [store.database.rows(selected(store.database, named, list(known)))])
        requests = None if key is None else self._requests(key)
        for role, hashed in HASHED.items():
            if not store.has(role):
                continue
            types = self._types(role)
            query = self._query(role, types)
            parts: Iterable[list[tuple[Any, ...]]] = self._parts(role, query, hashed)
            if requests is not None:
                parts = [store.among(query, column(store.engine, hashed), requests)]
                if key is not None and role not in ("responses", "reviews"):
                    unasked = exp.Is(this=column(store.engine, hashed), expression=exp.Null())
                    parts = [*parts, store.rows(query.where(unasked, self.store.of_key(key)))]
            name = store.last.responses if role == "responses" else ROLES[role].format(store.name)
            self._fill(name, types, parts)

    def _query(self, role: str, types: Mapping[str, Type]) -> exp.Select:
        return exp.select(*(column(self.store.engine, name) for name in types)).from_(symbol(role))

    def _requests(self, key: Mapping[str, str]) -> list[str]:
        """Return the requests of the rows of a key."""
        found = exp.select("request_hash").distinct().from_(symbol("checked")).where(self.store.of_key(key))
        return [str(request) for (request,) in self.store.rows(found) if request is not None]

    def _types(self, role: str) -> dict[str, Type]:
        """Return the columns of a table with portable types: drivers tell less than the plan knows."""
        store, request = self.store, self.store.request
        known = RESPONSES if role == "responses" else self.judged.get(role, {})
        given = {*request.contract.key, *request.contract.keep}
        types: dict[str, Type] = {}
        for name, kind in store.columns(role).items():
            if name in known and name not in given:
                types[name] = stored(uncoerced(known[name]))
            else:
                types[name] = _portable(kind)
        return types

    def _parts(self, role: str, query: exp.Select, hashed: str) -> Iterator[list[tuple[Any, ...]]]:
        """Read a table by ranges of its hashes, then the rows without one."""
        store, place = self.store, column(self.store.engine, hashed)
        parts = max(1, -(-store.number(queries.count_rows(role)) // PART_ROWS))
        for index in range(parts):
            yield store.rows(query.where(queries.hash_slice(place, index, parts, nulls=False)))
        yield store.rows(query.where(exp.Is(this=place, expression=exp.Null())))

    def _fill(self, table: str, columns: Mapping[str, Type], parts: Iterable[list[tuple[Any, ...]]]) -> None:
        _fill(self.db, self.path, table.rpartition(".")[2], columns, parts)


def _portable(kind: Type | None) -> Type:
    return STRING if kind is None else stored(without_zones(uncoerced(kind)))


def _fill(
    db: duckdb.DuckDBPyConnection,
    path: Path,
    table: str,
    columns: Mapping[str, Type],
    parts: Iterable[list[tuple[Any, ...]]],
) -> None:
    """Write the rows of a table as JSON lines, which DuckDB reads with their types."""
    kinds = {name: ENGINE.sql_type(kind).sql("duckdb") for name, kind in columns.items()}
    with path.open("w", encoding="utf-8", errors="surrogatepass") as file:
        for part in parts:
            for row in part:
                named = zip(columns.items(), row, strict=True)
                file.write(json.dumps({name: _written(value, kind) for (name, kind), value in named}) + "\n")
    listed = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in kinds.items())
    read = f"read_json({text(str(path))}, format = 'newline_delimited', columns = {{{listed}}}"
    db.execute(f"CREATE TABLE {quote(table)} AS FROM {read}, maximum_object_size = {LONGEST_LINE})")
    path.unlink()


def _written(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if isinstance(kind, Decimal):
        return str(value)
    if kind == STRING and not isinstance(value, str):
        return text_of(shown_value(value))
    return read_value(value, kind)
