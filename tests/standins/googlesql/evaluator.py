"""Running BigQuery SQL on in-memory tables with Google's reference evaluator.

The engine runs queries and INSERT. Around it, written here and therefore no proof of BigQuery's
own behaviour: CREATE TABLE [IF NOT EXISTS | OR REPLACE] [AS], an insert-only MERGE (run as INSERT
of the source rows without a match), an UPDATE of one table (run as a query: each value where the
condition holds, else the column), a DELETE from one table, CREATE FUNCTION (see functions.py),
CREATE VIEW (its query runs whenever it is read), DROP, TRUNCATE, DECLARE and SET, BEGIN, LOOP, IF,
BREAK and RAISE, and the AI calls. A
call of an AI function is answered for every row of its input, before the statement runs: a guard
such as IF around a scalar call does not save the call, and LIMIT does not limit it. Column
defaults and other MERGE clauses are refused as unsupported.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.standins.googlesql import calls, functions
from tests.standins.googlesql.answers import Reply, answer_calls
from tests.standins.googlesql.catalog import Schema
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.session import Data, Session, Table, View
from tests.standins.googlesql.syntax import Edit, Node, path_of, place_of, quoted, splice

if TYPE_CHECKING:
    from tests.standins.googlesql.analyzer import Analyzed, GoogleSQL

_CHANGED = "_changed_"  # stands beside a table's own columns
TRANSACTION = frozenset({"BeginStatement", "CommitStatement", "RollbackStatement"})


@dataclass(frozen=True)
class ScriptResult:
    """What a script left behind: every table by its dotted name, and each SELECT's rows."""

    tables: dict[str, list[dict[str, Any]]]
    results: list[list[tuple[Any, ...]]]


def set_variables(oracle: GoogleSQL, raw: bytes, statement: Node, schema: Schema, over: Session | None = None) -> None:
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
    session = over or Session(oracle, {})
    session.schema.variables = schema.variables
    query = f"SELECT CAST(({written}\n) AS {type_text})" if type_text else f"SELECT ({written}\n)"
    made = _query(session, query.encode())
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
    (statement,) = statements
    query = statement.get("query")
    if query is None:
        raise GoogleSQLError(f"{statement.kind} holds no query")
    failed: GoogleSQLError | None = None
    if statement.kind == "QueryStatement":  # the evaluator analyzes it
        try:
            return session.query(raw[query.start : query.end]).tuples()
        except GoogleSQLError as error:
            failed = error
    try:
        oracle.analyze_statement(raw, statement, session.schema)  # its error has the place in the caller's text
    except GoogleSQLError as error:
        raise _lines_up(error, added) from None
    if failed is not None:
        raise failed
    return session.query(raw[query.start : query.end]).tuples()


def _lines_up(error: GoogleSQLError, lines: int) -> GoogleSQLError:
    return GoogleSQLError(error.message, error.line and error.line - lines, error.column)


def evaluate_script(oracle: GoogleSQL, sql: str, data: Data, reply: Reply) -> ScriptResult:
    """See GoogleSQL.evaluate_script."""
    session = Session(oracle, data)
    try:
        results = run_statements(session, sql, reply)
    except Exception as error:  # what ran before it stays, as in BigQuery
        error.tables = {name: table.dicts() for name, table in session.tables.items()}  # type: ignore[attr-defined]
        raise
    tables = {name: table.dicts() for name, table in session.tables.items()}
    return ScriptResult(tables, [table.tuples() for table in results])


def run_statements(session: Session, sql: str, reply: Reply) -> list[Table]:
    """Run statements on a session's tables; the result of each SELECT."""
    results: list[Table] = []
    raw, statements = session.oracle.parse(sql)
    _run(session, raw, statements, reply, results)
    return results


class _BreakError(Exception):
    """BREAK or LEAVE inside of a loop."""


def _value(session: Session, raw: bytes, node: Node) -> Any:
    """The value of an expression over tables and variables."""
    ((value,),) = _query(session, b"SELECT (" + raw[node.start : node.end] + b"\n)").tuples()
    return value


def _query(session: Session, text: bytes) -> Table:
    """Run a query, which may call functions of the session."""
    oracle = session.oracle
    raw, (statement,) = oracle.parse(text.decode())
    text, parsed = functions.expanded(oracle, raw, statement, session.functions)
    return session.query(text[parsed.start : parsed.end])


def _body(node: Node | None) -> list[Node]:
    return node.all("statement_list") if node is not None else []


