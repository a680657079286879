"""What run, retry, plan and preview set up once: the source, the model, the plan, the caps."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast
from urllib.parse import urlsplit

from sqlenrich.core.errors import ConfigError, SqlenrichError, did_you_mean
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.runner.backends.base import Backend, Counts, Origin, Results, RunStart, Snapshot
from sqlenrich.runner.drift import Drift
from sqlenrich.runner.inputs import Input, input_name
from sqlenrich.runner.model_choice import (
    MOCK,
    ModelChoice,
    ModelOptions,
    WantedModel,
    choose_model,
    form_changes,
    sql_model,
)
from sqlenrich.runner.observer import NullObserver, Observer, PlanLine, Stopper
from sqlenrich.runner.output_forms import sends_schema
from sqlenrich.runner.place import Output, RunPlaceOptions
from sqlenrich.runner.report import Report
from sqlenrich.runner.usage import account
from sqlenrich.spec.enrichment import Enrichment, SourceColumn
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.run_settings import Caps
from sqlenrich.spec.settings import Config, find_config, with_prices

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.throttle.budget import Budget
    from sqlenrich.runner.backends.warehouse import WarehouseBackend
    from sqlenrich.runner.shared_request import SharedRequest


class SourceOptions(TypedDict, total=False):
    """The shorthands that change what the header says of the source."""

    key: str | Sequence[str] | None
    columns: Mapping[str, str] | None
    where: str | None


class InputOptions(TypedDict, total=False):
    """The shorthand that says how the files of the input are read."""

    encoding: str | None


class CapOptions(TypedDict, total=False):
    """The shorthands of caps, and the prices of ``max_cost``."""

    max_rows: int | None
    max_calls: int | None
    max_cost: float | None
    prices: str | Path | Prices | None


class AskOptions(ModelOptions, CapOptions, total=False):
    """The shorthands of a verb that asks: model, caps, prices."""


class RunOptions(SourceOptions, InputOptions, AskOptions, RunPlaceOptions, total=False):
    """The shorthands of a run: source, model, caps, prices, warehouse, what becomes of other rows."""

    incremental: bool
    """The rows replace those of the same key; the others stay."""
    replace: bool
    """The tables may be those of another prompt file of this name."""

    chunk_rows: int | None
    """The requests of a warehouse's statement; None: what takes 5 minutes."""


class RetryOptions(AskOptions, RunPlaceOptions, total=False):
    """The shorthands of a retry: model, caps, prices, warehouse."""

    chunk_rows: int | None


