"""Scripts: CREATE TABLE, with columns or AS a query, and INSERT of a query.

https://docs.snowflake.com/en/sql-reference/sql/create-table and .../insert, from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import localcontext
from typing import Any

from sqlglot import exp

from tests.standins.snowflake import calls, expressions, several
from tests.standins.snowflake.nodes import Node, coerced
from tests.standins.snowflake.parsing import name_of, sql_type, statements, table_name
from tests.standins.snowflake.query import Data, compiled, held
from tests.standins.snowflake.scope import Environment, Relation, Row
from tests.standins.snowflake.values import (
    EXACT,
    JSON_NULL,
    NULL,
    PLAIN,
    VARCHAR,
    Reading,
    SnowflakeError,
    SqlType,
    reading,
)

BUILDING = (calls, expressions, several)
"""The modules that say how a tree becomes a node."""


class Database:
    """Tables that statements read and make; ``ask`` answers AI_COMPLETE with a text or an object, and an error."""

    def __init__(
        self,
        tables: Data,
        ask: Callable[[str], tuple[Any, str | None]] | None = None,
        *,
        missing: Any = JSON_NULL,
        read_as: Reading = PLAIN,
    ) -> None:
        self.ask, self.reading = ask, read_as
        self.tables: dict[str, tuple[dict[str, SqlType], list[Row]]] = {}
        for name, table in tables.items():
            relation = held(*table, missing)
            self.tables[name.upper()] = relation.columns, relation.run({})

    def run(self, script: str) -> None:
        """Run statements in their order."""
        with localcontext(EXACT), reading(self.reading):
            for tree in statements(script):
                if isinstance(tree, exp.Create) and tree.kind == "TABLE":
                    self._create(tree)
                elif isinstance(tree, exp.Insert):
                    self._insert(tree)
                else:
                    raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """A table's rows."""
        return [tuple(row.values()) for row in self.tables[name.upper()][1]]

    def _query(self, tree: exp.Expr) -> tuple[dict[str, SqlType], list[Row]]:
        known = {name: _relation(*table) for name, table in self.tables.items()}
        relation = compiled(tree, Environment(known, compiled, self.ask))
        return relation.columns, relation.run({})

    def _create(self, tree: exp.Create) -> None:
        given = {key for key, value in tree.args.items() if value}
        if given - {"this", "kind", "expression", "replace", "exists"} or tree.args.get("clone"):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        shape = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(tree.this.this if shape else tree.this)
        if name in self.tables and not tree.args.get("replace"):
            if tree.args.get("exists"):
                return
            raise SnowflakeError(f"Object {name} already exists")
        query = tree.args.get("expression")
        if (shape is None) is (query is None):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        if query is not None:
            columns, made = self._query(query)
            if any(label.startswith("$") for label in columns):
                raise SnowflakeError("missing column specification")
            self.tables[name] = {label: VARCHAR if kind == NULL else kind for label, kind in columns.items()}, made
            return
        if any(not isinstance(column, exp.ColumnDef) or column.constraints for column in tree.this.expressions):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        self.tables[name] = {name_of(column): sql_type(column.args["kind"]) for column in tree.this.expressions}, []

    def _insert(self, tree: exp.Insert) -> None:
        if not isinstance(tree.this, exp.Schema) or {key for key, value in tree.args.items() if value} - {
            "this",
            "expression",
        }:
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        columns, kept = self.tables[table_name(tree.this.this)]
        names = [name_of(column) for column in tree.this.expressions]
        found, made = self._query(tree.expression)
        if len(names) != len(found) or set(names) - set(columns):
            raise SnowflakeError("INSERT: the columns differ from those of the query")
        taken = {
            name: coerced(Node(kind, lambda row, label=label: row[label]), columns[name], "INSERT")  # type: ignore[misc]
            for name, (label, kind) in zip(names, found.items(), strict=True)
        }
        kept += [{name: taken[name].value(row) if name in taken else None for name in columns} for row in made]


def _relation(columns: dict[str, SqlType], made: list[Row]) -> Relation:
    return Relation(columns, lambda _: made)
