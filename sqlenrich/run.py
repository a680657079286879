"""Run an enrichment on DuckDB: prompts and checks in SQL, the model asked by a client in between."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .compiler import compile_plan, resolve_model
from .config import Config, Endpoint, find_config
from .engines import get_engine
from .enrichment import Enrichment, SourceColumn
from .errors import ConfigError, RunError, SqlenrichError, did_you_mean
from .plan import Plan
from .report import Report
from .request import ResolvedModel, hint_text
from .schema.vendor import json_schema_format

if TYPE_CHECKING:  # "import sqlenrich" loads neither duckdb nor an HTTP client
    from .llm.client import Client
    from .llm.messages import Answer
    from .llm.model import Model
    from .store import Counts, Store

DATABASE_SUFFIXES = (".duckdb", ".db")
FILE_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class PlanLine:
    """What a run is about to do, told before the first call."""

    rows: int
    distinct: int
    answered: int
    calls: int
    model: str
    where: str

    def to_text(self) -> str:
        """Give the one line."""
        return (
            f"plan: {self.rows:,} rows, {self.distinct:,} distinct requests, {self.answered:,} already answered, "
            f"{self.calls:,} calls to {self.model}{self.where}"
        )


class Observer(Protocol):
    """Who is told how a run goes: the command line's progress, or nobody."""

    def plan(self, line: PlanLine) -> bool:
        """The run is about to start; False ends it before the first call."""

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Some answers were stored; ``total`` is how many this run is to get."""

    def note(self, line: str) -> None:
        """Something worth a line."""


class Silent:
    """An observer that says nothing and agrees to everything."""

    def plan(self, line: PlanLine) -> bool:
        """Agree."""
        return True

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Say nothing."""

    def note(self, line: str) -> None:
        """Say nothing."""


class Stopper:
    """A way to end a run early from a signal handler or another thread: what was answered is kept."""

    def __init__(self) -> None:
        self.requested = False
        self._client: Client | None = None

    def stop(self) -> None:
        """Ask nothing new and end; a second call abandons what is in flight."""
        self.requested = True
        if self._client is not None:
            self._client.stop()

    def watch(self, client: Client | None) -> None:
        """Tell which client to stop."""
        self._client = client
        if client is not None and self.requested:
            client.stop()


@dataclass(frozen=True)
class Ask:
    """Whom a client run asks: a model made ready, its identity for the hash, and how many at a time."""

    model: Model
    resolved: ResolvedModel
    concurrency: int
    where: str
    options: Mapping[str, Any] = field(default_factory=dict)


def run(
    enrichment: Enrichment,
    *,
    input: str | Path | None = None,
    output: str | Path,
    endpoint: str | None = None,
    model: str | None = None,
    mock: bool = False,
    mock_failures: Mapping[str, float] | None = None,
    concurrency: int | None = None,
    max_rows: int | None = None,
    key: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    responses: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
) -> Report:
    """Enrich a table on DuckDB and give the report.

    ``input`` is a CSV, TSV, JSON lines or Parquet file or a DuckDB database (then the header's source names the
    table); without it the source is a table of the output database. ``output`` is a DuckDB database, or a CSV or
    Parquet file whose database lies in ``.sqlenrich/`` beside it. The model is ``mock``, or ``endpoint`` (an URL or a
    name of ``sqlenrich.toml``), or what the settings name. ``key``, ``columns`` (name to source column) and ``where``
    change what the header says; ``max_rows`` is how many requests are sent at most. Rows that a model answered badly are in NAME_quarantine;
    this raises only for what keeps a run from starting or going on.
    """
    from .store import SOURCE, Store

    started, clock = datetime.now(UTC), time.monotonic()
    enrichment = with_settings(enrichment, key=key, columns=columns, where=where)
    observer, stopper = observer or Silent(), stopper or Stopper()
    config = config if config is not None else find_config(enrichment.path)
    ask = choose_model(enrichment, config, endpoint=endpoint, model=model, mock=mock, failures=mock_failures, concurrency=concurrency)
    target = Path(output)
    database = database_path(target)
    run_id = f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    with Store(database) as store:
        enrichment, types = open_source(store, enrichment, input)
        relations = {"source": SOURCE, **({"responses": responses} if responses else {})}
        plan = compile_plan(enrichment, "duckdb", relations, model=ask.resolved, source_types=types, options=ask.options)
        counts = store.prepare(plan, limit=max_rows)
        cached = counts.distinct - counts.unanswered
        status, stats, facts = "error", _Calls(), {}
        try:
            line = PlanLine(counts.rows, counts.distinct, cached, counts.pending, ask.resolved.name, ask.where)
            if not observer.plan(line):
                stopper.requested = True
            if counts.pending and not stopper.requested:
                _ask(store, plan, ask, enrichment, counts, run_id, observer, stopper, stats)
            good, bad, codes, pending = store.finish(plan)
            tokens_in, tokens_out = store.tokens(plan, run_id)
            report = Report(
                run_id=run_id,
                rows_in=counts.rows,
                distinct_requests=counts.distinct,
                cached=cached,
                calls=stats.calls,
                retries=stats.retries,
                enriched=good,
                quarantined=bad,
                pending=pending,
                quarantine=codes,
                tokens_in=tokens_in,
                tokens_out=tokens_out,
                cost=None,
                seconds=round(time.monotonic() - clock, 3),
                name=enrichment.name,
                output=str(target),
                max_quarantine=enrichment.max_quarantine,
                stopped=stopper.requested,
            )
            if target != database:
                store.export(plan, target)
            status, facts = "stopped" if report.stopped or pending else "done", report.to_dict()
        finally:
            store.record(run_id, enrichment.name, started, status, facts or {"calls": stats.calls, "retries": stats.retries})
    return report


