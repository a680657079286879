"""The ledger of a warehouse run: who holds the lease, and which statement asks the model, so that none is sent twice.

A run holds the lease of a table of answers: one line with a random id and the time at which it ends, by the clock of
the warehouse. It is the only line that changes. Each statement has a line for each change of its state: lines are
appended, so that runs of several enrichments that share the ledger change no row of each other.

A statement asks under a condition: the lease is held, and its own line is open (:meth:`Lease.conditions`). A statement
that starts after its run has lost the lease, or after its line was closed, asks nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.lease import LeaseLostError, new_id
from sqlenrich.core.names import identifier, relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, case, equals, literal
from sqlenrich.core.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Type
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.store.base import Connection
from sqlenrich.store.jobs import Statement

STATEMENTS = "_sqlenrich_statements"
LEASE, CALL, STEP = "lease", "call", "step"
"""The kinds of lines: the lease of a table of answers, a statement that asks the model, one that makes a table."""
OPEN, SUBMITTED, ENDED = "open", "submitted", "ended"
"""The states of a lease (open, ended) and of a statement: about to be submitted, known to the warehouse, ended."""
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
    "until_ms": BIGINT,
    "step": STRING,
    "chunk": STRING,
    "written": BIGINT,
    "seconds": DOUBLE,
    "link": STRING,
}
"""``name`` is the table of answers that the line is about; ``job_id`` of a lease is its random id. ``began_at`` is when
the line was written. ``until_ms`` is when a lease ends, in milliseconds since 1970. All times are the warehouse's. Host
and process are for people alone. The last five are those of a statement that has succeeded: ``written`` are its rows,
where the warehouse tells."""
Constant = str | int | float | None


@dataclass(frozen=True)
class Holder:
    """A lease that has not ended."""

    lease: str
    run_id: str
    host: str
    pid: int
    until_ms: int
    left_s: float
    """The seconds until it ends, unless it is renewed."""

    @property
    def renewed(self) -> int:
        """What each renewal changes."""
        return self.until_ms


@dataclass(frozen=True)
class Line:
    """The line of a statement that has not ended."""

    job_id: str
    run_id: str
    statement_id: str | None


@dataclass(frozen=True)
class StatementLedger:
    """The ledger in one table beside the results."""

    connection: Connection
    engine: Engine
    table: str

    def create(self) -> None:
        """Make the table where it is missing."""
        self.execute(create_if_missing(self.engine, self.relation(), _COLUMNS))

    def insert(self, lines: Sequence[Mapping[str, Constant]]) -> None:
        """Append lines that begin now."""
        rows = [self._row(line) for line in lines]
        self._append(rows[0] if len(rows) == 1 else exp.union(*rows, distinct=False))

    def _row(self, values: Mapping[str, Constant]) -> exp.Select:
        known: dict[str, Sql] = {name: literal(value) for name, value in values.items() if value is not None}
        known |= {"began_at": self.engine.now(), **this_process()}
        empty = {name: exp.Cast(this=exp.Null(), to=self.engine.sql_type(kind)) for name, kind in _COLUMNS.items()}
        return select(*(exp.alias_({**empty, **known}[name], name) for name in _COLUMNS))

    def _append(self, rows: exp.Query) -> None:
        names = [identifier(self.engine, name) for name in _COLUMNS]
        self.execute(exp.Insert(this=exp.Schema(this=self.relation(), expressions=names), expression=rows))

    def update(self, where: Sql, values: Mapping[str, Any]) -> None:
        """Change lines."""
        self.execute(exp.update(self.relation(), dict(values), where=where))

    def rows(self, where: Sql, *names: str | Sql) -> list[tuple[Any, ...]]:
        """Return values of lines, the oldest line first."""
        query = select(*names).from_(self.relation()).where(where).order_by("began_at", "job_id")
        return self.connection.rows(print_sql(self.engine, query, pretty=False))

    def close(self, name: str, calls: Sequence[Line]) -> None:
        """Mark statements as ended."""
        if calls:
            shared = {"name": name, "kind": CALL, "state": ENDED}
            self.insert([{"job_id": line.job_id, "run_id": line.run_id, **shared} for line in calls])

    def open_calls(self, name: str) -> list[Line]:
        """Return the statements that ask for a table of answers and have not ended, the oldest first."""
        ends = case((equals("state", ENDED), literal(1)), default=literal(0))
        by_job = (
            select("job_id", "MAX(run_id) AS run_id", "MAX(statement_id) AS statement_id", "MIN(began_at) AS began_at")
            .select(exp.alias_(exp.Sum(this=ends), "ends"))
            .from_(self.relation())
            .where(equals("name", name), equals("kind", CALL))
            .group_by("job_id")
        )
        query = select("job_id", "run_id", "statement_id").from_(by_job.subquery("jobs")).where("ends = 0")
        rows = self.connection.rows(print_sql(self.engine, query.order_by("began_at", "job_id"), pretty=False))
        return [Line(*row) for row in rows]

    def relation(self) -> exp.Table:
        """Return the table."""
        return relation(self.engine, self.table)

    def execute(self, statement: Sql) -> None:
        """Run a statement."""
        self.connection.execute(print_sql(self.engine, statement, pretty=False))


@dataclass
class Lease:
    """The right of one run to ask for a table of answers, and the lines of its statements, one after another.

    That a statement has ended is written with the line of the next one, or at the end of the run: only the last
    statement of a run can be in doubt.
    """

    ledger: StatementLedger
    run_id: str
    name: str
    lasts_s: float
    id: str = field(default_factory=new_id)
    ended: list[dict[str, Constant]] = field(default_factory=list)
    """The lines of statements that have ended, not written yet."""
    since: datetime | None = None
    """When it was taken, in UTC by the clock of the warehouse: the run's answers are no older."""

    # The lease -------------------------------------------------------------------------------------------------------

    def claim(self, *, take: bool) -> None:
        """Take the lease if nobody holds it, or from whoever holds it (``take``). :meth:`holders` tells who has it.

        One UPDATE compares and sets: of two at once, the warehouse runs one after the other or refuses one.
        """
        mine = exp.and_(equals("name", self.name), equals("kind", LEASE))
        if not self.ledger.rows(mine, "job_id"):
            self.ledger.insert([{"job_id": "", "run_id": "", "name": self.name, "kind": LEASE, "state": OPEN}])
        values = {"job_id": literal(self.id), "run_id": literal(self.run_id), "state": literal(OPEN)}
        values |= {"until_ms": self._end(), "began_at": self.ledger.engine.now(), **this_process()}
        self.ledger.update(mine if take else exp.and_(mine, exp.Not(this=exp.paren(self._lives()))), values)

    def holders(self) -> list[Holder]:
        """Return the leases of the table of answers that have not ended: two where two runs made the first line."""
        where = exp.and_(equals("name", self.name), equals("kind", LEASE), self._lives())
        left = exp.Sub(this=exp.column("until_ms"), expression=self.ledger.engine.clock_ms())
        rows = self.ledger.rows(where, "job_id", "run_id", "host", "pid", "until_ms", exp.alias_(left, "left_ms"))
        lines = [
            Holder(lease, run_id, host, int(pid), int(until), int(left) / 1000)
            for lease, run_id, host, pid, until, left in rows
        ]
        found = {line.lease: line for line in lines}
        if self.since is None and self.id in found:
            self.since = datetime.fromtimestamp(found[self.id].until_ms / 1000 - self.lasts_s, UTC)
        return list(found.values())

    def renew(self) -> None:
        """Put off the end. Raises LeaseLostError where another run has taken the lease."""
        own = exp.and_(equals("job_id", self.id), equals("state", OPEN))
        self.ledger.update(own, {"until_ms": self._end()})
        lease = exp.and_(equals("name", self.name), equals("kind", LEASE))
        runs = dict(self.ledger.rows(lease, "job_id", "run_id"))
        if self.id not in runs:
            by = f"run {next(iter(runs.values()))}" if runs else "another run"
            raise LeaseLostError(
                f"{self.ledger.connection.place}: {by} has taken over these tables: run {self.run_id} ends here and "
                "leaves them as they are"
            )

    def close(self) -> None:
        """Write the lines of the statements that have ended, and end the lease."""
        if self.ended:
            self.ledger.insert(self.ended)
            self.ended = []
        self.ledger.update(exp.and_(equals("job_id", self.id), equals("kind", LEASE)), {"state": literal(ENDED)})

    def conditions(self, job_id: str) -> list[Sql]:
        """Return the conditions under which the statement of a submission may ask."""
        held = exp.and_(equals("job_id", self.id), equals("kind", LEASE), self._lives())
        own = exp.and_(equals("job_id", job_id), equals("kind", CALL), equals("state", OPEN))
        ended = exp.and_(equals("job_id", job_id), equals("kind", CALL), equals("state", ENDED))
        tests = [exp.Exists(this=select("1").from_(self.ledger.relation()).where(each)) for each in (held, own, ended)]
        return [*tests[:2], exp.Not(this=tests[2])]

    def _lives(self) -> Sql:
        ends = exp.GT(this=exp.Coalesce(this=exp.column("until_ms"), expressions=[literal(0)]), expression=self._now())
        return exp.and_(equals("state", OPEN), ends)

    def _now(self) -> Sql:
        return self.ledger.engine.clock_ms()

    def _end(self) -> Sql:
        return exp.Add(this=self._now(), expression=literal(round(self.lasts_s * 1000)))

    # The statements --------------------------------------------------------------------------------------------------

    def begin(self, job_id: str) -> None:
        """Write the line of a statement that is about to be submitted, and those that have ended since the last one."""
        ended, self.ended = self.ended, []
        self.ledger.insert([*ended, self._line(CALL, OPEN, job_id)])

    def submitted(self, job_id: str, statement_id: str) -> None:
        """Store the warehouse's id of a statement."""
        self.ledger.insert([{**self._line(CALL, SUBMITTED, job_id), "statement_id": statement_id}])

    def abandoned(self, job_id: str) -> None:
        """Close the line of a submission whose answer was lost: what starts after this asks nothing."""
        self.ledger.insert([self._line(CALL, ENDED, job_id)])

    def end(self, job_id: str, statement: Statement | None) -> None:
        """Record that a statement that asks has ended, and what it was where it has succeeded."""
        self.ended.append(self._line(CALL, ENDED, job_id) | ({} if statement is None else _facts(statement)))

    def ran(self, statement: Statement) -> None:
        """Record that a statement that makes a table has succeeded."""
        self.ended.append(self._line(STEP, ENDED, None) | _facts(statement))

    def _line(self, kind: str, state: str, job_id: str | None) -> dict[str, Constant]:
        return {"job_id": job_id, "run_id": self.run_id, "name": self.name, "kind": kind, "state": state}


def this_process() -> dict[str, Sql]:
    """Return what names this process to people. Nothing is decided by it."""
    return {"host": literal(socket.gethostname()), "pid": literal(os.getpid())}


def _facts(statement: Statement) -> dict[str, Constant]:
    return {
        "statement_id": statement.id,
        "step": statement.step,
        "chunk": statement.chunk,
        "written": statement.rows,
        "seconds": statement.seconds,
        "link": statement.link,
    }
