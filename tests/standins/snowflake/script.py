"""Scripts: CREATE TABLE, with columns or AS a query, CREATE VIEW, INSERT of rows or of a query, UPDATE and DELETE.

https://docs.snowflake.com/en/sql-reference/sql/create-table, .../create-view, .../insert and .../update, from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import localcontext
from typing import Any

from sqlglot import exp

from tests.standins.snowflake import calls, expressions, several, subqueries, times
from tests.standins.snowflake.blocks import IMMEDIATE, Block
from tests.standins.snowflake.functions import SqlFunction, made
from tests.standins.snowflake.nodes import Node, coerced
from tests.standins.snowflake.parsing import name_of, parse, sql_type, statements, table_name
from tests.standins.snowflake.query import Data, compiled, held
from tests.standins.snowflake.scope import Environment, Relation, Row
from tests.standins.snowflake.values import (
    EXACT,
    JSON_NULL,
    NULL,
    NUMBER,
    PLAIN,
    VARCHAR,
    Reading,
    SnowflakeError,
    SqlType,
    reading,
)

PROPERTIES = {exp.ClusterProperty, exp.CopyGrantsProperty, exp.TransientProperty, exp.TemporaryProperty}
"""What changes nothing of a table's rows. A temporary table stays until it is dropped."""
OBJECTS = {"TABLE", "VIEW"}
BUILDING = (calls, expressions, several, subqueries, times)
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
        self.functions: dict[str, SqlFunction] = {}
        self.tables: dict[str, tuple[dict[str, SqlType], list[Row]]] = {}
        self.views: dict[str, exp.Expr] = {}
        for name, table in tables.items():
            relation = held(*table, missing)
            self.tables[name.upper()] = relation.columns, relation.run({})

    def run(self, script: str) -> None:
        """Run statements in their order."""
        with localcontext(EXACT), reading(self.reading):
            *parts, last = IMMEDIATE.split(script)
            for plain, block in zip(parts[::2], parts[1::2], strict=True):
                self._run(plain)
                Block(block, self._run, self._value).run()
            self._run(last)

    def _value(self, expression: str) -> Any:
        ((value,),) = [row.values() for row in self._query(parse(f"SELECT {expression} AS x"))[1]]
        return value

    def _run(self, script: str) -> None:
        for tree in statements(script):
            self._execute(tree)

    def execute(self, tree: exp.Expr) -> None:
        """Run one statement that was parsed."""
        with localcontext(EXACT), reading(self.reading):
            self._execute(tree)

    def query(self, tree: exp.Expr) -> tuple[dict[str, SqlType], list[Row]]:
        """The columns of a query that was parsed, and its rows."""
        with localcontext(EXACT), reading(self.reading):
            return self._query(tree)

    def _execute(self, tree: exp.Expr) -> None:
        if isinstance(tree, exp.Create) and tree.kind == "TABLE":
            self._create(tree)
        elif isinstance(tree, exp.Create) and tree.kind == "VIEW":
            self._create_view(tree)
        elif isinstance(tree, exp.Create) and tree.kind == "FUNCTION":
            name, function = made(tree)
            if name in self.functions and not tree.args.get("replace"):
                raise SnowflakeError(f"Object {name} already exists")
            self.functions[name] = function
        elif isinstance(tree, exp.Insert):
            self._insert(tree)
        elif isinstance(tree, exp.Update):
            self._update(tree)
        elif isinstance(tree, exp.Delete):
            self._delete(tree)
        elif isinstance(tree, exp.Drop) and tree.kind in OBJECTS and tree.args.get("exists"):
            for table in tree.args["tables"]:
                self._drop(tree.kind, table_name(table))
        elif isinstance(tree, exp.Query):
            self._query(tree)
        else:
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """A table's rows."""
        return [tuple(row.values()) for row in self.tables[name.upper()][1]]

    def _query(self, tree: exp.Expr) -> tuple[dict[str, SqlType], list[Row]]:
        relation = self._compiled(tree)
        return relation.columns, relation.run({})

    def _compiled(self, tree: exp.Expr, **changed: Relation) -> Relation:
        """A query over the tables and views, some of them changed."""
        known = {name: _relation(*table) for name, table in self.tables.items()}
        known |= {name: self._compiled(self.views[name]) for name in _read(tree) & self.views.keys()} | changed
        return compiled(tree, Environment(known, compiled, self.ask, self.functions))

    def compile(self, tree: exp.Expr) -> Relation:
        """The columns of a query that was parsed, and how it is run."""
        with localcontext(EXACT), reading(self.reading):
            return self._compiled(tree)

    def _drop(self, kind: str, name: str) -> None:
        self._must_be(kind, name)
        (self.tables if kind == "TABLE" else self.views).pop(name, None)

    def _must_be(self, kind: str, name: str) -> None:
        """An object of one kind takes no place of another, and is not dropped as one."""
        found = "VIEW" if name in self.views else "TABLE" if name in self.tables else kind
        if found != kind:
            raise SnowflakeError(f"SQL compilation error: Object {name} already exists as {found}")

    def _create_view(self, tree: exp.Create) -> None:
        given = {key for key, value in tree.args.items() if value}
        if given - {"this", "kind", "expression", "replace"} or not isinstance(tree.this, exp.Table):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        name = table_name(tree.this)
        self._must_be("VIEW", name)
        if name in self.views and not tree.args.get("replace"):
            raise SnowflakeError(f"Object {name} already exists")
        self._compiled(tree.expression)
        self.views[name] = tree.expression

    def _create(self, tree: exp.Create) -> None:
        given = {key for key, value in tree.args.items() if value}
        properties = {type(each) for each in (tree.args.get("properties") or exp.Properties()).expressions}
        unknown = given - {"this", "kind", "expression", "replace", "exists", "properties"} or properties - PROPERTIES
        if unknown or tree.args.get("clone"):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        shape = tree.this if isinstance(tree.this, exp.Schema) else None
        name = table_name(tree.this.this if shape else tree.this)
        self._must_be("TABLE", name)
        if name in self.tables and not tree.args.get("replace"):
            if tree.args.get("exists"):
                return
            raise SnowflakeError(f"Object {name} already exists")
        query = tree.args.get("expression")
        if shape is None:
            if query is None:
                raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
            columns, made = self._query(query)
            if any(label.startswith("$") for label in columns):
                raise SnowflakeError("missing column specification")
            self.tables[name] = {label: VARCHAR if kind == NULL else kind for label, kind in columns.items()}, made
            return
        if any(not isinstance(column, exp.ColumnDef) or column.constraints for column in shape.expressions):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        columns = {name_of(column): sql_type(column.args["kind"]) for column in shape.expressions}
        self.tables[name] = columns, [] if query is None else self._taken(query, columns, columns, "CREATE TABLE")

    def _insert(self, tree: exp.Insert) -> None:
        if not isinstance(tree.this, exp.Schema) or {key for key, value in tree.args.items() if value} - {
            "this",
            "expression",
            "overwrite",
        }:
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        columns, kept = self.tables[table_name(tree.this.this)]
        names = [name_of(column) for column in tree.this.expressions]
        queries = [tree.expression]
        if isinstance(tree.expression, exp.Values):
            # Each row as a query of its own: the types of the first hold for all in Snowflake, ours are equal.
            rows = [row.expressions for row in tree.expression.expressions]
            queries = [exp.select(*(exp.alias_(value, f"C{n}") for n, value in enumerate(row))) for row in rows]
        made = [row for query in queries for row in self._taken(query, names, columns, "INSERT")]
        kept[:] = [*([] if tree.args.get("overwrite") else kept), *made]

    def _taken(self, query: exp.Expr, names: Iterable[str], columns: dict[str, SqlType], where: str) -> list[Row]:
        """The rows of a query as those of a table, its columns in the order of ``names``."""
        found, made = self._query(query)
        names = list(names)
        if len(names) != len(found) or set(names) - set(columns):
            raise SnowflakeError(f"{where}: the columns differ from those of the query")
        taken = {
            name: coerced(Node(kind, lambda row, label=label: row[label]), columns[name], where)  # type: ignore[misc]
            for name, (label, kind) in zip(names, found.items(), strict=True)
        }
        return [{name: taken[name].value(row) if name in taken else None for name in columns} for row in made]

    def _delete(self, tree: exp.Delete) -> None:
        where = tree.args.get("where")
        if where is None or {key for key, value in tree.args.items() if value} - {"this", "where"}:
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        name = table_name(tree.this)
        columns, made = self.tables[name]
        place = exp.column(exp.to_identifier("$PLACE", quoted=True))
        numbered = _relation({**columns, "$PLACE": NUMBER}, [{**row, "$PLACE": n} for n, row in enumerate(made)])
        query = exp.select(place).from_(tree.this.copy()).where(where.this.copy())
        gone = {int(row["$PLACE"]) for row in self._compiled(query, **{name: numbered}).run({})}
        made[:] = [row for number, row in enumerate(made) if number not in gone]

    def _update(self, tree: exp.Update) -> None:
        """Every value is computed from the row before the update, as a query gives it."""
        if {key for key, value in tree.args.items() if value} - {"this", "expressions", "where"}:
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        name = table_name(tree.this)
        columns, made = self.tables[name]
        values = {name_of(each.this): each.expression for each in tree.expressions}
        if len(values) != len(tree.expressions) or set(values) - set(columns):
            raise SnowflakeError(f"UPDATE: unknown or repeated columns in {', '.join(values)}")
        where = tree.args.get("where")
        place = exp.column(exp.to_identifier("$PLACE", quoted=True))
        numbered = _relation({**columns, "$PLACE": NUMBER}, [{**row, "$PLACE": n} for n, row in enumerate(made)])
        query = exp.select(place, *(exp.alias_(value, f"C{n}") for n, value in enumerate(values.values())))
        query = query.from_(tree.this.copy()).where(where.this.copy() if where else exp.true())
        relation = self._compiled(query, **{name: numbered})
        kinds = list(relation.columns.items())[1:]
        for found in relation.run({}):
            taken = {
                label: coerced(Node(kind, lambda row, part=part: row[part]), columns[label], "UPDATE").value(found)  # type: ignore[misc]
                for label, (part, kind) in zip(values, kinds, strict=True)
            }
            made[int(found["$PLACE"])] |= taken


def _read(tree: exp.Expr) -> set[str]:
    return {table_name(table) for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)}


def _relation(columns: dict[str, SqlType], made: list[Row]) -> Relation:
    return Relation(columns, lambda _: made)
