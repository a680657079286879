"""A backend over any DB-API 2.0 connection: the tables are there, a client asks the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Any, Protocol, TypeVar

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import RunError
from sqlenrich.core.names import relation as named_relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, TIMESTAMP, Array, Decimal, Struct, Type
from sqlenrich.engines import get_engine
from sqlenrich.store.backend import Backend, StatementPolicy

T = TypeVar("T")
_KINDS = {
    "TINYINT": BIGINT, "SMALLINT": BIGINT, "INT": BIGINT, "BIGINT": BIGINT, "FLOAT": DOUBLE, "DOUBLE": DOUBLE,
    "TEXT": STRING, "VARCHAR": STRING, "CHAR": STRING, "BOOLEAN": BOOLEAN, "DATE": DATE,
    "TIMESTAMP": TIMESTAMP, "TIMESTAMPTZ": INSTANT, "TIMESTAMPNTZ": TIMESTAMP, "TIMESTAMPLTZ": INSTANT,
    "DATETIME": TIMESTAMP,
}  # fmt: skip
"""Portable types by the names that sqlglot gives to all engines' types."""
_MISSING = re.compile(r"(?i)not exist|not found|no such|unknown table")
"""What databases say of a table that is missing."""


class DbApiCursor(Protocol):
    """The part of PEP 249 that is used."""

    def execute(self, operation: str, /) -> Any:
        """Run a statement."""

    def fetchall(self) -> Any:
        """Return all rows."""


class DbApi(Protocol):
    """A connection of PEP 249."""

    def cursor(self) -> Any:
        """Return a cursor."""

    def commit(self) -> Any:
        """End a transaction."""

    def rollback(self) -> Any:
        """Take back a transaction."""


class DbApiConnection:
    """A DB-API connection as a database that takes a statement at a time."""

    def __init__(self, connection: DbApi, engine: Engine, place: str) -> None:
        self.connection, self.engine, self.place = connection, engine, place
        self.cursor: DbApiCursor = connection.cursor()

    def execute(self, sql: str) -> None:
        """Run a statement. Raises RunError with the first line of the driver's message."""
        self._checked(partial(self.cursor.execute, sql))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and give its rows."""
        self.execute(sql)
        return [tuple(row) for row in self._checked(self.cursor.fetchall)]

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns and types by ``DESCRIBE TABLE``; None where the database calls it missing."""
        describe = exp.Describe(this=named_relation(self.engine, relation), kind="TABLE")
        try:
            found = self.rows(print_sql(self.engine, describe))
        except RunError as error:
            if _MISSING.search(str(error)):
                return None
            raise
        described = takewhile(lambda row: row[0] and not row[0].startswith("#"), found)  # Spark: partitions follow
        return {str(name): portable_type(self.engine, str(kind)) for name, kind, *_ in described}

    def begin(self) -> None:
        """DB-API connections begin transactions by themselves."""

    def commit(self) -> None:
        """Make durable what was executed."""
        self._checked(self.connection.commit)

    def _checked(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except Exception as error:  # PEP 249 has no class that all drivers share
            with suppress(Exception):  # a connection without transactions has nothing to take back
                self.connection.rollback()
            message = str(error).strip().splitlines() or [type(error).__name__]
            raise RunError(f"{self.place}: {message[0]}") from None


class DbApiBackend(Backend):
    """The tables in one schema behind a DB-API connection, in the SQL of ``engine``.

    The connection is the caller's: it stays open. ``schema`` qualifies the tables that are made.
    """

    def __init__(
        self,
        connection: DbApi,
        *,
        engine: str,
        schema: str = "",
        place: str = "",
        statements: StatementPolicy | None = None,
    ) -> None:
        named = place or f"{engine} {schema}".strip()
        super().__init__(DbApiConnection(connection, get_engine(engine), named), engine, schema, statements)


def portable_type(engine: Engine, written: str) -> Type | None:
    """Return the portable type of a type as the engine writes it, None for one that has none."""
    try:
        return _portable(exp.DataType.build(written, dialect=engine.dialect, udt=True))
    except sqlglot.errors.SqlglotError:
        return None


def _portable(kind: exp.DataType) -> Type | None:
    name = kind.this.name if isinstance(kind.this, exp.DataType.Type) else ""
    inner = kind.expressions
    if name == "DECIMAL":
        digits = [int(param.name) for param in inner]
        return Decimal(*(digits + [38, 0][len(digits) :]))
    if name == "ARRAY" or name == "LIST":
        item = _portable(inner[0]) if inner else None
        return None if item is None else Array(item)
    if name == "STRUCT":
        fields = [(field.name, _portable(field.args["kind"])) for field in inner if isinstance(field, exp.ColumnDef)]
        known = [(label, of) for label, of in fields if of is not None]
        return Struct(tuple(known)) if known and len(known) == len(inner) else None
    return _KINDS.get(name)
