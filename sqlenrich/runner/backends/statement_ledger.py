"""The ledger of a warehouse run: who runs, and which statement asks the model, so that none is sent twice."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, equals, literal, utc_time
from sqlenrich.core.types import BIGINT, STRING, TIMESTAMP, Type
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.runner.backends.base import Connection
from sqlenrich.runner.backends.queries import insert_rows

STATEMENTS = "_sqlenrich_statements"
RUN, CALL = "run", "call"
"""The kinds of lines: a run that lives, a statement that asks the model."""
OPEN, ENDED = "open", "ended"
_COLUMNS: Mapping[str, Type] = {
    "job_id": STRING,
    "run_id": STRING,
    "name": STRING,
    "kind": STRING,
    "state": STRING,
    "statement_id": STRING,
    "host": STRING,
    "pid": BIGINT,
    "began_at": TIMESTAMP,
    "seen_at": TIMESTAMP,
}
"""``name`` is the table of answers that the line is about. Times are in UTC without a time zone."""


@dataclass(frozen=True)
class Line:
    """A line of the ledger that has not ended."""

    job_id: str
    run_id: str
    kind: str
    statement_id: str | None
    host: str
    pid: int
    began_at: datetime
    seen_at: datetime

    def age_s(self) -> float:
        """Give the seconds since the run of the line told that it lives."""
        return (_now() - self.seen_at).total_seconds()

    def since_s(self) -> float:
        """Give the seconds since the line was written."""
        return (_now() - self.began_at).total_seconds()

    def lives(self, dead_after_s: float) -> bool:
        """Tell whether the process of the line runs: on this host by its id, elsewhere by its last sign of life."""
        if self.host == socket.gethostname():
            return self.run_id in _RUNS_HERE if self.pid == os.getpid() else _runs(self.pid)
        return self.age_s() <= dead_after_s


@dataclass(frozen=True)
class StatementLedger:
    """The ledger in one table beside the results."""

    connection: Connection
    engine: Engine
    table: str

    def create(self) -> None:
        """Make the table where it is missing."""
        self._execute(create_if_missing(self.engine, self._table(), _COLUMNS))

    def begin(self, job_id: str, run_id: str, name: str, kind: str) -> None:
        """Write a line before its run or statement begins."""
        _RUNS_HERE.add(run_id)
        now = _now()
        line = (job_id, run_id, name, kind, OPEN, None, socket.gethostname(), os.getpid(), now, now)
        self._execute(insert_rows(self.engine, self._table(), _COLUMNS, [line]))

    def submitted(self, job_id: str, statement_id: str) -> None:
        """Store the warehouse's id of a statement."""
        self._update(equals("job_id", job_id), {"statement_id": literal(statement_id)})

    def seen(self, run_id: str) -> None:
        """Tell that a run lives."""
        self._update(equals("job_id", run_id), {"seen_at": self._time(_now())})

    def end(self, run_id: str, unfinished: str | None = None) -> None:
        """Mark the lines of a run as ended, but for that of a statement which may still run."""
        _RUNS_HERE.discard(run_id)
        where = equals("run_id", run_id)
        if unfinished is not None:
            where = exp.and_(where, exp.Not(this=equals("job_id", unfinished)))
        self._update(where, {"state": literal(ENDED)})

    def open_lines(self, name: str) -> list[Line]:
        """Give the lines of a table of answers that have not ended, the oldest first."""
        names = ("job_id", "run_id", "kind", "statement_id", "host", "pid", "began_at", "seen_at")
        query = (
            select(*names)
            .from_(self._table())
            .where(equals("name", name), equals("state", OPEN))
            .order_by("began_at", "job_id")
        )
        return [_line(*row) for row in self.connection.rows(print_sql(self.engine, query, pretty=False))]

    def _time(self, at: datetime) -> Sql:
        return utc_time(at, self.engine.sql_type(TIMESTAMP))

    def _update(self, where: Sql, values: Mapping[str, Any]) -> None:
        self._execute(exp.update(self._table(), dict(values), where=where))

    def _table(self) -> exp.Table:
        return relation(self.engine, self.table)

    def _execute(self, statement: Sql) -> None:
        self.connection.execute(print_sql(self.engine, statement, pretty=False))


@dataclass
class CallJournal:
    """The lines of the statements by which one run asks the model, one after another.

    The lines are marked as ended with their run: only the last statement of a run can be in doubt.
    """

    ledger: StatementLedger
    run_id: str
    name: str
    unfinished: str | None = None
    """The statement whose end is not seen."""

    def begin(self, job_id: str) -> None:
        """Write the line of a statement that is about to be submitted."""
        self.unfinished = job_id
        self.ledger.begin(job_id, self.run_id, self.name, CALL)

    def submitted(self, job_id: str, statement_id: str) -> None:
        """Store the warehouse's id of a statement."""
        self.ledger.submitted(job_id, statement_id)

    def end(self, job_id: str) -> None:  # noqa: ARG002
        """Record that the statement has ended."""
        self.unfinished = None

    def close(self) -> None:
        """End the run's lines."""
        self.ledger.end(self.run_id, self.unfinished)


_RUNS_HERE: set[str] = set()
"""The runs of this process that have not ended."""


def _line(job_id: str, run_id: str, kind: str, statement: str | None, host: str, pid: int, *times: datetime) -> Line:
    began, seen = (at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at for at in times)
    return Line(job_id, run_id, kind, statement, host, int(pid), began, seen)


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _runs(pid: int) -> bool:
    """Tell whether a process of this host runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
