"""The ledger of runs as lines that are only appended: Spark's own tables take no UPDATE."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import relation
from sqlenrich.core.sql import equals, literal
from sqlenrich.core.types import Type
from sqlenrich.store.base import RunStart, Snapshot
from sqlenrich.store.ledger import AGAIN, COLUMNS
from sqlenrich.store.spark.tables import SparkTables

LEDGER_LINES = 3
"""The lines of a run at most: it begins, its prompts are made, it ends."""


class AppendedLedger:
    """The ledger in one table. A run has a line for each thing that became known of it; the last one holds."""

    def __init__(self, tables: SparkTables, table: str) -> None:
        self.tables, self.table = tables, table
        self.relation = relation(tables.engine, table)
        self._known: set[str] = set()
        self._columns: dict[str, Type] = {}
        self._begun = ""

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line, or again: with the snapshot where it is ``known``."""
        if not self._columns:
            found = self.tables.connection.columns(self.table)
            if found is None:
                self.tables.create(self.relation, COLUMNS)
            # A ledger of an earlier version keeps the columns that it has.
            self._columns = {n: kind for n, kind in COLUMNS.items() if found is None or n in found}
        if start.run_id != self._begun:
            self._begun = start.run_id
            self._end_killed(start)
        if known:
            self._known.add(start.run_id)
        self._append(start, None, "started", None)

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Write a run's last line."""
        self._append(start, datetime.now(UTC), status, json.dumps(dict(facts)))

    def last_snapshot(self, name: str) -> Snapshot:
        """Return what made the prompts of an enrichment. Raises ConfigError where there are none, or it is unknown."""
        place = self.tables.place
        rows: list[tuple[Any, ...]] = []
        connection = self.tables.connection
        if connection.columns(self.table) is not None:
            # Of one run, the line with a snapshot is the later one.
            query = exp.select("snapshot").from_(self.relation.copy())
            query = query.where(equals("name", name))
            query = query.order_by("started_at DESC", "snapshot IS NULL").limit(1)
            rows = self.tables.read(query)
        if not rows:
            raise ConfigError(f"{place} holds no run of {name}: run it first")
        if rows[0][0] is None:
            raise ConfigError(f"{place} does not tell what the last run of {name} asked: {AGAIN}")
        return Snapshot(**json.loads(rows[0][0]))

    def report_before(self, start: RunStart) -> str | None:
        """Return what the run before this one reported; None where it ended early, or there is none."""
        query = exp.select("report").from_(self.relation.copy())
        other = exp.NEQ(this=exp.column("run_id"), expression=literal(start.run_id))
        query = query.where(equals("name", start.name), other)
        rows = self.tables.read(query.order_by("started_at DESC", "ended_at IS NULL").limit(1))
        return rows[0][0] if rows else None

    def names(self) -> tuple[str, ...]:
        """Return the names of the enrichments that have runs."""
        connection = self.tables.connection
        if connection.columns(self.table) is None:
            return ()
        query = exp.select("name").distinct().from_(self.relation.copy())
        return tuple(sorted(str(name) for (name,) in self.tables.read(query)))

    def _end_killed(self, start: RunStart) -> None:
        """Write the last line of runs that ended without one: their processes were killed."""
        names = [name for name in self._columns if name not in ("run_id", "ended_at", "status")]
        query = exp.select("run_id", *(exp.alias_(exp.Max(this=exp.column(name)), name) for name in names))
        query = query.from_(self.relation.copy()).where(equals("name", start.name)).group_by("run_id")
        unended = exp.Is(this=exp.Max(this=exp.column("ended_at")), expression=exp.Null())
        for row in self.tables.read(query.having(unended)):
            line = dict(zip(("run_id", *names), row, strict=True))
            self._write({**line, "ended_at": start.at, "status": "failed"})

    def _append(self, start: RunStart, ended: datetime | None, status: str, report: str | None) -> None:
        snapshot = json.dumps(asdict(start.snapshot)) if start.run_id in self._known else None
        line = (start.run_id, start.name, start.at, ended, status, report, snapshot, start.request)
        self._write(dict(zip(COLUMNS, line, strict=True)))

    def _write(self, known: Mapping[str, Any]) -> None:
        kinds = ", ".join(f"{n} {self.tables.engine.sql_type(kind).sql('spark')}" for n, kind in self._columns.items())
        connection = self.tables.connection
        kept = tuple(known[name] for name in self._columns)
        rows = connection.checked(lambda: connection.session.createDataFrame([kept], kinds))
        self.tables.append(self.relation.copy(), rows.coalesce(1))
