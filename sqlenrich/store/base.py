"""What a run reads and writes in a place, as data, and the connection to a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from sqlenrich.core.types import Type


@dataclass(frozen=True)
class Source:
    """The rows of a run: the relation to read (None: the header's query), and its columns' types where known."""

    relation: str | None
    types: dict[str, Type] | None


@dataclass(frozen=True)
class Counts:
    """What a run finds before it asks: rows, distinct requests, and those that must be asked."""

    rows: int
    distinct: int
    unanswered: int
    pending: int
    """The unanswered requests that this run asks: fewer than all under a limit."""


@dataclass(frozen=True)
class Results:
    """What became of the rows: accepted, refused by reason, and the requests that are still to be asked."""

    enriched: int
    quarantined: int
    reasons: Mapping[str, int]
    pending: int
    published: bool = True
    """Whether the tables of results have these rows; False: they are those of an earlier run."""


@dataclass(frozen=True)
class Origin:
    """What a run writes beside each of its answers."""

    run_id: str
    version: str | None
    fingerprint: str


@dataclass(frozen=True)
class Snapshot:
    """Where the stored prompts come from: what a retry must know of the last run."""

    digest: str
    """See :func:`~sqlenrich.plan.compile.snapshot_digest`."""
    model: str
    """The model's own name."""
    asked_for: str | None
    """The model as the run's caller named it, None where the file did."""
    mock: bool
    key: Sequence[str] | None
    columns: Mapping[str, str] | None
    where: str | None
    responses: str | None
    in_sql: bool = False
    """Whether the warehouse's own function asked."""
    file: str | None = None
    """The prompt file, relative to the folder of a DuckDB database."""
    outputs: Sequence[str] = ()
    """The files that the run wrote besides, relative to the folder of a DuckDB database."""
    keep: Sequence[str] | None = None
    """The columns of the source that the run kept; None: of an earlier version."""


@dataclass(frozen=True)
class RunStart:
    """A run that begins: its line of the ledger."""

    run_id: str
    name: str
    at: datetime
    snapshot: Snapshot
    request: str | None = None
    """What all its requests share, as JSON (:mod:`sqlenrich.store.shared_request`)."""


@dataclass(frozen=True)
class CommitPolicy:
    """When the answers of a client are stored. It bounds what a killed run asks again: requests sent and not stored."""

    rows: int = 128
    """The answers of one commit at most, where a model takes its time."""
    instant_rows: int = 256
    """The same for a model that answers at once."""
    age_s: float = 0.002
    """The oldest answer that is not stored is about this old at most, and the time of a commit. Answers that come
    during a commit are the next one: a low age costs no throughput."""
    unstored: int = 256
    """The requests beyond the concurrency that may be sent and not stored. Above ``rows``, so that requests keep going
    out while a commit runs."""


class ModelUsage(NamedTuple):
    """What one model's answers of a run took. A count is None where no answer reports it."""

    model: str
    uncounted: int
    """Answers without token counts."""
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    batch_tokens_in: int | None = None
    """Those of the answers of batches."""
    batch_tokens_cached: int | None = None
    batch_tokens_out: int | None = None


class Connection(Protocol):
    """A database that takes a statement at a time."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def execute(self, sql: str) -> None:
        """Run a statement."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and give its rows."""

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns, each with its type or None for an unknown one; None: it is not there."""

    def begin(self) -> None:
        """Begin a transaction, where the database has them."""

    def commit(self) -> None:
        """Make durable what was executed."""
