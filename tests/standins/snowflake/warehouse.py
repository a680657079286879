"""Snowflake's statements as jobs, before the interpreter: ids, tags, history, cancelling, EXPLAIN, DESCRIBE TABLE.

Tables are in memory. A statement runs in a thread of its own, so it goes on when its client is gone. One that calls the
model asks all its prompts, is held for ``delay_s``, and then stores its rows at once, or none.

What it says of the service is the behaviour that snowflake-connector-python expects, and these pages:
https://docs.snowflake.com/en/sql-reference/functions/query_history, .../functions/system_cancel_query, .../sql/explain,
.../sql/desc-table; read 2026-11-22.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tests.standins.control import Denied, denied_table
from tests.standins.snowflake.calls import Model
from tests.standins.snowflake.objects import Objects, Parameters, answered
from tests.standins.snowflake.parsing import statements, table_name
from tests.standins.snowflake.query import held
from tests.standins.snowflake.scope import Row
from tests.standins.snowflake.script import Database
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    JSON_NULL,
    PLAIN,
    TIMESTAMP,
    VARCHAR,
    Reading,
    SnowflakeError,
    SqlType,
    json_text,
)

ORGANISATION, ACCOUNT = "ORG", "STANDIN"
CANCELLED = "SQL execution canceled"
HELD_S = 0.02
"""How often a statement that is held looks at ``delay_s``."""
CODES = (
    (CANCELLED, 604, "57014"),
    ("Insufficient privileges", 3001, "42501"),
    ("does not have a current database", 90105, "22000"),
    ("does not exist", 2003, "42S02"),
    ("Processing aborted", 603, "XX000"),
    ("", 1003, "42000"),
)
"""Part of a message, its number, its SQLSTATE; the first that matches."""
HISTORY, POLICIES = "INFORMATION_SCHEMA.QUERY_HISTORY", "INFORMATION_SCHEMA.POLICY_REFERENCES"
DATABASE = "$DATABASE"
"""What a session has as its current database, beside its parameters."""
_POLICY = re.compile(
    r"(?is)ALTER TABLE ([\w.]+) (?:MODIFY COLUMN \w+ SET|ADD) (MASKING|ROW ACCESS) POLICY (\w+)(?: ON \(\w+\))?"
)
"""https://docs.snowflake.com/en/sql-reference/sql/alter-table, read 2026-11-25."""
USAGE = "SNOWFLAKE.ACCOUNT_USAGE.CORTEX_AI_FUNCTIONS_USAGE_HISTORY"
"""https://docs.snowflake.com/en/sql-reference/account-usage/cortex_ai_functions_usage_history, read 2026-11-22. Here it
does not lag, and a credit is a million tokens."""
_EXPLAIN = re.compile(r"(?is)\s*EXPLAIN\s+(?:USING\s+\w+\s+)?(.*)")
_MODEL = "AI_COMPLETE"

CATCHING = re.compile(
    r"\s*EXECUTE IMMEDIATE \$\$\s*BEGIN\s(.*);\s*RETURN '';\s*EXCEPTION\s+WHEN OTHER THEN RETURN SQLERRM;\s*END\s*\$\$",
    re.DOTALL,
)
"""A block of one statement that returns the message of its failure."""
Answer = Callable[[str], tuple[Any, str | None]]
"""A prompt to a text or an object, and an error."""


@dataclass(frozen=True)
class Result:
    """The rows of a statement; ``inserted`` is set for one that changes a table."""

    columns: Mapping[str, SqlType]
    rows: Sequence[Sequence[Any]]
    changed: bool = False


@dataclass
class Statement:
    """A statement that was submitted."""

    id: str
    sql: str
    tag: str
    request_id: str
    session: Parameters
    """The parameters of its session."""
    done: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    aborted: threading.Event = field(default_factory=threading.Event)
    result: Result | None = None
    error: str = ""

    @property
    def status(self) -> str:
        """The word of Snowflake's history."""
        return "RUNNING" if not self.done.is_set() else "FAILED_WITH_ERROR" if self.error else "SUCCESS"

    @property
    def code(self) -> tuple[int, str]:
        """The number and the SQLSTATE of its error."""
        return next((number, state) for part, number, state in CODES if part in self.error)


