"""Statements that run in threads on one Spark, and what is known of each afterwards."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from tests.standins import spark
from tests.standins.control import Denied, denied_table
from tests.standins.databricks.objects import Objects

Types = list[tuple[str, str]]
AS_THEY_ARE = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "binary", "string")
"""Spark types whose values are those of the wire; all others travel as text."""
CANCEL_EVERY_S = 0.05
ENDED_WITHIN_S = 20.0
_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
    "spark.sql.adaptive.enabled": "false",  # with it each shuffle is a job, and each plan is told several times
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""A task of a long statement takes one of Spark's two slots and can end between two batches: others go on beside it."""


_WRITES = re.compile(r"(?is)(?:\s|/\*.*?\*/|--[^\n]*\n)*(?:INSERT|CREATE)\b")
ASKS = "step:responses"
"""In the tags of a statement that asks."""


@dataclass
class Statement:
    """A statement, as the query history shows it."""

    sql: str
    tags: str
    session: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    secret: bytes = field(default_factory=lambda: uuid.uuid4().bytes)
    state: str = "RUNNING"
    error: str = ""
    types: Types = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    written: int | None = None
    fetched: int = 0
    started_ms: int = field(default_factory=lambda: int(time.time() * 1000))
    ended_ms: int | None = None
    cancelled: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def record(self) -> dict[str, Any]:
        """What the query history tells."""
        return {
            "query_id": str(self.id),
            "status": {"CANCELLED": "CANCELED"}.get(self.state, self.state),
            "query_text": self.sql,
            "query_tags": [{"key": key, "value": value} for key, value in _pairs(self.tags)],
            "query_start_time_ms": self.started_ms,
            "execution_end_time_ms": self.ended_ms,
            "rows_produced": len(self.rows),
            "is_final": self.ended.is_set(),
            **({"error_message": self.error} if self.error else {}),
        }


class Statements:
    """All statements of the process; each runs to its end, whatever becomes of its client."""

    def __init__(self) -> None:
        self._all: dict[uuid.UUID, Statement] = {}
        self._lock = threading.Lock()
        self._objects = Objects()
        self.fail_after: Callable[[], str] = lambda: ""
        self.history_late_s = 0.0
        self.denied: Denied = {}
        session = spark.spark_session()
        session.catalog.setCurrentCatalog("mem")
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)

    def start(self, sql: str, tags: str, session: str, fail: str = "") -> Statement:
        """Start one in a thread; with ``fail`` it fails with this message instead.

        One that asks the model fails with ``fail_after`` when it has asked.
        """
        made = Statement(sql, tags, session)
        with self._lock:
            self._all[made.id] = made
        work: Callable[[], None] = (lambda: _fail(made, fail)) if fail else (lambda: self._run(made))
        threading.Thread(target=work, name=f"statement {made.id}", daemon=True).start()
        return made

    def find(self, id: uuid.UUID, secret: bytes | None = None) -> Statement | None:
        """The statement with this id, and this secret where one is given."""
        found = self._all.get(id)
        return found if found is not None and secret in (None, found.secret) else None

    def history(self, ids: list[str], states: list[str]) -> list[Statement]:
        """The statements with one of these ids and statuses, the newest first."""
        seen = int((time.time() - self.history_late_s) * 1000)
        with self._lock:
            known = [one for one in self._all.values() if one.started_ms <= seen][::-1]
        return [
            one for one in known if (not ids or str(one.id) in ids) and (not states or one.record()["status"] in states)
        ]

    def cancel(self, statement: Statement) -> None:
        """Cancel one that runs, or that is still compiled and has no job yet."""

        def until_it_ends() -> None:
            while not statement.ended.wait(CANCEL_EVERY_S):
                spark.spark_session().sparkContext.cancelJobGroup(str(statement.id))

        if not statement.ended.is_set() and not statement.cancelled:
            statement.cancelled = True
            threading.Thread(target=until_it_ends, daemon=True).start()

    def is_cancelled(self, id: str | None) -> bool:
        """Whether the statement with this id is cancelled, and so asks nothing more."""
        found = self.find(uuid.UUID(id)) if id else None
        return found is not None and found.cancelled

    def end_all(self) -> None:
        """Cancel what runs and wait for its end: a test must not see the calls of the one before."""
        with self._lock:
            running = [one for one in self._all.values() if not one.ended.is_set()]
        for one in running:
            self.cancel(one)
        until = time.monotonic() + ENDED_WITHIN_S
        for one in running:
            one.ended.wait(max(0.0, until - time.monotonic()))

    def close_session(self, session: str) -> None:
        """Cancel what runs in a session, as a closed session does."""
        for one in self.history([], []):
            if one.session == session:
                self.cancel(one)

    def _run(self, made: Statement) -> None:
        session = spark.spark_session()
        session.sparkContext.setJobGroup(str(made.id), "statement", interruptOnCancel=True)
        try:
            if name := denied_table(made.sql, self.denied):
                raise RuntimeError(
                    f"[INSUFFICIENT_PERMISSIONS] User does not have MODIFY on Table '{name}'. SQLSTATE: 42501"
                )
            sql = self._objects.rewritten(made.sql)
            if ASKS in made.tags and (message := self.fail_after()):
                session.sql(_query_of(sql)).collect()
                raise RuntimeError(message)
            made.types, made.rows, made.written = _executed(sql)
            made.state = "FINISHED"
        except Exception as error:
            made.state = "CANCELLED" if made.cancelled else "FAILED"
            made.error = "" if made.cancelled else _message(error)
        finally:
            made.ended_ms = int(time.time() * 1000)
            made.ended.set()


