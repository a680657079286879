"""Datasets, tables and query jobs before the evaluator: a job runs in a thread of its own, as it does in BigQuery.

A statement with model calls reads the tables as they are at its start, asks at once, beside others, is held for
``delay_s``, and then stores its rows, or none. Of BigQuery it emulates no more than statements one at
a time, the default dataset, and ends by cancellation: no quotas, no permissions, no transactions between jobs.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.standins.control import Denied, denied_table
from tests.standins.googlesql import calls, rest
from tests.standins.googlesql.analyzer import Analyzed, GoogleSQL
from tests.standins.googlesql.answers import Model, Reply
from tests.standins.googlesql.catalog import Schema
from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.evaluator import run_statements
from tests.standins.googlesql.session import Session, Table
from tests.standins.googlesql.syntax import Node
from tests.standins.googlesql.values import to_value

LOCATION = "US"
_STATEMENT_TYPES = {"Query": "SELECT", "CreateTableAsSelect": "CREATE_TABLE_AS_SELECT", "CreateTable": "CREATE_TABLE"}
HELD_S = 0.02
"""How often a statement that is held looks at ``delay_s``."""
_NOT_FOUND = re.compile(r"(?i)(?:table |model )?not found|\w+ not found")


class JobError(Exception):
    """Why a job failed: the reason's name and the message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def refused(error: GoogleSQLError) -> JobError:
    """A refusal of the analyzer or the evaluator in BigQuery's reasons."""
    return JobError("notFound" if _NOT_FOUND.match(error.message) else "invalidQuery", str(error))


def _now() -> str:
    """Milliseconds since 1970, as BigQuery writes times."""
    return str(int(time.time() * 1000))


@dataclass
class Job:
    """One query job."""

    id: str
    sql: str
    configuration: Mapping[str, Any]
    created: str = field(default_factory=_now)
    times: dict[str, str] = field(default_factory=dict)
    state: str = "PENDING"
    error: JobError | None = None
    statement_type: str = ""
    written: int | None = None
    destination: tuple[str, str] | None = None
    result: Table | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """Take the time of its end."""
        self.times.setdefault("startTime", self.created)
        self.state, self.times["endTime"] = "DONE", _now()
        self.ended.set()


