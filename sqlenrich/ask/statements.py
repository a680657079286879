"""The asker of a warehouse: its own function asks the model, a range of requests a statement."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import NamedTuple

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.progress import Progress
from sqlenrich.core.errors import RunError
from sqlenrich.core.plurals import counted
from sqlenrich.llm.messages import Answer
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.plan.checked_step import UNREAD_SHOWN, UNREADABLE
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.renderer.script_loop import PREFLIGHT
from sqlenrich.store.base import Origin
from sqlenrich.store.jobs import StatementCancelledError, StatementFailedError
from sqlenrich.store.warehouse import NOTHING_ASKED, Asked, RangeAnswer, RequestRange, WarehouseBackend

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
class StatementAsker:
    """Asks in statements of the warehouse, whose own function asks the model.

    An INSERT is atomic: a statement that is lost loses its own answers alone. The ledger has a line before each
    submission, so that a later run finds a statement that this process left behind.

    ``calls`` counts each request of a statement from its submission on: it is less only where the warehouse tells that
    the statement wrote fewer rows, or never started. A statement that failed may have asked all of its requests.
    """

    backend: WarehouseBackend
    plan: Plan
    origin: Origin
    progress: Progress
    policy: ChunkPolicy = field(default_factory=ChunkPolicy)
    max_tokens: int | None = None
    """The tokens that an answer has at most; what ``max_cost`` reckons with."""
    calls: int = 0
    """The requests that were asked, or may have been."""
    retries: int = 0
    """Always 0: the warehouse does not tell how often it repeats a request."""
    retryable: int = 0
    """The failures of the round that may be repeated."""
    left: int = 0
    stopped: bool = False
    _budget: Budget | None = None
    _call: Step | None = None
    _rounds: int = 0
    """The rounds in this context."""
    _began: float = 0.0
    _asked: int = 0
    """The requests of the round that were asked."""
    _after: str = ""
    """The last hash that was asked in the round."""
    _statements: int = 0
    """The statements so far."""
    _size: int = 0
    _ends_at: float | None = None
    """When the statement in hand ends, at the rate of those before it."""
    _found: Asked = NOTHING_ASKED
    """What was asked so far."""
    _failing_since: float | None = None
    """Since when each statement has failed for a passing reason."""
    _pauses: Iterator[float] = field(default_factory=lambda: iter(()))
    """The waits after such failures."""
    _lost: Decimal = FREE
    """The most that failed statements may have cost: their answers are not stored."""
    _uncounted: Decimal = FREE
    """The most that all other statements may have cost; what counts where the warehouse reports no tokens."""

    @property
    def ended(self) -> bool:
        """Whether no further statement is submitted."""
        return self.stopped or (self._budget is not None and self._budget.reached is not None)

    def check(self, choice: ModelChoice) -> None:
        """The warehouse can ask: the first statement finds out whether the model answers."""

    def limit_shares(self) -> dict[str, float]:
        """Return nothing: the warehouse does not tell which of its limits delayed requests."""
        return {}

    # What a signal does ----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End after this statement; a second call cancels it: its answers may be billed and are lost."""
        if self.stopped:
            self.backend.jobs.cancel()
            self.progress.observer.note("cancelling the statement: its answers may be billed and are lost")
            return
        self.stopped = True

    def stopping(self) -> str:
        """Return what ends the run after a stop, and how long it takes at the rate so far."""
        left = 0.0 if self._ends_at is None else self._ends_at - time.monotonic()
        duration = f", about {counted(round(left), 'second')}" if left >= 1 else ""
        return f"after this statement{duration} (again: cancel it, its answers are lost)"

    def waiting(self) -> str:
        """Return what the run waits for."""
        return f"statement {self._statements} runs in the warehouse"

    # Asking ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:
        """Ask within the model's budget. A statement that ``stop`` cancelled ends the context without an error."""
        self._budget, self._rounds = choice.budget, 0
        try:
            yield
        except StatementCancelledError:
            if not self.stopped:
                raise

    def begin(self, call: Step, pending: int) -> None:
        """Begin a round, a further one after a wait: its requests failed for a limit, or a service that was down."""
        if self._rounds:
            self.backend.jobs.pause(self.policy.round_delay_s)
        self._rounds += 1
        self._call, self.left, self._asked, self._after, self.retryable = call, pending, 0, "", 0
        self._began = time.monotonic()

    def ask_first(self, *, answered: bool) -> None:  # noqa: ARG002
        """Ask the lowest hashes in one statement."""
        self._ask_next(self._first_size(), first=True)

    def ask(self, most: int | None) -> None:
        """Ask the next hashes in one statement."""
        self._ask_next(self._next_size(most), first=False)

    def _first_size(self) -> int:
        self._size = self.policy.preflight if self.left > self.policy.preflight else self._by_policy(None)
        return min(self._size, self.left, self.progress.judge.missing or self.left)

    def _next_size(self, most: int | None) -> int:
        """Return how many requests the next statement asks."""
        self._size = self._by_policy(self._seconds_each())
        return min(self._size, self.left, most or self.left)

    def _seconds_each(self) -> float | None:
        return (time.monotonic() - self._began) / self._asked if self._asked else None

    def _by_policy(self, seconds_each: float | None) -> int:
        policy = self.policy
        if policy.rows is not None:
            return policy.rows
        return max(
            1, min(round(policy.seconds / (seconds_each or 1.0)), policy.growth * max(self._size, policy.preflight))
        )

    def _ask_next(self, size: int, *, first: bool) -> None:
        """Ask a range of hashes and account for what the warehouse stored of it."""
        call, budget, seconds_each = self._call, self._budget, self._seconds_each()
        assert call is not None
        found = self.backend.next_range(call, self._after, size, self.left)
        part = None if found is None else self._affordable(budget, call, found)
        if part is None:
            self.left = 0
            return
        self._ends_at = None if seconds_each is None else time.monotonic() + seconds_each * part.requests
        failures = self._ask_range(budget, call, part)
        if first and len(failures) == part.requests:
            raise failures[0].error
        for failure in failures:
            self._store_failure(call, failure)
        self._asked += part.requests
        self.left -= part.requests
        answers = self.backend.answers_of(call, part, JUDGED)
        if first and self.left:
            self._check_preflight(answers)
        self._account(budget, call, part, answers)
        self._after = part.upto
        if self.progress.ends_run():
            self.stopped = True

    def _affordable(self, budget: Budget | None, call: Step, wanted: RequestRange) -> RequestRange | None:
        """Return the part of a range that the caps allow, by what its requests cost at most; None: a cap is reached."""
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
        """Return the first requests of a range; None for none."""
        if requests >= part.requests:
            return part
        return self.backend.next_range(call, part.after, requests) if requests > 0 else None

    def _most(self, budget: Budget | None, part: RequestRange) -> Decimal:
        """Return the most that a range may cost, where that is capped."""
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
                    self.progress.observer.note(f"{requests} of a failed statement are asked in two halves: {error}")
                    return self._ask_halves(budget, call, again)
                if not repeated:
                    return [FailedRequest(again.upto, error)]
                self.progress.observer.note(f"{error}: again")
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
        while left > 0 and not self.ended:
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
        self._statements += 1
        done = self.backend.ask(call, part, str(self._statements), {"version": self.origin.version or ""})
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

    def _account(self, budget: Budget | None, call: Step, part: RequestRange, answers: Sequence[RangeAnswer]) -> None:
        """Count what was stored of a range, judge some of its answers, and show progress."""
        found = self.backend.asked_of(call, part)
        self._found = total = self._found.plus(found)
        self.retryable += found.repeatable
        self.progress.stored_elsewhere(
            found.answers,
            answers,
            failed=found.failed,
            all_failed=total.failed,
            tokens_in=total.tokens_in,
            tokens_out=total.tokens_out,
        )
        if budget is not None:
            budget.calls = self.calls
            if budget.price is not None:
                counted_cost = budget.price(total.tokens_in, 0, total.tokens_out)
                budget.spent = self._lost + (self._uncounted if total.uncounted else counted_cost)

    def _check_preflight(self, rows: Sequence[RangeAnswer]) -> None:
        """End the run where all of the first requests failed, or no answer to them can be read."""
        place = self.backend.place
        if rows and all(row.call_error is not None for row in rows):
            requests = counted(len(rows), "request")
            raise RunError(f"{place}: the first {requests} all failed: CALL_ERROR {rows[0].call_error}")
        if rows and all(row.call_error is None and row.response is None for row in rows):
            raise RunError(f"{place}: UNREADABLE {UNREADABLE}{str(rows[0].raw)[:UNREAD_SHOWN]}")
        self.progress.check_first((row.model, row.served_model, None, 1) for row in rows if row.call_error is None)