class Warehouse:
    """Tables, and the statements that were submitted."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.delay_s, self.poison = answer, 0.0, ""
        self.model: Model | None = None
        self.fails: Callable[[], bool] = lambda: False
        self.fails_after: Callable[[], bool] = lambda: False
        """Whether a statement fails after it has asked."""
        self.history_late_s = 0.0
        """How long a statement is missing from the history."""
        self.running_as = "RUNNING"
        self.calls: list[dict[str, Any]] = []
        self.statements: dict[str, Statement] = {}
        self.usage_granted = True
        self.denied: Denied = {}
        self._policies: list[tuple[str, str, str]] = []
        """Table, kind and name of each policy that is set."""
        self._usage: list[Row] = []
        self._by_request: dict[str, Statement] = {}
        self._tables = Database({}).tables
        self._views: dict[str, exp.Expr] = {}
        self._schemas: set[str] = set()
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all tables, views and schemas."""
        with self._lock:
            for objects in (self._tables, self._views, self._schemas):
                objects.clear()
            self._policies.clear()

    def put(self, name: str, columns: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> None:
        """Make a table of Python's values; types as in CREATE TABLE."""
        relation = held(columns, rows, JSON_NULL)
        with self._lock:
            self._tables[name.upper()] = dict(relation.columns), relation.run({})

    def tables(self) -> list[str]:
        """The names of all tables."""
        with self._lock:
            return sorted(self._tables)

    def submit(self, sql: str, tag: str, request_id: str, session: Parameters) -> Statement:
        """Start a statement. A request that was repeated is started once."""
        with self._lock:
            if known := self._by_request.get(request_id):
                return known
            statement = Statement(str(uuid.uuid4()), sql, tag, request_id, session)
            self.statements[statement.id] = statement
            if request_id:
                self._by_request[request_id] = statement
        threading.Thread(target=self._work, args=(statement,), daemon=True).start()
        return statement

    def _work(self, statement: Statement) -> None:
        try:
            statement.result = self._result(statement)
        except SnowflakeError as error:
            statement.error = str(error)
        except KeyError as error:  # a table that is no one's
            statement.error = f"SQL compilation error:\nObject {error} does not exist or not authorized."
        except Exception as error:
            statement.error = f"Processing aborted by an error of the stand-in: {type(error).__name__}: {error}"
        finally:
            statement.seconds = time.monotonic() - statement.began
            statement.done.set()

    def _result(self, statement: Statement) -> Result:
        sql = statement.sql
        if name := denied_table(sql, self.denied):
            raise SnowflakeError(f"SQL access control error:\nInsufficient privileges to operate on table '{name}'")
        if (set_ := _POLICY.fullmatch(sql.strip())) is not None:
            self._policies.append((set_[1].upper(), f"{set_[2].upper()}_POLICY".replace(" ", "_"), set_[3].upper()))
            return _told("Statement executed successfully.")
        if (block := CATCHING.match(sql)) is not None:
            inner = replace(statement, sql=block[1].replace("$\\u0024", "$$"))
            try:
                self._result(inner)
            except SnowflakeError as error:
                if statement.aborted.is_set():
                    raise
                return Result({"anonymous block": VARCHAR}, [[str(error)]])
            return Result({"anonymous block": VARCHAR}, [[""]])
        with self._lock:
            found = answered(sql, statement.session, Objects(self._tables, self._views, self._schemas))
        if found is not None:
            return Result(dict.fromkeys(found[0], VARCHAR), found[1])
        explained = _EXPLAIN.match(sql)
        trees = statements(explained[1] if explained else sql)
        if len(trees) != 1:
            raise SnowflakeError(f"Actual statement count {len(trees)} did not match the desired statement count 1.")
        tree = trees[0].transform(lambda node: self._system(node, statement.session))
        if explained:
            self._compile(tree)
            return _told("GlobalStats")
        if any(call.name.upper() == _MODEL for call in tree.find_all(exp.Anonymous)):
            return self._with_model(tree, statement)
        with self._lock:
            if isinstance(tree, exp.Describe):
                return self._described(tree)
            database = self._database()
            database.reading = self._reading(statement)
            return self._run(tree, database)

    def _with_model(self, tree: exp.Expr, statement: Statement) -> Result:
        """Run on a copy of the tables: other statements go on. Then store what was inserted."""
        if self.fails():
            raise SnowflakeError("Processing aborted by error 300010:391167117; incident 1")
        with self._lock:
            copied = self._database(
                {name: (columns, [dict(row) for row in rows]) for name, (columns, rows) in self._tables.items()}
            )
        copied.reading = self._reading(statement)
        tokens = [0, 0]

        def ask(prompt: str) -> tuple[Any, str | None]:
            answer, error = self._ask(prompt)
            if error is None:
                tokens[0] += len(prompt)
                tokens[1] += len(str(answer))
            return answer, error

        copied.ask = ask if self.model is None else Model(self._ask_model)
        into = table_name(tree.this.this) if isinstance(tree, exp.Insert) else ""
        before = len(copied.tables[into][1]) if into else 0
        result = self._run(tree, copied)
        began = time.monotonic()
        while time.monotonic() < began + self.delay_s and not statement.aborted.wait(HELD_S):
            pass  # a test that changes the delay ends it
        if statement.aborted.is_set():
            raise SnowflakeError(CANCELLED)
        with self._lock:
            self._usage.append(_used(statement, *tokens))
        if self.fails_after():
            raise SnowflakeError("Processing aborted by error 300010:391167117; incident 2")
        if into:
            with self._lock:
                self._tables[into][1].extend(copied.tables[into][1][before:])
        return result

    def _reading(self, statement: Statement) -> Reading:
        return replace(PLAIN, behind_utc_h=0) if statement.session.get("TIMEZONE") == "UTC" else PLAIN

    def _ask(self, prompt: str) -> tuple[Any, str | None]:
        self._asked(prompt)
        return self.answer(prompt)

    def _ask_model(
        self, prompt: str, parameters: Mapping[str, Any], form: Mapping[str, Any] | None
    ) -> tuple[Any, str | None]:
        self._asked(prompt)
        assert self.model is not None
        return self.model.answer(prompt, parameters, form)

    def _asked(self, prompt: str) -> None:
        with self._lock:
            self.calls.append({"prompt": prompt, "at": time.time()})
        if self.poison and self.poison in prompt:
            raise SnowflakeError("Processing aborted by error 300010:391167117; the model failed")

    def _database(self, tables: Any = None) -> Database:
        database = Database({}, self.answer)
        database.tables = self._tables if tables is None else tables
        database.views = self._views
        return database

    def _run(self, tree: exp.Expr, database: Database) -> Result:
        if isinstance(tree, exp.Query):
            names = ("REF_ENTITY_NAME", "POLICY_KIND", "POLICY_NAME")
            set_ = dict.fromkeys(names, VARCHAR), [dict(zip(names, row, strict=True)) for row in self._policies]
            database.tables = {**database.tables, POLICIES: set_}
            if any(table_name(table) == HISTORY for table in tree.find_all(exp.Table)):
                database.tables[HISTORY] = self._history()  # of all statements, which become many
            if self.usage_granted:
                database.tables[USAGE] = dict(_USED), list(self._usage)
            columns, rows = database.query(tree)
            return Result(columns, [[row[name] for name in columns] for row in rows])
        if isinstance(tree, exp.Insert | exp.Update | exp.Delete):
            words = {exp.Insert: "inserted", exp.Update: "updated", exp.Delete: "deleted"}[type(tree)]
            table = database.tables[table_name(tree.this.this if isinstance(tree, exp.Insert) else tree.this)][1]
            before = [dict(row) for row in table]
            database.execute(tree)
            changed = len(table) - len(before) or sum(a != b for a, b in zip(before, table, strict=True))
            return Result({f"number of rows {words}": SqlType("NUMBER")}, [[changed]], changed=True)
        database.execute(tree)
        anew = tree.this.find(exp.Table) if isinstance(tree, exp.Create) and tree.args.get("replace") else None
        name = "" if anew is None else table_name(anew)  # what is made anew, and what is gone, has no policies
        self._policies = [one for one in self._policies if one[0] != name and one[0] in self._tables]
        return _told("Table successfully created.")

    def _compile(self, tree: exp.Expr) -> None:
        inner = tree.args.get("expression") if isinstance(tree, exp.Insert | exp.Create) else tree
        with self._lock:
            if isinstance(tree, exp.Insert) and table_name(tree.this.this) not in self._tables:
                raise SnowflakeError(f"Object {table_name(tree.this.this)} does not exist")
            if isinstance(inner, exp.Query):
                self._database().compile(inner)

    def _described(self, tree: exp.Describe) -> Result:
        name = table_name(tree.this)
        columns = self._database().compile(self._views[name]).columns if name in self._views else None
        if columns is None and name not in self._tables:
            raise SnowflakeError(f"SQL compilation error:\nTable '{name}' does not exist or not authorized.")
        written = {"VARCHAR": "VARCHAR(16777216)", "TIMESTAMP_NTZ": "TIMESTAMP_NTZ(9)"}
        rows = [
            [column, written.get(kind.name, str(kind).replace(" ", "")), "COLUMN", "Y"]
            for column, kind in (columns or self._tables[name][0]).items()
        ]
        return Result(dict.fromkeys(("name", "type", "kind", "null?"), VARCHAR), rows)

    def _history(self) -> tuple[dict[str, SqlType], list[Row]]:
        columns = dict.fromkeys(("QUERY_ID", "QUERY_TAG", "QUERY_TEXT", "EXECUTION_STATUS"), VARCHAR)
        seen = time.monotonic() - self.history_late_s
        listed = [each for each in list(self.statements.values()) if each.began <= seen]
        found = [
            (each.id, each.tag, each.sql, each.status if each.done.is_set() else self.running_as) for each in listed
        ]
        return columns, [dict(zip(columns, row, strict=True)) for row in found]

    def _system(self, node: exp.Expr, session: Parameters) -> exp.Expr:
        """Replace the functions of the service by their values, and its history by a table."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Anonymous) and node.this.name.upper() == "TABLE":
            return self._information(node.this, session)
        if not isinstance(node, exp.Anonymous):
            return node
        match node.name.upper():
            case "CURRENT_ORGANIZATION_NAME":
                return exp.Literal.string(ORGANISATION)
            case "CURRENT_ACCOUNT_NAME":
                return exp.Literal.string(ACCOUNT)
            case "SYSTEM$CANCEL_QUERY":
                return exp.Literal.string(self.cancel(str(node.expressions[0].name)))
        return node

    def _information(self, call: exp.Anonymous, session: Parameters) -> exp.Expr:
        """The table that stands for a table function of INFORMATION_SCHEMA, which needs a database."""
        written = call.expressions[0].sql("snowflake")
        if written.upper().startswith("INFORMATION_SCHEMA") and not session.get(DATABASE):
            raise SnowflakeError("Cannot perform SELECT. This session does not have a current database.")
        if "POLICY_REFERENCES" not in written.upper():
            return exp.to_table(HISTORY, dialect="snowflake")
        name = written.partition("REF_ENTITY_NAME => '")[2].partition("'")[0].upper()
        found = exp.select("policy_kind", "policy_name").from_(exp.to_table(POLICIES, dialect="snowflake"))
        return found.where(exp.column("ref_entity_name").eq(name)).subquery("p")

    def cancel(self, id: str) -> str:
        """Cancel a statement and give the text of SYSTEM$CANCEL_QUERY."""
        statement = self.statements.get(id)
        if statement is None:
            raise SnowflakeError(f"Invalid UUID or unknown query {id}")
        if statement.done.is_set():
            return "Identified SQL statement is not currently executing."
        statement.aborted.set()
        return "query [" + id + "] terminated."


def wire(value: Any, kind: SqlType) -> str | None:
    """A value as a JSON row has it: dates in days, times in seconds since 1970, semi-structured values as JSON."""
    if value is None:
        return None
    match kind.name:
        case "BOOLEAN":
            return "1" if value else "0"
        case "DATE":
            return str((value - dt.date(1970, 1, 1)).days)
        case "TIMESTAMP_NTZ":
            since = value - dt.datetime(1970, 1, 1)
            return f"{since.days * 86400 + since.seconds}.{since.microseconds:06d}000"
        case "VARIANT" | "ARRAY" | "OBJECT":
            return json_text(value)
    return str(value)


_USED = {
    "START_TIME": TIMESTAMP,
    "END_TIME": TIMESTAMP,
    "FUNCTION_NAME": VARCHAR,
    "MODEL_NAME": VARCHAR,
    "QUERY_ID": VARCHAR,
    "QUERY_TAG": VARCHAR,
    "METRICS": ARRAY,
    "CREDITS": SqlType("NUMBER", 9),
    "IS_COMPLETED": BOOLEAN,
}


def _used(statement: Statement, tokens_in: int, tokens_out: int) -> Row:
    """The line of a statement in the view of usage: its hour, its tokens."""
    hour = dt.datetime.now(dt.UTC).replace(tzinfo=None, minute=0, second=0, microsecond=0)
    metrics = [
        {"key": {"metric": metric, "unit": "tokens"}, "value": Decimal(count)}
        for metric, count in (("input", tokens_in), ("output", tokens_out))
    ]
    values = (hour, hour + dt.timedelta(hours=1), _MODEL, "", statement.id, statement.tag, metrics)
    return dict(zip(_USED, (*values, Decimal(tokens_in + tokens_out).scaleb(-6), True), strict=True))


def _told(text: str) -> Result:
    return Result({"status": VARCHAR}, [[text]])
