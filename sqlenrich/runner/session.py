"""What run, retry, plan and preview set up once: the source, the model, the plan, the caps."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from sqlenrich.core.errors import ConfigError, SqlenrichError, did_you_mean
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.backends.base import Backend, Counts, Origin, Results, RunStart, Snapshot
from sqlenrich.runner.model_choice import ModelChoice, ModelOptions
from sqlenrich.runner.observer import NullObserver, Observer, PlanLine, Stopper
from sqlenrich.runner.report import Report
from sqlenrich.runner.usage import account
from sqlenrich.spec.enrichment import Enrichment, SourceColumn
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.run_settings import Caps
from sqlenrich.spec.settings import Config, find_config, with_prices

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.throttle.budget import Budget
    from sqlenrich.runner.ask_loop import AskLoop


class SourceOptions(TypedDict, total=False):
    """The shorthands that change what the header says of the source."""

    key: Sequence[str] | None
    columns: Mapping[str, str] | None
    where: str | None


class CapOptions(TypedDict, total=False):
    """The shorthands of caps, and the prices of ``max_cost``."""

    max_rows: int | None
    max_calls: int | None
    max_cost: float | None
    prices: str | Path | Prices | None


class AskOptions(ModelOptions, CapOptions, total=False):
    """The shorthands of a verb that asks: model, caps, prices."""


class RunOptions(SourceOptions, AskOptions, total=False):
    """The shorthands of a run: source, model, caps, prices."""


SOURCE_OPTIONS, CAP_OPTIONS, MODEL_OPTIONS = (
    tuple(options.__annotations__) for options in (SourceOptions, CapOptions, ModelOptions)
)


def check_options(function: str, options: Mapping[str, Any], known: type) -> None:
    """Refuse keywords that a function has not. Raises TypeError: a misspelt cap would be no cap."""
    for name in options:
        if name not in known.__annotations__:
            near = did_you_mean(name, known.__annotations__)
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'{near}")


def chosen(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Give those of some options that are set."""
    return {name: options[name] for name in names if name in options}


def caps_of(caps: Caps | None, options: Mapping[str, Any]) -> Caps:
    """Give the caps, or those of the shorthands. Raises ConfigError where both are given."""
    short = {name: options[name] for name in ("max_rows", "max_calls", "max_cost") if options.get(name) is not None}
    if caps is not None and short:
        raise ConfigError("give caps=Caps(...) or its shorthands, not both")
    return caps or Caps(**short)


@dataclass
class Session:
    """One verb at work: what it reads, whom it asks, what it keeps, and what it counts."""

    enrichment: Enrichment
    config: Config
    backend: Backend
    model: ModelChoice
    caps: Caps
    observer: Observer = field(default_factory=NullObserver)
    stopper: Stopper = field(default_factory=Stopper)
    name: str = ""
    """What the tables and the line of the ledger are named after."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    run_id: str = ""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or f"{self.started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.name = self.name or self.enrichment.name

    @property
    def origin(self) -> Origin:
        """What is stored beside each answer."""
        return Origin(self.run_id, self.enrichment.version, self.enrichment.fingerprint)

    def compile(self, input: str | Path | None, responses: str | None = None) -> Plan:
        """Open the source, settle the key, and compile the plan over the source's real types."""
        relations = self.backend.relations(self.name) | ({"responses": responses} if responses else {})
        self.enrichment, plan = compile_source(
            self.enrichment, self.backend, self.model.resolved, input, relations=relations
        )
        return plan

    def start(self, snapshot: Snapshot) -> RunStart:
        """Give the line of the ledger with which the verb begins."""
        return RunStart(self.run_id, self.name, self.started, snapshot)

    def confirm(self, counts: Counts, cached: int) -> bool:
        """Show what is about to be asked; False where the observer or a signal declined it."""
        line = PlanLine(
            counts.rows, counts.distinct, cached, counts.pending, self.model.resolved.name, self.model.where
        )
        declined = (counts.pending > 0 and self.stopper.requested) or not self.observer.plan(line)
        if declined:
            self.stopper.stop()
        return not declined

    def close(
        self,
        start: RunStart,
        plan: Plan,
        counts: Counts,
        results: Results,
        loop: AskLoop,
        failure: SqlenrichError | None,
        *,
        cached: int,
        unasked: int = 0,
        publish: bool = True,
    ) -> Report:
        """Write the results and the line of the ledger; give the report, or raise the failure that ended the verb."""
        report = Report(
            run_id=self.run_id,
            rows_in=counts.rows,
            distinct_requests=counts.distinct,
            cached=cached,
            calls=loop.calls,
            retries=loop.retries,
            enriched=results.enriched,
            quarantined=results.quarantined,
            pending=results.pending + unasked,
            quarantine=results.reasons,
            **account(self.backend, plan, self.run_id, self.config.prices),
            seconds=round(time.monotonic() - self.clock, 3),
            name=self.name,
            output=self.backend.output,
            max_quarantine=self.enrichment.max_quarantine,
            stopped=self.stopper.requested,
            unasked=unasked,
            stopped_at=self._cap_reached(results.pending),
            limits=loop.limit_shares(),
        )
        if publish:
            self.backend.publish(plan)
        status = "failed" if failure is not None else "stopped" if report.stopped or report.pending else "done"
        self.backend.record(start, status, report.to_dict())
        if failure is not None:
            raise failure
        return report

    def _cap_reached(self, pending: int) -> str | None:
        """Give the cap that ended the verb, if one did."""
        rows = self.caps.max_rows is not None and pending and not self.stopper.requested
        reached = self.model.budget.reached if self.model.budget is not None else None
        return reached or ("max_rows" if rows else None)


