"""The plan of an enrichment on one engine: five steps, each a relation. ``render``, ``run`` and ``dbt`` read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from sqlglot import exp

from sqlenrich.core.engine import ModelCall
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type
from sqlenrich.plan.relations import Relations

STEPS = ("prompts", "responses", "checked", "enriched", "quarantine")

RESPONSES: Mapping[str, Type] = {
    "request_hash": STRING,
    "attempt": BIGINT,
    "sent_hash": STRING,
    "response": STRING,
    "call_error": STRING,
    "retryable": BOOLEAN,
    "finish_reason": STRING,
    "model": STRING,
    "version": STRING,
    "fingerprint": STRING,
    "tokens_in": BIGINT,
    "tokens_cached": BIGINT,
    "tokens_out": BIGINT,
    "latency_ms": BIGINT,
    "run_id": STRING,
    "asked_at": TIMESTAMP,
    "raw": STRING,
    "request_id": STRING,
    "served_model": STRING,
    "served_fingerprint": STRING,
    "read_by": STRING,
}
"""The columns of ``NAME_responses``, which keeps every answer. Its rows need not be unique.

``model`` is the model that was asked. ``served_model`` is the model that the answer names, ``served_fingerprint`` the
fingerprint of its server; NULL where the answer names none.

``raw`` is the whole answer of a warehouse's own function, NULL for a client. Other columns are read from it, and
``read_by`` names the reading that did, NULL before.
"""
READ = (
    "response", "call_error", "retryable", "finish_reason", "tokens_in", "tokens_cached", "tokens_out", "request_id",
    "served_model", "served_fingerprint",
)  # fmt: skip
"""The columns that are read from ``raw``."""


@dataclass(frozen=True)
class Step:
    """One relation of the plan. ``query`` is one SELECT over symbolic relations that fills it, without DDL.

    ``columns`` are those of the table; the query of a call may leave out some, which are then NULL.
    ``sql``, ``relation``, ``pending_sql`` and ``pending_relation`` are texts for the plan's own tables;
    :meth:`bound` gives the same step for other tables.
    """

    name: str
    kind: Literal["table", "append", "select"]
    """What is done with the rows: the table is made of them, they are added to it, or no table holds them."""
    columns: Mapping[str, Type]
    query: Sql = field(repr=False)
    relations: Relations = field(repr=False)
    pending: exp.Select | None = field(default=None, repr=False)
    """Of the call step: ``request_hash, attempt, prompt`` of the pending requests. Limits apply here."""
    calls_in_sql: bool = False
    """True: ``query`` reads the pending relation and calls the model. False: a client appends rows of ``columns``."""
    request: ModelCall | None = field(default=None, repr=False)
    """Of a step that calls the model in SQL: what each request has beside its prompt."""
    reading: Mapping[str, Sql] | None = field(default=None, repr=False)
    """Of the call step: an expression over ``raw`` for each column that is read from it, and the reading's name for
    ``read_by``. None where the engine's answers are all read by a client."""

    @cached_property
    def sql(self) -> str:
        """The SELECT."""
        return self.relations.sql(self.query)

    @property
    def selected(self) -> list[str]:
        """The columns that the query gives, in order."""
        assert isinstance(self.query, exp.Query)
        return list(self.query.named_selects)

    @cached_property
    def relation(self) -> str:
        """The table that the step fills."""
        return self.relations.text(self.name)

    @cached_property
    def pending_sql(self) -> str | None:
        """The SELECT of the pending requests, None for a step that calls no model."""
        return None if self.pending is None else self.relations.sql(self.pending)

    @cached_property
    def pending_relation(self) -> str | None:
        """The table of the pending requests, None for a step that calls no model."""
        return None if self.pending is None else self.relations.text("pending")

    def bound(self, relations: Relations) -> Step:
        """Return the step for other tables."""
        return replace(self, relations=relations)


@dataclass(frozen=True)
class Plan:
    """The steps in order, and what they need."""

    name: str
    engine: str
    steps: tuple[Step, ...]
    constant: str
    """The 64 hexadecimal digits before the prompt in each ``request_hash``."""
    model: str
    relations: Relations = field(repr=False)
    measuring: Callable[[Relations], tuple[Step, ...]] = field(repr=False)
    """Gives the steps of ``quality`` over tables."""
    must_exist: tuple[str, ...] = ()
    keep_prompts: bool = True
    """Whether ``prompts`` outlives a run."""

    def step(self, name: str) -> Step:
        """Return a step by its name."""
        return next(step for step in self.steps if step.name == name)

    @property
    def responses(self) -> Step:
        """The step that calls the model."""
        return self.step("responses")

    @cached_property
    def quality(self) -> tuple[Step, ...]:
        """The steps that measure answers: ``profiles``, ``drift``, ``sample``, ``evaluation``. No run needs them."""
        return self.measuring(self.relations)

    def bound(self, names: Mapping[str, str]) -> Plan:
        """Return the plan with other tables for some roles. Raises ConfigError for an invalid name."""
        relations = self.relations.renamed(names)
        return self.over(relations)

    def over(self, relations: Relations) -> Plan:
        """Return the plan over the tables of a map."""
        return replace(self, steps=tuple(step.bound(relations) for step in self.steps), relations=relations)