@dataclass
class _Calls:
    calls: int = 0
    retries: int = 0


def open_source(store: Store, enrichment: Enrichment, input: str | Path | None) -> tuple[Enrichment, dict[str, Any]]:
    """Open the input in a store; give the enrichment with its key settled, and the source's column types."""
    number_rows = not enrichment.key
    table = enrichment.source
    types = store.open_source(None if input is None else str(input), table, enrichment.query, number_rows=number_rows)
    if number_rows:
        enrichment = replace(enrichment, key=("_row",))
    missing = [
        name for name in (*enrichment.key, *enrichment.keep) if enrichment.source_name(name) not in types
    ]
    if missing:
        names = ", ".join(f'"{name}"{did_you_mean(name, types)}' for name in missing)
        raise ConfigError(f"no column {names} in {input or table}; there are: {', '.join(types)}")
    return enrichment, types


def choose_model(
    enrichment: Enrichment,
    config: Config,
    *,
    endpoint: str | None,
    model: str | None,
    mock: bool,
    failures: Mapping[str, float] | None = None,
    concurrency: int | None = None,
) -> Ask:
    """Give whom to ask: the mock model, or an endpoint of the flags, the settings or the environment."""
    from .llm.endpoint import EndpointConfig, EndpointModel
    from .llm.mock import MockModel

    engine = get_engine("duckdb")
    if mock:
        resolved = resolve_model(enrichment, engine, "mock")
        return Ask(MockModel(enrichment.schema, failures=failures), resolved, concurrency or 64, "")
    settings = config.endpoint(endpoint)
    alias = config.model(model or enrichment.model, "endpoint") or config.model("default", "endpoint")
    name = alias.name if alias is not None else only_model(settings)
    resolved = resolve_model(enrichment, engine, name, alias.params if alias is not None else None)
    response_format = None if enrichment.hint == "always" else json_schema_format(enrichment.name, enrichment.schema)
    width = concurrency or settings.concurrency
    client = EndpointConfig(
        url=settings.url,
        model=resolved.name,
        api_key=settings.api_key,
        concurrency=width,
        timeout_s=settings.timeout,
        params=resolved.params,
        response_format=response_format,
        hint=hint_text(enrichment.schema) if enrichment.hint == "always" else None,
        extra_body=settings.extra_body,
    )
    return Ask(EndpointModel(client), resolved, width, f" at {settings.url}")


def only_model(settings: Endpoint) -> str:
    """Ask an endpoint for its models and give the only one. Raises ConfigError where there is none or a choice."""
    from .llm.discover import list_models

    names = list_models(settings.url, settings.api_key)
    if len(names) == 1:
        return names[0]
    offered = f"the endpoint has: {', '.join(names[:20])}" if names else "the endpoint names none"
    raise ConfigError(f"which model? Give --model, or models.default.endpoint in sqlenrich.toml; {offered}")


def _ask(
    store: Store,
    plan: Plan,
    ask: Ask,
    enrichment: Enrichment,
    counts: Counts,
    run_id: str,
    observer: Observer,
    stopper: Stopper,
    calls: _Calls,
) -> None:
    from .llm.client import Client

    def keep(answers: Sequence[Answer]) -> None:
        if answers:
            store.append(plan, answers, run_id=run_id, version=enrichment.version, fingerprint=enrichment.fingerprint)
            observer.answered(answers, counts.pending)

    requests = store.requests(plan, counts.pending)
    with Client(ask.model, concurrency=ask.concurrency) as client:
        stopper.watch(client)
        try:
            first = list(itertools.islice(requests, 3))
            answered = client.preflight(first)
            keep(answered)
            asked = {answer.request_hash for answer in answered}
            rest = itertools.chain((r for r in first if r.request_hash not in asked), requests)
            for answers in client.stream(rest):
                keep(answers)
        except SqlenrichError as error:
            raise RunError(f"{error}") from None
        finally:
            stopper.watch(None)
            calls.calls, calls.retries = client.stats.calls, client.stats.retries


def database_path(output: Path) -> Path:
    """Give the database of an output: itself, or one in ``.sqlenrich/`` beside a CSV or Parquet file."""
    suffix = output.suffix.lower()
    if suffix in DATABASE_SUFFIXES:
        return output
    if suffix in FILE_SUFFIXES:
        return output.parent / ".sqlenrich" / f"{output.name}.duckdb"
    known = ", ".join((*DATABASE_SUFFIXES, *FILE_SUFFIXES))
    raise ConfigError(f"{output}: unknown kind of output{did_you_mean(suffix, (*DATABASE_SUFFIXES, *FILE_SUFFIXES))}; there are: {known}")


def with_settings(
    enrichment: Enrichment,
    *,
    key: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
) -> Enrichment:
    """Give an enrichment with what the command line sets: the key, the source names of columns, the filter."""
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
