"""The tables of an open DuckDB file: a database that quality reads and writes, and its own SQL for what needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import identifier, relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.engines.duckdb.engine import ENGINE
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.duckdb.database import cannot_open, quote, reason
from sqlenrich.store.duckdb.files import outputs_of
from sqlenrich.store.duckdb.types import portable_type
from sqlenrich.store.forgotten_lines import FORGOTTEN_COLUMNS
from sqlenrich.store.ledger import COLUMNS, LEDGER
from sqlenrich.store.scratch import scratch_folder
from sqlenrich.store.store import ROLES, VERSION, Store

MOST_MEMORY_MIB = 16_384
"""The limit of memory that a statement may reach. Beyond it DuckDB uses the disk."""
THREADS = 4


@dataclass
class DuckDBTables:
    """The tables of an open connection; see :class:`.database.Database`."""

    db: duckdb.DuckDBPyConnection
    path: Path
    output: str
    """The output as the caller named it."""
    memory_mib: int | None = None
    """The limit that is doubled where a query needs more memory; None: DuckDB's own stays."""
    engine: Engine = ENGINE

    @property
    def home(self) -> str:
        """The file."""
        return str(self.path)

    def named(self, table: str) -> str:
        """Return the name of a table, quoted."""
        return quote(table)

    def columns(self, table: str) -> dict[str, Type | None] | None:
        """Return a table's columns and types; None where it is not there."""
        found = self.described(table)
        return None if found is None else {name: portable_type(kind) for name, kind in found.items()}

    def described(self, table: str) -> dict[str, str] | None:
        """Return a table's columns with DuckDB's own types; None where it is not there."""
        try:
            return {str(row[0]): str(row[1]) for row in self.db.execute(f"DESCRIBE {table}").fetchall()}
        except duckdb.CatalogException:
            return None

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self.fetch(print_sql(self.engine, query, pretty=False))

    def fetch(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of DuckDB's own SQL, with more memory where that is needed and allowed. Raises RunError."""
        while True:
            try:
                return self.db.execute(sql, list(values)).fetchall()
            except duckdb.OutOfMemoryException:
                if self.memory_mib is None:
                    raise
                if (limit := 2 * self.memory_mib) > MOST_MEMORY_MIB:
                    raise RunError(f"{self.output}: not enough memory to read its tables") from None
                self.db.execute(f"SET memory_limit = '{limit}MiB'")
                self.memory_mib = limit

    def append(self, table: str, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]) -> None:
        """Append rows to a table, which is made where it is missing."""
        create, insert = _appending(table, tuple(columns.items()))
        self.db.execute(create)
        if rows:
            import pyarrow as pa

            sqlenrich_lines = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))  # noqa: F841
            self.db.execute(insert)  # DuckDB finds the local variable by its name

    def delete(self, table: str, condition: Sql) -> None:
        """Delete rows. Their bytes stay in the file: :mod:`sqlenrich.quality.forget` copies it instead."""
        deleted = exp.Delete(this=relation(self.engine, table), where=exp.Where(this=condition))
        self.db.execute(print_sql(self.engine, deleted, pretty=False))


@lru_cache(maxsize=256)
def _appending(table: str, columns: tuple[tuple[str, Type], ...]) -> tuple[str, str]:
    """Return the statements that make a table where it is missing, and add what ``sqlenrich_lines`` holds."""
    named = relation(ENGINE, table)
    insert = exp.Insert(this=named.copy(), expression=exp.select("*").from_("sqlenrich_lines"), by_name=True)
    statements = (create_if_missing(ENGINE, named, dict(columns)), insert)
    create, append = (print_sql(ENGINE, one, pretty=False, copy=False) for one in statements)
    return create, append


