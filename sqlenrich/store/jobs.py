"""Statements that run in a warehouse as jobs: started, polled, repeated after a lost connection, cancelled."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlenrich.core.errors import RunError
from sqlenrich.core.types import Type
from sqlenrich.store.connections.base import (
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
    WarehouseConnection,
)

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
    heartbeat_s: float = 20.0
    """How often a run renews its lease."""
    unknown_for_s: float = 120.0
    """How long the warehouse may not know a statement before it counts as ended: its records may be late."""
    find_poll_s: float = 0.5
    """How often a submission whose answer was lost is looked for."""


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
        """Return it as a line."""
        chunk = f" {self.chunk}" if self.chunk else ""
        rows = f"{self.rows:,} rows, " if self.rows is not None else ""
        return f"{self.step}{chunk}: {rows}{self.seconds:.1f} s, {self.link or self.id}"


class StatementFailedError(RunError):
    """The warehouse refused or ended a statement."""

    transient: bool = False
    """Whether the same statement may succeed later."""
    asked: bool = True
    """Whether it may have asked the model."""


class StatementCancelledError(RunError):
    """A statement was cancelled by the run's user."""


class Journal(Protocol):
    """Where submissions are written down, so that another process finds the statement that one has started."""

    def begin(self, job_id: str) -> None:
        """A statement is about to be submitted."""

    def submitted(self, job_id: str, statement_id: str) -> None:
        """The warehouse has given its id."""

    def abandoned(self, job_id: str) -> None:
        """Its answer was lost: it may run, and if it starts later it must do nothing."""

    def end(self, job_id: str, statement: Statement | None) -> None:
        """It has ended, and is a statement where it has succeeded."""


