"""``sqlenrich report``: what is known of a table of answers, as text, as JSON, or as one page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import column
from sqlenrich.core.sql import equals
from sqlenrich.plan.drift import runs
from sqlenrich.plan.relations import symbol
from sqlenrich.quality.opened_store import open_results
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
    runs_query,
)
from sqlenrich.quality.report.page import report_page
from sqlenrich.quality.report.quality_report import QualityReport, Request
from sqlenrich.quality.report.tiles import NO_PROFILE, tiles
from sqlenrich.quality.review.estimate import review_estimate
from sqlenrich.runner.drift import Drift, why_not_compared
from sqlenrich.runner.place import Output, PlaceOptions
from sqlenrich.runner.profiles import drift_query, drifts_of, profiled_runs
from sqlenrich.runner.setup import set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config
from sqlenrich.store.database import selected
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.store import ALL_RUNS, Store

DEFAULT_ROWS = 500
ROW_BYTES = 400_000
"""The most bytes that the sampled rows take on a page."""


def report(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    page: str | Path | None = None,
    rows: int = DEFAULT_ROWS,
    with_rows: bool = True,
    prices: str | Path | Prices | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> QualityReport:
    """Return what is known of an enrichment's table of answers, and write it as a page.

    ``output`` is what a run wrote; ``options`` name a warehouse as those of :func:`~sqlenrich.run` do. ``page`` is an
    HTML file to write: one file without requests, with ``rows`` sampled rows. Without ``with_rows`` it has no text of
    any row: no sample, no example. What is not measured says which command measures it. ``prices`` is a file of prices:
    by them, or by those of the settings, the report computes the cost of runs that knew no prices. Raises ConfigError
    for an output without the enrichment's results, and for a page that another program wrote.
    """
    setup = set_up("report", PlaceOptions, options, enrichment, output=output, config=config, prices=prices)
    enrichment = setup.enrichment
    if page is not None:
        if Path(page).suffix.lower() not in (".html", ".htm"):
            raise ConfigError(f"{page}: a page is an .html file")
        check_page(Path(page))
    with open_results(setup) as stored:
        drifts, newest, drift_sql = _drifts(enrichment, stored)
        spent = read_spent(stored, setup.config.prices)
        lines = tuple(RunFigures(run, drifts.get(run.run_id), spent.get(run.run_id)) for run in stored.runs)
        facts = read_table(stored)
        answers = read_answers(stored)
        accuracy = read_accuracy(stored, with_rows=with_rows)
        review = review_estimate(enrichment, stored, _reviewed_run(stored))
        found = QualityReport(
            name=enrichment.name,
            file=enrichment.place,
            output=stored.output,
            description=enrichment.description,
            tiles=tiles(
                enrichment,
                stored.output,
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
            request=_request(enrichment, stored),
            runs_sql=(stored.sql(runs_query(stored)), *drift_sql),
        )
    if page is not None:
        write_file(Path(page), report_page(found))
    return found


def _reviewed_run(stored: Store) -> str:
    """Return the sample to show: that of all runs, or else that of the newest run that has one."""
    if "of_run" not in stored.columns("reviews"):
        return ALL_RUNS
    samples = {str(run) for (run,) in stored.rows(exp.select("of_run").distinct().from_(symbol("reviews")))}
    return ALL_RUNS if ALL_RUNS in samples or not samples else max(samples)


def _drifts(enrichment: Enrichment, stored: Store) -> tuple[Mapping[str, Drift], Drift | str, tuple[str, ...]]:
    """Compare each of the last runs with those before it.

    Return the drifts, that of the newest run or why it has none, and the SELECT.
    """
    if not stored.has("profiles"):
        return {}, NO_PROFILE, ()
    query = drift_query(enrichment, stored.engine, RUNS_SHOWN)
    drifts = drifts_of(enrichment, stored.rows(query))
    profiled = profiled_runs(stored.rows(runs(stored.engine)))
    newest = (drifts.get(profiled[0].run) or why_not_compared(profiled)) if profiled else NO_PROFILE
    return drifts, newest, (stored.sql(query),)


def _request(enrichment: Enrichment, stored: Store) -> Request:
    names = [column(stored.engine, name) for name in ("_model", "_version", "_fingerprint")]
    by_file = exp.select(*names, exp.alias_(exp.Count(this=exp.Star()), "counted_rows")).from_(symbol("enriched"))
    by_file = by_file.group_by(*(name.copy() for name in names)).order_by("counted_rows DESC")
    found = sorted(stored.rows(by_file), key=lambda row: (-int(row[3]), str(row)))
    sql = [by_file]
    newest = stored.runs[-1] if stored.runs else None
    if newest is not None:
        ledger = stored.database.named(LEDGER)
        sql.append(selected(stored.database, ledger, ["request"]).where(equals("run_id", newest.run_id)))
    snapshot = None if newest is None else newest.snapshot
    return Request(
        prompt=enrichment.template,
        turns=tuple((turn.role, turn.content or enrichment.system or "") for turn in enrichment.turns),
        schema=enrichment.schema,
        model=str(snapshot.model if snapshot is not None else enrichment.model),
        version=enrichment.version,
        fingerprint=enrichment.fingerprint,
        stored={f"{model}, version {version}, {digest}": int(rows) for model, version, digest, rows in found},
        shared=None if newest is None or newest.request is None else newest.request.to_json(),
        sql=tuple(map(stored.sql, sql)),
    )