SOURCE_OPTIONS, CAP_OPTIONS, MODEL_OPTIONS, PLACE_OPTIONS = (
    tuple(options.__annotations__) for options in (SourceOptions, CapOptions, ModelOptions, RunPlaceOptions)
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


class Loop(Protocol):
    """What asks the pending requests of calls and stores the answers: a client's loop, or a warehouse's."""

    plan: Plan
    total: int
    """The requests given to the model."""
    calls: int
    """The requests sent, retries included."""
    retries: int
    stored: int
    """The answers stored."""

    def ask(self, choice: ModelChoice, call: Step, pending: int, *, repeat: bool, answered: bool = False) -> None:
        """Ask the pending relation; with ``repeat`` again while a retryable failure is pending.

        ``answered``: the model answered these requests before.
        """

    def limit_shares(self) -> dict[str, float]:
        """Give the share of the asking time in which each limit delayed requests."""


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
    chunk_rows: int | None = None
    """The requests of a warehouse's statement; None: what takes 5 minutes."""
    name: str = ""
    """What the tables and the line of the ledger are named after."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=time.monotonic)
    run_id: str = ""
    line: RunStart | None = None
    """The line of the ledger, once the verb has begun."""
    request: SharedRequest | None = None
    """What all its requests share, once the verb has begun."""
    declined: bool = False
    """Whether the observer declined to send the requests."""

    def __post_init__(self) -> None:
        self.run_id = self.run_id or f"{self.started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
        self.name = self.name or self.enrichment.name
        if not self.model.asks_in_sql:
            told = sends_schema(self.enrichment, self.model.endpoint)
            self.enrichment = replace(self.enrichment, repairs=self.enrichment.repairs_of(sends_schema=told))

    @property
    def origin(self) -> Origin:
        """What is stored beside each answer."""
        return Origin(self.run_id, self.enrichment.version, self.enrichment.fingerprint)

    def compile(self, input: Input, responses: str | None = None) -> Plan:
        """Open the source, settle the key, and compile the plan over the source's real types."""
        relations = self.backend.relations(self.name) | ({"responses": responses} if responses else {})
        self.enrichment, plan = compile_source(
            self.enrichment,
            self.backend,
            self.model.resolved,
            input,
            relations=relations,
            asked_by_client=not self.model.asks_in_sql,
            run_id=self.run_id,
        )
        return plan

    def ask_loop(self, plan: Plan) -> Loop:
        """Give the loop that asks: a client's, or the warehouse's own function in statements."""
        if not self.model.asks_in_sql:
            if (found := self._spark_loop(plan)) is not None:
                return found
            from sqlenrich.runner.ask_loop import AskLoop

            return AskLoop(
                self.backend, plan, self.origin, self.observer, self.stopper, on_form_change=self._form_changed
            )
        from sqlenrich.runner.sql_ask_loop import ChunkPolicy, SqlAskLoop

        return SqlAskLoop(
            cast("WarehouseBackend", self.backend),
            plan,
            self.origin,
            self.observer,
            self.stopper,
            ChunkPolicy(self.chunk_rows),
            self.enrichment.params.get("max_tokens") if self.enrichment.embedding is None else 0,
        )

    def _spark_loop(self, plan: Plan) -> Loop | None:
        """Give the loop that lets Spark's executors ask an endpoint; None for the mock, and on any other backend."""
        if self.backend.engine != "spark" or self.model.endpoint is None:
            return None
        from sqlenrich.runner.backends.spark.backend import SparkBackend
        from sqlenrich.runner.spark_ask_loop import SparkAskLoop, SparkChunkPolicy

        if not isinstance(self.backend, SparkBackend):
            return None
        policy = SparkChunkPolicy(self.chunk_rows)
        return SparkAskLoop(self.backend, plan, self.origin, self.observer, self.stopper, policy)

    def start(
        self, snapshot: Snapshot, plan: Plan, calls: Iterable[tuple[ResolvedModel, str]], *, retry: bool = False
    ) -> RunStart:
        """Give the line of the ledger with which the verb begins; ``calls`` are its models with their constants."""
        from sqlenrich.runner.shared_request import shared_request

        self.request = shared_request(
            self.enrichment,
            self.model,
            self.backend.engine,
            calls,
            self.config.prices,
            plan.responses.request,
            retry=retry,
        )
        written = tuple(dict.fromkeys((*snapshot.outputs, *self.backend.written_files())))
        self.line = RunStart(
            self.run_id, self.name, self.started, replace(snapshot, outputs=written), self.request.to_json()
        )
        return self.line

    def _form_changed(self, choice: ModelChoice) -> None:
        """Write into the ledger that the requests have another form from now on."""
        assert self.line is not None
        assert self.request is not None
        self.request = self.request.with_changes(choice.resolved.params, form_changes(choice))
        self.line = replace(self.line, request=self.request.to_json())
        self.backend.begin(self.line, known=True)

    def confirm(self, counts: Counts, cached: int) -> bool:
        """Show what is about to be asked; False where the observer or a signal declined it."""
        prices, model = self.config.prices, self.model.resolved.name
        price = None if prices is None else prices.models.get(model)
        line = PlanLine(
            counts.rows,
            counts.distinct,
            cached,
            -(-counts.pending // self.model.texts_per_call),
            model,
            self.model.where,
            paid=price is not None or may_cost(self.model),
            price=price,
            currency="" if prices is None else prices.currency,
        )
        asked = time.monotonic()
        stopped = counts.pending > 0 and self.stopper.requested
        self.declined = not stopped and not self.observer.plan(line)
        declined = stopped or self.declined
        self.clock += time.monotonic() - asked  # a person may have thought about the question
        if declined:
            self.stopper.stop()
        return not declined

    def close(
        self,
        start: RunStart,
        plan: Plan,
        counts: Counts,
        results: Results,
        loop: Loop,
        failure: SqlenrichError | None,
        *,
        cached: int,
        unasked: int = 0,
        publish: bool = True,
        drift: Drift | None = None,
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
            unchanged=not publish,
            declined=self.declined,
            stopped_at=self._cap_reached(results.pending),
            limits=loop.limit_shares(),
            statements=self.backend.statements_run(),
            again=self._again(),
            results=self.backend.result_tables(plan),
            drift=drift,
        )
        if publish:
            self.backend.publish(plan)
        status = "failed" if failure is not None else "stopped" if report.stopped or report.pending else "done"
        digest = self.backend.answers_digest(plan, self.run_id)
        stored = {"answers": loop.stored, "digest": digest, "tables": publish}
        self.backend.record(start, status, {**report.to_dict(), "stored": stored})
        if failure is not None:
            raise failure
        return report

    def _again(self) -> tuple[str, ...]:
        """Give the arguments of the command that asks refused rows again, where tables have the file's name."""
        if self.name != self.enrichment.name:
            return ()
        mock = ("--mock",) if self.model.resolved.name == MOCK else ()
        return (str(self.enrichment.path or self.enrichment.name), *mock)

    def _cap_reached(self, pending: int) -> str | None:
        """Give the cap that ended the verb, if one did."""
        rows = self.caps.max_rows is not None and pending and not self.stopper.requested
        reached = self.model.budget.reached if self.model.budget is not None else None
        return reached or ("max_rows" if rows else None)


def may_cost(choice: ModelChoice) -> bool:
    """Tell whether calls may cost money: not those of the mock model, nor of a server on this machine without a key."""
    if choice.asks_in_sql:
        return True
    if choice.endpoint is None:
        return False
    if choice.endpoint.resolve_key():  # it may be a proxy
        return True
    hosts = {urlsplit(url).hostname or "" for url in choice.endpoint.urls}
    return not all(host == "localhost" or host == "::1" or host.startswith("127.") for host in hosts)


def backend_of(output: Output) -> Backend:
    """Give the backend of an output: itself, or DuckDB for paths. Raises ConfigError for an unknown kind of file."""
    if not isinstance(output, str | Path | Sequence):
        return output
    from sqlenrich.runner.backends.duckdb.backend import DuckDBBackend

    return DuckDBBackend(output)


def choice_of(enrichment: Enrichment, config: Config, wanted: WantedModel, backend: Backend, caps: Caps) -> ModelChoice:
    """Give the model of a run: an endpoint where one is named, else what the backend's own function asks, if any."""
    if backend.asks_in_sql and wanted.endpoint is None:
        return sql_model(enrichment, backend.engine, config, wanted, new_budget(caps))
    return choose_model(enrichment, config, wanted, new_budget(caps))


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
    input: Input,
    *,
    relations: Mapping[str, str] | None = None,
    asked_by_client: bool = True,
    run_id: str | None = None,
) -> tuple[Enrichment, Plan]:
    """Open the source; give the enrichment with its key settled, and the plan over the source's real types."""
    source = backend.bind(enrichment, input)
    if not enrichment.key:
        enrichment = replace(enrichment, key=("_row",))
    check_columns(enrichment, source.types, input_name(input) or str(enrichment.source))
    tables = {**(relations or backend.relations(enrichment.name))}
    if source.relation is not None:
        tables["source"] = source.relation
    return enrichment, compile_plan(
        enrichment,
        backend.engine,
        tables,
        model=model,
        source_types=source.types,
        asked_by_client=asked_by_client,
        run_id=run_id,
    )


def check_columns(enrichment: Enrichment, types: Mapping[str, Any] | None, place: str) -> None:
    """Refuse a key or kept column that the source does not have. Raises ConfigError."""
    if types is None:
        return
    missing = [name for name in (*enrichment.key, *enrichment.keep) if enrichment.source_name(name) not in types]
    if missing:
        names = ", ".join(f'"{name}"{did_you_mean(name, types)}' for name in missing)
        known = ", ".join(types)
        raise ConfigError(
            f"no column {names} in {place}; there are: {known}; change key or keep of the file, or give --key"
        )


def names_of(written: str | Sequence[str]) -> tuple[str, ...]:
    """Give names that a caller gives as a sequence, or as the text of one."""
    return (written,) if isinstance(written, str) else tuple(written)


def with_source_options(
    enrichment: Enrichment,
    *,
    key: str | Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    beside: Enrichment | None = None,
) -> Enrichment:
    """Give an enrichment with another key, other source names of columns, another filter.

    Raises ConfigError for a column that neither it nor the one ``beside`` it reads.
    """
    changed = dict(enrichment.columns)
    keys = enrichment.key if key is None else names_of(key)
    if columns:
        used = (*replace(enrichment, key=keys, where=where or enrichment.where).used_columns(),)
        used += () if beside is None else beside.used_columns()
        for name in columns:
            if name not in used:
                raise ConfigError(
                    f'{enrichment.place} reads no column "{name}"{did_you_mean(name, used)}, which --column names; '
                    f"it reads: {', '.join(used)}"
                )
    for name, source in (columns or {}).items():
        known = changed.get(name)
        changed[name] = SourceColumn(known.type if known is not None else None, source)
    return replace(
        enrichment,
        key=keys,
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
    counted = {"with the key of another": repeated, "with NULL": nulls}
    found = "; ".join(f"{what}: {count:,} of {rows:,}" for what, count in counted.items() if count)
    return f"warning: the key {', '.join(key)} is not unique (rows {found}); every row is enriched all the same"
