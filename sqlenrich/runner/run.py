"""Run an enrichment on DuckDB: prompts and checks in SQL, the model asked by a client in between."""

from __future__ import annotations

import importlib
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, SqlenrichError, did_you_mean
from sqlenrich.plan.compile import RELATIONS, compile_plan, snapshot_digest
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.runner.model_choice import Ask, choose_model
from sqlenrich.runner.observer import Observer, PlanLine, Silent, Stopper
from sqlenrich.runner.outputs import check_replaceable
from sqlenrich.runner.report import Report
from sqlenrich.runner.usage import account
from sqlenrich.spec.enrichment import Enrichment, SourceColumn
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.settings import Config, find_config, with_prices

if TYPE_CHECKING:  # "import sqlenrich" loads neither duckdb nor an HTTP client
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.messages import Answer
    from sqlenrich.llm.throttle.budget import Caps
    from sqlenrich.llm.throttle.limiter import RateLimiter
    from sqlenrich.runner.backends.duckdb.database import Database
    from sqlenrich.runner.backends.duckdb.store import Store

DATABASE_SUFFIXES = (".duckdb", ".db")
FILE_SUFFIXES = (".csv", ".parquet")
PROBES = 3
COMMIT_ROWS = 256
"""So many answers are stored at once at most, since each commit costs the same."""
BATCH_ROWS = 128
"""Half of that where a model takes its time: requests keep going out while a batch is stored."""


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
    max_calls: int | None = None,
    max_cost: float | None = None,
    prefix_order: bool = True,
    key: Sequence[str] | None = None,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    responses: str | None = None,
    tables: str | None = None,
    prices: str | Path | Prices | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
) -> Report:
    """Enrich a table on DuckDB and give the report.

    ``input`` is a CSV, TSV, JSON lines or Parquet file or a DuckDB database (then the header's source names the
    table); without it the source is a table of the output database. ``output`` is a DuckDB database, or a CSV or
    Parquet file whose database lies in ``.sqlenrich/`` beside it. The model is ``mock``, or ``endpoint`` (an URL or a
    name of ``sqlenrich.toml``), or what the settings name. ``key``, ``columns`` (name to source column) and ``where``
    change what the header says. ``max_rows`` is how many distinct requests are asked at most, ``max_calls`` how many
    are sent, retries included, and ``max_cost`` what they may cost by ``prices`` (a file of prices): at a cap the run
    ends, and the same call goes on later. ``prefix_order`` false sends requests in no order, else those with an equal
    beginning go to an endpoint one after another. ``tables`` is what the tables and the line of the ledger are named
    after, instead of the file. Rows that a model answered badly are in NAME_quarantine; this raises only for what keeps
    a run from starting or going on.
    """
    from sqlenrich.llm.throttle.budget import Caps
    from sqlenrich.runner.backends.duckdb.source import SOURCE
    from sqlenrich.runner.backends.duckdb.store import SLICES, Snapshot, Start, Store

    started, clock = datetime.now(UTC), time.monotonic()
    enrichment = with_settings(enrichment, key=key, columns=columns, where=where)
    observer, stopper = observer or Silent(), stopper or Stopper()
    config = with_prices(config if config is not None else find_config(enrichment.path), prices)
    caps = Caps(max_calls, max_cost)
    ask = choose_model(
        enrichment,
        config,
        endpoint=endpoint,
        model=model,
        mock=mock,
        failures=mock_failures,
        concurrency=concurrency,
        caps=caps,
        prefix_order=prefix_order,
    )
    target = Path(output)
    database = database_path(target)
    check_apart(enrichment, input, target)
    run_id = new_run_id(started)
    name = tables or enrichment.name
    with Store(database) as store:
        enrichment, types = bind_source(store, enrichment, input)
        named = {step: form.format(name) for step, form in RELATIONS.items()}
        relations = {**named, "source": SOURCE, **({"responses": responses} if responses else {})}
        plan, sliced = (
            compile_plan(enrichment, "duckdb", {**relations, **over}, model=ask.resolved, source_types=types)
            for over in ({}, SLICES)
        )
        snapshot = Snapshot(
            digest=snapshot_digest(enrichment, "duckdb", ask.own),
            model=ask.resolved.name,
            asked_for=model,
            mock=mock,
            key=None if key is None else tuple(key),
            columns=None if columns is None else dict(columns),
            where=where,
            responses=responses,
        )
        start = Start(run_id, name, started, snapshot)
        call = plan.step("responses")
        # DuckDB needs no Python while it makes the prompts.
        threading.Thread(target=_load, name="sqlenrich-imports").start()
        counts = store.prepare(plan, start, limit=max_rows, ordered=ask.prefix_order)
        if (warning := store.key_warning(plan, enrichment.key)) is not None:
            observer.note(warning)
        cached = counts.distinct - counts.unanswered
        line = PlanLine(counts.rows, counts.distinct, cached, counts.pending, ask.resolved.name, ask.where)
        rounds = Rounds(store, plan, enrichment, run_id, observer, stopper)
        failure: SqlenrichError | None = None
        # A stop that came while the rows were read is an answer to the question.
        if declined := (counts.pending > 0 and stopper.requested) or not observer.plan(line):
            stopper.stop()
        elif counts.pending:
            try:
                rounds.ask(ask, call, counts.pending, repeat=max_rows is None)
            except SqlenrichError as error:
                failure = error
        # Where nothing was answered the tables of an earlier run stay as they were.
        kept_as_is = (declined or failure is not None) and not rounds.kept and store.has(plan.step("enriched"))
        if kept_as_is:
            good, bad, codes, pending = 0, counts.rows, {"NOT_ASKED": counts.rows}, counts.unanswered
        else:
            good, bad, codes, pending = store.finish(plan, sliced.step("checked").sql, [call])
        report = Report(
            run_id=run_id,
            rows_in=counts.rows,
            distinct_requests=counts.distinct,
            cached=cached,
            calls=rounds.calls,
            retries=rounds.retries,
            enriched=good,
            quarantined=bad,
            pending=pending,
            quarantine=codes,
            **account(store, plan.step("responses").relation, run_id, config.prices),
            seconds=round(time.monotonic() - clock, 3),
            name=name,
            output=str(target),
            max_quarantine=enrichment.max_quarantine,
            stopped=stopper.requested,
            stopped_at=cap_reached(caps, max_rows, pending, stopper),
            limits=rounds.shares(),
        )
        if target != database and not kept_as_is:
            store.export(plan, target)
        status = "failed" if failure is not None else "stopped" if report.stopped or pending else "done"
        store.record(start, status, report.to_dict())
    if failure is not None:
        raise failure
    return report


