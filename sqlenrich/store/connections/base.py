"""The contract of a connection to a warehouse that runs statements as jobs, outside of this process."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, Self, runtime_checkable

from sqlglot import exp

from sqlenrich.core.errors import RunError
from sqlenrich.core.types import Type


class TransientError(RunError):
    """A lost connection, throttling or a restart: the same call may succeed later."""


class LostConnectionError(TransientError):
    """The connection was lost, or no answer came in time."""


class UnreachableError(TransientError):
    """The host is unknown, or nobody listens there."""


class JobState(Enum):
    """How far a statement is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    """The warehouse knows no such statement, or no longer."""


@dataclass(frozen=True)
class JobStatus:
    """How far a statement is, the rows that it wrote where the warehouse tells, and why it failed."""

    state: JobState
    rows: int | None = None
    error: str = ""
    """The first line of the warehouse's message; empty unless it failed."""
    transient: bool = False
    """Whether the same statement may succeed later."""
    started: bool = True
    """Whether it may have begun to run, and so to ask. False only where the warehouse tells."""


@dataclass(frozen=True)
class ConnectPolicy:
    """How long a connection is tried, in seconds. Vendors' defaults are minutes."""

    connect_s: float = 15.0
    request_s: float = 60.0
    """One call of the service: the result of a statement is polled, never awaited."""
    connect_delay_s: float = 1.0
    """Between two tries to connect."""
    first_poll_s: float = 0.02
    longest_poll_s: float = 1.0
    """How often a short query is polled."""


def connect_within(policy: ConnectPolicy, connect: Callable[[], None]) -> None:
    """Connect, and again after a lost connection while ``connect_s`` lasts. Raises what the last try raised."""
    deadline = time.monotonic() + policy.connect_s
    while True:
        try:
            return connect()
        except LostConnectionError:
            if time.monotonic() + policy.connect_delay_s > deadline:
                raise
        time.sleep(policy.connect_delay_s)


def chain(error: BaseException) -> list[BaseException]:
    """Return an error and those that it was raised for: clients keep them as arguments, causes and contexts."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        at = waiting.pop(0)
        if isinstance(at, BaseException) and not any(at is one for one in found):
            found.append(at)
            waiting += [*at.args, getattr(at, "reason", None), at.__cause__, at.__context__]
    return found


def nobody_answers(errors: Iterable[BaseException]) -> bool:
    """Tell whether one of some errors says that the host is unknown or refuses connections."""
    return any(isinstance(one, ConnectionRefusedError | socket.gaierror) for one in errors)


class WarehouseConnection(Protocol):
    """A warehouse that takes a statement as a job. Each method may be called from any thread, one at a time.

    All methods raise TransientError where the same call may succeed later, and RunError with the first line of the
    warehouse's message for what it refuses. A TransientError of :meth:`submit` that is no LostConnectionError says that
    nothing was started. No message holds a password, a token or a key.
    """

    engine: str
    """The name of the engine whose SQL it runs."""
    starts_once: bool
    """Whether the warehouse starts a submission with the id of another one never: a lost one is sent again."""
    late_s: float
    """How long after its submission a statement may be missing from the warehouse's records."""
    statement_bytes: int
    """The text of a statement that it takes at most."""

    @property
    def place(self) -> str:
        """Where it is, for messages: account, project or host; never a secret."""

    def __enter__(self) -> Self:
        """Connect, again after a lost connection.

        Raises ConfigError with what to mend, for a host that says nothing too, within ConnectPolicy's limits; and
        TransientError where the warehouse answers that it is starting or busy.
        """

    def __exit__(self, *_: object) -> None:
        """Disconnect. A statement that runs goes on."""

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        """Start a statement and give its id at once.

        ``tags`` label it for bills and for :meth:`running`. ``job_id`` is unique to this submission, of ASCII letters,
        digits, ``_`` and ``-``; where the warehouse takes an id from its client, the same one is started only once.
        """

    def status(self, id: str, *, counted: bool = True) -> JobStatus:
        """Return how far a statement is, without waiting; ``counted``: with its rows, which may take a request."""

    def cancel(self, id: str) -> None:
        """End a statement. One that has ended, or is unknown, is left as it is."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a short query and give its rows."""

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns, each with its type or None for an unknown one; None: it is not there."""

    def check(self, sql: str) -> None:
        """Compile a query without running it. Raises RunError with the warehouse's message."""

    def running(self, tags: Mapping[str, str]) -> list[str]:
        """Return the ids of the statements that have these tags and have not ended, whoever started them."""

    def find(self, job_id: str) -> str | None:
        """Return the id of a statement by that of its submission, ended or not; None where it is unknown.

        Its tags have the job id as ``job``.
        """

    def link(self, id: str) -> str | None:
        """Return the address of a statement's page in the warehouse's console; None where it has none."""


@runtime_checkable
class OverwritingConnection(Protocol):
    """A warehouse where a table loses its policies when it is replaced, and keeps them when it takes other rows."""

    home: str
    """The schema of the results."""

    def fits(self, table: str, query: exp.Query) -> bool:
        """Tell whether a table that is there has the columns of a query."""

    def policies(self, table: str) -> list[str]:
        """Return the kind and the name of each policy that a table carries."""
