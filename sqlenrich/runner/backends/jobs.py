"""Statements that run in a warehouse as jobs: started, polled, repeated after a lost connection, cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from sqlenrich.core.errors import RunError
from sqlenrich.core.types import Type
from sqlenrich.runner.backends.connections.base import JobState, JobStatus, TransientError, WarehouseConnection

T = TypeVar("T")


@dataclass(frozen=True)
class JobPolicy:
    """How statements are waited for and repeated, in seconds."""

    first_poll_s: float = 0.01
    longest_poll_s: float = 1.0
    poll_growth: float = 1.15
    """The end of a statement is seen late by a fifteenth of its time on average, and never by more than the longest
    poll."""
    retry_for_s: float = 900.0
    """How long a call that fails for a passing reason is repeated."""
    cancelled_retry_for_s: float = 20.0
    """The same once the user has cancelled."""
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    told_after_s: float = 5.0
    """How long such a call fails before the user is told."""
    heartbeat_s: float = 60.0
    """How often a run tells in the ledger that it lives."""


@dataclass(frozen=True)
class Statement:
    """A statement that has run."""

    id: str
    link: str | None
    step: str
    chunk: str | None
    rows: int | None
    """The rows that it wrote, where the warehouse tells."""
    seconds: float

    def to_text(self) -> str:
        """Give it as a line."""
        chunk = f" {self.chunk}" if self.chunk else ""
        rows = f"{self.rows:,} rows, " if self.rows is not None else ""
        return f"{self.step}{chunk}: {rows}{self.seconds:.1f} s, {self.link or self.id}"


class StatementFailedError(RunError):
    """The warehouse refused or ended a statement."""


class StatementCancelledError(RunError):
    """A statement was cancelled by the run's user."""


class Journal(Protocol):
    """Where submissions are written down, so that another process finds the statement that one has started."""

    def begin(self, job_id: str) -> None:
        """A statement is about to be submitted."""

    def submitted(self, job_id: str, statement_id: str) -> None:
        """The warehouse has given its id."""

    def end(self, job_id: str) -> None:
        """It has ended."""