def _block(session: Session, raw: bytes, statement: Node, reply: Reply, results: list[Table]) -> bool:
    """Run BEGIN, LOOP, IF, BREAK and RAISE; whether the statement was one of them."""
    again = (reply, results)
    if statement.kind == "BeginEndBlock":
        try:
            _run(session, raw, _body(statement.get("statement_list_node")), *again)
        except _BreakError:
            raise
        except Exception as error:  # a refused call is an error of the job
            handlers = [node for node in statement.walk() if node.kind == "ExceptionHandler"]
            if not handlers:
                raise
            handler = raw[handlers[0].start : handlers[0].end].partition(b"THEN")[2]
            shown = json.dumps(str(getattr(error, "message", error))).encode()
            results += run_statements(session, handler.replace(b"@@error.message", shown).decode(), reply)
    elif statement.kind == "WhileStatement" and statement.get("condition") is None:
        try:
            while True:
                _run(session, raw, _body(statement.get("body")), *again)
        except _BreakError:
            pass
    elif statement.kind == "BreakStatement":
        raise _BreakError
    elif statement.kind == "IfStatement":
        clauses = statement.get("elseif_clauses")
        arms = [(statement.get("condition"), statement.get("then_list"))]
        arms += [(each.get("condition"), each.get("body")) for each in (clauses.children if clauses else [])]
        for condition, body in arms:
            assert condition is not None
            if _value(session, raw, condition) is True:
                _run(session, raw, _body(body), *again)
                break
        else:
            _run(session, raw, _body(statement.get("else_list")), *again)
    elif statement.kind == "RaiseStatement" and (message := statement.get("message")) is not None:
        raise GoogleSQLError(str(_value(session, raw, message)))
    else:
        return False
    return True


def _run(session: Session, raw: bytes, statements: list[Node], reply: Reply, results: list[Table]) -> None:
    oracle = session.oracle
    for statement in statements:
        if statement.kind in ("VariableDeclaration", "SingleAssignment"):
            set_variables(oracle, raw, statement, session.schema, session)
            continue
        if statement.kind in TRANSACTION or _block(session, raw, statement, reply, results):
            continue
        if statement.kind == "CreateFunctionStatement":
            functions.create(oracle, raw, statement, session.schema, session.functions)
            continue
        run = _STATEMENTS.get(statement.kind)
        if run is None:
            raise GoogleSQLError(f"not emulated: {statement.kind}", *place_of(raw, statement.start))
        text, parsed = functions.expanded(oracle, *_at_one_instant(oracle, raw, statement), session.functions)
        analyzed = oracle.analyze_statement(text, parsed, session.schema)
        text, answered = answer_calls(session, text[parsed.start : parsed.end], reply)
        _, (parsed,) = oracle.parse(text.decode())
        try:
            run(session, text, parsed, analyzed, results)
        finally:
            for name in answered:
                session.drop(name)


def _at_one_instant(oracle: GoogleSQL, raw: bytes, statement: Node) -> tuple[bytes, Node]:
    """The statement with the time of its start in the place of CURRENT_TIMESTAMP, where it asks a model.

    Such a statement is evaluated in two parts; BigQuery gives one time to all of it.
    """
    if not any(True for found in (calls.table_calls, calls.scalar_calls) for _ in found(statement)):
        return raw, statement
    now = f"TIMESTAMP_MICROS({time.time_ns() // 1000})".encode()
    edits = [
        Edit(node.start, node.end, now)
        for node in statement.walk()
        if node.kind == "FunctionCall" and raw[node.start : node.end].upper().startswith(b"CURRENT_TIMESTAMP")
    ]
    if not edits:
        return raw, statement
    text, _ = splice(raw, statement.start, statement.end, edits)
    _, (parsed,) = oracle.parse(text.decode())
    return text, parsed


Run = Callable[["Session", bytes, Node, "Analyzed", list[Table]], None]


