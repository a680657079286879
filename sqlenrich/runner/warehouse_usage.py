"""``sqlenrich usage``: what runs took, from the stored answers and from a warehouse's own records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp, select

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import relation
from sqlenrich.core.parts import bounded_parts
from sqlenrich.core.printer import print_sql
from sqlenrich.core.result import Result
from sqlenrich.core.sql import equals, literal
from sqlenrich.core.text_table import table
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.runner.estimate import duration
from sqlenrich.runner.place import Output, RunPlaceOptions, is_paths, place_in
from sqlenrich.runner.usage import cost_of
from sqlenrich.spec.prices import Prices, money
from sqlenrich.spec.settings import Config, find_config, with_prices
from sqlenrich.store import queries
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import ModelUsage
from sqlenrich.store.ledger import LEDGER
from sqlenrich.store.spark.backend import SparkBackend
from sqlenrich.store.spark.ledger import LEDGER_LINES
from sqlenrich.store.statement_ledger import CALL, STATEMENTS, SUBMITTED
from sqlenrich.store.vendor_usage import VENDORS, Records, RunCalls, vendor_records
from sqlenrich.store.warehouse import WarehouseBackend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_VENDOR = "none: an endpoint's own records are with who runs it"
LAST_RUNS = 20
"""How many runs are shown where none is named."""
STATEMENT_CHARACTERS = 250_000
"""Of the reports that one statement writes. Warehouses bound a statement, the least at 1 MB."""
_STORED = ("statements", "answers", "failed", "tokens_in", "tokens_cached", "tokens_out", "cost", "recorded", "vendor")
"""What the ledger keeps of a run's figures."""
_HEAD = ["run", "name", "status", "statements", "answers", "failed", "tokens in", "tokens out", "cost", "vendor"]


@dataclass(frozen=True)
class RunUsage:
    """What one run took. A count of answers that do not report it is None, never 0.

    ``statements`` are those that asked the model in the warehouse; ``recorded`` of them are in the vendor's records,
    and ``vendor`` has the records' amounts by unit.
    """

    run_id: str
    name: str
    status: str
    started_at: str
    statements: int
    answers: int
    failed: int
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    cost: float | None
    cost_unknown: str
    recorded: int | None
    vendor: Mapping[str, float] | None

    def to_cells(self, currency: str | None) -> list[str]:
        """Return the cells of its line in a terminal."""
        counts = (self.statements, self.answers, self.failed, self.tokens_in, self.tokens_out)
        shown = ("unknown" if count is None else f"{count:,}" for count in counts)
        cost = "unknown" if self.cost is None else f"{money(self.cost)} {currency}"
        amounts = [f"{value:,.6g} {unit}" for unit, value in (self.vendor or {}).items()]
        if self.recorded is not None and self.recorded < self.statements:
            amounts.append(f"{self.recorded:,} of {self.statements:,} statements")
        nothing = "unknown" if self.statements else "no statement"
        return [self.run_id, self.name, self.status, *shown, cost, ", ".join(amounts) or nothing]


@dataclass(frozen=True, repr=False)
class Usage(Result):
    """What the runs of one schema took. ``problem`` says why the vendor's records, ``source``, can't be read."""

    runs: tuple[RunUsage, ...]
    place: str
    currency: str | None
    prices_as_of: str | None
    source: str
    until: str | None
    """Until when the vendor's records reach, in UTC; None where they have nothing of these runs' time."""
    age_s: float | None
    approximate: str
    """Why the records may hold more than the runs; empty where they hold the runs alone."""
    problem: str | None
    not_stored: str | None = None
    """Why the figures are not in the ledger."""
    lag: str = ""

    def to_text(self) -> str:
        """Return the usage for a terminal: a table, and where its figures come from."""
        lines = [line.rstrip() for line in table([_HEAD, *(run.to_cells(self.currency) for run in self.runs)], 10_000)]
        lines += sorted({f"cost unknown: {run.cost_unknown}" for run in self.runs if run.cost is None})
        if self.prices_as_of is not None:
            lines.append(f"cost: prices of {self.prices_as_of}, of the stored answers")
        lines.append(f"vendor: {self.source}{self._state()}")
        if self.not_stored is not None:
            lines.append(f"not written into the ledger: {self.not_stored}")
        return "\n".join(lines)

    def _state(self) -> str:
        if self.source == NO_VENDOR:
            return ""
        if self.problem is not None:
            return f" can't be read: {self.problem}"
        if self.until is None or self.age_s is None:
            return f" has nothing of this time yet; it comes {self.lag} late"
        age = f", until {self.until} UTC, {duration(self.age_s)} ago" if self.lag else ", as of now"
        return age + (f"; approximate: {self.approximate}" if self.approximate else "")


