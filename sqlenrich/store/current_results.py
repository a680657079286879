"""Whether the results of an earlier run are what a run would make again: then it makes none.

The results are a function of the SQL that makes them, the prompts and the answers. All three are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp, select

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import RunError
from sqlenrich.core.lease import LeaseLostError
from sqlenrich.core.names import column
from sqlenrich.core.sql import literal
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.relations import symbol
from sqlenrich.renderer.statements import JUDGED
from sqlenrich.store import queries
from sqlenrich.store.base import Results

if TYPE_CHECKING:
    from sqlenrich.store.backend import Backend

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


class CurrentResults:
    """The results of the run before, of one open backend: they stay where this run would make the same.

    ``note`` receives a line where they stay.
    """

    def __init__(self, backend: Backend, note: Callable[[str], None]) -> None:
        self._backend, self._note = backend, note
        self._report: Callable[[], str | None] = lambda: None
        self._made: ResultsMade | None = None
        self._answered: list[Step] = []

    def begin(self, report: Callable[[], str | None]) -> None:
        """Begin a run; ``report`` gives what the ledger tells of the run before, None where this one can't be as it."""
        self._report, self._made, self._answered = report, None, []

    def answered(self, call: Step) -> None:
        """Take it that each request of a call has an answer."""
        self._answered.append(call)

    def outdate(self) -> None:
        """Take it that the results have to be made."""
        self._report = lambda: None

    @property
    def facts(self) -> dict[str, Any]:
        """What the ledger is to tell the next run, after :meth:`finish`."""
        return {} if self._made is None else {FACT: self._made}

    def finish(self, plan: Plan, calls: Sequence[Step], *, unasked: int, make: Callable[[], Results]) -> Results:
        """Return the results, which ``make`` makes where those of the run before can't stay."""
        backend = self._backend
        made = ResultsMade.of(plan, backend.number(plan, queries.count_rows("responses")))
        self._made = None
        unchanged = not unasked and made == ResultsMade.told(self._report())
        results = self._stored(plan, calls) if unchanged else None
        if results is not None:
            self._note("nothing is new: the results stay as they are")
            backend.drop(plan.relations.table("pending"))
        else:
            results = make()
        self._made = made if results.published else None
        return results

    def _stored(self, plan: Plan, calls: Sequence[Step]) -> Results | None:
        """Return the results that are there; None where these prompts and the answers would make others."""
        backend = self._backend
        there = all(plan.step(name).relation in backend.present for name in JUDGED)
        unknown = [call for call in calls if not any(call is one for one in self._answered)]
        if not (there and can_compare(plan)) or (unknown and backend.count(unknown)):
            return None
        try:
            different, unhashed = map(int, backend.rows(plan, different_rows(backend.engine, plan))[0])
            if different or (unhashed and backend.number(plan, different_rows(backend.engine, plan, of_prompts=True))):
                return None
            return backend.results(plan, 0)
        except LeaseLostError:
            raise
        except RunError:  # a column that can't be compared, or a row that is missing
            return None