class JobRunner:
    """Runs statements one after another and remembers them.

    ``tags`` stand beside each statement in the warehouse. ``heartbeat`` is called before and while a statement runs;
    what it raises ends the wait. ``note`` receives lines for the user.
    """

    def __init__(self, connection: WarehouseConnection, policy: JobPolicy | None = None) -> None:
        self.connection, self.policy = connection, policy or JobPolicy()
        self.tags: Mapping[str, str] = {}
        self.statements: list[Statement] = []
        self.on_statement: Callable[[Statement], None] = lambda _: None
        self.heartbeat: Callable[[], None] = lambda: None
        self.note: Callable[[str], None] = lambda _: None
        self.submitted = 0
        self._run_id, self._beaten = secrets.token_hex(8), time.monotonic()  # until a run begins
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
        """Return an id that no other submission has."""
        self.submitted += 1
        return f"sqlenrich_{self._run_id}_{self.submitted}".lower().replace(".", "_")

    def run(self, sql: str, step: str, *, quiet: bool = False) -> Statement:
        """Run a statement that may run twice, and wait for its end. :meth:`cancel` does not end it.

        ``quiet`` statements are not told and not remembered. Raises StatementFailedError with the warehouse's message,
        StatementCancelledError where someone cancelled it.
        """
        self.beat()
        deadline = time.monotonic() + self.policy.retry_for_s
        for delay in self.delays():
            began = time.monotonic()
            id = self._start(sql, {"step": step}, self.new_job_id())
            status = self.wait(id, counted=not quiet)
            if status.state is JobState.DONE:
                return self._finished(id, step, None, status, began, quiet=quiet)
            error = self._failure(step, id, status)
            if not error.transient or time.monotonic() > deadline:
                raise error
            self.note(f"{self.connection.place}: {step}: {status.error}: again in {delay:,.0f} s")
            self.pause(delay)
        raise AssertionError("delays never end")

    def ask(
        self, sql: Callable[[str], str], step: str, chunk: str, tags: Mapping[str, str], journal: Journal
    ) -> Statement:
        """Run the statement of a submission that asks the model, and wait for its end. :meth:`cancel` ends it.

        It is not repeated after it has failed: it may have asked. ``sql`` gives the text for a job id; what starts
        after the journal has abandoned its job id must do nothing. Raises as :meth:`run`.
        """
        self.beat()
        if self._cancelled.is_set():
            self.resume()
            raise StatementCancelledError(f"{self.connection.place}: {step} was cancelled before it was submitted")
        began = time.monotonic()
        job_id, id = self._submit_once(sql, {**tags, "step": step, "chunk": chunk}, journal)
        status = self.wait(id, cancellable=True, counted=True)
        done = self._finished(id, step, chunk, status, began) if status.state is JobState.DONE else None
        if status.state is not JobState.UNKNOWN:
            journal.end(job_id, done)
        if done is None:
            raise self._failure(step, id, status)
        return done

    def _submit_once(self, sql: Callable[[str], str], tags: Mapping[str, str], journal: Journal) -> tuple[str, str]:
        """Submit a statement; give its job id and its id.

        Where the answer was lost, it is looked for as long as the warehouse's records may be late. Only one that is not
        there, and that does nothing if it starts later, is submitted again.
        """
        began = time.monotonic()
        for delay in self.delays():
            job_id = self.new_job_id()
            given, text = {**self.tags, **tags, "job": job_id}, sql(job_id)
            journal.begin(job_id)
            submit = partial(self.connection.submit, text, given, job_id)
            try:
                found: str | None = self.repeated(submit, lost=self.connection.starts_once)
            except LostConnectionError as error:
                if time.monotonic() - began > self.policy.retry_for_s:
                    raise
                self.note(f"{error}: looking for the statement that was submitted")
                journal.abandoned(job_id)
                found = self.find(job_id, self.connection.late_s)
            if found is not None:
                journal.submitted(job_id, found)
                return job_id, found
            self.pause(delay)
        raise AssertionError("delays never end")

    def find(self, job_id: str, for_s: float) -> str | None:
        """Look for a submission; None where it is not in the warehouse's records for so long."""
        until = time.monotonic() + for_s
        while True:
            found = self.repeated(lambda: self.connection.find(job_id))
            if found is not None or time.monotonic() >= until:
                return found
            time.sleep(self.policy.find_poll_s)

    def _start(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        """Submit a statement and give its id. Where the answer was lost, the statement may run: then it is found."""
        lost = False

        def submit() -> str:
            nonlocal lost
            if lost and (found := self.connection.find(job_id)) is not None:
                return found
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

    def _failure(self, what: str, id: str, status: JobStatus) -> StatementFailedError:
        """Return the error of a statement that did not succeed. Raises StatementCancelledError if it was cancelled."""
        if status.state is JobState.CANCELLED:
            raise StatementCancelledError(f"{self.connection.place}: {what} was cancelled ({id})")
        reason = status.error or f"the warehouse no longer knows the statement ({status.state.value})"
        error = StatementFailedError(f"{self.connection.place}: {what}: {reason} ({id})")
        error.transient, error.asked = status.transient, status.started
        return error

    def wait(self, id: str, *, cancellable: bool = False, counted: bool = False) -> JobStatus:
        """Wait for the end of a statement, whoever started it.

        A ``cancellable`` one ends by :meth:`cancel`. ``counted``: its rows are wanted. A statement that the warehouse
        does not know has not ended: its records may be late. UNKNOWN is given after a policy's time alone.
        """
        poll, known, cancelled = self.policy.first_poll_s, time.monotonic(), False
        while True:
            if cancellable and not cancelled:
                self._cancelled.wait(poll)
            else:
                time.sleep(poll)
            poll = min(poll * self.policy.poll_growth, self.policy.longest_poll_s)
            status = self.repeated(lambda: self.connection.status(id, counted=counted))
            if status.state is not JobState.UNKNOWN:
                known = time.monotonic()
            unsure = status.state is JobState.UNKNOWN and time.monotonic() - known < self.policy.unknown_for_s
            if status.state is not JobState.RUNNING and not unsure:
                if not cancelled:
                    return status
                self.resume()
                return status if status.state is JobState.DONE else replace(status, state=JobState.CANCELLED)
            if cancellable and not cancelled and self._cancelled.is_set():
                cancelled = True
                self.repeated(lambda: self.connection.cancel(id))
            self.beat()

    def beat(self) -> None:
        """Call the heartbeat where the last one is long enough ago."""
        if time.monotonic() - self._beaten > self.policy.heartbeat_s:
            self.beat_now()

    def beat_now(self) -> None:
        """Call the heartbeat."""
        heartbeat, self.heartbeat = self.heartbeat, lambda: None  # one that runs a statement waits for its end, too
        try:
            heartbeat()
        finally:
            self.heartbeat, self._beaten = heartbeat, time.monotonic()

    def repeated(self, work: Callable[[], T], *, lost: bool = True) -> T:
        """Call a function again while it fails for a passing reason; a lost connection is one where ``lost`` is set."""
        began, told = time.monotonic(), False
        for delay in self.delays():
            try:
                return work()
            except TransientError as error:
                if isinstance(error, LostConnectionError) and not lost:
                    raise
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
        """Return the delays between repetitions: each twice the one before."""
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
        try:
            return self.jobs.repeated(lambda: self.jobs.connection.rows(sql))
        except TransientError:
            raise
        except RunError:
            self.jobs.beat_now()  # a table may be gone since another run has taken over: then that is told
            raise

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns and types; None: it is not there."""
        return self.jobs.repeated(lambda: self.jobs.connection.columns(relation))

    def begin(self) -> None:
        """A statement is committed at its end."""

    def commit(self) -> None:
        """A statement is committed at its end."""
