"""``NAME_profiles``: how often each level of each field is among the answers that a run stored, for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier
from sqlenrich.core.sql import Sql, case, literal
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Array, Decimal, Struct, Type
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol
from sqlenrich.spec.enrichment import Enrichment

PROFILES: Mapping[str, Type] = {
    "run": STRING,
    "started_at": TIMESTAMP,
    "field": STRING,
    "level": STRING,
    "rows": BIGINT,
}
"""The columns of ``NAME_profiles``. Times are in UTC without a time zone."""

VERDICT, MODEL, TOKENS_IN, TOKENS_OUT = "_error", "_model", "_tokens_in", "_tokens_out"
OWN_FIELDS = (VERDICT, MODEL, TOKENS_IN, TOKENS_OUT)
"""What every profile has beside the output's fields: reason codes of rows; models and tokens of answers."""
ACCEPTED, NULL, GIVEN = "accepted", "(null)", "(given)"
"""The levels of an accepted row, of NULL, and of an object."""
ANSWERS = "new_answers"
"""The common table expression of the answers that are counted."""
MOST_VALUES = 20
"""The most integers of a range that are levels each; a wider range, or one of other numbers, is cut in bins."""
BINS = 10
"""The bins of a range."""
STEPS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))
"""The bounds of the bins of counts, and of numbers without a range, which also have the next two."""
LARGE_STEPS = tuple(digit * 10**power for power in range(7, 10) for digit in (1, 2, 5))
FINE_STEPS = tuple(digit / 10**power for power in range(3, 0, -1) for digit in (1, 2, 5))


def profile_fields(enrichment: Enrichment) -> tuple[str, ...]:
    """Return the fields of an enrichment's profile in order."""
    return (*enrichment.output_columns, *(name for name in OWN_FIELDS if name not in enrichment.output_columns))


def profile(
    enrichment: Enrichment, engine: Engine, run: Sql, started_at: Sql, answers: Sql | None = None
) -> exp.Select:
    """Return the SELECT of a run's profile, with the columns of PROFILES.

    ``run`` and ``started_at`` are the values of these columns. ``answers`` is the test of its answers; None: their run
    is ``run``.
    """
    names = References(engine)
    of_run = exp.EQ(this=names.col("run_id"), expression=run.copy()) if answers is None else answers
    facts = (
        "request_hash", "run_id", "asked_at", "model", "served_model", "tokens_in", "tokens_out", "call_error",
    )  # fmt: skip
    columns = map(names.col, facts)
    asked = exp.select(*columns, copy=False).from_(symbol("responses"), copy=False).where(of_run, copy=False)
    answered = exp.select(names.col("request_hash"), copy=False).from_(ANSWERS, copy=False)

    def rows(role: str, columns: Sequence[Sql]) -> exp.Select:
        hashes = exp.In(this=names.col("_request_hash"), query=answered.copy().subquery(copy=False))
        return exp.select(*columns, copy=False).from_(symbol(role), copy=False).where(hashes, copy=False)

    levels = {
        name: _level(names, names.col(name), kind, enrichment.schema["properties"].get(name, {}), counted)
        for name, kind in enrichment.output_columns.items()
        for counted in (name in enrichment.quality.drift.values,)
    }
    # The columns get names of ours: a field may have any.
    named = [exp.alias_(level, f"level_{place}") for place, level in enumerate(levels.values())]
    accepted = exp.to_table("accepted_rows")
    parts = [_counts(name, exp.column(f"level_{place}"), accepted.copy()) for place, name in enumerate(levels)]
    own = {
        VERDICT: [
            _counts(VERDICT, literal(ACCEPTED), accepted.copy()),
            _counts(VERDICT, names.col(VERDICT), rows("quarantine", [names.col(VERDICT)]).subquery("refused")),
        ],
        MODEL: [_of_answers(names, MODEL, served_by(names))],
        TOKENS_IN: [_of_answers(names, TOKENS_IN, _binned(names.col("tokens_in"), STEPS, whole=True))],
        TOKENS_OUT: [_of_answers(names, TOKENS_OUT, _binned(names.col("tokens_out"), STEPS, whole=True))],
    }
    parts += [part for name, found in own.items() if name not in levels for part in found]
    whole: exp.Query = parts[0]
    for part in parts[1:]:
        whole = exp.union(whole, part, distinct=False, copy=False)
    values = (run, started_at, *(exp.column(name) for name in ("field", "level", "level_rows")))
    selected = [
        exp.Alias(this=value, alias=identifier(engine, name)) for value, name in zip(values, PROFILES, strict=True)
    ]
    found = exp.select(*selected, copy=False).from_(whole.subquery("counted", copy=False), copy=False)
    found = found.with_(ANSWERS, as_=asked, copy=False)
    return found.with_("accepted_rows", as_=rows("enriched", named or [literal(1)]), copy=False)


