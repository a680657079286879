"""Whether the results of an earlier run are what a run would make again: then it makes none.

The results are a function of the SQL that makes them, the prompts and the answers. All three are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column
from sqlenrich.core.sql import literal
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.renderer.statements import JUDGED

FACT = "results_made"
"""The name of :class:`ResultsMade` in what a line of the ledger tells."""
_COMPARED = (STRING, BIGINT, BOOLEAN, DATE, TIMESTAMP)
"""The types of which two values are equal on each engine where they look alike."""


class ResultsMade(NamedTuple):
    """What the results of a run were made of, but for the prompts."""

    sql: str
    """A digest of the statements."""
    answers: int
    """The rows of the table of answers, to which rows are added alone."""

    @classmethod
    def of(cls, plan: Plan, answers: int) -> ResultsMade:
        """Return what the results of a plan are made of now."""
        texts = "\0".join(plan.step(name).sql for name in JUDGED)
        return cls(hashlib.sha256(texts.encode()).hexdigest()[:16], answers)

    @classmethod
    def told(cls, report: str | None) -> ResultsMade | None:
        """Return what a line of the ledger tells; None where it tells nothing."""
        found: Mapping[str, Any] = json.loads(report or "{}")
        return cls(*made) if (made := found.get(FACT)) is not None else None


def can_compare(plan: Plan) -> bool:
    """Tell whether the rows of ``checked`` show which prompts they were made of."""
    prompts, checked = (plan.step(name).columns for name in ("prompts", "checked"))
    return all(kind in _COMPARED and name in checked for name, kind in prompts.items())


def different_rows(engine: Engine, plan: Plan, *, of_prompts: bool = False) -> exp.Select:
    """The number of distinct rows of ``prompts`` that ``checked`` has more or less often, and of rows without a hash.

    A prompt that has a hash is compared by it, so that no text is read. ``of_prompts`` compares the others, by text.
    """
    names = [name for name in plan.step("prompts").columns if of_prompts or name != "prompt"]
    hash_ = column(engine, "request_hash")

    def side(role: str, number: int) -> exp.Select:
        named = [exp.alias_(column(engine, name), f"c{place}") for place, name in enumerate(names)]
        found = exp.select(*named, exp.alias_(literal(number), "side")).from_(symbol(role))
        return found.where(exp.Is(this=hash_.copy(), expression=exp.Null())) if of_prompts else found

    both = exp.union(side("prompts", 1), side("checked", -1), distinct=False).subquery("both")
    groups = select(f"c{names.index('request_hash')} AS hashed", "SUM(side) AS surplus").from_(both)
    groups = groups.group_by(*(f"c{place}" for place in range(len(names))))
    counts = (f"COALESCE(SUM(CASE WHEN {test} THEN 1 ELSE 0 END), 0)" for test in ("surplus <> 0", "hashed IS NULL"))
    return select(*counts).from_(groups.subquery("compared"))
