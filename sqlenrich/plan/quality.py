"""The steps that measure the answers: profiles of new answers, drift, a sample for people, the last evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import literal
from sqlenrich.core.types import BIGINT, DOUBLE, STRING, TIMESTAMP, Type
from sqlenrich.plan import drift as drifts
from sqlenrich.plan import sample as samples
from sqlenrich.plan.evaluations import accuracy
from sqlenrich.plan.plan import Step
from sqlenrich.plan.profiles import ANSWERS, PROFILES, profile, profile_fields
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations, symbol
from sqlenrich.spec.enrichment import Enrichment

NAMES = ("profiles", "drift", "sample", "evaluation")
"""The steps in order. Vectors have the first two: nobody can judge them."""
DRIFT: Mapping[str, Type] = dict(
    zip(drifts.COLUMNS, (STRING, STRING, BIGINT, BIGINT, BIGINT, BIGINT, DOUBLE, DOUBLE, BIGINT), strict=True)
)
SAMPLE: Mapping[str, Type] = dict(zip(samples.COLUMNS, (STRING, STRING, BIGINT, DOUBLE), strict=True))
EVALUATION: Mapping[str, Type] = {"field": STRING, "labelled_rows": BIGINT, "right_rows": BIGINT}
_BEFORE = "1970-01-01 00:00:00"
"""A time before each answer."""


def quality_steps(enrichment: Enrichment, relations: Relations) -> tuple[Step, ...]:
    """Return the steps that measure the answers of an enrichment."""
    engine = relations.engine
    settings, fields = enrichment.quality.drift, len(profile_fields(enrichment))
    steps = (
        Step("profiles", "append", PROFILES, new_profile(enrichment, engine), relations),
        Step("drift", "select", DRIFT, drifts.drift(engine, settings, fields), relations),
    )
    if enrichment.embedding is not None:
        return steps
    return (
        *steps,
        Step("sample", "select", SAMPLE, samples.sample(enrichment, engine), relations),
        Step("evaluation", "select", EVALUATION, accuracy(engine), relations),
    )


def new_profile(enrichment: Enrichment, engine: Engine) -> exp.Select:
    """Return the SELECT of the profile of the answers that came after those of the last profile.

    A script asks in parts, each of which is a run of its own in the table of answers: together they have one profile,
    of the name of the last part.
    """
    names = References(engine)
    profiled = exp.select(names.col("run"), copy=False).from_(symbol("profiles"), copy=False)
    of_profiles = exp.In(this=names.col("run_id"), query=profiled.subquery(copy=False))
    last = exp.select(exp.Max(this=names.col("asked_at")), copy=False).from_(symbol("responses"), copy=False)
    last = last.where(of_profiles, copy=False)
    before = exp.Cast(this=literal(_BEFORE), to=engine.sql_type(TIMESTAMP))
    since = exp.Coalesce(this=last.subquery(copy=False), expressions=[before])
    is_new = exp.GT(this=names.col("asked_at"), expression=since)
    found = (exp.Max(this=names.col("run_id")), exp.Min(this=names.col("asked_at")))
    run, begun = (exp.select(value, copy=False).from_(ANSWERS, copy=False).subquery(copy=False) for value in found)
    return profile(enrichment, engine, run, begun, is_new)