def served_by(names: References) -> Sql:
    """Return the model that gave an answer: the one that it names, else the one that was asked."""
    return exp.Coalesce(this=names.col("served_model"), expressions=[names.col("model"), literal(NULL)])


def _counts(field: str, level: Sql, source: exp.Expr) -> exp.Select:
    """Return the rows of each level of a field: a column ``level`` and its count."""
    inner = exp.select(exp.alias_(level, "level"), copy=False).from_(source, copy=False).subquery("levels", copy=False)
    return (
        exp.select(
            exp.alias_(literal(field), "field"),
            exp.column("level"),
            exp.alias_(exp.Count(this=exp.Star()), "level_rows"),
            copy=False,
        )
        .from_(inner, copy=False)
        .group_by(exp.column("level"), copy=False)
    )


def _of_answers(names: References, field: str, level: Sql) -> exp.Select:
    """Return the answers of each level: failed calls are none."""
    answers = exp.select("*").from_(ANSWERS, copy=False)
    answers = answers.where(exp.Is(this=names.col("call_error"), expression=exp.Null()), copy=False)
    return _counts(field, level, answers.subquery("answers", copy=False))


# Levels --------------------------------------------------------------------------------------------------------------


def _level(names: References, value: Sql, kind: Type, form: Mapping[str, Any], counted: bool) -> Sql:
    """Return the level of a value as a text, never NULL."""
    engine = names.engine
    missing = (exp.Is(this=value.copy(), expression=exp.Null()), literal(NULL))
    if kind == BOOLEAN:
        return case(missing, (value.copy(), literal("true")), default=literal("false"))
    if kind == STRING and (counted or form.get("enum") or "const" in form):
        return exp.Coalesce(this=value, expressions=[literal(NULL)])
    if kind == STRING:
        return _binned(engine.text.length(value), STEPS, whole=True, unit="length ")
    if isinstance(kind, Array):
        return case(missing, default=_binned(engine.text.size(value), STEPS, whole=True, unit="items "))
    if kind in (BIGINT, DOUBLE) or isinstance(kind, Decimal):
        return _of_number(engine, value, kind, form)
    if kind in (DATE, TIMESTAMP):
        return case(missing, default=exp.Cast(this=engine.text.year(value), to=engine.sql_type(STRING)))
    assert isinstance(kind, Struct)
    return case(missing, default=literal(GIVEN))


def _of_number(engine: Engine, value: Sql, kind: Type, form: Mapping[str, Any]) -> Sql:
    """Return the level of a number: itself, a bin of the schema's range, or one between steps of 1, 2 and 5."""
    if form.get("enum") or "const" in form:
        return _as_text(engine, value)
    low, high = (form.get(name, form.get(f"exclusive{name.title()}")) for name in ("minimum", "maximum"))
    whole = kind == BIGINT
    if low is not None and high is not None and high > low:
        if whole and high - low <= MOST_VALUES:
            return _as_text(engine, value)
        step = (high - low) / BINS
        bounds = [low + i * step for i in range(BINS)]
        return _binned(value, sorted({int(bound) for bound in bounds} if whole else bounds), whole=whole)
    steps = (*(() if whole else FINE_STEPS), *STEPS, *LARGE_STEPS)
    return _binned(value, [*(-step for step in reversed(steps)), 0, *steps], whole=whole)


def _as_text(engine: Engine, value: Sql) -> Sql:
    text = exp.Cast(this=value, to=engine.sql_type(STRING))
    return exp.Coalesce(this=text, expressions=[literal(NULL)])


def _binned(value: Sql, bounds: Sequence[float], *, whole: bool, unit: str = "") -> Sql:
    """Return the bin of a number as a text: below the first bound, from each bound to the next, above the last."""
    arms: list[tuple[Sql, Sql]] = [
        (exp.LT(this=value.copy(), expression=literal(bounds[0])), literal(f"{unit}under {_shown(bounds[0])}"))
    ]
    for lower, upper in pairwise(bounds):
        last = upper - 1 if whole else upper
        text = _shown(lower) if last == lower else f"{_shown(lower)} to {_shown(last)}"
        arms.append((exp.LT(this=value.copy(), expression=literal(upper)), literal(f"{unit}{text}")))
    missing = (exp.Is(this=value.copy(), expression=exp.Null()), literal(NULL))
    return case(missing, *arms, default=literal(f"{unit}from {_shown(bounds[-1])}"))


def _shown(bound: float) -> str:
    return f"{bound:.12g}" if isinstance(bound, float) else str(bound)
