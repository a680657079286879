"""The tables of a Spark output as a database that quality reads and writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlenrich.core.names import relation
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.store.spark.tables import SparkTables


class SparkDatabase:
    """A schema, or folders of Parquet files; see :class:`.database.Database`."""

    def __init__(self, tables: SparkTables) -> None:
        self.tables, self.connection = tables, tables.connection
        self.engine, self.home = tables.engine, tables.place

    def named(self, table: str) -> str:
        """Return the name of a table of the output in Spark's SQL."""
        return self.tables.named(table)

    def columns(self, table: str) -> dict[str, Type | None] | None:
        """Return a table's columns and types; None where it is not there."""
        return self.connection.columns(table)

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query and return its rows. A folder is read by the schema that is known of it."""
        return self.tables.read(query)

    def append(self, table: str, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]) -> None:
        """Append rows to a table, which is made where it is missing."""
        named = relation(self.engine, table)
        self.tables.create(named, columns)
        if rows:
            kinds = ", ".join(f"`{name}` {self.engine.sql_type(kind).sql('spark')}" for name, kind in columns.items())
            session = self.connection.session
            lines = [tuple(map(_instant, row)) for row in rows]
            frame = self.connection.checked(lambda: session.createDataFrame(lines, kinds))
            self.tables.append(named, frame.coalesce(1))

    def delete(self, table: str, condition: Sql) -> None:
        """Write the other rows to a new table, which takes the place of the old one: files take no DELETE."""
        named = relation(self.engine, table)
        deleted = exp.Coalesce(this=exp.paren(condition), expressions=[exp.false()])  # NULL deletes nothing
        kept = exp.select("*").from_(named.copy()).where(exp.Not(this=deleted))
        self.tables.make(named, kept)
        self.tables.publish([named])


def _instant(value: object) -> object:
    """Return a time with its zone: Spark reads one without a zone in that of this process."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value
