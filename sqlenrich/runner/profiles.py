"""What a run does about its profile: it is stored, and compared with those of earlier runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, literal, utc_time
from sqlenrich.core.types import TIMESTAMP
from sqlenrich.plan.drift import ALARM, COLUMNS, drift, mark
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.profiles import profile, profile_fields
from sqlenrich.runner.drift import Drift, FieldDrift, ProfiledRun
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.backend import Backend

FEW_WINDOWS = 3
"""With fewer earlier windows the usual variation of the field is hardly known."""


def utc(engine: Engine, moment: datetime) -> Sql:
    """Return a time in UTC as a column of the type timestamp holds it."""
    return utc_time(moment, engine.sql_type(TIMESTAMP))


def store_profile(backend: Backend, plan: Plan, enrichment: Enrichment, run_id: str, started: datetime) -> None:
    """Append the profile of a run that ends to NAME_profiles."""
    engine = backend.engine
    backend.append_profile(plan, profile(enrichment, engine, literal(run_id), utc(engine, started)))


def read_drift(backend: Backend, plan: Plan, enrichment: Enrichment) -> Drift:
    """Compare the newest run that has a profile with those before it."""
    return drift_of(enrichment, backend.read(plan, drift_query(enrichment, backend.engine)))


def drift_query(enrichment: Enrichment, engine: Engine, compared: int = 1) -> exp.Select:
    """Return the SELECT whose rows :func:`drifts_of` reads: of the newest run, or of so many of the newest."""
    return drift(engine, enrichment.quality.drift, len(profile_fields(enrichment)), compared)


def drift_of(enrichment: Enrichment, rows: Sequence[tuple[Any, ...]]) -> Drift:
    """Return the drift of the newest run that the rows of :func:`drift_query` tell."""
    found = drifts_of(enrichment, rows)
    return next(iter(found.values())) if found else Drift(enrichment.name, "", (), enrichment.quality.drift)


def drifts_of(enrichment: Enrichment, rows: Sequence[tuple[Any, ...]]) -> dict[str, Drift]:
    """Return the drift of each run that the rows of :func:`drift_query` tell; a run without an earlier one has none."""
    of_runs: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        line = dict(zip(COLUMNS, row, strict=True))
        of_runs.setdefault(str(line["run"]), []).append(line)
    return {run: _drift(enrichment, run, lines) for run, lines in of_runs.items()}


def _drift(enrichment: Enrichment, run: str, found: Sequence[dict[str, Any]]) -> Drift:
    moved = [
        FieldDrift(
            str(one["field"]),
            int(one["new_rows"]),
            int(one["old_rows"]),
            int(one["windows"]),
            int(one["levels"]),
            float(one["moved"]),
            float(one["sigma"]),
            bool(int(one["is_alarm"])),
        )
        for one in found
    ]
    moved.sort(key=lambda one: (-one.sigma, -one.moved, one.field))
    notes: tuple[str, ...] = ()
    if (windows := max(one.windows for one in moved)) < FEW_WINDOWS:
        runs = "one earlier run" if windows == 1 else f"{windows} earlier runs"
        notes = (f"{runs}: how much the answers vary from run to run is hardly known, so only wide moves are told",)
    return Drift(enrichment.name, run, tuple(moved), enrichment.quality.drift, notes)


def profiled_runs(rows: Iterable[tuple[Any, ...]]) -> list[ProfiledRun]:
    """Return the runs that the rows of :func:`sqlenrich.plan.drift.runs` tell, the newest first."""
    return [ProfiledRun(str(run), int(count), bool(int(ok)), bool(int(alarm))) for run, count, ok, alarm in rows]


def mark_alarm(backend: Backend, plan: Plan, found: Drift, started: datetime) -> None:
    """Write down that a run alarmed: it is no baseline of later runs."""
    engine = backend.engine
    backend.append_profile(plan, mark(engine, found.run, utc(engine, started), ALARM))
