"""The loop of a run whose model is asked by the warehouse's own function: a range of requests a statement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import Answer
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.plan.checked_step import UNREAD_SHOWN, UNREADABLE
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.renderer.script_loop import PREFLIGHT
from sqlenrich.runner.answer_judge import AnswerJudge
from sqlenrich.runner.backends.base import Origin
from sqlenrich.runner.backends.jobs import StatementCancelledError, StatementFailedError
from sqlenrich.runner.backends.warehouse import RangeAnswer, RequestRange, WarehouseBackend
from sqlenrich.runner.model_choice import ModelChoice
from sqlenrich.runner.observer import Observer, Stopper
from sqlenrich.runner.report import counted
from sqlenrich.runner.served_models import ModelPin, served_of

REQUEST_TOKENS = 1_000
"""Tokens that a vendor may add to a prompt: the schema, and its own instructions. Part of what a request may cost."""
JUDGED = 50
"""The answers of a statement that are judged, at most: each is read from the warehouse."""


@dataclass(frozen=True)
class ChunkPolicy:
    """How many requests a statement asks."""

    rows: int | None = None
    """A fixed number; None: what takes ``seconds`` at the measured rate."""
    preflight: int = PREFLIGHT
    """The requests of the first statement: where all fail, nothing else is asked."""
    seconds: float = 300.0
    growth: int = 10
    """A statement asks at most this many times the requests of the one before it."""
    round_delay_s: float = 30.0
    """The wait before failed requests are asked again: they failed for a limit, or a service that was down."""


class FailedRequest(NamedTuple):
    """A request whose statement fails although it asks nothing else."""

    request_hash: str
    error: StatementFailedError


@dataclass
class SqlAskLoop:
    """Asks the pending requests of calls in statements of the warehouse, and counts.

    An INSERT is atomic: a statement that is lost loses its own answers alone. The ledger has a line before each
    submission, so that a later run finds a statement that this process left behind.

    ``calls`` counts each request of a statement from its submission on: it is less only where the warehouse tells that
    the statement wrote fewer rows, or never started. A statement that failed may have asked all of its requests.
    """

    backend: WarehouseBackend
    plan: Plan
    origin: Origin
    observer: Observer
    stopper: Stopper
    judge: AnswerJudge
    policy: ChunkPolicy = field(default_factory=ChunkPolicy)
    max_tokens: int | None = None
    """The tokens that an answer has at most; what ``max_cost`` reckons with."""
    pin: ModelPin | None = None
    """Which models may answer; None: any."""
    total: int = 0
    calls: int = 0
    """The requests that were asked, or may have been."""
    retries: int = 0
    stored: int = 0
    number: int = 0
    """The statements so far."""
    stopped: bool = False
    _size: int = 0
    _ends_at: float | None = None
    """When the statement in hand ends, at the rate of those before it."""
    _repeatable: int = 0
    """The failures so far that may be repeated."""
    _failed: int = 0
    """The failures so far."""
    _failing_since: float | None = None
    """Since when each statement has failed for a passing reason."""
    _pauses: Iterator[float] = field(default_factory=lambda: iter(()))
    """The waits after such failures."""
    _lost: Decimal = FREE
    """The most that failed statements may have cost: their answers are not stored."""
    _uncounted: Decimal = FREE
    """The most that all other statements may have cost; what counts where the warehouse reports no tokens."""

    def limit_shares(self) -> dict[str, float]:
        """The warehouse does not tell which of its limits delayed requests."""
        return {}

    # What a signal does ----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End after this statement; a second call cancels it: its answers may be billed and are lost."""
        if self.stopped:
            self.backend.jobs.cancel()
            self.observer.note("cancelling the statement: its answers may be billed and are lost")
            return
        self.stopped = True

    def stopping(self) -> str:
        """Tell what ends the run after a stop, and how long it takes at the rate so far."""
        left = 0.0 if self._ends_at is None else self._ends_at - time.monotonic()
        duration = f", about {counted(round(left), 'second')}" if left >= 1 else ""
        return f"after this statement{duration} (again: cancel it, its answers are lost)"

    def waiting(self) -> str:
        """Tell what the run waits for."""
        return f"statement {self.number} runs in the warehouse"

    # Asking ----------------------------------------------------------------------------------------------------------

    def ask(self, choice: ModelChoice, call: Step, pending: int, *, repeat: bool, answered: bool = False) -> None:  # noqa: ARG002
        """Ask the pending relation; with ``repeat`` again while a retryable failure is pending."""
        budget = choice.budget
        self.stopper.watch(self)
        try:
            self._round(budget, call, pending, preflight=not self.stored)
            while repeat and self._repeatable and not self._over(budget):
                pending = self.backend.refresh(self.plan, call, None, ordered=False)
                if not pending:
                    return
                self.backend.jobs.pause(self.policy.round_delay_s)
                if self._over(budget):
                    return
                before = self.calls
                self._round(budget, call, pending, preflight=False)
                self.retries += self.calls - before
        except StatementCancelledError:
            if not self.stopped:
                raise
        finally:
            self.stopper.watch(None)

    def _over(self, budget: Budget | None) -> bool:
        return self.stopped or (budget is not None and budget.reached is not None)

    def _round(self, budget: Budget | None, call: Step, pending: int, *, preflight: bool) -> None:
        """Ask the pending requests once, the lowest hashes first."""
        self.total += pending
        began, after, asked = time.monotonic(), "", 0
        while asked < pending and not self._over(budget):
            first = preflight and not asked
            seconds_each = (time.monotonic() - began) / asked if asked else None
            found = self.backend.next_range(call, after, self._next_size(pending - asked, seconds_each, first=first))
            part = None if found is None else self._affordable(budget, call, found)
            if part is None:
                return
            self._ends_at = None if seconds_each is None else time.monotonic() + seconds_each * part.requests
            failures = self._ask_range(budget, call, part)
            if first and len(failures) == part.requests:
                raise failures[0].error
            for failure in failures:
                self._store_failure(call, failure)
            self.backend.read_stored(self.plan, part)
            asked += part.requests
            answers = self.backend.answers_of(call, part, JUDGED)
            if first and asked < pending:
                self._check_preflight(answers)
            self._account(budget, answers)
            self.judge.ends_run(budget, self.total - self.stored)
            after = part.upto

    def _next_size(self, left: int, seconds_each: float | None, *, first: bool) -> int:
        """Give how many requests the next statement asks."""
        if first and left > self.policy.preflight:
            self._size = self.policy.preflight
        elif self.policy.rows is not None:
            self._size = self.policy.rows
        else:
            by_rate = self.policy.seconds / (seconds_each or 1.0)
            self._size = max(1, min(round(by_rate), self.policy.growth * max(self._size, self.policy.preflight)))
        return min(self._size, left, self.judge.missing or left)

    def _affordable(self, budget: Budget | None, call: Step, wanted: RequestRange) -> RequestRange | None:
        """Give the part of a range that the caps allow, by what its requests cost at most; None: a cap is reached."""
        part: RequestRange | None = wanted
        if budget is not None and budget.max_calls is not None:
            part = self._first_of(call, wanted, budget.max_calls - budget.calls)
            if part is None:
                budget.reached = "max_calls"
        if budget is None or budget.max_cost is None:
            return part
        left = max(FREE, Decimal(str(budget.max_cost)) - budget.spent)
        while part is not None and (most := self._most(budget, part)) > left:
            part = self._first_of(call, part, min(part.requests // 2, int(part.requests * left / most)))
            if part is None:
                budget.reached = "max_cost"
        return part

    def _first_of(self, call: Step, part: RequestRange, requests: int) -> RequestRange | None:
        """Give the first requests of a range; None for none."""
        if requests >= part.requests:
            return part
        return self.backend.next_range(call, part.after, requests) if requests > 0 else None

    def _most(self, budget: Budget | None, part: RequestRange) -> Decimal:
        """Give the most that a range may cost, where that is capped."""
        if budget is None or budget.max_cost is None:
            return FREE
        assert self.max_tokens is not None  # no cap without it
        tokens_in = part.prompt_bytes + part.requests * REQUEST_TOKENS
        return budget.most(tokens_in, part.requests * self.max_tokens)

    def _ask_range(self, budget: Budget | None, call: Step, part: RequestRange) -> list[FailedRequest]:
        """Ask a range in one statement; where it fails, in halves. Give the requests that fail alone.

        A statement that may have asked is not repeated whole, but for one of a single request.
        """
        again: RequestRange | None = part
        while again is not None:
            most = self._most(budget, again)
            self._count(budget, again.requests, most)
            try:
                whole = self._ask_once(call, again)
            except StatementFailedError as error:
                if error.asked:
                    self._lost += most
                else:
                    self._count(budget, -again.requests, -most)
                repeated = self._pause_after(error)
                if not repeated and (error.transient or not error.asked):
                    raise
                if self.stopped and (repeated or again.requests > 1):
                    raise
                if again.requests > 1 and error.asked:
                    requests = counted(again.requests, "request")
                    self.observer.note(f"{requests} of a failed statement are asked in two halves: {error}")
                    return self._ask_halves(budget, call, again)
                if not repeated:
                    return [FailedRequest(again.upto, error)]
                self.observer.note(f"{error}: again")
            else:
                if whole:
                    self._failing_since = None
                    self._uncounted += most
                    return []
                self._count(budget, -again.requests, -most)
                late = StatementFailedError(f"{self.backend.place}: statements ask nothing although the lease is held")
                late.transient = True
                if not self._pause_after(late):
                    raise late
            again = self._affordable(budget, call, again)
        return []

    def _count(self, budget: Budget | None, requests: int, most: Decimal) -> None:
        """Count requests from their submission on, with the most that they may cost; less than none takes it back."""
        self.calls += requests
        if budget is not None:
            budget.calls, budget.spent = self.calls, budget.spent + most

    def _pause_after(self, error: StatementFailedError) -> bool:
        """Wait after a failure that may pass; tell whether it is worth another statement."""
        jobs = self.backend.jobs
        if not error.transient:
            self._failing_since = None
            return False
        if self._failing_since is None:
            self._failing_since, self._pauses = time.monotonic(), jobs.delays()
        if time.monotonic() - self._failing_since > jobs.policy.retry_for_s:
            return False
        jobs.pause(next(self._pauses))
        return True

    def _ask_halves(self, budget: Budget | None, call: Step, part: RequestRange) -> list[FailedRequest]:
        failures: list[FailedRequest] = []
        left, after, size = part.requests, part.after, part.requests // 2
        while left > 0 and not self._over(budget):
            found = self.backend.next_range(call, after, min(size, left))
            half = None if found is None else self._affordable(budget, call, found)
            if half is None:
                break
            failures += self._ask_range(budget, call, half)
            left, after, size = left - half.requests, half.upto, part.requests
        return failures

    def _ask_once(self, call: Step, part: RequestRange) -> bool:
        """Ask a range in one statement. What is answered is not asked again.

        False where it asked nothing although a request has no answer: it started too late. Raises LeaseLostError.
        """
        self.number += 1
        done = self.backend.ask(call, part, str(self.number), {"version": self.origin.version or ""})
        if done.rows:
            self.calls += done.rows - part.requests
        elif self.backend.unanswered(call, part):
            self.backend.hold()
            return False
        elif done.rows == 0:
            self.calls -= part.requests
        return True

    def _store_failure(self, call: Step, failed: FailedRequest) -> None:
        request = self.backend.pending_request(call, failed.request_hash)
        answer = Answer(
            request.request_hash,
            request.attempt,
            request.sent_hash or request.request_hash,
            response=None,
            call_error=str(failed.error),
            retryable=False,
            finish_reason=None,
            model=self.plan.model,
            tokens_in=None,
            tokens_cached=None,
            tokens_out=None,
            latency_ms=0,
            asked_at=datetime.now(UTC),
            calls=1,
        )
        self.backend.append(self.plan, [answer], self.origin)

    def _account(self, budget: Budget | None, answers: Sequence[RangeAnswer]) -> None:
        """Count what was stored, judge some of its answers, and show progress."""
        found = self.backend.asked_so_far(self.plan, self.origin.run_id)
        new, self.stored = found.answers - self.stored, found.answers
        self._repeatable = found.repeatable
        self.judge.see(answers, new - (found.failed - self._failed))
        self._failed = found.failed
        self.observer.refused(self.judge.refusals, estimated=self.judge.sampled)
        self.observer.progressed(new, self.total, found.failed, found.tokens_in, found.tokens_out)
        if budget is not None:
            budget.calls = self.calls
            if budget.price is not None:
                counted_cost = budget.price(found.tokens_in, 0, found.tokens_out)
                budget.spent = self._lost + (self._uncounted if found.uncounted else counted_cost)

    def _check_preflight(self, rows: Sequence[RangeAnswer]) -> None:
        """End the run where all of the first requests failed, or no answer to them can be read."""
        place = self.backend.place
        if rows and all(row.call_error is not None for row in rows):
            requests = counted(len(rows), "request")
            raise RunError(f"{place}: the first {requests} all failed: CALL_ERROR {rows[0].call_error}")
        if rows and all(row.call_error is None and row.response is None for row in rows):
            raise RunError(f"{place}: UNREADABLE {UNREADABLE}{str(rows[0].raw)[:UNREAD_SHOWN]}")
        if self.pin is not None:
            named = ((row.model, row.served_model, None, 1) for row in rows if row.call_error is None)
            self.pin.check_first(served_of(named))
