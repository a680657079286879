"""``NAME_evaluations``: a line per evaluated row and field, and the SELECTs over these lines, for every engine."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import all_of, case, literal
from sqlenrich.core.types import BOOLEAN, STRING, TIMESTAMP, Type
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import symbol

EVALUATIONS: Mapping[str, Type] = {
    "evaluation": STRING,
    "evaluated_at": TIMESTAMP,
    "model": STRING,
    "version": STRING,
    "fingerprint": STRING,
    "truth": STRING,
    "row_key": STRING,
    "request_hash": STRING,
    "field": STRING,
    "label": STRING,
    "answer": STRING,
    "error": STRING,
    "is_right": BOOLEAN,
}
"""``evaluation`` sorts by time. ``row_key`` names the row in every evaluation: its key as JSON, else its number.
``label`` and ``answer`` are JSON texts, ``answer`` NULL where the row is refused."""


def accuracy(engine: Engine) -> exp.Select:
    """Per field of the last evaluation: rows, and those that are right."""
    names = References(engine)
    last = exp.select(exp.Max(this=names.col("evaluation"))).from_(symbol("evaluations")).subquery(copy=False)
    right = exp.Sum(this=case((names.col("is_right"), literal(1)), default=literal(0)))
    return (
        exp.select(
            names.col("field"),
            names.named(exp.Count(this=exp.Star()), "labelled_rows"),
            names.named(right, "right_rows"),
        )
        .from_(symbol("evaluations"))
        .where(exp.EQ(this=names.col("evaluation"), expression=last))
        .group_by(names.col("field"))
        .order_by(names.col("field"))
    )


def changes(engine: Engine, evaluation: str) -> exp.Select:
    """Per earlier evaluation and field: the rows of the same label that this evaluation has too, those that were right
    only then, and those that are right only now."""
    names = References(engine)
    same = [
        exp.EQ(this=names.col(one, "this_one"), expression=names.col(one, "that_one"))
        for one in ("row_key", "field", "label")
    ]
    then, now = names.col("is_right", "that_one"), names.col("is_right", "this_one")
    only_then, only_now = (
        exp.Sum(this=case((all_of(first, exp.Not(this=second)), literal(1)), default=literal(0)))
        for first, second in ((then, now), (now.copy(), then.copy()))
    )
    group = [names.col(one, "that_one") for one in ("evaluation", "model", "fingerprint", "field")]
    return (
        exp.select(
            *group,
            names.named(exp.Count(this=exp.Star()), "shared_rows"),
            names.named(only_then, "only_then"),
            names.named(only_now, "only_now"),
        )
        .from_(symbol("evaluations", "this_one"))
        .join(symbol("evaluations", "that_one"), on=all_of(*same))
        .where(
            exp.EQ(this=names.col("evaluation", "this_one"), expression=literal(evaluation)),
            exp.LT(this=names.col("evaluation", "that_one"), expression=literal(evaluation)),
        )
        .group_by(*(one.copy() for one in group))
        .order_by(group[0].copy(), group[3].copy())
    )