@contextmanager
def open_tables(
    enrichment: Enrichment,
    output: str | Path | Sequence[str | Path],
    *,
    memory_mib: int | None = None,
    write: bool = False,
) -> Iterator[DuckDBTables]:
    """Open what runs of an enrichment wrote. Raises ConfigError where no run has written it.

    With ``memory_mib`` DuckDB begins with this limit of memory; without, with its own.
    """
    outputs = outputs_of(output)
    path = outputs.database
    if not path.is_file():
        raise ConfigError(f"{outputs}: no run has written it; run {enrichment.place} with --output {outputs} first")
    with scratch_folder() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(folder)}
        if memory_mib is not None:
            config |= {"memory_limit": f"{memory_mib}MiB", "threads": THREADS}
        try:
            db = duckdb.connect(str(path), read_only=not write, config=config)
        except duckdb.Error as error:
            raise cannot_open(path, error) from None
        try:
            db.execute("SET TimeZone = 'UTC'")
            # It goes to stdout, which is for data. In a notebook without ipywidgets it is off, and may not be set.
            if db.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
                db.execute("SET enable_progress_bar = false")
            yield DuckDBTables(db, path, str(outputs), memory_mib)
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            raise ConfigError(
                f"{outputs}: the tables of {enrichment.name} don't fit {enrichment.place}: {reason(error)}; run it "
                "again with this version first"
            ) from None
        finally:
            db.close()


@dataclass(frozen=True)
class StoredOutput(Store):
    """A store in a DuckDB file, which is also read by DuckDB's own SQL."""

    database: DuckDBTables

    @property
    def db(self) -> duckdb.DuckDBPyConnection:
        """The open connection."""
        return self.database.db

    @property
    def path(self) -> Path:
        """The file."""
        return self.database.path

    @cached_property
    def tables(self) -> dict[str, str]:
        """The tables of the enrichment by role, quoted; only those that are there."""
        return {role: self.table(role) for role in ROLES if self.described(self.table(role)) is not None}

    def described(self, table: str) -> dict[str, str] | None:
        """Return a table's columns with DuckDB's own types; None where it is not there."""
        return self.database.described(table)

    def quoted(self, name: str) -> str:
        """Return a table's or a column's name, quoted."""
        return identifier(self.engine, name).sql("duckdb")

    def fetch(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of DuckDB's own SQL."""
        return self.database.fetch(sql, *values)

    def one(self, sql: str, *values: Any) -> Any:
        """Return the first value of the first row of DuckDB's own SQL."""
        return self.fetch(sql, *values)[0][0]

    def check_version(self) -> None:
        """Refuse tables of another version, and an output without the tables of a run. Raises ConfigError."""
        ledger = self.described(LEDGER)
        if ledger is None:
            raise ConfigError(f"{self.path} holds no run of sqlenrich")
        if missing := [name for name in COLUMNS if name not in ledger]:
            raise ConfigError(f"{self.path}: {LEDGER} has no column {missing[0]}, for it {VERSION}")
        _ = self.last
        tables = self.tables
        for role in ("responses", "checked", "enriched", "quarantine"):
            if role not in tables:
                raise ConfigError(
                    f"{self.path} has no table {RELATIONS[role].format(self.name)}: "
                    f"the last run of {self.name} made none; run it again"
                )
        answers = self.described(tables["responses"]) or {}
        if missing := [name for name in RESPONSES if name not in answers]:
            raise ConfigError(f"{self.path}: {tables['responses']} has no column {missing[0]}, for it {VERSION}")


@contextmanager
def stored_output(enrichment: Enrichment, output: str | Path | Sequence[str | Path]) -> Iterator[StoredOutput]:
    """Open what runs of an enrichment wrote to read it by DuckDB's own SQL. Raises ConfigError as open_tables does."""
    with open_tables(enrichment, output) as tables:
        yield StoredOutput(tables, enrichment.name, enrichment, tables.output)


def forgotten_types() -> dict[str, str]:
    """Return the columns of the forgotten lines with DuckDB's types."""
    return {name: ENGINE.sql_type(kind).sql("duckdb") for name, kind in FORGOTTEN_COLUMNS.items()}
