"""How far the newest run has moved from earlier ones: the result, as text for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import table
from sqlenrich.plan.drift import WINDOW_ROWS, run_sigma
from sqlenrich.spec.quality import DriftSettings

"""The exit status of an alarm."""


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
class ProfiledRun:
    """A run with a profile of its answers."""

    run: str
    rows: int
    accepted: bool
    alarm: bool


def why_not_compared(runs: Sequence[ProfiledRun]) -> str:
    """Return why the newest run is compared with no other. ``runs`` are all that have a profile, the newest first."""
    if len(runs) == 1:
        return "no earlier run to compare it with: it is the first one"
    baseline = next((place for place, one in enumerate(runs) if one.accepted), len(runs))
    known = [one for one in runs[1 : baseline + 1] if one.accepted or not one.alarm]
    if baseline == 0 or not known:
        return "no earlier run to compare it with: the others were alarms, or are older than the accepted one"
    rows = runs[0].rows + sum(one.rows for one in known)
    return (
        f"too few rows to compare: runs are taken together until they have {WINDOW_ROWS}, and all {1 + len(known)} "
        f"together have {rows:,}"
    )


@dataclass(frozen=True, repr=False)
class Drift(Result):
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
        return EXIT_OVER_LIMIT if self.alarms else EXIT_DONE

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        return {
            "name": self.name,
            "run": self.run,
            "sigma": self.sigma,
            "alarm": bool(self.alarms),
            "limits": {"sigma": self.settings.sigma, "moved": self.settings.moved},
            "fields": [asdict(one) for one in self.fields],
            "notes": list(self.notes),
        }

    def to_text(self, width: int = 100) -> str:
        """Return the drift for a terminal of ``width`` columns."""
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
        """Return the outcome in one line."""
        limits = f"{self.settings.sigma:g} σ and {100 * self.settings.moved:g} of 100 rows"
        if not self.alarms:
            return f"no alarm: {self.sigma:.1f} σ for all fields together; an alarm needs {limits}"
        moved = ", ".join(f"{one.field} moved {100 * one.moved:.1f} of 100 rows" for one in self.alarms)
        return f"ALARM: {moved}; {self.sigma:.1f} σ for all fields together, more than {limits}"