def _load() -> None:
    """Import what is needed from the first call on: a tenth of a second."""
    for module in ("sqlenrich.llm.client", "sqlenrich.runner.backends.duckdb.arrow"):
        importlib.import_module(module)


def bind_source(
    database: Database, enrichment: Enrichment, input: str | Path | None
) -> tuple[Enrichment, dict[str, Any]]:
    """Open the input; give the enrichment with its key settled, and the source's column types."""
    from sqlenrich.runner.backends.duckdb.source import open_source

    number_rows = not enrichment.key
    table = enrichment.source
    source = None if input is None else str(input)
    types = open_source(database, source, table, enrichment.query, number_rows=number_rows)
    if number_rows:
        enrichment = replace(enrichment, key=("_row",))
    missing = [name for name in (*enrichment.key, *enrichment.keep) if enrichment.source_name(name) not in types]
    if missing:
        names = ", ".join(f'"{name}"{did_you_mean(name, types)}' for name in missing)
        raise ConfigError(f"no column {names} in {input or table}; there are: {', '.join(types)}")
    return enrichment, types


class Rounds:
    """Asks what is pending of a call, keeps each answer, and counts."""

    def __init__(
        self, store: Store, plan: Plan, enrichment: Enrichment, run_id: str, observer: Observer, stopper: Stopper
    ) -> None:
        self.store, self.plan, self.enrichment = store, plan, enrichment
        self.run_id, self.observer, self.stopper = run_id, observer, stopper
        self.total = self.calls = self.retries = self.kept = self.failed = 0
        self.limiters: dict[int, RateLimiter] = {}

    def ask(self, ask: Ask, call: Step, pending: int, *, repeat: bool, suspect: bool = False) -> None:
        """Ask the pending relation; with ``repeat`` also what is pending of the call after that, until nothing is.

        ``suspect`` requests failed before: that they fail again is no reason to end.
        """
        from sqlenrich.llm.client import Client
        from sqlenrich.llm.model import InstantModel

        instant = isinstance(ask.model, InstantModel) and ask.model.instant
        batch_rows = COMMIT_ROWS if instant else BATCH_ROWS
        with Client(ask.model, concurrency=ask.concurrency, batch_rows=batch_rows, caps=ask.caps) as client:
            self.stopper.watch(client)
            if client.limiter is not None:
                self.limiters[id(client.limiter)] = client.limiter
            before = replace(client.stats)  # a model that was asked before counts on
            try:
                self.round(client, call, pending, first=True, suspect=suspect)
                while (
                    repeat
                    and not client.stopped
                    and self.failed
                    and (pending := self.store.refresh(self.plan, call, ordered=ask.prefix_order))
                ):
                    sent = client.stats.calls - client.stats.retries
                    self.round(client, call, pending, first=False)
                    self.retries += client.stats.calls - client.stats.retries - sent
            finally:
                for line in client.heard():
                    self.observer.note(line)
                self.stopper.watch(None)
                self.calls += client.stats.calls - before.calls
                self.retries += client.stats.retries - before.retries

    def round(self, client: Client, call: Step, pending: int, *, first: bool, suspect: bool = False) -> None:
        self.total += pending
        self.failed = 0
        requests = self.store.requests(call, pending)
        if first:
            # Neighbours are alike: three of them that fail would say nothing of the others.
            head = self.store.spread(call, pending, PROBES)
            answers = client.preflight(head, suspect=suspect)
            self.keep(answers)
            if asked := {answer.request_hash for answer in answers}:
                requests = (request for request in requests if request.request_hash not in asked)
        for batch in client.stream(requests):
            self.keep(batch)
            for line in client.heard():
                self.observer.note(line)

    def shares(self) -> dict[str, float]:
        """Give the share of the asking time in which each limit held requests back."""
        from sqlenrich.llm.throttle.wait_times import share_of_time

        return share_of_time([limiter.wait_times for limiter in self.limiters.values()])

    def keep(self, answers: Sequence[Answer]) -> None:
        if answers:
            e = self.enrichment
            self.store.append(self.plan, answers, run_id=self.run_id, version=e.version, fingerprint=e.fingerprint)
            self.kept += len(answers)
            self.failed += sum(answer.retryable for answer in answers)
            self.observer.answered(answers, self.total)


