"""A backend over a warehouse whose own function asks the model: each statement is a job that outlives this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.llm.messages import Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.renderer.statements import read_answers
from sqlenrich.runner.backends import queries
from sqlenrich.runner.backends.base import Results, RunStart
from sqlenrich.runner.backends.connections.base import JobState, WarehouseConnection
from sqlenrich.runner.backends.jobs import JobConnection, JobPolicy, JobRunner
from sqlenrich.runner.backends.ranged_call import RangedCall
from sqlenrich.runner.backends.statement_ledger import CALL, RUN, STATEMENTS, CallJournal, Line, StatementLedger
from sqlenrich.runner.backends.statements import StatementBackend, StatementPolicy
from sqlenrich.runner.observer import Observer


@dataclass(frozen=True)
class TakeOverPolicy:
    """What a run does about a run before it that did not end."""

    dead_after_s: float = 180.0
    """A run on another host is dead after this time without a sign of life."""
    settle_s: float = 5.0
    """How long a statement whose id was not stored is looked for: it may just have been submitted."""
    settle_poll_s: float = 0.5


class AskedSoFar(NamedTuple):
    """What a run has asked: answers, failures among them, and tokens."""

    answers: int
    failed: int
    repeatable: int
    """The failures that may be repeated."""
    uncounted: int
    """The answers whose tokens are unknown."""
    tokens_in: int
    tokens_out: int


class RangeAnswer(NamedTuple):
    """An answer to a request of a range."""

    response: str | None
    call_error: str | None
    finish_reason: str | None
    raw: str | None
    model: str
    served_model: str | None


class RequestRange(NamedTuple):
    """Pending requests that follow each other: those with a hash after one, up to another."""

    after: str
    """Empty for the first."""
    upto: str
    requests: int
    prompt_bytes: int


class WarehouseBackend(StatementBackend):
    """The tables in one schema of a warehouse, made by statements that run as jobs there.

    ``schema`` qualifies the tables that are made. With ``take_over`` a statement that a dead run left behind is
    cancelled; without, it is waited for. ``note`` receives lines for the user.
    """

    asks_in_sql = True

    def __init__(
        self,
        connection: WarehouseConnection,
        schema: str = "",
        *,
        take_over: bool = False,
        jobs: JobPolicy | None = None,
        statements: StatementPolicy | None = None,
        policy: TakeOverPolicy | None = None,
    ) -> None:
        self.warehouse, self.take_over, self.policy = connection, take_over, policy or TakeOverPolicy()
        self.jobs = JobRunner(connection, jobs)
        self.statement = JobConnection(self.jobs)
        super().__init__(self.statement, connection.engine, schema, statements)
        self.calls = StatementLedger(JobConnection(self.jobs, "ledger"), self.dialect, self.named(STATEMENTS))
        self.journal: CallJournal | None = None
        self.note: Callable[[str], None] = lambda _: None
        self.jobs.on_statement = lambda statement: self.note(statement.to_text())
        self.jobs.note = lambda line: self.note(line)
        # What is run for each chunk is printed once.
        self._reading: tuple[Step, str] | None = None
        self._asking: tuple[Step, RangedCall] | None = None

    def __enter__(self) -> Self:
        self.jobs.repeated(self.warehouse.__enter__)  # a warehouse may be starting
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self.journal is not None:
                with suppress(RunError):  # a connection that is gone leaves the lines; the process ends, so it is dead
                    self.journal.close()
        finally:
            self.warehouse.__exit__(*error)

    @property
    def output(self) -> str:
        """What the report calls the output."""
        return self.schema if self.place in self.schema else f"{self.place} {self.schema}".strip()

    def statements_run(self) -> list[dict[str, Any]]:
        """Give the statements of the run."""
        return [asdict(one) for one in self.jobs.statements]

    def watch(self, observer: Observer) -> None:
        """Tell an observer of each statement."""
        self.note = observer.note

    # The run and those before it -------------------------------------------------------------------------------------

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line; first of all refuse a second run on the same tables. Raises ConfigError."""
        if self.journal is None:
            self._claim(start)
        super().begin(start, known=known)

    def _claim(self, start: RunStart) -> None:
        answers = self.named(start.snapshot.responses or start.name)
        self.jobs.begin(start.run_id, {"app": "sqlenrich", "enrichment": start.name, "tables": answers})
        self.calls.create()
        self.calls.begin(start.run_id, start.run_id, answers, RUN)
        self.journal = CallJournal(self.calls, start.run_id, answers)
        self.jobs.heartbeat = lambda: self._quietly_seen(start.run_id)
        lines = [line for line in self.calls.open_lines(answers) if line.run_id != start.run_id]
        dead = {line.run_id for line in lines if line.kind == RUN and not line.lives(self.policy.dead_after_s)}
        living = [line for line in lines if line.kind == RUN and line.run_id not in dead]
        if living:
            statements = [line for line in lines if line.kind == CALL and line.run_id == living[0].run_id]
            raise ConfigError(f"{self.place}: {_busy(living[0], statements)}")
        for last in {line.run_id: line for line in lines if line.kind == CALL}.values():
            self._settle(last)
        tags = {"app": "sqlenrich", "tables": answers}
        for id in self.jobs.repeated(lambda: self.warehouse.running(tags)):
            self._await(id, "a statement of an earlier run")
        for run_id in dict.fromkeys(line.run_id for line in lines):
            self.calls.end(run_id)

    def _quietly_seen(self, run_id: str) -> None:
        with suppress(RunError):  # the next heartbeat tells
            self.calls.seen(run_id)

    def _settle(self, line: Line) -> None:
        """Wait for a statement that a dead run left behind, so that its answers are stored and not asked again."""
        what = f"the statement of run {line.run_id}"
        if line.statement_id is not None:
            self._await(line.statement_id, what)
            return
        until = time.monotonic() + self.policy.settle_s - line.since_s()
        while True:
            for id in self.jobs.repeated(lambda: self.warehouse.running({"job": line.job_id})):
                self._await(id, what)
                return
            if time.monotonic() >= until:
                return
            self.jobs.pause(self.policy.settle_poll_s)

    def _await(self, id: str, what: str) -> None:
        if self.jobs.repeated(lambda: self.warehouse.status(id)).state is not JobState.RUNNING:
            return
        if self.take_over:
            self.note(f"cancelling {what}, {id}: its answers may be billed and are lost")
            self.jobs.repeated(lambda: self.warehouse.cancel(id))
        else:
            self.note(f"waiting for {what}, {id}, which still runs (--take-over cancels it)")
        self.jobs.wait(id)

    # Steps -----------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh."""
        with self.statement.step(step.name):
            super().run_step(step)

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:
        """Make the pending relation of a call afresh and give its count; stored answers are read first."""
        self.read_stored(plan)
        with self.statement.step("pending"):
            return super().refresh(plan, call, limit, ordered=ordered)

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:
        """Make ``checked`` afresh from all stored answers."""
        self.read_stored(plan)
        super().judge(plan, asked_by=asked_by)

    def finish(self, plan: Plan, calls: Sequence[Step], *, partial: bool = True, unasked: int = 0) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine``. Raises RunError if a row is unaccounted for."""
        self.jobs.resume()
        self.read_stored(plan)
        return super().finish(plan, calls, partial=partial, unasked=unasked)

    def read_stored(self, plan: Plan) -> None:
        """Read the stored answers that no reading, or one with other facts, has read."""
        call = plan.responses
        if call.calls_in_sql and call.reading is not None and self.dialect.updates:
            if self._reading is None or self._reading[0] is not call:
                self._reading = call, read_answers(self.dialect, call)
            self.connection.execute(self._reading[1])

    def latencies(self, plan: Plan, run_id: str, shares: Sequence[int]) -> list[int] | None:
        """Give percentiles of a run's latencies in milliseconds; None where the warehouse asks: it tells none."""
        return None if plan.responses.calls_in_sql else super().latencies(plan, run_id, shares)

    def check(self, sql: str) -> None:
        """Compile a query without running it. Raises RunError with the warehouse's message."""
        self.jobs.repeated(lambda: self.warehouse.check(sql))

    # The calls of the model ------------------------------------------------------------------------------------------

    def next_range(self, call: Step, after: str, most: int) -> RequestRange | None:
        """Give the next ``most`` pending requests after a hash; None where there are none."""
        query = queries.upper_bound(self.dialect, after, most)
        last, count, size = self.connection.rows(call.relations.line(query))[0]
        return None if last is None else RequestRange(after, str(last), int(count), int(size or 0))

    def answers_of(self, call: Step, asked: RequestRange, most: int) -> list[RangeAnswer]:
        """Give some answers to the requests of a range."""
        query = queries.pending_answers(asked.after, asked.upto, most)
        return [RangeAnswer(*row) for row in self.connection.rows(call.relations.line(query))]

    def pending_request(self, call: Step, request_hash: str) -> Request:
        """Give a pending request."""
        return Request(*self.connection.rows(call.relations.line(queries.pending_request(request_hash)))[0])

    def asked_so_far(self, plan: Plan, run_id: str) -> AskedSoFar:
        """Give what a run has asked until now."""
        return AskedSoFar(*(int(value or 0) for value in self.rows(plan, queries.asked_so_far(run_id))[0]))

    def asking(self, call: Step, asked: RequestRange) -> str:
        """Give the statement that asks the pending requests of a range which have no answer yet."""
        if self._asking is None or self._asking[0] is not call:
            self._asking = call, RangedCall(self.dialect, call)
        return self._asking[1].between(asked.after, asked.upto)


def _busy(run: Line, statements: list[Line]) -> str:
    """Give the line that refuses a second run."""
    asked = next((line.statement_id or line.job_id for line in reversed(statements)), None)
    statement = f", statement {asked}" if asked else ""
    return (
        f"run {run.run_id} works on these tables (host {run.host}, process {run.pid}{statement}, "
        f"begun {run.since_s():,.0f} s ago, last sign of life {run.age_s():,.0f} s ago); wait for its end"
    )
