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
from tests.standins.googlesql.values import from_value, kind, to_value

if TYPE_CHECKING:
    from tests.standins.googlesql.analyzer import GoogleSQL

Row = Sequence[Any] | Mapping[str, Any]
Data = Mapping[str, tuple[Mapping[str, str], Iterable[Row]]]
_READ = "rows_of_insert"
"""The table of what the query of an INSERT gave."""
_COLUMN_OF_TABLE = "Query Select SelectList SelectColumn PathExpression FromClause TablePathExpression PathExpression"
"""A query that reads a column of a table and does nothing else."""
_FEW, _MANY = 20, 1000
"""Rows up to which a statement reads a table from a parameter: one that is read for each row of another, and others."""
_FOR_EACH_ROW = frozenset({"ExpressionSubquery", "InExpression"})
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
        return self._run(self._parsed(text), "Query")

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
        made = self._run((raw, statement), "Modify")
        for row in made.rows:
            for (name, _), value in zip(into.columns, row, strict=True):
                if name in into.required and value.WhichOneof("value") is None:
                    raise GoogleSQLError(f"Required field {name} cannot be null")
        into.rows += made.rows
        self.written += len(made.rows)

    def _parsed(self, text: bytes) -> tuple[bytes, Node]:
        raw, (statement,) = self.oracle.parse(text.decode())
        return raw, statement

    def _run(self, parsed: tuple[bytes, Node], name: str) -> Table:
        raw, statement = parsed
        given = self._given(raw, statement)
        text, _ = splice(raw, statement.start, statement.end, given.edits)
        columns = {table: content.columns for table, content in given.tables.items()}
        schema = Schema(columns, variables=self.schema.variables).named_in(text)
        single = any(content.rows for content in given.tables.values())
        run = self._run_once if single else self._run_prepared
        try:
            found, content = run(name, text.decode(), schema, given)
        except EngineError as error:
            raise GoogleSQLError(error.message) from None
        if name == "Modify":
            return Table([], [list(row.cell) for row in content])
        return Table([(column.name, column.type) for column in found.columns], _rows(content))

    def _run_prepared(self, name: str, sql: str, schema: Schema, given: _Given) -> tuple[Any, Any]:
        """Run a statement whose rows are all parameters: it stays prepared for other rows."""
        registration = pb().service.RegisterCatalogRequest(simple_catalog=self._catalog(schema))
        for table in given.tables:
            registration.table_content[table].table_data.SetInParent()
        prepare = getattr(pb().service, f"Prepare{name}Request")(sql=sql, options=self.oracle.options)
        for parameter, (type_, _) in given.parameters.items():
            prepare.options.query_parameters.add(name=parameter, type=type_)
        values = {parameter: value for parameter, (_, value) in given.parameters.items()}
        return self.oracle.engine.run(name, registration, prepare, values)

    def _run_once(self, name: str, sql: str, schema: Schema, given: _Given) -> tuple[Any, Any]:
        """Run a statement with a catalog of its own: a registered one takes no rows with a request."""
        service = pb().service
        request = getattr(service, f"Evaluate{name}Request")(sql=sql, options=self.oracle.options)
        for parameter, (type_, value) in given.parameters.items():
            request.options.query_parameters.add(name=parameter, type=type_)
            request.params.add(name=parameter, value=value)
        request.simple_catalog.CopyFrom(self._catalog(schema))
        for table, content in given.tables.items():
            data = request.table_content[table].table_data
            data.SetInParent()
            for row in content.rows:
                data.row.add().cell.extend(row)
        reply = self.oracle.engine.call(f"Evaluate{name}", request, getattr(service, f"Evaluate{name}Response"))
        return reply.prepared, reply.content

    def _catalog(self, schema: Schema) -> Any:
        catalog = self.oracle.catalog()
        fill(catalog, schema)
        return catalog

    def _given(self, raw: bytes, statement: Node) -> _Given:
        """What the evaluator is given in the place of the session's tables."""
        given = _Given()
        names = {table: f"_t{number}" for number, table in enumerate(self.tables)}
        replaced: list[Node] = []
        contents: dict[str, Table] = {}
        for node in statement.walk():
            if any(above.holds(node) for above in replaced):
                continue
            if node.kind == "InExpression" and (values := self._searched(node)) is not None:
                replaced.append(node)
                value = node.children[0]
                given.search(node, raw[value.start : value.end], values, self.oracle.type_of("ARRAY<STRING>"))
            elif node.kind == "PathExpression" and node.field in ("path_expr", "target_path"):
                table = self._named(node)
                if table is None:
                    continue
                if node.field == "target_path":  # to add rows none are needed
                    given.tables[_WRITTEN] = replace(self.tables[table], rows=[])
                    given.edits.append(Edit(node.start, node.end, _WRITTEN.encode()))
                    continue
                if table not in contents:
                    contents[table] = self._content(table)
                few = _FEW if any(above.kind in _FOR_EACH_ROW for above in node.above()) else _MANY
                text = given.read(names[table], contents[table], few)
                if node.parent is not None and node.parent.get("alias") is None:
                    text += b" AS " + quoted(path_of(node)[-1:])
                given.edits.append(Edit(node.start, node.end, text))
        return given

    def _named(self, path: Node) -> str | None:
        """The table that a path names; None where it names a WITH entry."""
        names = path_of(path)
        return None if len(names) == 1 and names[0].lower() in _with_names(path) else self.schema.find(names)

    def _content(self, name: str) -> Table:
        """A table; the rows of a view are those of its query."""
        table = self.tables[name]
        return self.query(table.text) if isinstance(table, View) else table

    def _searched(self, node: Node) -> list[str] | None:
        """The sorted texts of ``column IN (SELECT column FROM table)``; None where the evaluator does it itself.

        It reads the whole table for each row, so that two tables of a thousand rows take seconds.
        """
        query, value = node.get("query"), node.get("lhs")
        if query is None or value is None or value.kind != "PathExpression" or node.value("is_not"):
            return None
        parts = [part for part in query.walk() if part.kind not in ("Identifier", "Alias")]
        if " ".join(part.kind for part in parts) != _COLUMN_OF_TABLE:
            return None
        table = self.tables.get(self._named(parts[-1]) or "")
        column = [name.lower() for name in path_of(parts[4])]
        if table is None or isinstance(table, View) or len(table.rows) <= _FEW:
            return None
        place = next((n for n, (name, _) in enumerate(table.columns) if [name.lower()] == column), None)
        alias = parts[-2].get("alias")
        known_as = str(alias.children[0].value("id_string")) if alias else path_of(parts[-1])[-1]
        if place is None or kind(table.columns[place][1]) != "STRING" or [known_as.lower()] == column:
            return None
        cells = [row[place] for row in table.rows]
        return (
            sorted({cell.string_value for cell in cells}) if all(cell.WhichOneof("value") for cell in cells) else None
        )


