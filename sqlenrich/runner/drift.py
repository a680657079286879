"""What a run does about its profile: it is stored, and compared with those of earlier runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.text_table import table
from sqlenrich.core.types import TIMESTAMP
from sqlenrich.engines import get_engine
from sqlenrich.plan.drift import ALARM, COLUMNS, drift, mark, run_sigma
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.profiles import profile, profile_fields
from sqlenrich.runner.backends.base import Backend
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.quality import DriftSettings

EXIT_ALARM = 3
"""The exit status of an alarm."""
FEW_WINDOWS = 3
"""With fewer earlier windows the usual variation of the field is hardly known."""


@dataclass(frozen=True)
class FieldDrift:
    """How far one field has moved. ``moved`` is a share of the rows, ``sigma`` a normal score."""

    field: str
    new_rows: int
    old_rows: int
    windows: int
    """The earlier runs, or windows of small ones."""
    levels: int
    moved: float
    sigma: float
    alarm: bool


@dataclass(frozen=True)
class Drift:
    """How far the newest run has moved from earlier ones. ``sigma`` holds for all fields together."""

    name: str
    run: str
    fields: tuple[FieldDrift, ...]
    """Those that moved most, by their score, first; none where there is no earlier run."""
    settings: DriftSettings
    notes: tuple[str, ...] = ()

    @property
    def sigma(self) -> float:
        """The score of the run as a whole: as rare as the highest score among so many fields."""
        return run_sigma(self.fields[0].sigma, len(self.fields)) if self.fields else 0.0

    @property
    def alarms(self) -> tuple[FieldDrift, ...]:
        """The fields that moved by more than both limits."""
        return tuple(one for one in self.fields if one.alarm)

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0, or 3 for an alarm."""
        return EXIT_ALARM if self.alarms else 0

    def to_dict(self) -> dict[str, Any]:
        """Give the facts by name, as the JSON has them."""
        return {
            "name": self.name,
            "run": self.run,
            "sigma": self.sigma,
            "alarm": bool(self.alarms),
            "limits": {"sigma": self.settings.sigma, "moved": self.settings.moved},
            "fields": [asdict(one) for one in self.fields],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Give the drift as one line of JSON."""
        return json.dumps(self.to_dict())

    def to_text(self, width: int = 100) -> str:
        """Give the drift for a terminal of ``width`` columns."""
        lines = [f"{self.name}: run {self.run or 'none'}"]
        if self.fields:
            cells = [("field", "rows", "earlier rows", "windows", "moved of 100", "σ", "")]
            cells += [
                (
                    one.field,
                    f"{one.new_rows:,}",
                    f"{one.old_rows:,}",
                    f"{one.windows:,}",
                    f"{100 * one.moved:.1f}",
                    f"{one.sigma:.2f}",
                    "ALARM" if one.alarm else "",
                )
                for one in self.fields
            ]
            lines += ["", *(line.rstrip() for line in table(cells, width)), ""]
            lines.append(self.verdict())
        return "\n".join((*lines, *self.notes))

    def verdict(self) -> str:
        """Give the outcome in one line."""
        limits = f"{self.settings.sigma:g} σ and {100 * self.settings.moved:g} of 100 rows"
        if not self.alarms:
            return f"no alarm: {self.sigma:.1f} σ for all fields together; an alarm needs {limits}"
        moved = ", ".join(f"{one.field} moved {100 * one.moved:.1f} of 100 rows" for one in self.alarms)
        return f"ALARM: {moved}; {self.sigma:.1f} σ for all fields together, more than {limits}"


def utc(engine: Engine, moment: datetime) -> Sql:
    """Give a time in UTC as a column of the type timestamp holds it."""
    return exp.Cast(this=literal(str(moment.replace(tzinfo=None))), to=engine.sql_type(TIMESTAMP))


def store_profile(backend: Backend, plan: Plan, enrichment: Enrichment, run_id: str, started: datetime) -> None:
    """Append the profile of a run that ends to NAME_profiles."""
    engine = get_engine(backend.engine)
    backend.append_profile(plan, profile(enrichment, engine, literal(run_id), utc(engine, started)))


def read_drift(backend: Backend, plan: Plan, enrichment: Enrichment) -> Drift:
    """Compare the newest run that has a profile with those before it."""
    settings, fields = enrichment.quality.drift, profile_fields(enrichment)
    rows = backend.read(plan, drift(get_engine(backend.engine), settings, len(fields)))
    found = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
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
    if moved and (windows := max(one.windows for one in moved)) < FEW_WINDOWS:
        runs = "one earlier run" if windows == 1 else f"{windows} earlier runs"
        notes = (f"{runs}: how much the answers vary from run to run is hardly known, so only wide moves are told",)
    return Drift(enrichment.name, str(found[0]["run"]) if found else "", tuple(moved), settings, notes)


def mark_alarm(backend: Backend, plan: Plan, found: Drift, started: datetime) -> None:
    """Write down that a run alarmed: it is no baseline of later runs."""
    engine = get_engine(backend.engine)
    backend.append_profile(plan, mark(engine, found.run, utc(engine, started), ALARM))