def _pairs(tags: str) -> list[tuple[str, str]]:
    """Query tags as the client writes them: ``key:value``, with a backslash before ``,``, ``:`` and itself."""
    pairs = re.findall(r"((?:[^\\,:]|\\.)+):((?:[^\\,]|\\.)*)", tags)
    return [(re.sub(r"\\(.)", r"\1", key), re.sub(r"\\(.)", r"\1", value)) for key, value in pairs]


def _query_of(sql: str) -> str:
    """The query of an INSERT."""
    tree = sqlglot.parse_one(sql, dialect="databricks")
    return tree.expression.sql("databricks") if isinstance(tree, exp.Insert) else sql


def _fail(made: Statement, message: str) -> None:
    made.state, made.error = "FAILED", message
    made.ended.set()


def _executed(sql: str) -> tuple[Types, list[tuple[Any, ...]], int | None]:
    session = spark.spark_session()
    target, replaces = _written_table(sql)
    before = 0 if target is None or replaces else spark.mem_rows(*target)
    frame = session.sql(sql)
    types = [(name, kind) for name, kind in frame.dtypes]
    if all(kind in AS_THEY_ARE for _, kind in types):
        rows = [tuple(row) for row in frame.collect()]  # a command's rows need no job
    else:
        frame = frame.toDF(*(f"c{place}" for place in range(len(types))))  # names may be repeated
        plain = [f"c{at}" if kind in AS_THEY_ARE else _as_text(at, kind) for at, (_, kind) in enumerate(types)]
        rows = [tuple(row) for row in frame.selectExpr(*plain).collect()]
    if target is None:
        return types, rows, None
    written = spark.mem_rows(*target) - before
    return [("num_affected_rows", "bigint"), ("num_inserted_rows", "bigint")], [(written, written)], written


def _as_text(place: int, kind: str) -> str:
    nested = kind.startswith(("array", "struct", "map", "variant"))
    return f"to_json(c{place}) AS c{place}" if nested else f"CAST(c{place} AS STRING) AS c{place}"


def _written_table(sql: str) -> tuple[tuple[str, str] | None, bool]:
    """The schema and name of the table that an INSERT or a CREATE TABLE AS writes; whether it replaces all rows."""
    if not _WRITES.match(sql):  # to parse the others takes longer than to run them
        return None, False
    try:
        tree = sqlglot.parse_one(sql, dialect="databricks")
    except sqlglot.errors.SqlglotError:
        return None, False
    if isinstance(tree, exp.Insert) or (isinstance(tree, exp.Create) and tree.kind == "TABLE" and tree.expression):
        table = tree.find(exp.Table)
        if table is not None:
            return (table.db or "default", table.name), isinstance(tree, exp.Create)
    return None, False


def _message(error: Exception) -> str:
    return str(error).split("\nJVM stacktrace:")[0].strip() or type(error).__name__


class ModelLog:
    """Every call of ``ai_query`` that was answered, in order."""

    def __init__(self) -> None:
        self._calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, call: spark.AiCall, answer: spark.AiAnswer) -> None:
        """Record one."""
        with self._lock:
            self._calls.append(
                {"model": call.endpoint, "prompt": call.request, "response": answer.result, "error": answer.error}
            )

    def calls(self) -> list[Mapping[str, Any]]:
        """All of them."""
        with self._lock:
            return list(self._calls)

    def clear(self) -> None:
        """Forget them."""
        with self._lock:
            self._calls.clear()


def schema_of(response_format: str | None) -> dict[str, Any] | None:
    """The JSON Schema in a response format."""
    if response_format is None:
        return None
    read: Any = json.loads(response_format)
    found = read.get("json_schema", {}).get("schema") if isinstance(read, dict) else None
    return found if isinstance(found, dict) else None
