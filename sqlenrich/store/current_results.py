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
from sqlenrich.core.sql import Sql, case, literal
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


def different_rows(engine: Engine, plan: Plan) -> exp.Select:
    """The number of distinct rows of ``prompts`` that ``checked`` has more or less often.

    A prompt is compared by its hash, where it has one: few bytes of a row are read.
    """
    names = list(plan.step("prompts").columns)
    hash_ = column(engine, "request_hash")

    def side(role: str, number: int) -> exp.Select:
        unhashed = case((exp.Is(this=hash_.copy(), expression=exp.Null()), column(engine, "prompt")))
        values: list[Sql] = [unhashed if name == "prompt" else column(engine, name) for name in names]
        named = [exp.alias_(value, f"c{place}") for place, value in enumerate(values)]
        return exp.select(*named, exp.alias_(literal(number), "side")).from_(symbol(role))

    both = exp.union(side("prompts", 1), side("checked", -1), distinct=False)
    groups = select("1 AS one").from_(both.subquery("both")).group_by(*(f"c{place}" for place in range(len(names))))
    return select("COUNT(*)").from_(groups.having("SUM(side) <> 0").subquery("different"))
