"""The asker of an endpoint or of the mock model: a client in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from sqlenrich.ask.asker import PREFLIGHT_REQUESTS
from sqlenrich.ask.model_choice import ModelChoice, request_changes
from sqlenrich.ask.progress import Progress
from sqlenrich.core.errors import RunError
from sqlenrich.llm.messages import UNPROVEN_REQUESTS, Answer, AnsweredRequest, Request
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.store import queries
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Origin

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.throttle.limiter import RateLimiter


@dataclass
class ClientAsker:
    """Asks through :class:`~sqlenrich.llm.client.Client`, and stores its answers in batches."""

    backend: Backend
    plan: Plan
    origin: Origin
    progress: Progress
    on_request_change: Callable[[ModelChoice], None]
    """Called before the first answer to another form of the request is stored."""
    first: int = PREFLIGHT_REQUESTS
    """The requests that go ahead of the others."""
    retryable: int = 0
    left: int = 0
    requests: Iterator[Request] = field(default_factory=lambda: iter(()))
    """The requests of the round that were not given out yet."""
    _calls: int = 0
    """Those of the clients before this one."""
    _retries: int = 0
    _client: Client | None = None
    _choice: ModelChoice | None = None
    _call: Step | None = None
    _stopped: bool = False
    """Whether it was stopped; a client that is opened later sends nothing."""
    _few: bool = True
    """Whether the next requests of the round are its first ones."""
    _limiters: dict[int, RateLimiter] = field(default_factory=dict)
    _request_changes: dict[int, int] = field(default_factory=dict)
    """How often the requests of each model took another form, as far as that was told."""

    @property
    def calls(self) -> int:
        """The requests sent, retries included."""
        return self._calls + (0 if self._client is None else self._client.stats.calls)

    @property
    def retries(self) -> int:
        """The requests that the client sent again."""
        return self._retries + (0 if self._client is None else self._client.stats.retries)

    @property
    def client(self) -> Client:
        """The open client."""
        assert self._client is not None
        return self._client

    @property
    def ended(self) -> bool:
        """Whether the client sends nothing more."""
        return self.client.stopped

    def check(self, choice: ModelChoice) -> None:
        """Any process can ask: the first requests find out whether the endpoint answers."""

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:
        """Open a client of the model for the context."""
        from sqlenrich.llm.client import Client

        assert choice.model is not None
        commits = self.backend.commits
        with Client(
            choice.model,
            concurrency=choice.concurrency,
            unstored=commits.unstored,
            batch_rows=commits.rows if choice.model.traits.answers is None else commits.instant_rows,
            batch_s=commits.age_s,
            budget=choice.budget,
        ) as client:
            if client.limiter is not None:
                self._limiters[id(client.limiter)] = client.limiter
            self._calls -= client.stats.calls  # a model that was asked before counts on
            self._retries -= client.stats.retries
            self._client, self._choice = client, choice
            if self._stopped:
                client.stop()
            try:
                yield
            finally:
                self._warn()
                self._calls, self._retries, self._client = self.calls, self.retries, None

    def begin(self, call: Step, pending: int) -> None:
        """Begin a round."""
        self.retryable, self.left, self._few = 0, pending, True
        self._call = call
        # A relation that would be empty is not always made.
        self.requests = self.backend.requests(call, pending) if pending else iter(())

    def ask_first(self, *, answered: bool) -> None:
        """Ask the first request, the last and some between: neighbours are alike, and may fail alike."""
        assert self._call is not None
        head = self.backend.spread(self._call, self.left, self.first)
        # One that failed before would prove nothing.
        head = [request for request in head if answered or request.attempt == 1]
        looks = not head and self.left >= UNPROVEN_REQUESTS
        answers_again = looks and self._answers_again()
        try:
            answers = self.client.preflight(head)
        except RunError:
            if not (answers_again if looks else self._answers_again()):
                raise
            return  # those that failed are at fault themselves
        self._store(answers)
        self.progress.check_first((one.model, one.served_model, None, 1) for one in answers if one.call_error is None)
        if asked := {answer.request_hash for answer in answers}:
            self.requests = (request for request in self.requests if request.request_hash not in asked)

    def ask(self, most: int | None) -> None:
        """Ask a few requests, then, by a further call, all others: each batch tells whether to go on."""
        few = most if self._few else None
        self._few = False
        for batch in self.client.stream(self.requests if few is None else islice(self.requests, few)):
            self._store(batch)
            self._warn()
            if not self.client.stopped and self.progress.ends_run():
                self.client.stop()
        if few is None:
            self.left = 0

    def _answers_again(self) -> bool:
        """Whether the model answers a request again that it answered in an earlier run; False without such a request.

        The requests that are left may all be at fault themselves: each run would end at them. The request that is
        answered is the canary of this run.
        """
        assert self._choice is not None
        found = self.backend.rows(self.plan, queries.answered_request(self._choice.resolved.name))
        return any(self.client.answers_again(AnsweredRequest(*row)) for row in found)

    def limit_shares(self) -> dict[str, float]:
        """Return the share of the asking time in which each limit delayed requests."""
        from sqlenrich.llm.throttle.wait_times import share_of_time

        return share_of_time([limiter.wait_times for limiter in self._limiters.values()])

    def stop(self) -> None:
        """Send nothing new and end; a second call abandons what is in flight."""
        self._stopped = True
        if (client := self._client) is not None:
            client.stop()

    def stopping(self) -> str:
        """Return what ends the client after a stop."""
        return "" if (client := self._client) is None else client.stopping()

    def waiting(self) -> str:
        """Return what the next answer waits for."""
        return "" if (client := self._client) is None else client.waiting()

    def _store(self, answers: Sequence[Answer]) -> None:
        if not answers:
            return
        choice = self._choice
        assert choice is not None
        if (changes := len(request_changes(choice))) != self._request_changes.get(id(choice.model), 0):
            self._request_changes[id(choice.model)] = changes
            self.on_request_change(choice)
        self.backend.append(self.plan, answers, self.origin)
        self.left -= len(answers)
        self.retryable += sum(answer.retryable for answer in answers)
        self.progress.answered(answers)

    def _warn(self) -> None:
        for line in self.client.new_warnings():
            self.progress.observer.note(line)