class JobRunner:
    """Runs statements one after another and remembers them.

    ``tags`` stand beside each statement in the warehouse. ``heartbeat`` is called while a statement runs. ``note``
    receives lines for the user.
    """

    def __init__(self, connection: WarehouseConnection, policy: JobPolicy | None = None) -> None:
        self.connection, self.policy = connection, policy or JobPolicy()
        self.tags: Mapping[str, str] = {}
        self.statements: list[Statement] = []
        self.on_statement: Callable[[Statement], None] = lambda _: None
        self.heartbeat: Callable[[], None] = lambda: None
        self.note: Callable[[str], None] = lambda _: None
        self.submitted = 0
        self._run_id = "sqlenrich"
        self._cancelled = threading.Event()

    def begin(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Set the run that the following statements belong to."""
        self._run_id, self.tags, self.submitted = run_id, {**tags, "run": run_id}, 0

    def cancel(self) -> None:
        """Cancel the statement that may be cancelled and is waited for, or the next one. From any thread."""
        self._cancelled.set()

    def resume(self) -> None:
        """Forget a cancellation that no statement has met."""
        self._cancelled.clear()

    def new_job_id(self) -> str:
        """Give an id that no other submission has."""
        self.submitted += 1
        return f"sqlenrich_{self._run_id}_{self.submitted}".lower().replace(".", "_")

    def run(
        self,
        sql: str,
        step: str,
        *,
        chunk: str | None = None,
        tags: Mapping[str, str] | None = None,
        journal: Journal | None = None,
        quiet: bool = False,
    ) -> Statement:
        """Run a statement that may run twice, and wait for its end.

        A statement with a journal is written down there, and :meth:`cancel` ends it; it ends no other. ``quiet``
        statements are not told and not remembered. Raises StatementFailedError with the warehouse's message,
        StatementCancelledError where someone cancelled it.
        """
        written = journal or _NoJournal()
        labels = {**(tags or {}), "step": step, **({"chunk": chunk} if chunk is not None else {})}
        deadline = time.monotonic() + self.policy.retry_for_s
        for delay in self.delays():
            if journal is not None and self._cancelled.is_set():
                self.resume()
                raise StatementCancelledError(f"{self.connection.place}: {step} was cancelled before it was submitted")
            job_id, began = self.new_job_id(), time.monotonic()
            written.begin(job_id)
            id = self._start(sql, labels, job_id)
            written.submitted(job_id, id)
            status = self.wait(id, cancellable=journal is not None, counted=not quiet)
            written.end(job_id)
            if status.state is JobState.DONE:
                return self._finished(id, step, chunk, status, began, quiet=quiet)
            self._check_failure(step, id, status, deadline)
            self.note(f"{self.connection.place}: {step}: {status.error}: again in {delay:,.0f} s")
            self.pause(delay)
        raise AssertionError("delays never end")

    def _start(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        """Submit a statement and give its id. Where the answer was lost, the statement may run: then it is found."""
        lost = False

        def submit() -> str:
            nonlocal lost
            if lost:
                for id in self.connection.running({"job": job_id}):
                    return id
            lost = True
            return self.connection.submit(sql, {**self.tags, **tags, "job": job_id}, job_id)

        return self.repeated(submit)

    def _finished(
        self, id: str, step: str, chunk: str | None, status: JobStatus, began: float, *, quiet: bool = False
    ) -> Statement:
        """Remember and tell a statement that has succeeded."""
        seconds = round(time.monotonic() - began, 3)
        statement = Statement(id, self.connection.link(id), step, chunk, status.rows, seconds)
        if not quiet:
            self.statements.append(statement)
            self.on_statement(statement)
        return statement

    def _check_failure(self, what: str, id: str, status: JobStatus, deadline: float) -> None:
        """Raise for a statement that did not succeed, unless it may succeed when it is repeated before a deadline."""
        if status.state is JobState.CANCELLED:
            raise StatementCancelledError(f"{self.connection.place}: {what} was cancelled ({id})")
        if not status.transient or time.monotonic() > deadline:
            reason = status.error or f"the warehouse no longer knows the statement ({status.state.value})"
            raise StatementFailedError(f"{self.connection.place}: {what}: {reason} ({id})")

    def wait(self, id: str, *, cancellable: bool = False, counted: bool = False) -> JobStatus:
        """Wait for the end of a statement, whoever started it.

        A ``cancellable`` one ends by :meth:`cancel`. ``counted``: its rows are wanted.
        """
        poll, beat, cancelled = self.policy.first_poll_s, time.monotonic(), False
        while True:
            if cancellable and not cancelled:
                self._cancelled.wait(poll)
            else:
                time.sleep(poll)
            poll = min(poll * self.policy.poll_growth, self.policy.longest_poll_s)
            status = self.repeated(lambda: self.connection.status(id, counted=counted))
            if status.state is not JobState.RUNNING:
                if not cancelled:
                    return status
                self.resume()
                return status if status.state is JobState.DONE else replace(status, state=JobState.CANCELLED)
            if cancellable and not cancelled and self._cancelled.is_set():
                cancelled = True
                self.repeated(lambda: self.connection.cancel(id))
            if time.monotonic() - beat > self.policy.heartbeat_s:
                beat = time.monotonic()
                self._beat()

    def _beat(self) -> None:
        heartbeat, self.heartbeat = self.heartbeat, lambda: None  # one that runs a statement waits for its end, too
        try:
            heartbeat()
        finally:
            self.heartbeat = heartbeat

    def repeated(self, work: Callable[[], T]) -> T:
        """Call a function again while it fails for a passing reason."""
        began, told = time.monotonic(), False
        for delay in self.delays():
            try:
                return work()
            except TransientError as error:
                cancelled = self._cancelled.is_set()
                limit = self.policy.cancelled_retry_for_s if cancelled else self.policy.retry_for_s
                waits = time.monotonic() + delay - began
                if waits > limit:
                    raise
                if waits > self.policy.told_after_s and not told:
                    told = True
                    self.note(f"{error}: trying again for {limit / 60:,.0f} minutes")
            self.pause(delay)
        raise AssertionError("delays never end")

    def delays(self) -> Iterator[float]:
        """Give the delays between repetitions: each twice the one before."""
        delay = self.policy.first_delay_s
        while True:
            yield delay
            delay = min(2 * delay, self.policy.longest_delay_s)

    def pause(self, seconds: float) -> None:
        """Wait, or until :meth:`cancel`; after it only for a moment."""
        if self._cancelled.is_set():
            time.sleep(min(seconds, self.policy.first_delay_s))
        else:
            self._cancelled.wait(seconds)


class _NoJournal:
    """Writes nothing down."""

    def begin(self, job_id: str) -> None:
        """Do nothing."""

    def submitted(self, job_id: str, statement_id: str) -> None:
        """Do nothing."""

    def end(self, job_id: str) -> None:
        """Do nothing."""


class JobConnection:
    """A warehouse as a database that takes a statement at a time, for all but the calls of a model.

    ``name`` labels the statements outside of a step: they are not told.
    """

    def __init__(self, jobs: JobRunner, name: str = "setup") -> None:
        self.jobs = jobs
        self._step, self._quiet = name, True

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return self.jobs.connection.place

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name the statements inside, and tell each."""
        before = self._step, self._quiet
        self._step, self._quiet = name, False
        try:
            yield
        finally:
            self._step, self._quiet = before

    def execute(self, sql: str) -> None:
        """Run a statement and wait for its end."""
        self.jobs.run(sql, self._step, quiet=self._quiet)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and give its rows."""
        return self.jobs.repeated(lambda: self.jobs.connection.rows(sql))

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Give a relation's columns and types; None: it is not there."""
        return self.jobs.repeated(lambda: self.jobs.connection.columns(relation))

    def begin(self) -> None:
        """A statement is committed at its end."""

    def commit(self) -> None:
        """A statement is committed at its end."""
