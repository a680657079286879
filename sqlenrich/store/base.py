"""The contract of a backend: where the steps of a plan run and its tables live. It knows no model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.types import Type
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.inputs import Input
from sqlenrich.store.result_tables import ResultTables


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
    age_s: float = 0.05
    """The oldest answer that is not stored is about this old at most, and the time of a commit."""
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


class Backend(Protocol):
    """Runs the steps of one plan and keeps its tables. Use as a context manager, from one thread."""

    engine: Engine
    """The engine whose SQL it runs."""
    asks_in_sql: bool
    """Whether a function of its SQL asks a model."""
    has_executors: bool
    """Whether processes of its own can ask an endpoint."""
    commits: CommitPolicy
    """When the answers of a client are stored."""

    def __enter__(self) -> Self:
        """Open it."""

    def __exit__(self, *_: object) -> None:
        """Close it."""

    @property
    def place(self) -> str:
        """Where the tables are, for messages."""

    @property
    def output(self) -> str:
        """What the report calls the output."""

    def bind(self, enrichment: Enrichment, input: Input) -> Source:
        """Open the input. Raises ConfigError for what is missing or unreadable."""

    def check_before_run(self, enrichment: Enrichment, input: Input) -> None:
        """Refuse, before anything is opened or made, an output that may not be written. Raises ConfigError."""

    def check_before_retry(self, enrichment: Enrichment) -> None:
        """Refuse, before anything is opened or made, an output without a run. Raises ConfigError."""

    def relations(self, name: str) -> dict[str, str]:
        """Return the table of each role of an enrichment of this name."""

    def check_tables(self, plan: Plan) -> None:
        """Refuse tables that sqlenrich did not make, or that another version made. Raises ConfigError."""

    def exists(self, step: Step) -> bool:
        """Tell whether the table of a step is there."""

    def prepare(
        self, plan: Plan, start: RunStart, *, limit: int | None, ordered: bool, beside: Sequence[str] | None = None
    ) -> Counts:
        """Make the prompts, the table of answers where it is missing, and the pending relation.

        ``beside``: the key by which the rows replace those of earlier runs; None: they replace all.
        """

    def rows_before(self, plan: Plan) -> int | None:
        """Return the number of rows that the last run left, where that costs nothing; None where it is unknown."""

    def last_file(self, name: str) -> str | None:
        """Return the prompt file of the last run, where it is known and is not that of another machine."""

    def run_names(self) -> tuple[str, ...]:
        """Return the names of the enrichments that the ledger has runs of."""

    def file_name(self, enrichment: Enrichment) -> str | None:
        """Return the prompt file as the ledger names it; None for none."""

    def written_files(self) -> tuple[str, ...]:
        """Return the files that a run writes besides its tables, as the ledger names them."""

    def result_tables(self, plan: Plan) -> ResultTables | None:
        """Return where the results can be read when the backend is closed; None where only it can read them."""

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:
        """Make the pending relation of a call afresh and give its count; ``ordered``: by prompt."""

    def size(self, plan: Plan) -> tuple[int, int]:
        """Return the number of rows and of distinct requests."""

    def count(self, calls: Iterable[Step]) -> int:
        """Return how many requests some calls have to ask."""

    def not_retried(self, plan: Plan, reasons: Sequence[str], max_attempts: int) -> tuple[int, int]:
        """Return how many requests refused for some reasons have no attempts left, and how many were never asked."""

    def repeated_keys(self, plan: Plan, key: Sequence[str]) -> tuple[int, int, int]:
        """Return the rows, how many of them repeat the key of another row, and how many have a NULL in it."""

    def requests(self, call: Step, count: int) -> Iterator[Request]:
        """Return the pending requests in batches: never the table in memory."""

    def spread(self, call: Step, count: int, most: int) -> list[Request]:
        """Return a few pending requests: the first, the last and those evenly between."""

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer and commit: from here on it is never asked again."""

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:
        """Make ``checked``: all of it, or again for what the run ``asked_by`` asked; all or nothing."""

    def finish(self, plan: Plan, calls: Sequence[Step], *, partial: bool = True, unasked: int = 0) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine`` together. Raises RunError if a row is lost.

        Without ``partial``, complete results of an earlier run stay where rows of this one were not asked.
        ``unasked`` counts the requests besides those of the calls that wait for a run.
        """

    def drop_prompts(self, plan: Plan) -> None:
        """Drop the tables that only hold prompts, where the enrichment does not keep them."""

    def usage(self, plan: Plan, run_id: str) -> list[ModelUsage]:
        """Return what a run's answers took, a line per model."""

    def latencies(self, plan: Plan, run_id: str, shares: Sequence[int]) -> list[int] | None:
        """Return percentiles of a run's latencies in milliseconds; None without an answer."""

    def answers_digest(self, plan: Plan, run_id: str) -> str | None:
        """Return a digest of all that a run stored of its answers; None where that is not computed."""

    def read(self, plan: Plan, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over a plan's relations; it may read the source."""

    def has_profiles(self, plan: Plan) -> bool:
        """Tell whether NAME_profiles is there. Raises ConfigError where another version made it."""

    def append_profile(self, plan: Plan, query: exp.Query) -> None:
        """Append lines of a query to NAME_profiles, and commit."""

    def publish(self, plan: Plan) -> None:
        """Write the results to files, where the output is one."""

    def statements_run(self) -> list[dict[str, Any]]:
        """Return the statements of the run, where they are jobs of a warehouse."""

    def watch(self, note: Callable[[str], None]) -> None:
        """Call this with a line for each statement, where they are jobs of a warehouse."""

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line of the ledger, or again: with its snapshot once the prompts are made (``known``)."""

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Complete a run's line of the ledger."""

    def last_snapshot(self, name: str) -> Snapshot:
        """Return what made the stored prompts. Raises ConfigError where there are none, or where it is unknown."""


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
