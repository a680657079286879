"""The tables of a simulated run: a real database, whose statements and commits are moments of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sqlenrich.core.types import Type
from sqlenrich.llm.messages import Answer
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.store.base import CommitPolicy, Origin, RunStart
from sqlenrich.store.duckdb.backend import DuckDBBackend
from sqlenrich.store.duckdb.database import Policy
from sqlenrich.store.duckdb.tables import DuckDBTables

if TYPE_CHECKING:
    from tests.simulation.lives import Lives


class SimTables(DuckDBTables):
    """The tables, with a moment before and after each line that is added."""

    moment: Callable[[str], None]

    def append(self, table: str, columns: Mapping[str, Type], rows: Sequence[Sequence[object]]) -> None:
        self.moment("statement")
        super().append(table, columns, rows)
        self.moment("statement")


class SimBackend(DuckDBBackend):
    """The tables of a run in a real database. Each statement and each commit is a moment, at which it may be killed."""

    def __init__(self, path: Path, lives: Lives) -> None:
        super().__init__(path, Policy(threads=1))
        self.lives, self.world = lives, lives.world
        scenario = lives.scenario
        rows = min(scenario.commit_rows, scenario.unstored)
        self.commits = CommitPolicy(rows=rows, unstored=scenario.unstored)

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        full = duckdb.IOException('IO Error: Could not write file "out.duckdb.wal": No space left on device')
        self.lives.commit(answers, partial(super().append, plan, answers, origin), full)

    def as_database(self) -> DuckDBTables:
        tables = SimTables(self.database.db, self.database.path, self.output)
        tables.moment = self.world.moment
        return tables

    def run_step(self, step: Step) -> None:
        self.world.moment("statement")
        super().run_step(step)
        self.world.moment("statement")

    def refresh(self, plan: Plan, call: Step, limit: int | None = None, *, ordered: bool = False) -> int:
        self.world.moment("statement")
        return super().refresh(plan, call, limit, ordered=ordered)

    def begin(self, start: RunStart, *, known: bool) -> None:
        self.world.moment("statement")
        super().begin(start, known=known)
        self.world.moment("statement")

    def record(self, start: RunStart, status: str, facts: Any) -> None:
        self.world.moment("statement")
        super().record(start, status, facts)
        self.world.moment("statement")
