"""Running BigQuery SQL on in-memory tables with Google's reference evaluator.

The engine runs queries and INSERT. Around it, written here and therefore no proof of BigQuery's
own behaviour: CREATE TABLE [IF NOT EXISTS | OR REPLACE] [AS], an insert-only MERGE (run as INSERT
of the source rows without a match), DROP TABLE, TRUNCATE, DECLARE and SET, and the AI calls. A
call of an AI function is answered for every row of its input, before the statement runs: a guard
such as IF around a scalar call does not save the call, and LIMIT does not limit it. UPDATE,
DELETE, views, column defaults and other MERGE clauses are refused as unsupported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.standins.googlesql.answers import Reply, answer_calls
from tests.standins.googlesql.catalog import Schema
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.session import Data, Session, Table
from tests.standins.googlesql.syntax import Node, path_of, place_of, quoted

if TYPE_CHECKING:
    from tests.standins.googlesql.analyzer import Analyzed, GoogleSQL

TRANSACTION = frozenset({"BeginStatement", "CommitStatement", "RollbackStatement"})


@dataclass(frozen=True)
class ScriptResult:
    """What a script left behind: every table by its dotted name, and each SELECT's rows."""

    tables: dict[str, list[dict[str, Any]]]
    results: list[list[tuple[Any, ...]]]


def set_variables(oracle: GoogleSQL, raw: bytes, statement: Node, schema: Schema) -> None:
    """Run a DECLARE or SET: the variable becomes a constant for the statements that follow."""
    if statement.kind == "SingleAssignment":
        target, value = statement.get("variable"), statement.get("expression")
        name = str(target.value("id_string")) if target else ""
        if name not in schema.variables:
            raise GoogleSQLError(f"Undeclared variable: {name}", *place_of(raw, statement.start))
        names, type_text = [name], None
    else:
        listing, type_node, value = (statement.get(f) for f in ("variable_list", "type", "default_value"))
        names = [str(node.value("id_string")) for node in (listing.children if listing else [])]
        type_text = raw[type_node.start : type_node.end].decode() if type_node else None
    written = raw[value.start : value.end].decode() if value else "NULL"
    session = Session(oracle, {})
    session.schema.variables = schema.variables
    query = f"SELECT CAST(({written}\n) AS {type_text})" if type_text else f"SELECT ({written}\n)"
    made = session.query(query.encode())
    for name in names:
        known = schema.variables.get(name)
        if known is not None and made.columns[0][1] != known[0] and written != "NULL":
            raise GoogleSQLError(f"SET {name}: the value has another type", *place_of(raw, statement.start))
        schema.variables[name] = (known[0] if known else made.columns[0][1], made.rows[0][0])


def evaluate(oracle: GoogleSQL, sql: str, tables: Data) -> list[tuple[Any, ...]]:
    """See GoogleSQL.evaluate."""
    session = Session(oracle, tables)
    added = 0
    try:
        raw, statements = oracle.parse(sql)
    except GoogleSQLError as first:
        source = f"FROM {quoted(next(iter(tables)).split('.')).decode()}" if len(tables) == 1 else ""
        try:
            raw, statements = oracle.parse(f"SELECT\n{sql}\n{source}")
        except GoogleSQLError as error:
            second = _lines_up(error, 1)
            # Of the two readings the one that got further was meant.
            further = (second.line or 0, second.column or 0) > (first.line or 0, first.column or 0)
            raise (second if further else first) from None
        added = 1
    if len(statements) != 1:
        raise GoogleSQLError(f"one statement expected, {len(statements)} found")
    query = statements[0].get("query")
    if query is None:
        raise GoogleSQLError(f"{statements[0].kind} holds no query")
    try:
        oracle.analyze_statement(raw, statements[0], session.schema)
    except GoogleSQLError as error:
        raise _lines_up(error, added) from None
    return session.query(raw[query.start : query.end]).tuples()


def _lines_up(error: GoogleSQLError, lines: int) -> GoogleSQLError:
    return GoogleSQLError(error.message, error.line and error.line - lines, error.column)


