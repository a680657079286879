"""``sqlenrich report``: what is known of a table of answers, as text, as JSON, or as one page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.text_table import table
from sqlenrich.core.version import __version__
from sqlenrich.quality.page import check_page, write_file
from sqlenrich.quality.report_facts import (
    DRIFT_MARKS,
    PROFILES,
    RUNS_SHOWN,
    Accuracy,
    Answers,
    Refusals,
    RunLine,
    SampleRows,
    Table,
    read_accuracy,
    read_answers,
    read_refusals,
    read_sample,
    read_table,
    runs_sql,
)
from sqlenrich.quality.review_estimate import ReviewEstimate, review_estimate
from sqlenrich.quality.stored import ALL_RUNS, Stored, opened
from sqlenrich.quality.verdict_tiles import Tile, tiles
from sqlenrich.runner.backends.ledger import LEDGER
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import money

DEFAULT_ROWS = 500
ROW_CHARACTERS = 400_000
"""The most characters of sampled rows on a page."""
ALARM = "alarm"
"""The level that drift writes for a run that moved too far."""


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


@dataclass(frozen=True)
class QualityReport:
    """What is known of an enrichment's table of answers. Nothing is asked for it."""

    name: str
    file: str
    output: str
    description: str
    tiles: tuple[Tile, ...]
    runs: tuple[RunLine, ...]
    """The last runs, the oldest first."""
    table: Table
    answers: tuple[Answers, ...]
    accuracy: Accuracy | None
    review: ReviewEstimate
    refusals: Refusals
    sample: SampleRows | None
    """None where no texts of rows are to be shown."""
    request: Request
    runs_sql: str
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Give the facts by name, as the JSON has them."""
        facts = asdict(self)
        facts["runs"] = [
            {**asdict(line.run), "started_at": str(line.run.started_at), "ended_at": str(line.run.ended_at or "")}
            for line in self.runs
        ]
        if self.accuracy is not None:
            facts["accuracy"]["fields"] = [
                {"field": one.field, "rows": one.rows, "right": one.right, "share": one.share, "interval": one.interval}
                for one in self.accuracy.fields
            ]
        return facts

    def to_json(self) -> str:
        """Give the report as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def to_html(self) -> str:
        """Give the report as one page that works offline and asks for nothing."""
        from sqlenrich.quality.report_page import report_page

        return report_page(self)

    def to_text(self, width: int = 100) -> str:
        """Give the ledger and the answers to the questions for a terminal of ``width`` columns."""
        return "\n".join(line.rstrip() for line in (*self._runs(width), "", *self._tiles()))

    def _runs(self, width: int) -> Iterator[str]:
        if not self.runs:
            yield f"{self.output} tells of no run of {self.name}"
            return
        head = ("run", "status", "rows", "refused", "calls", "tokens in", "tokens out", "cost", "right")
        yield from table([head, *map(self._run, self.runs)], width)

    def _run(self, line: RunLine) -> tuple[str, ...]:
        counts = ("rows_in", "quarantined", "calls", "tokens_in", "tokens_out")
        shown = ("-" if (value := line.number(name)) is None else f"{int(value):,}" for name in counts)
        cost = line.number("cost")
        spent = "-" if cost is None else f"{money(cost)} {line.run.report.get('currency') or ''}".strip()
        return (line.run.run_id, line.run.status, *shown, spent, self._right(line))

    def _right(self, line: RunLine) -> str:
        """Give the least share right among the fields, in the last evaluation before the next run."""
        share = self.accuracy_of(line)
        return "-" if share is None else f"{100 * share:.1f} %"

    def accuracy_of(self, line: RunLine) -> float | None:
        """Give the least share right of any field in the last evaluation before the run after this one."""
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


def report(
    enrichment: Enrichment,
    *,
    output: str | Path,
    page: str | Path | None = None,
    rows: int = DEFAULT_ROWS,
    with_rows: bool = True,
) -> QualityReport:
    """Give what is known of an enrichment's table of answers, and write it as a page.

    ``output`` is what a run wrote. ``page`` is an HTML file to write: one file without requests, with ``rows`` sampled
    rows. Without ``with_rows`` it has no text of any row: no sample, no example. What is not measured says which
    command measures it. Raises ConfigError for an output without the enrichment's results, and for a page that another
    program wrote.
    """
    if page is not None:
        if Path(page).suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{page}: a page is an .html file")
        check_page(Path(page))
    with opened(enrichment, output) as stored:
        lines = tuple(map(RunLine, stored.runs))
        facts = read_table(stored)
        answers = read_answers(stored)
        accuracy = read_accuracy(stored, with_rows=with_rows)
        review = review_estimate(stored, _reviewed_run(stored))
        found = QualityReport(
            name=enrichment.name,
            file=enrichment.place,
            output=str(output),
            description=enrichment.description,
            tiles=tiles(
                enrichment,
                str(output),
                runs=lines,
                table=facts,
                answers=answers,
                accuracy=accuracy,
                review=review,
                alarm=_alarm(stored),
            ),
            runs=lines[-RUNS_SHOWN:],
            table=facts,
            answers=answers,
            accuracy=accuracy,
            review=review,
            refusals=read_refusals(stored, facts) if with_rows else Refusals(),
            sample=read_sample(stored, rows, ROW_CHARACTERS) if with_rows and rows else None,
            request=_request(stored),
            runs_sql=runs_sql(stored),
        )
    if page is not None:
        write_file(Path(page), found.to_html())
    return found


def _reviewed_run(stored: Stored) -> str:
    """Give the sample to show: that of all runs, or else that of the newest run that has one."""
    name = f"{stored.enrichment.name}_reviews"
    if name not in stored.tables or "of_run" not in stored.columns(name):
        return ALL_RUNS
    samples = {str(run) for (run,) in stored.rows(f"SELECT DISTINCT of_run FROM {stored.quoted(name)}")}
    return ALL_RUNS if ALL_RUNS in samples or not samples else max(samples)


def _alarm(stored: Stored) -> bool | None:
    """Tell whether the newest run of the profiles raised an alarm; None where drift was never asked for."""
    name = PROFILES.format(stored.enrichment.name)
    if name not in stored.tables or not stored.enrichment.quality.drift.alarms:
        return None
    table = stored.quoted(name)
    newest = f"SELECT MAX(run) FROM {table}"
    found = stored.rows(f"SELECT level FROM {table} WHERE field = '{DRIFT_MARKS}' AND run = ({newest})")
    return (ALARM,) in found


def _request(stored: Stored) -> Request:
    enrichment = stored.enrichment
    by_file = (
        f"SELECT _model, _version, _fingerprint, COUNT(*) AS rows FROM {stored.table('enriched')} "
        "GROUP BY ALL ORDER BY rows DESC"
    )
    found = stored.rows(by_file)
    sql, shared = [by_file], None
    if "request" in stored.columns(LEDGER) and stored.runs:
        from sqlenrich.runner.backends.duckdb.database import text

        sql.append(f"SELECT request FROM {LEDGER} WHERE run_id = {text(stored.runs[-1].run_id)}")
        shared = stored.rows(sql[-1])[0][0]
    model = stored.runs[-1].snapshot.get("model") if stored.runs else None
    return Request(
        prompt=enrichment.template,
        turns=tuple((turn.role, turn.content) for turn in enrichment.turns),
        schema=enrichment.schema,
        model=str(model or enrichment.model),
        version=enrichment.version,
        fingerprint=enrichment.fingerprint,
        stored={f"{model}, version {version}, {digest}": int(rows) for model, version, digest, rows in found},
        shared=None if shared is None else str(shared),
        sql=tuple(sql),
    )