def usage(
    *,
    target: str | None = None,
    engine: str | None = None,
    profile: str | None = None,
    connection: str | None = None,
    output: str | None = None,
    spark: SparkSession | str | None = None,
    run: str | None = None,
    prices: str | Path | Prices | None = None,
    config: Config | None = None,
) -> Usage:
    """Return what the runs took whose results ``output`` has: the last 20, or the one that ``run`` names.

    ``output`` is a DuckDB database or a file of a run, or a schema of a warehouse or of Spark that the others name.
    Tokens and cost are those of the stored answers. The vendor's own records stand beside them, by the ids of the
    statements; ``problem`` says why where they can't be read. An endpoint has none. The figures of
    runs that have ended on a warehouse are written into the ledger, as ``usage`` of the run's report. Raises
    ConfigError where there is no run.
    """
    config = with_prices(config if config is not None else find_config(None), prices)
    options = RunPlaceOptions(target=target, engine=engine, profile=profile, connection=connection, spark=spark)
    backend = place_in(config, output, options, None)
    if backend is None:
        raise ConfigError(
            "of which runs? Give --output out.duckdb, --target, or --engine with --output DATABASE.SCHEMA"
        )
    if not isinstance(backend, Backend):
        backend = _stored_database(backend)
    with backend:
        runs = _runs(backend, run)
        found = _usage(backend, runs, config.prices)
        if isinstance(backend, WarehouseBackend):
            found = replace(found, not_stored=_store(backend, runs, found))
        return found


def _stored_database(output: Output) -> Backend:
    """Return the backend of a DuckDB output. Raises ConfigError where no run has written it."""
    from sqlenrich.store.duckdb.backend import DuckDBBackend

    assert is_paths(output)
    backend = DuckDBBackend(output)
    if not backend.outputs.database.is_file():
        raise ConfigError(f"{backend.output}: no run has written it")
    return backend


class _Run(NamedTuple):
    run_id: str
    name: str
    status: str
    started: datetime
    ended: datetime | None
    snapshot: str | None
    report: str | None

    @property
    def answers(self) -> str | None:
        """The table of its answers, where that is not the usual one."""
        return json.loads(self.snapshot).get("responses") if self.snapshot else None


class _Spent(NamedTuple):
    model: str
    answers: int
    failed: int
    usage: ModelUsage


def _usage(backend: Backend, runs: Sequence[_Run], prices: Prices | None) -> Usage:
    spent = _spent(backend, runs)
    statements = _statements(backend, runs)
    now = datetime.now(UTC).replace(tzinfo=None)
    calls = {
        one.run_id: RunCalls(
            tuple(statements.get(one.run_id, ())),
            one.started,
            one.ended or now,
            tuple(each.model for each in spent.get(one.run_id, ())),
        )
        for one in runs
    }
    records, problem = Records({}), None
    vendor = VENDORS.get(backend.engine.name)
    if isinstance(backend, WarehouseBackend):
        records, problem = vendor_records(backend, calls)
    lines = []
    for one in runs:
        found, figures = spent.get(one.run_id, []), records.by_run.get(one.run_id)
        cost, unknown = cost_of([each.usage for each in found], prices)
        totals = {
            name: _sum([getattr(each.usage, name) for each in found])
            for name in ("tokens_in", "tokens_cached", "tokens_out")
        }
        lines.append(
            RunUsage(
                run_id=one.run_id,
                name=one.name,
                status=one.status,
                started_at=str(one.started),
                statements=len(calls[one.run_id].statements),
                answers=sum(each.answers for each in found),
                failed=sum(each.failed for each in found),
                **totals,
                cost=cost,
                cost_unknown=unknown,
                recorded=None if figures is None else figures.statements,
                vendor=None if figures is None else figures.amounts,
            )
        )
    until = None if records.until is None else min(records.until, now)  # an hour's record ends with the hour
    return Usage(
        runs=tuple(lines),
        place=backend.output,
        currency=None if prices is None else prices.currency,
        prices_as_of=None if prices is None else prices.told,
        source=NO_VENDOR if vendor is None else str(vendor.source.value),
        until=None if until is None else f"{until:%Y-%m-%d %H:%M}",
        age_s=None if until is None else round(max((now - until).total_seconds(), 0.0), 1),
        approximate="" if vendor is None else vendor.approximate,
        problem=problem,
        lag="" if vendor is None else vendor.lag,
    )