def evaluate_script(oracle: GoogleSQL, sql: str, data: Data, reply: Reply) -> ScriptResult:
    """See GoogleSQL.evaluate_script."""
    session = Session(oracle, data)
    results: list[list[tuple[Any, ...]]] = []
    raw, statements = oracle.parse(sql)
    for statement in statements:
        if statement.kind in ("VariableDeclaration", "SingleAssignment"):
            set_variables(oracle, raw, statement, session.schema)
            continue
        if statement.kind in TRANSACTION:
            continue
        run = _STATEMENTS.get(statement.kind)
        if run is None:
            raise GoogleSQLError(f"not emulated: {statement.kind}", *place_of(raw, statement.start))
        analyzed = oracle.analyze_statement(raw, statement, session.schema)
        text, answered = answer_calls(session, raw[statement.start : statement.end], reply)
        _, (parsed,) = oracle.parse(text.decode())
        try:
            run(session, text, parsed, analyzed, results)
        finally:
            for name in answered:
                session.drop(name)
    return ScriptResult({name: table.dicts() for name, table in session.tables.items()}, results)


Run = Callable[["Session", bytes, Node, "Analyzed", list[list[tuple[Any, ...]]]], None]


def _select(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    results.append(session.query(text[statement.start : statement.end]).tuples())


def _create(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    path = analyzed.table or ()
    known = session.schema.find(path)
    if known and statement.value("is_if_not_exists"):
        return
    if known and not statement.value("is_or_replace"):
        raise GoogleSQLError(f"Already Exists: Table {'.'.join(path)}")
    listing, query = statement.get("table_element_list"), statement.get("query")
    constraints = list(listing.walk()) if listing else []
    if (listing and query) or any(node.field == "default_expression" for node in constraints):
        raise GoogleSQLError("not emulated: column defaults, and a column list before AS")
    required = frozenset(
        str(name.value("id_string"))
        for column in (listing.all("elements") if listing else [])
        if (name := column.get("name")) and any(node.kind == "NotNullColumnAttribute" for node in column.walk())
    )
    rows = session.query(text[query.start : query.end]).rows if query else []
    session.store(known or ".".join(path), Table(analyzed.columns, rows, required))


def _insert(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    session.insert(text[statement.start : statement.end], session.tables[_target(session, statement)])


def _merge(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    name = _target(session, statement)
    clauses = [node for node in statement.walk() if node.kind == "MergeWhenClause"]
    action = clauses[0].get("action")
    if (
        len(clauses) != 1
        or clauses[0].enum("match_type") != "NOT_MATCHED_BY_TARGET"
        or action is None
        or action.enum("action_type") != "INSERT"
    ):
        raise GoogleSQLError("not emulated: MERGE with other clauses than one WHEN NOT MATCHED THEN INSERT")

    def part(node: Node | None) -> bytes:
        return text[node.start : node.end] if node else b""

    target, alias = statement.get("target_path"), statement.get("alias")
    row, listing = action.get("insert_row"), action.get("insert_column_list")
    columns = [column for column, _ in session.tables[name].columns]
    if row is not None and row.all("values"):
        written = part(listing) or b"(" + b", ".join(quoted([column]) for column in columns) + b")"
        values = b", ".join(part(value) for value in row.all("values"))
    else:  # INSERT ROW
        written = b"(" + b", ".join(quoted([column]) for column in columns) + b")"
        values = b", ".join(quoted([column]) for column in columns)
    search = clauses[0].get("search_condition")
    condition = b" AND (" + part(search) + b"\n)" if search else b""
    session.insert(
        b"INSERT INTO " + part(target) + written + b"\nSELECT " + values
        + b"\nFROM " + part(statement.get("table_expression"))
        + b"\nWHERE NOT EXISTS (SELECT 1 FROM " + part(target) + b" " + part(alias)
        + b"\nWHERE " + part(statement.get("merge_condition")) + b"\n)" + condition,
        session.tables[name],
    )  # fmt: skip


def _drop(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    path = statement.get("name")
    name = session.schema.find(path_of(path)) if path else None
    if statement.enum("schema_object_kind") != "kTable":
        raise GoogleSQLError("not emulated: DROP of anything but a table")
    if name is not None:
        session.drop(name)
    elif not statement.value("is_if_exists"):
        raise GoogleSQLError(f"Not found: Table {'.'.join(path_of(path)) if path else ''}")


def _truncate(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    session.tables[_target(session, statement)].rows.clear()


def _target(session: Session, statement: Node) -> str:
    path = statement.get("target_path")
    name = session.schema.find(path_of(path)) if path else None
    if name is None:
        raise GoogleSQLError(f"Not found: Table {'.'.join(path_of(path)) if path else ''}")
    return name


_STATEMENTS: dict[str, Run] = {
    "QueryStatement": _select,
    "CreateTableStatement": _create,
    "InsertStatement": _insert,
    "MergeStatement": _merge,
    "DropStatement": _drop,
    "TruncateStatement": _truncate,
}
