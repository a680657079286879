"""``sqlenrich drift``: how far the answers of the newest run have moved from those of earlier runs. Asks nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Unpack

from sqlglot import exp

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.names import column
from sqlenrich.core.sql import literal
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.drift import ACCEPTED, mark, runs
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.runner.backends.base import Backend
from sqlenrich.runner.drift import Drift
from sqlenrich.runner.options import check_options
from sqlenrich.runner.place import Output, PlaceOptions, RunPlaceOptions, place_of
from sqlenrich.runner.profiles import mark_alarm, read_drift, utc
from sqlenrich.runner.session import backend_of, settings_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config

SHOWN = 5
"""How many runs a message names."""


def drift(
    enrichment: Enrichment,
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
    check_options("drift", options, PlaceOptions)
    config = settings_of(config, enrichment, None)
    place = place_of(enrichment, config, output, None, RunPlaceOptions(**options))  # type: ignore[typeddict-item]
    if place.output is None:
        raise ConfigError("of which runs? Give --output out.duckdb, or --target")
    backend = backend_of(place.output)
    backend.check_before_retry(enrichment)
    with backend:
        relations = {"source": "source", **backend.relations(enrichment.name)}
        plan = compile_plan(enrichment, backend.engine, relations, asked_by_client=True)
        known = _runs(backend, plan, enrichment.name)
        if accept is not None:
            _accept(backend, plan, known, enrichment.name, accept)
        found = read_drift(backend, plan, enrichment)
        newest = next(iter(known))
        if not found.fields:
            others = len(known) > 1
            why = "the others were alarms, or are older than the accepted one" if others else "it is the first one"
            return replace(found, run=newest, notes=(f"no earlier run to compare it with: {why}",))
        if found.alarms and not known[newest]:
            mark_alarm(backend, plan, found, _started(backend, plan, newest))
        return found


def _runs(backend: Backend, plan: Plan, name: str) -> dict[str, bool]:
    """Give the runs with a profile, the newest first, and whether it is written down that they alarmed or are accepted.

    Raises ConfigError where there are none.
    """
    rows = backend.read(plan, runs(get_engine(backend.engine))) if backend.has_profiles(plan) else []
    if not rows:
        raise ConfigError(f"{backend.place} has no profile of a run of {name}: run it first")
    return {str(run): bool(int(accepted) or int(alarmed)) for run, _, accepted, alarmed in rows}


def _accept(backend: Backend, plan: Plan, known: dict[str, bool], name: str, run: str) -> None:
    """Begin a new baseline with a run. Raises ConfigError for one that is not there."""
    if run not in known:
        newest = ", ".join(list(known)[:SHOWN])
        raise ConfigError(
            f'{backend.place} has no run "{run}"{did_you_mean(run, known)} of {name}; the newest are: {newest}'
        )
    engine = get_engine(backend.engine)
    started = utc(engine, _started(backend, plan, run))
    backend.append_profile(plan, mark(engine, run, started, ACCEPTED))


def _started(backend: Backend, plan: Plan, run: str) -> datetime:
    """Give the time of a run, as its profile has it."""
    engine = get_engine(backend.engine)
    query = exp.select(exp.Max(this=column(engine, "started_at"))).from_(symbol("profiles"))
    found = backend.read(plan, query.where(exp.EQ(this=column(engine, "run"), expression=literal(run))))[0][0]
    return found if isinstance(found, datetime) else datetime.fromisoformat(str(found)).replace(tzinfo=UTC)
