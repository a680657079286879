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
_WRITTEN = "_written"
"""The table that an INSERT adds rows to, as the evaluator knows it."""


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
        # A registered catalog takes no rows with a request, so a statement reads tables from its parameters. The table
        # of an INSERT is in the catalog, without rows: none are needed to add some.
        parameters = {table: f"_t{number}" for number, table in enumerate(self.tables)}
        edits, written = self._places(statement, parameters)
        text, _ = splice(raw, statement.start, statement.end, edits)
        registration = service.RegisterCatalogRequest(simple_catalog=self.oracle.catalog())
        columns = {_WRITTEN: self.tables[written].columns} if written else {}
        fill(registration.simple_catalog, Schema(tables=columns, variables=self.schema.variables))
        for table in columns:
            registration.table_content[table].table_data.SetInParent()
        request = getattr(service, f"Evaluate{name}Request")(sql=text.decode(), options=self.oracle.options)
        for table, parameter in parameters.items():
            if f"@{parameter})".encode() in text:
                type_, value = self._parameter(self.tables[table])
                request.options.query_parameters.add(name=parameter, type=type_)
                request.params.add(name=parameter, value=value)
        response = getattr(service, f"Evaluate{name}Response")
        try:
            reply = self.oracle.engine.call_with(registration, method, request, response)
        except EngineError as error:
            raise GoogleSQLError(error.message) from None
        if name == "Modify":
            return Table([], [list(row.cell) for row in reply.content])
        given = [(column.name, column.type) for column in reply.prepared.columns]
        return Table(given, [list(row.cell) for row in reply.content.table_data.row])

    def _parameter(self, table: Table) -> tuple[Any, Any]:
        """A table as an array of its rows: the type and the value."""
        kinds = pb().type
        type_ = kinds.TypeProto(type_kind=kinds.TYPE_ARRAY)
        type_.array_type.element_type.type_kind = kinds.TYPE_STRUCT
        for name, part in table.columns:
            type_.array_type.element_type.struct_type.field.add(field_name=name, field_type=part)
        value = pb().value.ValueProto()
        value.array_value.SetInParent()
        for row in self.query(table.text).rows if isinstance(table, View) else table.rows:
            value.array_value.element.add().struct_value.field.extend(row)
        return type_, value

    def _places(self, statement: Node, parameters: Mapping[str, str]) -> tuple[list[Edit], str | None]:
        """Edits that put what the evaluator reads and writes in the place of tables, and the table that is written."""
        edits, written = [], None
        for node in statement.walk():
            if node.field not in ("path_expr", "target_path") or node.kind != "PathExpression":
                continue
            path = path_of(node)
            table = self.schema.find(path)
            if table is None or (len(path) == 1 and path[0].lower() in _with_names(node)):
                continue
            if node.field == "target_path":
                text, written = _WRITTEN.encode(), table
            else:
                text = f"(SELECT * FROM UNNEST(@{parameters[table]}))".encode()
                if node.parent is not None and node.parent.get("alias") is None:
                    text += b" AS " + quoted(path[-1:])
            edits.append(Edit(node.start, node.end, text))
        return edits, written


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
