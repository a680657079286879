"""The contract of a database: where the tables of enrichments live. It knows no enrichment, no run and no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column, identifier, relation
from sqlenrich.core.parts import bounded_parts
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.store import queries
from sqlenrich.store.base import Connection

INSERTED_ROWS, INSERTED_CHARACTERS = 500, 200_000
"""The rows of one INSERT of constants, and their texts but for a longer row: databases bound a statement."""


class Database(Protocol):
    """What differs between engines, at the level of tables. It is open; only the thread that opened it uses it.

    A table is named as :meth:`named` gives it. A query is a tree over such tables. Errors are RunError with one line.
    """

    engine: Engine
    """The engine whose SQL it runs."""

    @property
    def home(self) -> str:
        """Where the tables are, for messages: a file, a schema, a folder."""

    def named(self, table: str) -> str:
        """Return the full name of a table of this place, as the engine writes it."""

    def columns(self, table: str) -> dict[str, Type | None] | None:
        """Return a table's columns as they are mentioned, each with its type or None for an unknown one.

        None: the table is not there.
        """

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query and return its rows, with the driver's values: see :func:`.values.read_value`."""

    def append(self, table: str, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]) -> None:
        """Append rows to a table, which is made where it is missing, and commit."""

    def delete(self, table: str, condition: Sql) -> None:
        """Delete the rows that meet a condition, and commit. No file that the engine still reads holds them."""


class StatementDatabase:
    """The tables in one schema of a database that takes a statement at a time."""

    def __init__(self, connection: Connection, engine: Engine, schema: str, home: str) -> None:
        self.connection, self.engine, self.schema, self.home = connection, engine, schema, home

    def named(self, table: str) -> str:
        """Return the name of a table in the schema."""
        name = identifier(self.engine, table).sql(self.engine.dialect)
        return f"{self.schema}.{name}" if self.schema else name

    def columns(self, table: str) -> dict[str, Type | None] | None:
        """Return a table's columns; a plain name that the engine folds is in lower case."""
        found = self.connection.columns(table)
        if found is None or self.engine.quotes_always:
            return found
        plain = {name for name in found if not identifier(self.engine, name).quoted and name == name.upper()}
        return {name.lower() if name in plain else name: kind for name, kind in found.items()}

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self.connection.rows(print_sql(self.engine, query, pretty=False))

    def append(self, table: str, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]) -> None:
        """Append rows by INSERTs of constants."""
        if self.connection.columns(table) is None:
            self._execute(create_if_missing(self.engine, relation(self.engine, table), columns))
        for part in bounded_parts(rows, _characters, INSERTED_CHARACTERS, INSERTED_ROWS):
            self._execute(queries.insert_rows(self.engine, relation(self.engine, table), columns, part))
        self.connection.commit()

    def delete(self, table: str, condition: Sql) -> None:
        """Delete rows by DELETE."""
        self._execute(exp.Delete(this=relation(self.engine, table), where=exp.Where(this=condition)))
        self.connection.commit()

    def _execute(self, statement: Sql) -> None:
        self.connection.execute(print_sql(self.engine, statement, pretty=False))


def _characters(row: Sequence[object]) -> int:
    return sum(len(str(value)) for value in row)


def selected(database: Database, table: str, names: Sequence[str]) -> exp.Select:
    """The query of some columns of a table."""
    return exp.select(*(column(database.engine, name) for name in names)).from_(relation(database.engine, table))