class Warehouse:
    """One project's datasets and jobs. ``delay_s``: how long a statement that asks the model takes."""

    delay_s = 0.0
    model: Model | None = None
    """Answers instead of ``reply``, where one is set."""
    fails_after: Callable[[], bool] = staticmethod(lambda: False)
    """Whether a statement fails after it has asked."""

    def __init__(self, oracle: GoogleSQL, project: str, reply: Reply, models: Sequence[str]) -> None:
        self.oracle = oracle
        self.project = project
        self.reply = reply
        self.models = dict.fromkeys(models, "gemini")
        self.datasets: dict[str, dict[str, Table]] = {}
        self.jobs: dict[str, Job] = {}
        self.lock = threading.RLock()
        self.denied: Denied = {}

    def table(self, dataset: str, name: str) -> Table | None:
        """A table, None where it is not there."""
        return self.datasets.get(dataset, {}).get(name)

    def create(self, dataset: str, name: str, schema: Sequence[Mapping[str, Any]]) -> None:
        """Make an empty table."""
        self.datasets[dataset][name] = Table(self.oracle.columns_of(rest.definitions(schema)))

    def insert(self, table: Table, given: Sequence[Mapping[str, Any]]) -> None:
        """Add rows of JSON to a table."""
        table.rows += [
            [to_value(rest.read(row.get(name), type_), type_) for name, type_ in table.columns] for row in given
        ]

    def dry_run(self, sql: str, dataset: str | None) -> str:
        """The kind of a statement that is right. Raises JobError."""
        self._check_rights(sql)
        try:
            raw, statements = self.oracle.parse(sql)
            with self.lock:
                return self._analyzed(raw, statements, self._session(dataset).schema).kind
        except GoogleSQLError as error:
            raise refused(error) from None

    def start(self, job: Job, dataset: str | None, fault: JobError | None) -> None:
        """Run a job in a thread. The lock is held, and the id is new."""
        self.jobs[job.id] = job
        threading.Thread(target=self._work, args=(job, dataset, fault), name=job.id, daemon=True).start()

    def _work(self, job: Job, dataset: str | None, fault: JobError | None) -> None:
        job.state, job.times["startTime"] = "RUNNING", _now()
        try:
            if fault is not None:
                raise fault
            self._run(job, dataset)
        except JobError as error:
            job.error = error
        except GoogleSQLError as error:
            job.error = refused(error)
        except Exception as error:  # a fault of the stand-in must not look like a job that runs for ever
            job.error = JobError("invalid", f"the stand-in failed: {type(error).__name__}: {error}")
        job.end()

    def _check_rights(self, sql: str) -> None:
        if name := denied_table(sql, self.denied):
            told = f"Access Denied: Table {name}: Permission bigquery.tables.updateData denied on table {name}"
            raise JobError("accessDenied", told)

    def _run(self, job: Job, dataset: str | None) -> None:
        self._check_rights(job.sql)
        raw, statements = self.oracle.parse(job.sql)
        if statements[0].kind == "BeginEndBlock":
            with self.lock:
                session = self._session(dataset)
                before = dict(session.tables)
                results = run_statements(session, job.sql, self.reply if self.model is None else self.model)
                self._keep(session, before, dataset)
            job.statement_type, job.result = "SCRIPT", results[-1] if results else None
            return
        with self.lock:
            analyzed = self._analyzed(raw, statements, self._session(dataset).schema)
        job.statement_type = _STATEMENT_TYPES.get(analyzed.kind, analyzed.kind.upper())
        asks = any(True for found in (calls.table_calls, calls.scalar_calls) for _ in found(statements[0]))
        session, results = (self._asked if asks else self._done)(job, dataset)
        job.result = results[0] if results else None
        if analyzed.kind in ("Insert", "Update", "Delete", "Merge"):
            job.written = session.written
        job.destination = self._place(analyzed.table, dataset) if analyzed.table else None

    def _done(self, job: Job, dataset: str | None) -> tuple[Session, list[Table]]:
        with self.lock:
            session = self._session(dataset)
            before = dict(session.tables)
            results = run_statements(session, job.sql, self.reply if self.model is None else self.model)
            self._keep(session, before, dataset)
        return session, results

    def _asked(self, job: Job, dataset: str | None) -> tuple[Session, list[Table]]:
        """Run on a snapshot of the tables; then store what was inserted."""
        with self.lock:
            session = self._session(dataset)
            copies = {id(table): (table, replace(table, rows=list(table.rows))) for table in session.tables.values()}
            for name, table in list(session.tables.items()):
                session.store(name, copies[id(table)][1])
        before, sizes = dict(session.tables), {key: len(table.rows) for key, (table, _) in copies.items()}
        results = run_statements(session, job.sql, self.reply if self.model is None else self.model)
        asked_at = time.monotonic()
        while time.monotonic() < asked_at + self.delay_s and not job.cancelled.wait(HELD_S):
            pass  # a test that changes the delay ends it
        if job.cancelled.is_set():
            raise JobError("stopped", "Job execution was cancelled: User requested cancellation")
        if self.fails_after():
            raise JobError("jobBackendError", "Retrying the job may solve the problem")
        with self.lock:
            for key, (table, copied) in copies.items():
                table.rows += copied.rows[sizes[key] :]
            self._keep(session, before, dataset)
        return session, results

    def _analyzed(self, raw: bytes, statements: list[Node], schema: Schema) -> Analyzed:
        if len(statements) != 1:
            raise JobError("invalidQuery", f"the stand-in takes one statement, not {len(statements)}")
        return self.oracle.analyze_statement(raw, statements[0], schema)

    def _session(self, dataset: str | None) -> Session:
        """All tables by their full names, those of the default dataset by their plain names too."""
        session = Session(self.oracle, {})
        session.schema.models = self.models
        for place, tables in self.datasets.items():
            for name, table in tables.items():
                session.store(f"{self.project}.{place}.{name}", table)
                if place == dataset:
                    session.store(name, table)
        return session

    def _keep(self, session: Session, before: Mapping[str, Table], dataset: str | None) -> None:
        for name in before.keys() - session.tables.keys():
            place, table = self._place(tuple(name.split(".")), dataset)
            self.datasets[place].pop(table, None)
        for name, made in session.tables.items():
            if before.get(name) is not made:
                place, table = self._place(tuple(name.split(".")), dataset)
                if place not in self.datasets:
                    raise JobError(
                        "notFound", f"Not found: Dataset {self.project}:{place} was not found in location US"
                    )
                self.datasets[place][table] = made

    def _place(self, path: tuple[str, ...], dataset: str | None) -> tuple[str, str]:
        if len(path) == 1 and dataset is None:
            raise JobError("invalid", f'Table "{path[0]}" must be qualified with a dataset (e.g. dataset.table).')
        return (path[-2] if len(path) > 1 else str(dataset)), path[-1]


Answer = Callable[[str], Mapping[str, Any]]


class CallLog:
    """Answers prompts and remembers each of them. ``poison``: a text that fails the whole statement."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.poison = ""
        self.calls: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def reply(self, prompt: str | None) -> Mapping[str, Any]:
        """The answer to a prompt."""
        self.add(prompt)
        if prompt is None:
            return {"status": "INVALID_ARGUMENT: the prompt is NULL"}
        if self.poison and self.poison in prompt:
            raise JobError("invalidQuery", "The request failed: the model refused the batch")
        return self.answer(prompt)

    def add(self, prompt: str | None) -> None:
        """Remember a prompt."""
        with self._lock:
            self.calls.append({"prompt": prompt, "at": time.time()})
