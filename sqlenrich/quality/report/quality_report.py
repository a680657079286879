"""The result of a report: what is known of a table of answers, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlenrich.core.result import Result
from sqlenrich.core.text_table import cut, table
from sqlenrich.core.version import __version__
from sqlenrich.quality.report.facts import Accuracy, Answers, Refusals, RunFigures, SampleRows, Table
from sqlenrich.quality.report.tiles import Tile
from sqlenrich.quality.review.estimate import ReviewEstimate

WHOLE_RUN_IDS = 180
"""The width in which no id of a run is cut: other commands take it."""
FIELD_WIDTH = 24


@dataclass(frozen=True)
class Request:
    """What is asked: the prompt and the schema as the file has them now, and what the last run was asked with."""

    prompt: str
    turns: tuple[tuple[str, str], ...]
    schema: Mapping[str, Any]
    model: str
    version: str | None
    fingerprint: str
    stored: Mapping[str, int]
    """The accepted rows by fingerprint: other ones than the file's were asked with another file."""
    shared: str | None
    """What all requests of the last run share, as the ledger keeps it; None where it does not."""
    sql: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class QualityReport(Result):
    """What is known of an enrichment's table of answers. Nothing is asked for it."""

    name: str
    file: str
    output: str
    description: str
    tiles: tuple[Tile, ...]
    runs: tuple[RunFigures, ...]
    """The last runs, the oldest first."""
    table: Table
    answers: tuple[Answers, ...]
    accuracy: Accuracy | None
    review: ReviewEstimate
    refusals: Refusals
    sample: SampleRows | None
    """None where no texts of rows are to be shown."""
    request: Request
    runs_sql: tuple[str, ...]
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name, as the JSON has them."""
        facts = asdict(self)
        facts["runs"] = [
            {
                "run_id": line.run.run_id,
                "started_at": str(line.run.started_at),
                "ended_at": str(line.run.ended_at or ""),
                "status": line.run.status,
                "sigma": line.sigma,
                "moved_most": None if line.moved_most is None else asdict(line.moved_most),
                "report": dict(line.told),
                "spent": None if line.spent is None else asdict(line.spent),
                "snapshot": {} if line.run.snapshot is None else asdict(line.run.snapshot),
            }
            for line in self.runs
        ]
        if self.accuracy is not None:
            facts["accuracy"]["fields"] = [
                {"field": one.field, "rows": one.rows, "right": one.right, "share": one.share, "interval": one.interval}
                for one in self.accuracy.fields
            ]
        return facts

    def to_text(self, width: int = 100) -> str:
        """Return the ledger and the answers to the questions for a terminal of ``width`` columns."""
        return "\n".join(line.rstrip() for line in (*self._runs(width), "", *self._tiles()))

    def _runs(self, width: int) -> Iterator[str]:
        if not self.runs:
            yield f"{self.output} tells of no run of {self.name}"
            return
        head = (
            "run",
            "status",
            "rows",
            "refused",
            "calls",
            "tokens in",
            "tokens out",
            "cost",
            "right",
            "σ",
            "moved most",
        )
        yield from table([head, *map(self._run, self.runs)], max(width, WHOLE_RUN_IDS))

    def _run(self, line: RunFigures) -> tuple[str, ...]:
        counts = ("rows_in", "quarantined", "calls", "tokens_in", "tokens_out")
        shown = ("-" if (value := line.number(name)) is None else f"{int(value):,}" for name in counts)
        spent = "-" if line.spent is None else line.spent.to_text().strip()
        return (line.run.run_id, line.run.status, *shown, spent, self._right(line), *self._drift(line))

    def _drift(self, line: RunFigures) -> tuple[str, str]:
        """Return the score of a run, and the field that moved most with its rows of 100."""
        if line.sigma is None or line.moved_most is None:
            return "-", "-"
        most = line.moved_most
        alarm = " ALARM" if line.drift is not None and line.drift.alarms else ""
        return f"{line.sigma:.1f}", f"{cut(most.field, FIELD_WIDTH)} {100 * most.moved:.1f}{alarm}"

    def _right(self, line: RunFigures) -> str:
        """Return the least share right among the fields, in the last evaluation before the next run."""
        share = self.accuracy_of(line)
        return "-" if share is None else f"{100 * share:.1f} %"

    def accuracy_of(self, line: RunFigures) -> float | None:
        """Return the least share right of any field in the last evaluation before the run after this one."""
        if self.accuracy is None:
            return None
        place = self.runs.index(line)
        until = str(self.runs[place + 1].run.started_at)[:16] if place + 1 < len(self.runs) else "9"
        since = str(line.run.started_at)[:16]
        last = [[share for at, share in field.earlier if since <= at < until][-1:] for field in self.accuracy.fields]
        return min((share for one in last for share in one), default=None)

    def _tiles(self) -> Iterator[str]:
        wide = max(len(tile.question) for tile in self.tiles)
        for tile in self.tiles:
            yield f"{tile.question:<{wide}}  {tile.figure}  ({tile.word})"
            if tile.detail:
                yield f"{'':<{wide}}  {tile.detail}"
            if tile.command:
                yield f"{'':<{wide}}  {tile.command}"
