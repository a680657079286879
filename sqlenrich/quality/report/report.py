"""``sqlenrich report``: what is known of a table of answers, as text, as JSON, or as one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlenrich.core.errors import ConfigError
from sqlenrich.plan.drift import runs
from sqlenrich.quality.page import check_page, write_file
from sqlenrich.quality.report.facts import (
    RUNS_SHOWN,
    Refusals,
    RunFigures,
    read_accuracy,
    read_answers,
    read_refusals,
    read_sample,
    read_spent,
    read_table,
    runs_sql,
)
from sqlenrich.quality.report.page import report_page
from sqlenrich.quality.report.quality_report import QualityReport, Request
from sqlenrich.quality.report.tiles import NO_PROFILE, tiles
from sqlenrich.quality.review.estimate import review_estimate
from sqlenrich.quality.stored_output import ALL_RUNS, StoredOutput, stored_results
from sqlenrich.runner.drift import Drift, why_not_compared
from sqlenrich.runner.profiles import drift_query, drifts_of, profiled_runs
from sqlenrich.runner.session import settings_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config
from sqlenrich.store.ledger import LEDGER

DEFAULT_ROWS = 500
ROW_BYTES = 400_000
"""The most bytes that the sampled rows take on a page."""


def report(
    enrichment: Enrichment | str | Path,
    *,
    output: str | Path,
    page: str | Path | None = None,
    rows: int = DEFAULT_ROWS,
    with_rows: bool = True,
    prices: str | Path | Prices | None = None,
    config: Config | None = None,
) -> QualityReport:
    """Give what is known of an enrichment's table of answers, and write it as a page.

    ``output`` is what a run wrote. ``page`` is an HTML file to write: one file without requests, with ``rows`` sampled
    rows. Without ``with_rows`` it has no text of any row: no sample, no example. What is not measured
    says which command measures it. ``prices`` is a file of prices: by them, or by those of the settings, the report
    computes the cost of runs that knew no prices. Raises ConfigError for an output without the enrichment's results,
    and for a page that another program wrote.
    """
    enrichment = enrichment_of(enrichment)
    if page is not None:
        if Path(page).suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{page}: a page is an .html file")
        check_page(Path(page))
    prices_now = settings_of(config, enrichment, prices).prices
    with stored_results(enrichment, output) as stored:
        drifts, newest, drift_sql = _drifts(stored)
        spent = read_spent(stored, prices_now)
        lines = tuple(RunFigures(run, drifts.get(run.run_id), spent.get(run.run_id)) for run in stored.runs)
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
                drift=newest,
            ),
            runs=lines[-RUNS_SHOWN:],
            table=facts,
            answers=answers,
            accuracy=accuracy,
            review=review,
            refusals=read_refusals(stored, facts) if with_rows else Refusals(),
            sample=read_sample(stored, rows, ROW_BYTES) if with_rows and rows else None,
            request=_request(stored),
            runs_sql=(runs_sql(stored), *drift_sql),
        )
    if page is not None:
        write_file(Path(page), report_page(found))
    return found


def _reviewed_run(stored: StoredOutput) -> str:
    """Give the sample to show: that of all runs, or else that of the newest run that has one."""
    table = stored.table("reviews")
    if "of_run" not in (stored.columns(table) or ()):
        return ALL_RUNS
    samples = {str(run) for (run,) in stored.rows(f"SELECT DISTINCT of_run FROM {table}")}
    return ALL_RUNS if ALL_RUNS in samples or not samples else max(samples)


def _drifts(stored: StoredOutput) -> tuple[Mapping[str, Drift], Drift | str, tuple[str, ...]]:
    """Compare each of the last runs with those before it.

    Give the drifts, that of the newest run or why it has none, and the SELECT.
    """
    if "profiles" not in stored.tables:
        return {}, NO_PROFILE, ()
    relations = stored.relations
    sql = relations.sql(drift_query(stored.enrichment, relations.engine, RUNS_SHOWN))
    drifts = drifts_of(stored.enrichment, stored.rows(sql))
    profiled = profiled_runs(stored.rows(relations.sql(runs(relations.engine))))
    newest = (drifts.get(profiled[0].run) or why_not_compared(profiled)) if profiled else NO_PROFILE
    return drifts, newest, (sql,)


def _request(stored: StoredOutput) -> Request:
    enrichment = stored.enrichment
    by_file = (
        f"SELECT _model, _version, _fingerprint, COUNT(*) AS rows FROM {stored.table('enriched')} "
        "GROUP BY ALL ORDER BY rows DESC"
    )
    found = stored.rows(by_file)
    sql, shared = [by_file], None
    if "request" in (stored.columns(LEDGER) or ()) and stored.runs:
        from sqlenrich.store.duckdb.database import text

        sql.append(f"SELECT request FROM {LEDGER} WHERE run_id = {text(stored.runs[-1].run_id)}")
        shared = stored.rows(sql[-1])[0][0]
    snapshot = stored.runs[-1].snapshot if stored.runs else None
    return Request(
        prompt=enrichment.template,
        turns=tuple((turn.role, turn.content or enrichment.system or "") for turn in enrichment.turns),
        schema=enrichment.schema,
        model=str(snapshot.model if snapshot is not None else enrichment.model),
        version=enrichment.version,
        fingerprint=enrichment.fingerprint,
        stored={f"{model}, version {version}, {digest}": int(rows) for model, version, digest, rows in found},
        shared=None if shared is None else str(shared),
        sql=tuple(sql),
    )
