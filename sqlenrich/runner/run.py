"""Run an enrichment: prompts and checks in the backend's SQL, the model asked by a client in between."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from sqlenrich.ask.classifier import make_scores
from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.observer import Observer, Stopper
from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError, SqlenrichError, raising_first
from sqlenrich.core.plurals import counted
from sqlenrich.plan.compile import snapshot_digest
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import shared_table
from sqlenrich.runner.cascade import Cascading, classifier_of, second_model
from sqlenrich.runner.drift import Drift
from sqlenrich.runner.lineage import told
from sqlenrich.runner.next_commands import next_commands
from sqlenrich.runner.observers import default_observer
from sqlenrich.runner.options import RunOptions, batch_policy, names_of
from sqlenrich.runner.place import Output
from sqlenrich.runner.profiles import mark_alarm, read_drift, store_profile
from sqlenrich.runner.report import Report
from sqlenrich.runner.session import Session, backend_of, choice_of
from sqlenrich.runner.setup import set_up
from sqlenrich.runner.source import key_warning
from sqlenrich.runner.telemetry import metered
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import AnyModel, Caps
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Counts, Results, Snapshot
from sqlenrich.store.inputs import Input, input_of

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.messages import Answer
    from sqlenrich.runner.steps import Steps


@overload
def run(
    enrichment: Enrichment | str | Path,
    *,
    input: Any = None,
    output: Output | None = None,
    model: AnyModel | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    tables: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[RunOptions],
) -> Report: ...


@overload
def run(
    enrichment: list[Enrichment | str | Path] | list[Enrichment] | list[str] | list[Path],
    *,
    keep_going: bool = False,
    input: Any = None,
    output: Output | None = None,
    model: AnyModel | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    tables: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[RunOptions],
) -> Steps: ...


def run(enrichment: Any, *, keep_going: bool = False, **options: Any) -> Report | Steps:
    """Enrich a table and give the report.

    ``input`` is a path, a pattern, a folder or a URL of CSV, TSV, JSON lines or Parquet files (``encoding`` is that of
    text), a DuckDB database (then the header's source names the table), or a table: a pandas or polars frame, an Arrow
    table or stream, a DuckDB relation, a list of dicts. Without it the source is a table of the output. ``output`` is
    a DuckDB database, or a CSV, Parquet or JSON lines file whose database lies in ``.sqlenrich/`` beside it, or a list
    of these, or a backend such as :class:`~sqlenrich.store.dbapi.DbApiBackend`. Without it the tables are
    temporary: they last as long as the report. ``model`` is an :class:`~sqlenrich.Endpoint`, a
    :class:`~sqlenrich.Mock`, a model's name or an alias, or None: what the settings name. ``caps`` end the run early;
    the same call goes on later. ``responses`` is the table of answers, ``tables`` the name that the tables get in place
    of the enrichment's. Shorthands: ``endpoint``, ``mock``, ``mock_failures``, ``concurrency`` and ``prefix_order``
    (false: requests with an equal beginning are not sent one after another) for the model; ``max_rows``, ``max_calls``,
    ``max_cost`` and ``prices`` for the caps; ``key``, ``columns`` and ``where`` for the header's source; ``target``, or
    ``engine`` with ``profile`` or ``connection``, for a warehouse, where ``output`` is a schema, the warehouse's own
    function asks unless an endpoint is given, ``chunk_rows`` is the number of requests a statement, and ``take_over``
    takes the tables from the run that holds them and cancels its statement. With ``batch`` the requests go to the
    vendor's Batch API; ``wait=False`` ends the run once they are sent, and the same call collects them. With
    ``incremental`` the rows replace those of the same key, and the others stay; a run that ends early leaves complete
    results of an earlier run as they are, but with ``publish_partial``; ``replace`` takes over the tables of another
    prompt file of the same name. With
    ``spark``, a SparkSession or the URL of a master, the run works there: ``input`` may be a query too, ``output`` is a
    schema or a folder, executors ask the endpoint, and reach the driver at ``desk_port``.

    A list of enrichments runs as steps of one run in one output, each after those whose results it reads (``source:
    {ref: NAME}``, or ``{{ ref('NAME') }}`` in a query), and gives :class:`~sqlenrich.Steps`. ``input`` is that of the
    steps that read no other, ``caps`` are shared, and a step is skipped where one that it reads ended with exit status
    3 or 4; with ``keep_going`` only with 4.

    A bad answer is a row of NAME_quarantine. Raises SqlenrichError only for what keeps a run from starting or going on.
    """
    if isinstance(enrichment, Enrichment | str | Path):
        if keep_going:
            raise ConfigError("keep_going is for steps: give several enrichments")
        return run_one(enrichment, **options)
    from sqlenrich.runner.steps import StepGroup

    observer, stopper = options.pop("observer", None) or default_observer(), options.pop("stopper", None) or Stopper()
    group = StepGroup(enrichment, **options)
    for line in group.plan().lines():
        observer.note(line)

    def run_step(step: Enrichment, given: Mapping[str, Any]) -> Report:
        return run_one(step, observer=observer, stopper=stopper, **given)

    return group.run(run_step, keep_going=keep_going, observer=observer)


def run_one(
    enrichment: Enrichment | str | Path,
    *,
    input: Any = None,
    output: Output | None = None,
    model: AnyModel | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    tables: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    run_id: str = "",
    **options: Unpack[RunOptions],
) -> Report:
    """Enrich a table as :func:`run` does, as the run of a given id."""
    clock = runtime.monotonic()
    setup = set_up(
        "run", RunOptions, options, enrichment,
        input=input, output=output, model=model, caps=caps, responses=responses, config=config,
    )  # fmt: skip
    backend = checked_backend(setup.output, setup.enrichment, setup.source)
    choice = choice_of(setup.enrichment, setup.config, setup.wanted, backend, setup.caps)
    second = second_model(setup.enrichment, setup.config, setup.wanted, backend, choice)
    classifier = classifier_of(setup.enrichment)
    session = Session(
        setup.enrichment,
        setup.config,
        backend,
        choice,
        setup.caps if classifier is None else Caps(),
        metered(observer or default_observer(), choice, embeds=setup.enrichment.embedding is not None),
        stopper or Stopper(),
        chunk_rows=options.get("chunk_rows"),
        name=tables or "",
        clock=clock,
        run_id=run_id,
        next=next_commands(setup.enrichment, output, setup.wanted, options),
        batch=batch_policy(options),
        classifier=classifier,
    )
    backend.watch(session.observer.note)
    observed, model = session.observer.note, choice.resolved.name
    telling = told("run", session.enrichment, backend, setup.source, session.run_id, observed, model=model)
    with telling as end:
        with backend:
            file = None if tables else backend.file_name(session.enrichment)
            if not options.get("replace"):
                check_file(backend, session.name, file)
                check_names_of_runs(backend, session.name)
            plan = session.compile(setup.source, setup.responses)
            snapshot = Snapshot(
                digest=snapshot_digest(session.enrichment, backend.engine.name, choice.own),
                model=choice.resolved.name,
                asked_for=setup.wanted.name,
                mock=setup.wanted.mock is not None,
                key=None if (key := options.get("key")) is None else names_of(key),
                columns=options.get("columns"),
                where=options.get("where"),
                responses=setup.responses,
                in_sql=choice.asks_in_sql,
                file=file,
                keep=session.enrichment.keep,
            )
            report = _run(
                session,
                plan,
                snapshot,
                incremental=bool(options.get("incremental")),
                partial=bool(options.get("publish_partial")),
            )
        if second is not None and not report.stopped and (classifier is not None or not report.pending):
            report = Cascading(session, snapshot, second, setup.caps).run(report)
        end(report)
        return report


def store_answers(
    enrichment: Enrichment,
    rows: Any,
    output: Output,
    model: ModelChoice,
    answers: Iterable[Answer],
    *,
    config: Config,
    observer: Observer,
) -> Report:
    """Store answers that are there already, with their rows, as an incremental run that asks nobody.

    ``rows`` are a table in memory; ``answers`` have the hashes of its requests, and may be further attempts of them.
    """
    backend = backend_of(output)
    session = Session(
        enrichment, config, backend, model, Caps(stop_after_refused=0), observer, Stopper(), recorded=answers
    )
    with backend:
        plan = session.compile(input_of(rows))
        snapshot = Snapshot(
            digest=snapshot_digest(session.enrichment, backend.engine.name, model.own),
            model=model.resolved.name,
            asked_for=None,
            mock=False,
            key=None,
            columns=None,
            where=None,
            responses=None,
            keep=session.enrichment.keep,
        )
        return _run(session, plan, snapshot, incremental=True, partial=True)


def _run(session: Session, plan: Plan, snapshot: Snapshot, *, incremental: bool, partial: bool) -> Report:
    backend, caps = session.backend, session.caps
    start = session.start(snapshot, plan, [(session.model.resolved, plan.constant)])
    # The backend needs no Python while it makes the prompts.
    if not session.model.asks_in_sql:
        threading.Thread(target=_import_client, name="sqlenrich-imports").start()
    key = session.enrichment.key
    before = backend.rows_before(plan)
    beside = _checked_key(session.enrichment) if incremental else None
    ordered = session.model.prefix_order
    rounds = session.rounds(plan)
    every = plan.responses
    (call,) = session.leave_open([every])
    plan = replace(plan, steps=tuple(call if step is every else step for step in plan.steps))
    counts = backend.prepare(plan, start, limit=caps.max_rows, ordered=ordered, beside=beside)
    if session.classifier is not None:
        make_scores(backend, plan, session.classifier)  # the second stage reads them too
    rounds.progress.pin = session.pin(plan)
    if before is not None and counts.rows < before:
        session.observer.note(
            f"warning: {session.name} and {session.name}_quarantine shrink from {before:,} rows to {counts.rows:,}"
            + (": --incremental keeps the rows that the input lacks" if key != ("_row",) else "")
        )
    if (warning := key_warning(backend, plan, key)) is not None:
        session.observer.note(warning)
    batches = session.open_batches([every])
    left = backend.count([every]) - counts.unanswered if batches else 0
    if left and session.batch is None:
        session.observer.note(
            f"{counted(left, 'request')} are in open batches: their answers are paid for, and --batch collects them"
        )
    cached = counts.distinct - counts.unanswered - left
    failure: SqlenrichError | None = None
    confirmed = session.confirm(counts, cached)
    recorded = session.recorded is not None
    if confirmed and (counts.pending or recorded or (batches and session.batch is not None)):
        try:
            rounds.ask(session.model, plan.responses, counts.pending, repeat=caps.max_rows is None)
        except SqlenrichError as error:
            failure = error
    with raising_first(failure):
        # A run without an answer leaves the tables of an earlier run as they were.
        failed = not confirmed or failure is not None
        unanswered = failed and not rounds.progress.stored and backend.exists(plan.step("enriched"))
        if session.classifier is not None:  # its answers are results once a sample has certified them
            results = Results(0, 0, {}, 0, published=False)
        elif unanswered:
            results = _unasked(counts)
        else:
            results = backend.finish(plan, [every], partial=partial)
        drift = _watched_answers(session, plan) if results.published and rounds.progress.stored else None
        try:
            report = session.close(
                start, plan, counts, results, rounds, failure, cached=cached, publish=results.published, drift=drift
            )
        finally:
            if not session.enrichment.keep_prompts:
                backend.drop_prompts(plan)
    return report


def _watched_answers(session: Session, plan: Plan) -> Drift | None:
    """Return the drift of the run's answers; a run whose answers can't be measured ends all the same."""
    try:
        return _watch_answers(session, plan)
    except SqlenrichError as error:
        session.observer.note(f"warning: the profile of this run's answers is not stored: {error}")
        return None


def _watch_answers(session: Session, plan: Plan) -> Drift | None:
    """Store the profile of the run's answers; where the header has ``drift``, compare it with earlier runs."""
    enrichment, backend = session.enrichment, session.backend
    if session.name != enrichment.name or session.classifier is not None:  # tables of a comparison, say
        return None
    store_profile(backend, plan, enrichment, session.run_id, session.started)
    if not enrichment.quality.drift.alarms:
        return None
    found = read_drift(backend, plan, enrichment)
    if found.alarms:
        mark_alarm(backend, plan, found, session.started)
    return found


def _unasked(counts: Counts) -> Results:
    return Results(0, counts.rows, {"NOT_ASKED": counts.rows}, counts.unanswered, published=False)


def _import_client() -> None:
    """Import what is needed from the first call on: it takes 0.1 s."""
    for module in ("sqlenrich.llm.client", "sqlenrich.store.duckdb.answers"):
        importlib.import_module(module)


def _temporary(enrichment: Enrichment, input: Input) -> Backend:
    """Return a backend in a temporary folder, which its results keep alive. Raises ConfigError without an input."""
    if input is None and enrichment.query is None:
        raise ConfigError("which rows? Give the input, or an output that has the source")
    from sqlenrich.store.duckdb.backend import TemporaryBackend

    return TemporaryBackend()


def _checked_key(enrichment: Enrichment) -> tuple[str, ...]:
    """Return the key of an incremental run. Raises ConfigError where rows can't be told apart or were not kept."""
    if enrichment.key == ("_row",):
        raise ConfigError(f"{enrichment.place}: an incremental run needs a key: write key: [column], or give --key")
    if not enrichment.keep_prompts:
        raise ConfigError(f"{enrichment.place}: an incremental run needs the earlier rows: keep_prompts is false")
    return enrichment.key


def check_file(backend: Backend, name: str, file: str | None) -> None:
    """Refuse to write over the tables of another prompt file of the same name. Raises ConfigError."""
    if file is not None and (last := backend.last_file(name)) not in (None, file):
        raise ConfigError(
            f"{backend.output} has the tables of another {name}.prompt: {last}; rename one, give another --output, "
            "or --replace"
        )


def check_names_of_runs(backend: Backend, name: str) -> None:
    """Refuse to write over the tables of an enrichment of another name. Raises ConfigError."""
    folds_names = backend.engine.folds_table_names
    for other in backend.run_names():
        if other != name and (table := shared_table(name, other, folds_names=folds_names)) is not None:
            raise ConfigError(
                f"{backend.output} has runs of {other}, which writes the table {table} too: rename {name}.prompt, or "
                "give another --output; --replace writes over it"
            )


def checked_backend(output: Output | None, enrichment: Enrichment, input: Input) -> Backend:
    """Return the backend of an output. Raises ConfigError for an output that may not be written."""
    if output is None:
        return _temporary(enrichment, input)
    backend = backend_of(output)
    backend.check_before_run(enrichment, input)
    return backend
