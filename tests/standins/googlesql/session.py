"""In-memory tables, and queries run on them by Google's reference evaluator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.standins.googlesql.catalog import Columns, Schema, fill
from tests.standins.googlesql.engine import EngineError, pb
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.functions import Functions
from tests.standins.googlesql.syntax import Edit, Node, path_of, quoted, splice
from tests.standins.googlesql.values import from_value, to_value

if TYPE_CHECKING:
    from tests.standins.googlesql.analyzer import GoogleSQL

Row = Sequence[Any] | Mapping[str, Any]
Data = Mapping[str, tuple[Mapping[str, str], Iterable[Row]]]
_READ = "rows_of_insert"
"""The table of what the query of an INSERT gave."""


@dataclass
class Table:
    """A table's columns and rows, the rows as lists of the engine's values."""

    columns: Columns
    rows: list[list[Any]] = field(default_factory=list)
    required: frozenset[str] = frozenset()

    def tuples(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        types = [type_ for _, type_ in self.columns]
        return [tuple(map(from_value, row, types)) for row in self.rows]

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as Python values by the columns' names."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.tuples()]


@dataclass
class View(Table):
    """A view: its rows are those of its query whenever a statement reads it. The query names tables in full."""

    text: bytes = b""


class Session:
    """Tables and variables while statements run."""

    def __init__(self, oracle: GoogleSQL, data: Data) -> None:
        self.oracle = oracle
        self.tables: dict[str, Table] = {}
        self.functions: Functions = {}
        self.schema = Schema(models=None)
        self.written = 0
        """The rows that INSERT, MERGE and UPDATE wrote."""
        for name, (types, rows) in data.items():
            columns = [(column, oracle.type_of(text)) for column, text in types.items()]
            self.store(name, Table(columns, [_cells(row, columns) for row in rows]))

    def store(self, name: str, table: Table) -> None:
        self.tables[name] = table
        self.schema.tables[name] = table.columns

    def drop(self, name: str) -> None:
        del self.tables[name], self.schema.tables[name]

    def query(self, text: bytes) -> Table:
        """Run one query whose tables are written as they are stored."""
        return self._run(self._parsed(text), "EvaluateQuery", "Query")

    def insert(self, text: bytes, into: Table) -> None:
        """Run one INSERT and add its rows.

        BigQuery takes WITH in its query, the evaluator does not: such a query is evaluated before.
        """
        raw, statement = self._parsed(text)
        read = statement.get("query")
        if read is not None and read.get("with_clause") is not None:
            found = self.query(raw[read.start : read.end])
            named = [(f"column_{number}", type_) for number, (_, type_) in enumerate(found.columns)]
            self.store(_READ, replace(found, columns=named))
            try:
                self.insert(raw[: read.start] + f"SELECT * FROM {_READ}".encode(), into)
            finally:
                self.drop(_READ)
            return
        made = self._run((raw, statement), "EvaluateModify", "Modify")
        for row in made.rows:
            for (name, _), value in zip(into.columns, row, strict=True):
                if name in into.required and value.WhichOneof("value") is None:
                    raise GoogleSQLError(f"Required field {name} cannot be null")
        into.rows += made.rows
        self.written += len(made.rows)

    def _parsed(self, text: bytes) -> tuple[bytes, Node]:
        raw, (statement,) = self.oracle.parse(text.decode())
        return raw, statement

    def _run(self, parsed: tuple[bytes, Node], method: str, name: str) -> Table:
        raw, statement = parsed
        service = pb().service
        # The service gives rows only to tables of the root catalog, so each table gets a name there.
        roots = {table: f"_t{number}" for number, table in enumerate(self.tables)}
        text, _ = splice(raw, statement.start, statement.end, self._root_names(statement, roots))
        request = getattr(service, f"Evaluate{name}Request")(sql=text.decode(), options=self.oracle.options)
        request.simple_catalog.CopyFrom(self.oracle.catalog())
        used = {table: root for table, root in roots.items() if root.encode() in text}
        columns = {root: self.tables[table].columns for table, root in used.items()}
        fill(request.simple_catalog, Schema(tables=columns, variables=self.schema.variables))
        for table, root in used.items():
            content = request.table_content[root].table_data
            content.SetInParent()
            read = self.tables[table]
            for row in self.query(read.text).rows if isinstance(read, View) else read.rows:
                content.row.add().cell.extend(row)
        try:
            reply = self.oracle.engine.call(method, request, getattr(service, f"Evaluate{name}Response"))
        except EngineError as error:
            raise GoogleSQLError(error.message) from None
        if name == "Modify":
            return Table([], [list(row.cell) for row in reply.content])
        given = [(column.name, column.type) for column in reply.prepared.columns]
        return Table(given, [list(row.cell) for row in reply.content.table_data.row])

    def _root_names(self, statement: Node, roots: Mapping[str, str]) -> list[Edit]:
        edits = []
        for node in statement.walk():
            if node.field not in ("path_expr", "table_path", "target_path") or node.kind != "PathExpression":
                continue
            path = path_of(node)
            table = self.schema.find(path)
            if table is None or (len(path) == 1 and path[0].lower() in _with_names(node)):
                continue
            text = f"`{roots[table]}`".encode()
            if node.field == "path_expr" and node.parent is not None and node.parent.get("alias") is None:
                text += b" AS " + quoted(path[-1:])
            edits.append(Edit(node.start, node.end, text))
        return edits


def _with_names(node: Node) -> set[str]:
    """The names, in lower case, of the WITH entries that a table path can see."""
    names = set()
    for entry in visible_entries(node):
        alias = entry.get("alias")
        names.add(str(alias.value("id_string")).lower() if alias else "")
    return names


def visible_entries(node: Node) -> list[Node]:
    """The WITH entries in scope at a node, outermost first."""
    found: list[Node] = []
    for query in node.above():
        clause = query.get("with_clause") if query.kind == "Query" else None
        if clause is None:
            continue
        entries = clause.all("with")
        if clause.holds(node) and not clause.value("recursive"):
            entries = [entry for entry in entries if entry.end <= node.start]
        found = entries + found
    return found


def _cells(row: Row, columns: Columns) -> list[Any]:
    if isinstance(row, Mapping):
        if unknown := set(row) - {name for name, _ in columns}:
            raise ValueError(f"no column {', '.join(sorted(unknown))}")
        row = [row.get(name) for name, _ in columns]
    return [to_value(value, type_) for value, (_, type_) in zip(row, columns, strict=True)]
