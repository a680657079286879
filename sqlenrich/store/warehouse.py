"""A backend over a warehouse whose own function asks the model: each statement is a job that outlives this process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple, Self

from sqlglot import exp

from sqlenrich.core.bounds import AFTER_ALL, bound_of_share
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.lease import LeaseLostError, LeasePolicy, wait_for
from sqlenrich.core.names import identifier
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import equals
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.renderer.statements import (
    JUDGED,
    create_pending,
    of_prompts,
    overwrite_table,
    read_answers,
    unread_answers,
)
from sqlenrich.store import queries
from sqlenrich.store.backend import Backend, StatementPolicy
from sqlenrich.store.base import CommitPolicy, Origin, Results, RunStart
from sqlenrich.store.connections.base import (
    JobState,
    OverwritingConnection,
    TransientError,
    WarehouseConnection,
)
from sqlenrich.store.current_results import CurrentResults
from sqlenrich.store.jobs import JobConnection, JobPolicy, JobRunner, Statement
from sqlenrich.store.ranged_call import RangedCall
from sqlenrich.store.rights import RIGHTS, Attempt
from sqlenrich.store.statement_ledger import (
    STATEMENTS,
    Holder,
    Lease,
    Line,
    StatementLedger,
)

RANGE_MARGIN = 1.1
"""The requests of a range, as a multiple of those that are wanted: hashes are evenly spread, but for chance."""
SHARE_OF_STATEMENT = 0.95
"""The part of the longest statement that the rows of an INSERT take: its columns and tags take the rest."""


class Asked(NamedTuple):
    """What was asked: answers, failures among them, and tokens."""

    answers: int
    failed: int
    repeatable: int
    """The failures that may be repeated."""
    uncounted: int
    """The answers whose tokens are unknown."""
    tokens_in: int
    tokens_out: int

    def plus(self, other: Asked) -> Asked:
        """Return the sums of both."""
        return Asked(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING_ASKED = Asked(0, 0, 0, 0, 0, 0)


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


class WarehouseBackend(Backend):
    """The tables in one schema of a warehouse, made by statements that run as jobs there.

    ``schema`` qualifies the tables that are made. With ``take_over`` the run takes the tables from a run that holds
    them, and cancels its statement; without, it waits for a dead run's lease to end, and for its statement. ``note``
    receives lines for the user.
    """

    asks_in_sql = True
    commits = CommitPolicy(rows=2_000, instant_rows=2_000, age_s=5.0, unstored=4_000)
    """An INSERT is a job that takes a second, a file or a partition: few large ones."""

    def __init__(
        self,
        connection: WarehouseConnection,
        schema: str = "",
        *,
        take_over: bool = False,
        jobs: JobPolicy | None = None,
        statements: StatementPolicy | None = None,
        policy: LeasePolicy | None = None,
    ) -> None:
        self.warehouse, self.take_over, self.policy = connection, take_over, policy or LeasePolicy()
        self.jobs = JobRunner(connection, jobs)
        self.statement = JobConnection(self.jobs)
        bound = StatementPolicy(insert_bytes=round(SHARE_OF_STATEMENT * connection.statement_bytes))
        super().__init__(self.statement, connection.engine, schema, statements or bound)
        self.calls = StatementLedger(JobConnection(self.jobs, "ledger"), self.engine, self.named(STATEMENTS))
        self.lease: Lease | None = None
        self._tried = False
        if isinstance(connection, OverwritingConnection):
            connection.home = schema
        self.note: Callable[[str], None] = lambda _: None
        self.jobs.on_statement = self._ran
        self.jobs.note = lambda line: self.note(line)
        self._current = CurrentResults(self, lambda line: self.note(line))
        self._read: Step | None = None
        """The call whose answers of earlier runs are read."""
        # What is run for each chunk is printed once.
        self._asking: tuple[Step, RangedCall] | None = None

    def __enter__(self) -> Self:
        self.jobs.statements.clear()
        self.jobs.repeated(self.warehouse.__enter__)  # a warehouse may be starting
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self.jobs.heartbeat = lambda: None
            if self.lease is not None:
                with suppress(RunError):  # a connection that is gone leaves the lease, which ends by itself
                    self.lease.close()
            self.lease, self._tried, self._read, self._asking = None, False, None, None
        finally:
            self.warehouse.__exit__(*error)

    @property
    def output(self) -> str:
        """What the report calls the output."""
        return self.schema if self.place in self.schema else f"{self.place} {self.schema}".strip()

    def _ran(self, statement: Statement) -> None:
        """Tell a statement that has succeeded; one that asks is written by :meth:`Lease.end`."""
        self.note(statement.to_text())
        if self.lease is not None and statement.chunk is None:
            self.lease.ran(statement)

    def record(self, start: RunStart, status: str, facts: Mapping[str, Any]) -> None:
        """Complete a run's line of the ledger. Its statements are lines of their own: there may be thousands."""
        told = {name: value for name, value in facts.items() if name != "statements"}
        super().record(start, status, told | self._current.facts)

    def statements_run(self) -> list[dict[str, Any]]:
        """Return the statements of the run."""
        return [asdict(one) for one in self.jobs.statements]

    def watch(self, note: Callable[[str], None]) -> None:
        """Call this with a line for each statement."""
        self.note = note

    # The run and those before it -------------------------------------------------------------------------------------

    def begin(self, start: RunStart, *, known: bool) -> None:
        """Write a run's line; first of all refuse a second run on the same tables. Raises ConfigError."""
        if self.lease is None:
            self._claim(start)
            self._current.begin(lambda: self.ledger.report_before(start))
        super().begin(start, known=known)

    def _claim(self, start: RunStart) -> None:
        answers = self.named(start.snapshot.responses or start.name)
        self.jobs.begin(start.run_id, {"app": "sqlenrich", "enrichment": start.name, "tables": answers})
        self.calls.create()
        lease = Lease(self.calls, start.run_id, answers, self.policy.lasts_s)
        self._wait_for(lease)
        self.lease, self.jobs.heartbeat = lease, self._renew
        # What started before the lease was taken may still ask: nothing is asked beside it.
        lines = [line for line in self.calls.open_calls(answers) if line.run_id != start.run_id]
        for last in {line.run_id: line for line in lines}.values():
            self._settle(last)
        tags = {"app": "sqlenrich", "tables": answers}
        for id in self.jobs.repeated(lambda: self.warehouse.running(tags)):
            self._await(id, "a statement of an earlier run")
        self.calls.close(answers, lines)

    def _wait_for(self, lease: Lease) -> None:
        """Take the lease, once that of a dead run has ended. Raises ConfigError where the run that has it lives."""
        wait_for(
            lease,
            self.policy.poll_s,
            take=self.take_over,
            pause=self.jobs.pause,
            waits=lambda holder: self.note(
                f"run {holder.run_id} holds these tables: waiting up to {holder.left_s:,.0f} s for a sign of life "
                "(--take-over does not wait)"
            ),
            busy=lambda holder: ConfigError(f"{self.place}: {self._busy(holder, lease.name)}"),
        )

    def _busy(self, holder: Holder, name: str) -> str:
        """Return the line that refuses a second run."""
        calls = [line for line in self.calls.open_calls(name) if line.run_id == holder.run_id]
        asked = next((line.statement_id or line.job_id for line in reversed(calls)), None)
        statement = f", statement {asked}" if asked else ""
        return (
            f"run {holder.run_id} works on these tables (host {holder.host}, process {holder.pid}{statement}); "
            "wait for its end, or take them from it with --take-over"
        )

    def _renew(self) -> None:
        """Renew the lease. Raises LeaseLostError."""
        if self.lease is None:
            return
        try:
            self.lease.renew()
        except LeaseLostError:
            raise
        except RunError:  # of the network: the next heartbeat tells
            return

    def hold(self) -> None:
        """Renew the lease now. Raises LeaseLostError where another run has taken it."""
        if self.lease is not None:
            self.lease.renew()

    def _settle(self, line: Line) -> None:
        """Wait for a statement that a dead run left behind, so that its answers are stored and not asked again."""
        id = line.statement_id or self.jobs.find(line.job_id, self.warehouse.late_s)
        if id is not None:
            self._await(id, f"the statement of run {line.run_id}")

    def _await(self, id: str, what: str) -> None:
        if self.jobs.repeated(lambda: self.warehouse.status(id)).state not in (JobState.RUNNING, JobState.UNKNOWN):
            return
        if self.take_over:
            self.note(f"cancelling {what}, {id}: its answers may be billed and are lost")
            self.jobs.repeated(lambda: self.warehouse.cancel(id))
        else:
            self.note(f"waiting for {what}, {id}, which may still run (--take-over cancels it)")
        self.jobs.wait(id)

    # Steps -----------------------------------------------------------------------------------------------------------

    def run_step(self, step: Step) -> None:
        """Make the table of a step afresh."""
        with self.statement.step(step.name):
            if not self._overwrite(step):
                super().run_step(step)

    def _overwrite(self, step: Step) -> bool:
        """Put the rows of a step into its table where its columns stay; False where the table has to be made.

        Raises ConfigError where that loses a policy.
        """
        connection = self.warehouse
        if not isinstance(connection, OverwritingConnection):
            return False
        query = step.relations.bound(step.query)
        assert isinstance(query, exp.Query)
        if self.jobs.repeated(lambda: connection.fits(step.relation, query)):
            self.connection.execute(overwrite_table(self.engine, step))
            return True
        self._keep_policies(connection, step.relation)
        return False

    def _keep_policies(self, connection: OverwritingConnection, table: str) -> None:
        """Refuse to replace a table that carries policies. Raises ConfigError."""
        if found := self.jobs.repeated(lambda: connection.policies(table)):
            raise ConfigError(
                f"{self.place}: the columns of {table} change, so it has to be replaced and would lose its "
                f"{', '.join(found)}: drop it, run again, and set the policies on the new table; no answer is lost"
            )

    def refresh(self, plan: Plan, call: Step, limit: int | None, *, ordered: bool) -> int:
        """Make the pending relation of a call afresh and give its count; stored answers are read first.

        Raises ConfigError where the role lacks a right that the run needs at its end.
        """
        self.read_stored(plan)
        if not self.count([call]):
            self._current.answered(call)
            return 0  # no prompt is read to find that out
        if not self._tried:
            self._try_rights(plan)
            self._tried = True
        with self.statement.step("pending"):
            return super().refresh(plan, call, limit, ordered=ordered)

    def _try_rights(self, plan: Plan) -> None:
        """Try what the end of the run does to the tables that are there. Raises ConfigError."""
        rights = RIGHTS.get(self.engine.name)
        if rights is None:
            return
        self._try(plan.responses, rights.answers)
        for step in (plan.step(name) for name in JUDGED):
            known = self.present.get(step.relation)
            if known is None:
                continue
            stays = [name.lower() for name in known] == [name.lower() for name in step.columns]
            if not stays and isinstance(self.warehouse, OverwritingConnection):
                self._keep_policies(self.warehouse, step.relation)
            self._try(step, rights.rows if stays else rights.columns, known[0])

    def _try(self, step: Step, attempts: Sequence[Attempt], first: str = "") -> None:
        """Try statements that change nothing over the table of a step. Raises ConfigError with the right to grant."""
        rights, name = RIGHTS[self.engine.name], identifier(self.engine, first or next(iter(step.columns)))
        for attempt in attempts:
            sql = print_sql(self.engine, attempt(step.relations.table(step.name), name), pretty=False)
            try:
                self.connection.execute(sql) if rights.runs else self.check(sql)
            except (TransientError, LeaseLostError):
                raise
            except RunError as error:
                raise ConfigError(
                    f"{error}: the run could not write {step.relation} at its end, so nothing was asked; "
                    f"it needs {rights.needs}"
                ) from None

    def judge(self, plan: Plan, *, asked_by: str | None = None) -> None:
        """Make ``checked`` afresh from all stored answers."""
        self.read_stored(plan)
        super().judge(plan, asked_by=asked_by)

    def finish(self, plan: Plan, calls: Sequence[Step], *, partial: bool = True, unasked: int = 0) -> Results:
        """Make ``checked``, ``enriched`` and ``quarantine``. Raises RunError if a row is unaccounted for."""
        self.jobs.resume()
        self.hold()
        self.read_stored(plan)
        make = functools.partial(super().finish, plan, calls, partial=partial, unasked=unasked)
        return self._current.finish(plan, calls, unasked=unasked, make=make)

    def make_pending(self, call: Step, query: exp.Query) -> None:
        """Make the pending relation in the order of its hashes, so that a chunk reads its own part."""
        for sql in create_pending(self.engine, call, queries.pending_with_bytes(self.engine, query)):
            self.connection.execute(sql)

    def read_stored(self, plan: Plan) -> None:
        """Read the stored answers that no reading, or one with other facts, has read.

        The first time those of all runs; then those that this run has stored. An UPDATE rewrites the rows that it
        reads, and BigQuery bills one that finds none: there is one only where an answer is unread.
        """
        call = plan.responses
        if not (call.calls_in_sql and call.reading is not None and self.engine.updates):
            return
        among = [of_prompts(self.engine, call)]
        if self.lease is not None and self._read is call:
            if self._asking is None:
                return  # this run has stored none
            among = [*self._since().conditions(), equals("run_id", self.lease.run_id)]
        unread = unread_answers(self.engine, call, among)
        if self.number(plan, exp.select("COUNT(*)").from_(unread.subquery("unread"))):
            self.connection.execute(read_answers(self.engine, call, among=among))
            self._current.outdate()  # they were made of other answers
        self._read = call

    def _since(self) -> queries.Since:
        """Return the time of what this run stores."""
        return queries.Since(self.engine, None if self.lease is None else self.lease.since)

    def latencies(self, plan: Plan, run_id: str, shares: Sequence[int]) -> list[int] | None:
        """Return percentiles of a run's latencies in milliseconds; None where the warehouse asks: it tells none."""
        return None if plan.responses.calls_in_sql else super().latencies(plan, run_id, shares)

    def check(self, sql: str) -> None:
        """Compile a query without running it. Raises RunError with the warehouse's message."""
        self.jobs.repeated(lambda: self.warehouse.check(sql))

    # The calls of the model ------------------------------------------------------------------------------------------

    def next_range(self, call: Step, after: str, most: int, left: int = 0) -> RequestRange | None:
        """Return the next ``most`` pending requests after a hash, or a few less; None where there are none.

        ``left`` are those that are pending after it. Of many only the range is read in which the next ones are likely.
        """
        likely = [bound_of_share(after, RANGE_MARGIN * most / left)] if left > self.statements.wide_rows else []
        for among in (*likely, AFTER_ALL):
            query = queries.upper_bound(after, most, among)
            last, count, size = self.connection.rows(call.relations.line(query))[0]
            if last is not None:
                return RequestRange(after, str(last), int(count), int(size or 0))
        return None

    def answers_of(self, call: Step, asked: RequestRange, most: int) -> list[RangeAnswer]:
        """Return some answers to the requests of a range."""
        query = queries.pending_answers(self.engine, call, asked.after, asked.upto, self._since(), most)
        return [RangeAnswer(*row) for row in self.connection.rows(call.relations.line(query))]

    def pending_request(self, call: Step, request_hash: str) -> Request:
        """Return a pending request."""
        query = queries.pending_requests(call, [request_hash])
        return Request(*self.connection.rows(call.relations.line(query))[0])

    def asked_of(self, call: Step, asked: RequestRange) -> Asked:
        """Return what was asked of a range."""
        query = queries.asked_of(self.engine, call, asked.after, asked.upto, self._since())
        return Asked(*(int(value or 0) for value in self.connection.rows(call.relations.line(query))[0]))

    def ask(self, call: Step, asked: RequestRange, chunk: str, tags: Mapping[str, str]) -> Statement:
        """Ask the pending requests of a range that have no answer yet in one statement, under the lease."""
        assert self.lease is not None
        if self._asking is None or self._asking[0] is not call:
            self._asking = call, RangedCall(self.engine, call, self._since(), self.lease.conditions)
        text = self._asking[1]
        return self.jobs.ask(
            lambda job_id: text.between(asked.after, asked.upto, job_id), "responses", chunk, tags, self.lease
        )

    def unanswered(self, call: Step, asked: RequestRange) -> int:
        """Return how many requests of a range have no answer."""
        query = queries.unanswered(asked.after, asked.upto, self._since())
        return int(self.connection.rows(call.relations.line(query))[0][0])

    def append(self, plan: Plan, answers: Sequence[Answer], origin: Origin) -> None:
        """Store at least one answer; where the lease is lost, too."""
        try:
            super().append(plan, answers, origin)
        except LeaseLostError:
            super().append(plan, answers, origin)  # they are paid
            raise