def _store(backend: WarehouseBackend, runs: Sequence[_Run], found: Usage) -> str | None:
    """Write the figures of the runs that have ended into their reports, where they are new; or give why not."""
    changed = {}
    for run, used in zip(runs, found.runs, strict=True):
        report = json.loads(run.report or "{}")
        figures = {name: getattr(used, name) for name in _STORED if getattr(used, name) is not None}
        known = report.get("usage", {})
        if run.ended is None or known | figures == known:
            continue
        dated = {"currency": found.currency, "prices_as_of": found.prices_as_of, "vendor_until": found.until}
        report["usage"] = known | figures | {name: value for name, value in dated.items() if value is not None}
        changed[run.run_id] = json.dumps(report)
    try:
        for part in bounded_parts(changed.items(), lambda report: len(report[1]), STATEMENT_CHARACTERS):
            backend.ledger.replace_reports(dict(part))
    except RunError as error:  # a role that only reads
        return str(error)
    return None


def _runs(backend: Backend, run: str | None) -> list[_Run]:
    """Read the last runs of the ledger, or one, the oldest first. Raises ConfigError where there is none."""
    ledger, found = backend.named(LEDGER), list[tuple[Any, ...]]()
    if backend.connection.columns(ledger) is not None:
        query = select("run_id", "name", "status", "started_at", "ended_at", "snapshot", "report")
        query = query.from_(relation(backend.engine, ledger)).order_by("started_at DESC")
        query = query.limit(LAST_RUNS * (LEDGER_LINES if isinstance(backend, SparkBackend) else 1))
        if run is not None:
            query = query.where(equals("run_id", run))
        found = backend.connection.rows(print_sql(backend.engine, query))
    if not found:
        raise ConfigError(f"{backend.output} holds no run{f' {run}' if run else ''}: sqlenrich run makes one")
    lines = [
        _Run(str(id), str(name), str(status), _naive(started), None if ended is None else _naive(ended), *texts)
        for id, name, status, started, ended, *texts in found
    ]
    last: dict[str, _Run] = {}
    for line in lines:
        if line.run_id not in last or last[line.run_id].ended is None:  # of several lines of a run one tells its end
            last[line.run_id] = line
    return list(reversed(list(last.values())[:LAST_RUNS]))


def _statements(backend: Backend, runs: Sequence[_Run]) -> dict[str, list[str]]:
    """Return the ids of the statements that asked the model, by run."""
    table_name, found = backend.named(STATEMENTS), dict[str, list[str]]()
    if backend.connection.columns(table_name) is None:
        return found
    asked = exp.and_(equals("kind", CALL), equals("state", SUBMITTED))
    query = select("run_id", "statement_id").from_(relation(backend.engine, table_name))
    query = query.where(asked, _of(runs)).order_by("began_at", "statement_id")
    for run_id, id in backend.connection.rows(print_sql(backend.engine, query)):
        found.setdefault(run_id, []).append(str(id))
    return found


def _spent(backend: Backend, runs: Sequence[_Run]) -> dict[str, list[_Spent]]:
    """Return what the stored answers of each run took, a line per model."""
    tables: dict[str, list[_Run]] = {}
    for one in runs:
        usual = backend.named(RELATIONS["responses"].format(one.name))
        tables.setdefault(one.answers or usual, []).append(one)
    found: dict[str, list[_Spent]] = {}
    for name, own in tables.items():
        if backend.connection.columns(name) is None:  # a run that ended before it asked
            continue
        query = queries.usage_by_run(relation(backend.engine, name)).where(_of(own))
        for run_id, model, answers, failed, uncounted, *counts in backend.connection.rows(
            print_sql(backend.engine, query)
        ):
            tokens = (None if count is None else int(count) for count in counts)
            usage_of_model = ModelUsage(str(model), int(uncounted), *tokens)
            found.setdefault(run_id, []).append(_Spent(str(model), int(answers), int(failed), usage_of_model))
    return found


def _of(runs: Sequence[_Run]) -> exp.In:
    return exp.In(this=exp.column("run_id"), expressions=[literal(one.run_id) for one in runs])


def _naive(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo is not None else at


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known or not counts else None
