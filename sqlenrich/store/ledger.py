"""The ledger of runs: a line a run, beside the tables that the run makes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, case, equals, literal, utc_time
from sqlenrich.core.types import STRING, TIMESTAMP, Type
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.store.base import Connection, RunStart, Snapshot
from sqlenrich.store.queries import insert_rows

LEDGER = "_sqlenrich_runs"
AGAIN = "run it again first (what is answered is not paid again)"
COLUMNS: Mapping[str, Type] = {
    "run_id": STRING,
    "name": STRING,
    "started_at": TIMESTAMP,
    "ended_at": TIMESTAMP,
    "status": STRING,
    "report": STRING,
    "snapshot": STRING,
    "request": STRING,
}


@dataclass(frozen=True)
class Ledger:
    """The ledger in one table. Times are in UTC without a time zone."""

    connection: Connection
    engine: Engine
    table: str
    _begun: set[str] = field(default_factory=set)
    """The runs of this process."""

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line, or again: with the snapshot where it is ``known``."""
        self._create()
        self.connection.begin()
        snapshot = json.dumps(asdict(start.snapshot)) if known else None
        if start.run_id in self._begun:
            again = {
                "ended_at": None,
                "status": "started",
                "report": None,
                "snapshot": snapshot,
                "request": start.request,
            }
            values: dict[str, object] = {name: literal(value) for name, value in again.items()}
            self._execute(exp.update(self._table(), values, where=equals("run_id", start.run_id)))
            return
        self._end_killed(start)
        self._begun.add(start.run_id)
        line = (start.run_id, start.name, start.at.replace(tzinfo=None), None, "started", None, snapshot, start.request)
        self._execute(insert_rows(self.engine, self._table(), COLUMNS, [line]))

    def _end_killed(self, start: RunStart) -> None:
        """Complete the lines of runs whose processes were killed: no other run of it asks beside this one."""
        ended = utc_time(start.at, self.engine.sql_type(TIMESTAMP))
        unended = exp.Is(this=exp.column("ended_at"), expression=exp.Null())
        where = exp.and_(equals("name", start.name), unended)
        self._execute(exp.update(self._table(), {"ended_at": ended, "status": literal("failed")}, where=where))

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Complete a run's line."""
        now = datetime.now(start.at.tzinfo).replace(tzinfo=None)
        ended = utc_time(now, self.engine.sql_type(TIMESTAMP))
        values: dict[str, object] = {
            "ended_at": ended,
            "status": literal(status),
            "report": literal(json.dumps(dict(facts))),
        }
        self._execute(exp.update(self._table(), values, where=equals("run_id", start.run_id)))

    def replace_reports(self, reports: Mapping[str, str]) -> None:
        """Replace the reports of some runs, by their ids, in one statement."""
        at = exp.column("run_id")
        whens = [(exp.EQ(this=at.copy(), expression=literal(id)), literal(text)) for id, text in reports.items()]
        named = exp.In(this=at, expressions=[literal(id) for id in reports])
        self._execute(exp.update(self._table(), {"report": case(*whens)}, where=named))

    def last_snapshot(self, name: str) -> Snapshot:
        """Return what made the prompts of an enrichment. Raises ConfigError where there are none, or it is unknown."""
        rows = self._of_last(name, "snapshot")
        if not rows:
            raise ConfigError(f"{self.connection.place} holds no run of {name}: run it first")
        if rows[0] is None:
            raise ConfigError(f"{self.connection.place} does not tell what the last run of {name} asked: {AGAIN}")
        return Snapshot(**json.loads(rows[0]))

    def report_before(self, start: RunStart) -> str | None:
        """Return what the run before this one reported; None where it ended early, or there is none."""
        rows = self._of_last(start.name, "report", exp.NEQ(this=exp.column("run_id"), expression=literal(start.run_id)))
        return rows[0] if rows else None

    def last_file(self, name: str) -> str | None:
        """Return the prompt file of the last run of an enrichment, where it is known."""
        known = exp.Not(this=exp.Is(this=exp.column("snapshot"), expression=exp.Null()))
        rows = self._of_last(name, "snapshot", known)
        file = json.loads(rows[0] or "{}").get("file") if rows else None
        return None if file is None else str(file)

    def _of_last(self, name: str, column: str, *conditions: Sql) -> list[str | None]:
        """Return a column of the last run of an enrichment that meets some conditions; nothing where there is none."""
        if not self._begun and self.connection.columns(self.table) is None:
            return []
        query = select(column).from_(self._table()).where(equals("name", name), *conditions)
        query = query.order_by("started_at DESC").limit(1)
        return [value for (value,) in self.connection.rows(print_sql(self.engine, query, pretty=False))]

    def names(self) -> tuple[str, ...]:
        """Return the names of the enrichments that have runs."""
        if self.connection.columns(self.table) is None:
            return ()
        query = select("name").distinct().from_(self._table()).order_by("name")
        return tuple(str(name) for (name,) in self.connection.rows(print_sql(self.engine, query, pretty=False)))

    def _create(self) -> None:
        """Make the ledger where it is missing, and the columns that one of an earlier version lacks."""
        if self._begun:
            return
        found = self.connection.columns(self.table)
        if found is None:
            self._execute(create_if_missing(self.engine, self._table(), COLUMNS))
            return
        present = {name.lower() for name in found}
        for name in (name for name in COLUMNS if name not in present):
            added = exp.ColumnDef(this=exp.to_identifier(name), kind=self.engine.sql_type(COLUMNS[name]))
            self._execute(exp.Alter(this=self._table(), kind="TABLE", actions=[added]))

    def _table(self) -> exp.Table:
        return relation(self.engine, self.table)

    def _execute(self, statement: Sql) -> None:
        self.connection.execute(print_sql(self.engine, statement, pretty=False))
