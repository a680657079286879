"""Run an enrichment: prompts and checks in the backend's SQL, the model asked by a client in between."""

from __future__ import annotations

import importlib
import threading
import time
from pathlib import Path
from typing import Unpack

from sqlenrich.core.errors import SqlenrichError
from sqlenrich.plan.compile import snapshot_digest
from sqlenrich.plan.plan import Plan
from sqlenrich.runner.ask_loop import AskLoop
from sqlenrich.runner.backends.base import Backend, Counts, Results, Snapshot
from sqlenrich.runner.model_choice import choose_model, wanted_model
from sqlenrich.runner.observer import NullObserver, Observer, Stopper
from sqlenrich.runner.report import Report
from sqlenrich.runner.session import (
    MODEL_OPTIONS,
    SOURCE_OPTIONS,
    RunOptions,
    Session,
    backend_of,
    caps_of,
    check_options,
    chosen,
    key_warning,
    new_budget,
    settings_of,
    with_source_options,
)
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.run_settings import Caps, Mock
from sqlenrich.spec.settings import Config, Endpoint


def run(
    enrichment: Enrichment,
    *,
    input: str | Path | None = None,
    output: str | Path | Backend,
    model: Endpoint | Mock | str | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    tables: str | None = None,
    config: Config | None = None,
    observer: Observer | None = None,
    stopper: Stopper | None = None,
    **options: Unpack[RunOptions],
) -> Report:
    """Enrich a table and give the report.

    ``input`` is a CSV, TSV, JSON lines or Parquet file or a DuckDB database (then the header's source names the
    table); without it the source is a table of the output. ``output`` is a DuckDB database, or a CSV or Parquet file
    whose database lies in ``.sqlenrich/`` beside it, or a backend such as
    :class:`~sqlenrich.runner.backends.dbapi.DbApiBackend`. ``model`` is an :class:`~sqlenrich.Endpoint`, a
    :class:`~sqlenrich.Mock`, a model's name or an alias, or None: what the settings name. ``caps`` end the run early;
    the same call goes on later. ``responses`` is the table of answers, ``tables`` the name that the tables get in place
    of the enrichment's. Shorthands: ``endpoint``, ``mock``, ``mock_failures``, ``concurrency`` and ``prefix_order``
    (false: requests with an equal beginning are not sent one after another) for the model; ``max_rows``, ``max_calls``,
    ``max_cost`` and ``prices`` for the caps; ``key``, ``columns`` and ``where`` for the header's source.

    A bad answer is a row of NAME_quarantine. Raises SqlenrichError only for what keeps a run from starting or going on.
    """
    clock = time.monotonic()
    check_options("run", options, RunOptions)
    enrichment = with_source_options(enrichment, **chosen(options, SOURCE_OPTIONS))
    config = settings_of(config, enrichment, options.get("prices"))
    caps = caps_of(caps, options)
    wanted = wanted_model(model, **chosen(options, MODEL_OPTIONS))
    choice = choose_model(enrichment, config, wanted, new_budget(caps))
    backend = checked_backend(output, enrichment, input)
    session = Session(
        enrichment,
        config,
        backend,
        choice,
        caps,
        observer or NullObserver(),
        stopper or Stopper(),
        tables or "",
        clock=clock,
    )
    with backend:
        plan = session.compile(input, responses)
        snapshot = Snapshot(
            digest=snapshot_digest(session.enrichment, backend.engine, choice.own),
            model=choice.resolved.name,
            asked_for=wanted.name,
            mock=wanted.mock is not None,
            key=options.get("key"),
            columns=options.get("columns"),
            where=options.get("where"),
            responses=responses,
        )
        return _run(session, plan, snapshot)


def _run(session: Session, plan: Plan, snapshot: Snapshot) -> Report:
    backend, caps = session.backend, session.caps
    start = session.start(snapshot)
    # The backend needs no Python while it makes the prompts.
    threading.Thread(target=_import_client, name="sqlenrich-imports").start()
    counts = backend.prepare(plan, start, limit=caps.max_rows, ordered=session.model.prefix_order)
    if (warning := key_warning(backend, plan, session.enrichment.key)) is not None:
        session.observer.note(warning)
    cached = counts.distinct - counts.unanswered
    loop = AskLoop(backend, plan, session.origin, session.observer, session.stopper)
    failure: SqlenrichError | None = None
    confirmed = session.confirm(counts, cached)
    if confirmed and counts.pending:
        try:
            loop.ask(session.model, plan.responses, counts.pending, repeat=caps.max_rows is None)
        except SqlenrichError as error:
            failure = error
    # A run without an answer leaves the tables of an earlier run as they were.
    unchanged = (not confirmed or failure is not None) and not loop.stored and backend.exists(plan.step("enriched"))
    results = _unasked(counts) if unchanged else backend.finish(plan, [plan.responses])
    return session.close(start, plan, counts, results, loop, failure, cached=cached, publish=not unchanged)


def _unasked(counts: Counts) -> Results:
    return Results(0, counts.rows, {"NOT_ASKED": counts.rows}, counts.unanswered)


def _import_client() -> None:
    """Import what is needed from the first call on: it takes 0.1 s."""
    for module in ("sqlenrich.llm.client", "sqlenrich.runner.backends.duckdb.answers"):
        importlib.import_module(module)


def checked_backend(output: str | Path | Backend, enrichment: Enrichment, input: str | Path | None) -> Backend:
    """Give the backend of an output. Raises ConfigError for an output that may not be written."""
    backend = backend_of(output)
    backend.check_before_run(enrichment, input)
    return backend