def cap_reached(caps: Caps, max_rows: int | None, pending: int, stopper: Stopper) -> str | None:
    """Give the cap that ended a run, if one did."""
    rows = max_rows is not None and pending and not stopper.requested
    return caps.reached or ("max_rows" if rows else None)


def new_run_id(started: datetime) -> str:
    """Give a name of a run: its start and a random part."""
    return f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def database_path(output: Path) -> Path:
    """Give the database of an output: itself, or one in ``.sqlenrich/`` beside a CSV or Parquet file."""
    suffix = output.suffix.lower()
    if suffix in DATABASE_SUFFIXES:
        return output
    if suffix in FILE_SUFFIXES:
        return output.parent / ".sqlenrich" / f"{output.name}.duckdb"
    known = (*DATABASE_SUFFIXES, *FILE_SUFFIXES)
    raise ConfigError(f"{output}: unknown kind of output{did_you_mean(suffix, known)}; there are: {', '.join(known)}")


def files_of(output: Path) -> tuple[Path, ...]:
    """Give the files that a run writes besides its database: an output file, and the refused rows beside it."""
    from sqlenrich.runner.backends.duckdb.store import quarantine_file

    return (output, quarantine_file(output)) if output.suffix.lower() in FILE_SUFFIXES else ()


def check_apart(enrichment: Enrichment, input: str | Path | None, target: Path) -> None:
    """Refuse to read what the run writes, and to write over what none wrote. Raises ConfigError."""
    from sqlenrich.runner.backends.duckdb.database import name_parts

    for path in files_of(target):
        if input is not None and path.resolve() == Path(input).resolve():
            raise ConfigError(f"{input}: the run would write over its own input; give another --output")
    check_replaceable(*files_of(target))
    own = input is None or Path(input).resolve() == target.resolve()
    if own and enrichment.source is not None:
        name = name_parts(enrichment.source)[-1].lower()
        if name in {form.format(enrichment.name).lower() for form in RELATIONS.values()}:
            raise ConfigError(
                f"the source {enrichment.source} is a table that this run makes; rename the prompt file, "
                "or give another --output"
            )


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
