"""The requests of a run that is planned, in a warehouse or Spark: only SELECTs over source and stored answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import RunError
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.relations import symbol
from sqlenrich.store import queries


class PlannedBackend(Protocol):
    """A database that compiles a query without running it."""

    engine: Engine

    def exists(self, step: Step) -> bool:
        """Tell whether the table of a step is there."""

    def rows(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations."""

    def check(self, sql: str) -> None:
        """Compile a query. Raises RunError with the database's message."""


class StatementRequests:
    """The requests of a plan on a database. No table is made: each SELECT has the steps before it as its own parts."""

    def __init__(self, backend: PlannedBackend, plan: Plan) -> None:
        self.backend, self.plan, engine = backend, plan, backend.engine
        call, prompts = plan.responses, plan.step("prompts")
        assert call.pending is not None
        self.found = backend.exists(call)
        answers = queries.answers_as_read(engine, call) if self.found else queries.no_answers(engine)
        known = {"responses": answers, "pending": call.pending}
        self._whole: dict[str, exp.Query] = {"prompts": _query(prompts.query), **known}
        self._sizes: dict[str, exp.Query] = {"prompts": queries.lengths(engine, prompts), **known}

    def compile(self) -> tuple[str, ...]:
        """Let the database compile the SELECT of each step; give their names. Raises RunError with the step."""
        known = self._whole | {"checked": _query(self.plan.step("checked").query)}
        steps = [step for step in self.plan.steps if step.kind == "table" or step.calls_in_sql]
        for step in steps:
            sql = self.plan.relations.sql(queries.inlined(_query(step.query), known))
            try:
                self.backend.check(sql)
            except RunError as error:
                raise RunError(f"the step {step.name} does not compile: {error}") from None
        return tuple(step.name for step in steps)

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over ``prompts``, ``pending`` and ``responses``. A prompt there is the number of its bytes."""
        return self._rows(query, self._sizes)

    def sample(self, count: int) -> list[str]:
        """Return the prompts of the lowest pending hashes."""
        return [str(prompt) for (prompt,) in self._rows(_lowest(count), self._whole)]

    def counted(self, count: int) -> tuple[list[tuple[int, int]], str | None]:
        """Return bytes and tokens of a sample of prompts by the warehouse's function, or why it does not count."""
        engine, asked = self.backend.engine, self.plan.responses.request
        if engine.count_tokens is None or asked is None or asked.embedding is not None:
            return [], f"{engine.name} has no function that counts these tokens"
        size = exp.alias_(queries.byte_length(engine, exp.column("prompt")), "size")
        tokens = exp.alias_(engine.count_tokens(asked), "tokens")
        query = exp.select(size, tokens).from_(_lowest(count).subquery("sampled"))
        name = engine.facts["count_tokens"].value
        try:
            found = self._rows(query, self._whole)
        except RunError as error:
            return [], f"{name} fails: {error}"
        known = [(int(size), int(tokens)) for size, tokens in found if tokens is not None]
        return known, None if known else f"{name} counts none of {len(found):,} prompts"

    def _rows(self, query: exp.Query, definitions: Mapping[str, exp.Query]) -> list[tuple[Any, ...]]:
        return self.backend.rows(self.plan, queries.inlined(query, definitions))


def _lowest(count: int) -> exp.Select:
    return exp.select("prompt").from_(symbol("pending")).order_by("request_hash").limit(count)


def _query(tree: exp.Expr) -> exp.Query:
    assert isinstance(tree, exp.Query)
    return tree
