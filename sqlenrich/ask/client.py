"""The loop of a run: pending requests go to an asker, each batch of its answers is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from sqlenrich.ask.answer_judge import AnswerJudge
from sqlenrich.ask.model_choice import ModelChoice, request_changes
from sqlenrich.ask.observer import Observer, Stopper
from sqlenrich.ask.served_models import ModelPin, served_of
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.store.base import Backend, Origin

if TYPE_CHECKING:
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.throttle.limiter import RateLimiter

PREFLIGHT_REQUESTS = 6
COMMIT_ROWS = 256
"""The answers of one commit at most: each commit costs the same."""
BATCH_ROWS = 128
"""The answers of one commit where a model takes its time: requests keep going out while a batch is stored."""


class Asker(Protocol):
    """A stream of requests in, batches of answers out. A failed request is an answer with ``call_error``."""

    def preflight(self, requests: Sequence[Request]) -> list[Answer]:
        """Ask a few requests first. Raises RunError where all fail for a reason that is not theirs."""

    def stream(self, requests: Iterator[Request]) -> Iterator[list[Answer]]:
        """Ask all requests; give each batch of answers as soon as it is there."""

    def stop(self) -> None:
        """Ask nothing new and end; a second call abandons what is in flight. From any thread."""

    @property
    def stopped(self) -> bool:
        """Whether it ended early."""

    def new_warnings(self) -> list[str]:
        """Give the warnings since the last call."""


@dataclass
class AskLoop:
    """Asks the pending requests of calls, stores each answer, and counts."""

    backend: Backend
    plan: Plan
    origin: Origin
    observer: Observer
    stopper: Stopper
    judge: AnswerJudge
    total: int = 0
    """The requests given to the asker."""
    calls: int = 0
    """The requests sent, retries included."""
    retries: int = 0
    stored: int = 0
    """The answers stored."""
    limiters: dict[int, RateLimiter] = field(default_factory=dict)
    on_request_change: Callable[[ModelChoice], None] = lambda _: None
    """Called before the first answer to another form of the request is stored."""
    pin: ModelPin | None = None
    """Which models may answer; None: any."""
    _request_changes: dict[int, int] = field(default_factory=dict)
    """How often the requests of each model took another form, as far as that was told."""

    def ask(self, choice: ModelChoice, call: Step, pending: int, *, repeat: bool, answered: bool = False) -> None:
        """Ask the pending relation; with ``repeat`` again while a retryable failure is pending.

        ``answered``: the endpoint answered these requests before. Otherwise those asked before failed, and are no
        probes.
        """
        from sqlenrich.llm.client import Client
        from sqlenrich.llm.model import InstantModel

        assert choice.model is not None
        instant = isinstance(choice.model, InstantModel) and choice.model.instant
        batch_rows = COMMIT_ROWS if instant else BATCH_ROWS
        with Client(
            choice.model, concurrency=choice.concurrency, batch_rows=batch_rows, budget=choice.budget
        ) as client:
            self.stopper.watch(client)
            if client.limiter is not None:
                self.limiters[id(client.limiter)] = client.limiter
            before = replace(client.stats)  # a model that was asked before counts on
            try:
                failed = self._round(client, choice, call, pending, preflight=True, answered=answered)
                while repeat and not client.stopped and failed and (pending := self._refreshed(choice, call)):
                    failed = self._further_round(client, choice, call, pending)
            finally:
                self._warn(client)
                self.stopper.watch(None)
                self.calls += client.stats.calls - before.calls
                self.retries += client.stats.retries - before.retries

    def limit_shares(self) -> dict[str, float]:
        """Give the share of the asking time in which each limit delayed requests."""
        from sqlenrich.llm.throttle.wait_times import share_of_time

        return share_of_time([limiter.wait_times for limiter in self.limiters.values()])

    def _refreshed(self, choice: ModelChoice, call: Step) -> int:
        return self.backend.refresh(self.plan, call, None, ordered=choice.prefix_order)

    def _further_round(self, client: Client, choice: ModelChoice, call: Step, pending: int) -> int:
        """Ask again what failed: each request sent is a retry."""
        first_sends = client.stats.calls - client.stats.retries
        failed = self._round(client, choice, call, pending, preflight=False, answered=False)
        self.retries += client.stats.calls - client.stats.retries - first_sends
        return failed

    def _round(
        self, client: Asker, choice: ModelChoice, call: Step, pending: int, *, preflight: bool, answered: bool
    ) -> int:
        """Ask all pending requests once; give how many answers are retryable failures."""
        self.total += pending
        failed = 0
        requests = self.backend.requests(call, pending)
        if preflight:
            # Neighbours are alike: three of them that fail would say nothing of the others.
            head = self.backend.spread(call, pending, PREFLIGHT_REQUESTS)
            answers = client.preflight([request for request in head if answered or request.attempt == 1])
            failed += self._store(choice, answers)
            self._check_pin(answers)
            if asked := {answer.request_hash for answer in answers}:
                requests = (request for request in requests if request.request_hash not in asked)
        if few := self.judge.missing if preflight else 0:  # no more is paid for until one answer is accepted
            failed += self._ask_all(client, choice, islice(requests, few))
        if not client.stopped:
            failed += self._ask_all(client, choice, requests)
        return failed

    def _ask_all(self, client: Asker, choice: ModelChoice, requests: Iterator[Request]) -> int:
        failed = 0
        for batch in client.stream(requests):
            failed += self._store(choice, batch)
            self._warn(client)
            if not client.stopped and self.judge.ends_run(choice.budget, self.total - self.stored):
                client.stop()
        return failed

    def _check_pin(self, answers: Sequence[Answer]) -> None:
        """Check the models of the first answers, which are stored. Raises RunError."""
        if self.pin is not None:
            named = [(one.model, one.served_model, None, 1) for one in answers if one.call_error is None]
            self.pin.check_first(served_of(named))

    def _store(self, choice: ModelChoice, answers: Sequence[Answer]) -> int:
        if not answers:
            return 0
        if (changes := len(request_changes(choice))) != self._request_changes.get(id(choice.model), 0):
            self._request_changes[id(choice.model)] = changes
            self.on_request_change(choice)
        self.backend.append(self.plan, answers, self.origin)
        self.stored += len(answers)
        self.judge.see(answers)
        self.observer.refused(self.judge.refusals, estimated=self.judge.sampled)
        self.observer.answered(answers, self.total)
        return sum(answer.retryable for answer in answers)

    def _warn(self, client: Asker) -> None:
        for line in client.new_warnings():
            self.observer.note(line)
