"""The plan of an enrichment on one engine: five steps, each a relation. ``render``, ``run`` and ``dbt`` read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type

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
}
"""The columns of ``NAME_responses``: every answer ever paid for. Uniqueness is never assumed."""


@dataclass(frozen=True)
class Step:
    """One relation of the plan: ``sql`` is one SELECT that fills it, without DDL."""

    name: str
    kind: Literal["table", "append"]
    columns: Mapping[str, Type]
    sql: str
    relation: str
    pending_sql: str | None = None
    """Of the call step: ``request_hash, attempt, prompt`` of what is to be asked. Limits and shards apply here."""
    pending_relation: str | None = None
    calls_in_sql: bool = False
    """True: ``sql`` reads the pending relation and calls the model. False: a client appends rows of ``columns``."""


@dataclass(frozen=True)
class Plan:
    """The steps in order, and what they need."""

    name: str
    engine: str
    steps: tuple[Step, ...]
    constant: str
    """The 64 hexadecimal digits before the prompt in each ``request_hash``."""
    model: str
    must_exist: tuple[str, ...] = ()

    def step(self, name: str) -> Step:
        """Give a step by its name."""
        return next(step for step in self.steps if step.name == name)