def backend_of(output: str | Path | Backend) -> Backend:
    """Give the backend of an output: itself, or DuckDB for a path. Raises ConfigError for an unknown kind of file."""
    if not isinstance(output, str | Path):
        return output
    from sqlenrich.runner.backends.duckdb.backend import DuckDBBackend

    return DuckDBBackend(output)


def new_budget(caps: Caps) -> Budget:
    """Give the account of what a run uses, below its caps."""
    from sqlenrich.llm.throttle.budget import Budget

    return Budget(caps.max_calls, caps.max_cost)


def settings_of(config: Config | None, enrichment: Enrichment, prices: str | Path | Prices | None) -> Config:
    """Give the settings of a verb: those given, else the nearest file's, with the prices of a file."""
    return with_prices(config if config is not None else find_config(enrichment.path), prices)


def compile_source(
    enrichment: Enrichment,
    backend: Backend,
    model: ResolvedModel,
    input: str | Path | None,
    *,
    relations: Mapping[str, str] | None = None,
) -> tuple[Enrichment, Plan]:
    """Open the source; give the enrichment with its key settled, and the plan over the source's real types."""
    source = backend.bind(enrichment, input)
    if not enrichment.key:
        enrichment = replace(enrichment, key=("_row",))
    check_columns(enrichment, source.types, str(input or enrichment.source))
    tables = {**(relations or backend.relations(enrichment.name))}
    if source.relation is not None:
        tables["source"] = source.relation
    return enrichment, compile_plan(
        enrichment, backend.engine, tables, model=model, source_types=source.types, asked_by_client=True
    )


def check_columns(enrichment: Enrichment, types: Mapping[str, Any] | None, place: str) -> None:
    """Refuse a key or kept column that the source does not have. Raises ConfigError."""
    if types is None:
        return
    missing = [name for name in (*enrichment.key, *enrichment.keep) if enrichment.source_name(name) not in types]
    if missing:
        names = ", ".join(f'"{name}"{did_you_mean(name, types)}' for name in missing)
        raise ConfigError(f"no column {names} in {place}; there are: {', '.join(types)}")


def with_source_options(
    enrichment: Enrichment,
    *,
    key: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
) -> Enrichment:
    """Give an enrichment with another key, other source names of columns, another filter."""
    changed = dict(enrichment.columns)
    for name, source in (columns or {}).items():
        known = changed.get(name)
        changed[name] = SourceColumn(known.type if known is not None else None, source)
    return replace(
        enrichment,
        key=tuple(key) if key is not None else enrichment.key,
        columns=changed,
        where=where if where is not None else enrichment.where,
    )


def key_warning(backend: Backend, plan: Plan, key: Sequence[str]) -> str | None:
    """Give a line about keys that are repeated or NULL: legal, one output row per input row; None for none."""
    if tuple(key) == ("_row",):
        return None
    rows, repeated, nulls = backend.repeated_keys(plan, key)
    if not repeated and not nulls:
        return None
    return (
        f"warning: the key {', '.join(key)} does not name each row: {repeated:,} of {rows:,} rows repeat "
        f"another's, {nulls:,} are NULL; each row has its result all the same"
    )