@dataclass
class _Given:
    """A statement's edits, its parameters with their types and values, and the tables of its catalog."""

    edits: list[Edit] = field(default_factory=list)
    parameters: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def read(self, name: str, table: Table, few: int) -> bytes:
        """What a table is read from: a parameter leaves the catalog as it is, but each of its rows takes longer."""
        if len(table.rows) > few:
            self.tables[name] = table
            return name.encode()
        kinds = pb().type
        type_ = kinds.TypeProto(type_kind=kinds.TYPE_ARRAY)
        type_.array_type.element_type.type_kind = kinds.TYPE_STRUCT
        for column, part in table.columns:
            type_.array_type.element_type.struct_type.field.add(field_name=column, field_type=part)
        value = pb().value.ValueProto()
        value.array_value.SetInParent()
        for row in table.rows:
            value.array_value.element.add().struct_value.field.extend(row)
        self.parameters[name] = (type_, value)
        return f"(SELECT * FROM UNNEST(@{name}))".encode()

    def search(self, node: Node, value: bytes, values: list[str], type_: Any) -> None:
        """Put a binary search in the place of an IN."""
        name = f"_in{len(self.parameters)}"
        self.parameters[name] = (type_, to_value(values, type_))
        place = b"SAFE_OFFSET(RANGE_BUCKET(" + value + b", @" + name.encode() + b") - 1)"
        found = b"IFNULL(@" + name.encode() + b"[" + place + b"] = " + value + b", FALSE)"
        self.edits.append(Edit(node.start, node.end, b"IF(" + value + b" IS NULL, NULL, " + found + b")"))


def _rows(content: Any) -> list[list[Any]]:
    return [list(row.cell) for row in content.table_data.row]


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
