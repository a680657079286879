"""``sqlenrich drift``: how far the answers of the newest run have moved from those of earlier runs. Asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.names import column
from sqlenrich.core.sql import literal
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.drift import ACCEPTED, mark, runs
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.runner.drift import Drift, ProfiledRun, why_not_compared
from sqlenrich.runner.place import Output, PlaceOptions
from sqlenrich.runner.profiles import mark_alarm, profiled_runs, read_drift, utc
from sqlenrich.runner.session import backend_of
from sqlenrich.runner.setup import set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config
from sqlenrich.store.backend import Backend
from sqlenrich.store.ledger import AGAIN

SHOWN = 5
"""How many runs a message names."""


def drift(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    accept: str | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Drift:
    """Compare the newest run's answers with those of up to 30 earlier runs of ``output``.

    ``accept`` is a run whose answers are as they should be: later runs are compared with it and those after it alone.
    ``options`` name a warehouse as those of :func:`~sqlenrich.run` do. An alarm is written down: such a run is not
    what later ones are compared with. Raises ConfigError where there is no run, or not the one to accept.
    """
    setup = set_up("drift", PlaceOptions, options, enrichment, output=output, config=config)
    enrichment, backend = setup.enrichment, backend_of(setup.place)
    backend.check_before_retry(enrichment)
    with backend:
        relations = {"source": "source", **backend.relations(enrichment.name)}
        plan = compile_plan(replace(enrichment, keep_all=False), backend.engine.name, relations, asked_by_client=True)
        known = _runs(backend, plan, enrichment.name)
        if accept is not None:
            _accept(backend, plan, known, enrichment.name, accept)
        found = read_drift(backend, plan, enrichment)
        newest = known[0]
        if accept is not None:
            known = [replace(one, accepted=one.accepted or one.run == accept) for one in known]
        if not found.fields:
            return replace(found, run=newest.run, notes=(why_not_compared(known),))
        if found.alarms and not (newest.accepted or newest.alarm):
            mark_alarm(backend, plan, found, _started(backend, plan, newest.run))
        return found


def _runs(backend: Backend, plan: Plan, name: str) -> list[ProfiledRun]:
    """Return the runs with a profile, the newest first, and what is written down of them.

    Raises ConfigError where there are none.
    """
    rows = backend.read(plan, runs(backend.engine)) if backend.has_profiles(plan) else []
    if not rows:
        raise ConfigError(f"{backend.place} has no profile of a run of {name}, which a run stores at its end: {AGAIN}")
    return profiled_runs(rows)


def _accept(backend: Backend, plan: Plan, known: Sequence[ProfiledRun], name: str, run: str) -> None:
    """Begin a new baseline with a run. Raises ConfigError for one that is not there."""
    names = [one.run for one in known]
    if run not in names:
        newest = ", ".join(names[:SHOWN])
        raise ConfigError(
            f'{backend.place} has no run "{run}"{did_you_mean(run, names)} of {name}; the newest are: {newest}'
        )
    engine = backend.engine
    started = utc(engine, _started(backend, plan, run))
    backend.append_profile(plan, mark(engine, run, started, ACCEPTED))


def _started(backend: Backend, plan: Plan, run: str) -> datetime:
    """Return the time of a run, as its profile has it."""
    engine = backend.engine
    query = exp.select(exp.Max(this=column(engine, "started_at"))).from_(symbol("profiles"))
    found = backend.read(plan, query.where(exp.EQ(this=column(engine, "run"), expression=literal(run))))[0][0]
    return found if isinstance(found, datetime) else datetime.fromisoformat(str(found)).replace(tzinfo=UTC)