def _select(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    results.append(session.query(text[statement.start : statement.end]))


def _create(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    path = analyzed.table or ()
    known = session.schema.find(path)
    if known and statement.value("is_if_not_exists"):
        return
    if known and not statement.value("is_or_replace"):
        raise GoogleSQLError(f"Already Exists: Table {'.'.join(path)}")
    listing, query = statement.get("table_element_list"), statement.get("query")
    constraints = list(listing.walk()) if listing else []
    if any(node.field == "default_expression" for node in constraints):
        raise GoogleSQLError("not emulated: column defaults")
    required = frozenset(
        str(name.value("id_string"))
        for column in (listing.all("elements") if listing else [])
        if (name := column.get("name")) and any(node.kind == "NotNullColumnAttribute" for node in column.walk())
    )
    made = session.query(text[query.start : query.end]) if query else Table([])
    if query and [type_ for _, type_ in made.columns] != [type_ for _, type_ in analyzed.columns]:
        raise GoogleSQLError("not emulated: a column list before AS with other types than those of the query")
    session.store(known or ".".join(path), Table(analyzed.columns, made.rows, required))


def _create_view(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    name, query = statement.get("name"), statement.get("query")
    if name is None or query is None or statement.get("column_list"):
        raise GoogleSQLError("not emulated: a view with a list of columns")
    path = path_of(name)
    known = session.schema.find(path)
    if known and not (statement.value("is_or_replace") and isinstance(session.tables[known], View)):
        raise GoogleSQLError(f"Already Exists: Table {'.'.join(path)}")
    read = text[query.start : query.end]
    session.store(known or ".".join(path), View(session.query(read).columns, text=read))


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


def _update(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    target, where, items = (statement.get(part) for part in ("target_path", "where", "update_item_list"))
    if statement.get("from_clause") or statement.get("alias") or not (target and where and items):
        raise GoogleSQLError("not emulated: UPDATE with FROM or an alias, or without WHERE")
    table = session.tables[_target(session, statement)]
    values: dict[str, bytes] = {}
    for item in items.children:
        part = item.get("set_value")
        path, value = (part.get("path"), part.get("value")) if part else (None, None)
        if path is None or value is None or len(path_of(path)) != 1:
            raise GoogleSQLError("not emulated: UPDATE of anything but whole columns")
        values[path_of(path)[0].lower()] = text[value.start : value.end]
    condition = text[where.start : where.end]
    # The condition is evaluated once a row, and a value where it holds: both may be slow.
    changed, alias = quoted([_CHANGED]), quoted(path_of(target)[-1:])
    columns = [
        b"IF(" + changed + b", " + values[name.lower()] + b"\n, " + quoted([name]) + b") AS " + quoted([name])
        if name.lower() in values
        else quoted([name])
        for name, _ in table.columns
    ]
    marked = b"SELECT *, (" + condition + b"\n) IS TRUE AS " + changed + b" FROM " + text[target.start : target.end]
    found = session.query(b"SELECT " + b", ".join([*columns, changed]) + b" FROM (" + marked + b") AS " + alias)
    session.written += sum(row[-1].bool_value for row in found.rows)
    table.rows[:] = [row[:-1] for row in found.rows]


def _delete(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    target, where = statement.get("target_path"), statement.get("where")
    if statement.get("alias") or not (target and where):
        raise GoogleSQLError("not emulated: DELETE with an alias, or without WHERE")
    table = session.tables[_target(session, statement)]
    condition = b"(" + text[where.start : where.end] + b"\n) IS TRUE AS " + quoted([_CHANGED])
    found = session.query(b"SELECT *, " + condition + b" FROM " + text[target.start : target.end])
    kept = [row[:-1] for row in found.rows if not row[-1].bool_value]
    session.written += len(found.rows) - len(kept)
    table.rows[:] = kept


def _drop(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    path = statement.get("name")
    name = session.schema.find(path_of(path)) if path else None
    dropped = {"kTable": Table, "kView": View}.get(str(statement.enum("schema_object_kind")))
    if dropped is None:
        raise GoogleSQLError("not emulated: DROP of anything but a table or a view")
    if name is not None and type(session.tables[name]) is not dropped:
        raise GoogleSQLError(f"Invalid value: {name} is not a {dropped.__name__.lower()}")
    if name is not None:
        session.drop(name)
    elif not statement.value("is_if_exists"):
        raise GoogleSQLError(f"Not found: Table {'.'.join(path_of(path)) if path else ''}")


def _truncate(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    session.tables[_target(session, statement)].rows.clear()


def _alter(session: Session, text: bytes, statement: Node, analyzed: Analyzed, results: Any) -> None:
    """The options of a table change none of its rows."""
    actions = statement.get("action_list")
    if actions is None or any(action.kind != "SetOptionsAction" for action in actions.all("actions")):
        raise GoogleSQLError("not emulated: ALTER TABLE of anything but options")


def _target(session: Session, statement: Node) -> str:
    path = statement.get("target_path")
    name = session.schema.find(path_of(path)) if path else None
    if name is None:
        raise GoogleSQLError(f"Not found: Table {'.'.join(path_of(path)) if path else ''}")
    return name


_STATEMENTS: dict[str, Run] = {
    "QueryStatement": _select,
    "CreateTableStatement": _create,
    "CreateViewStatement": _create_view,
    "InsertStatement": _insert,
    "MergeStatement": _merge,
    "UpdateStatement": _update,
    "DeleteStatement": _delete,
    "DropStatement": _drop,
    "TruncateStatement": _truncate,
    "AlterTableStatement": _alter,
}
