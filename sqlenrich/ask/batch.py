"""The asker of a vendor's Batch API: requests go out in files, at half the price, and answers come within a day.

::

    pending -> noted -> uploaded -> created -> collected
                 |          |          |
                 +----------+----------+-> abandoned: its requests are pending again

Each arrow is a line of the ledger (:mod:`sqlenrich.store.batches`), written before the next step. A run may leave open
what the vendor has: the next one collects it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.client import ClientAsker
from sqlenrich.ask.model_choice import ModelChoice, request_changes
from sqlenrich.core import runtime
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.plurals import counted
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.plan.plan import Step
from sqlenrich.store.batches import Batch, BatchedRequest, BatchLedger

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.ask.batch_collection import Collected
    from sqlenrich.ask.batch_creation import CreationPolicy
    from sqlenrich.core.endpoint import Endpoint
    from sqlenrich.llm.batch.vendor import BatchInfo, BatchVendor
    from sqlenrich.llm.endpoint.adaptations import RequestChange
    from sqlenrich.llm.throttle.budget import Budget


NO_BATCHES = "--batch sends the requests to an endpoint: give --endpoint, without --mock and without a LocalModel"


@dataclass(frozen=True)
class BatchPolicy:
    """How a vendor is asked for what became of batches. Times are in seconds."""

    wait: bool = True
    """Whether the run lasts until its batches have ended."""
    poll_s: float = 30.0
    later_poll_s: float = 300.0
    """The time between two looks once ``later_after_s`` have passed."""
    later_after_s: float = 600.0
    committed: int = 5_000
    """The answers of one commit."""
    creation: CreationPolicy | None = None
    vendor: Callable[[Endpoint, Any, Sequence[RequestChange]], BatchVendor] | None = None
    """What reaches the vendor of an endpoint; None: what its ``api`` or its URL names."""


@dataclass
class BatchAsker:
    """Asks by batches; one live request goes ahead through ``client``, unless the endpoint has ``probe = false``.

    ``calls`` counts the requests of the batches that it creates. A request of a batch is an answer, a failure, or
    pending again where the vendor did not ask it.
    """

    client: ClientAsker
    ledger: BatchLedger
    name: str
    """The enrichment's name."""
    policy: BatchPolicy
    left: int = 0
    stopped: bool = False
    _sent: int = 0
    """The requests of the batches of this run."""
    _made: int = 0
    """The batches of this run."""
    _open: dict[str, Batch] = field(default_factory=dict)
    """The batches that the vendor has not ended, as far as is known, by their keys."""
    _counts: dict[str, int] = field(default_factory=dict)
    """How many requests of each open batch are done."""
    _again: int = 0
    """The requests of the round's batches that are pending again, or failed and may pass."""
    _carried: int = 0
    """The requests that are pending again and were not when the round was counted."""
    _tried: bool = False
    """Whether live requests of the round were to tell if its answers are accepted."""
    _done: bool = False
    """Whether nothing more is sent: somebody cancelled a batch, or no answer is accepted."""
    _fits: int | None = None
    """The most requests of a batch that the vendor took, where it refused one for the tokens that wait already."""
    _requests: Iterator[Request] = field(default_factory=lambda: iter(()))
    _reserved: Decimal = Decimal(0)
    """The most that the open batches may cost."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _wake: threading.Event = field(default_factory=threading.Event)
    _began: float = 0.0
    _vendor: BatchVendor | None = None
    _choice: ModelChoice | None = None

    @property
    def calls(self) -> int:
        """The requests that were sent, one by one or in batches."""
        return self.client.calls + self._sent

    @property
    def retryable(self) -> int:
        """The requests that are to be asked in another round."""
        return self._again + self.client.retryable

    @property
    def retries(self) -> int:
        """The live requests that were sent again."""
        return self.client.retries

    @property
    def ended(self) -> bool:
        """Whether nothing more is sent."""
        budget = self._budget
        return self.stopped or self._done or (budget is not None and budget.reached is not None)

    @property
    def vendor(self) -> BatchVendor:
        """The open vendor."""
        assert self._vendor is not None
        return self._vendor

    @property
    def choice(self) -> ModelChoice:
        """The model that is asked."""
        assert self._choice is not None
        return self._choice

    @property
    def _budget(self) -> Budget | None:
        return None if self._choice is None else self._choice.budget

    @property
    def _live(self) -> bool:
        """Whether the endpoint answers single requests."""
        endpoint = self.choice.endpoint
        return endpoint is not None and endpoint.probe and self.vendor.name != "folder"

    def check(self, choice: ModelChoice) -> None:
        """Refuse what has no batches. Raises ConfigError."""
        if choice.endpoint is None:
            raise ConfigError(NO_BATCHES)
        budget = choice.budget
        if budget is not None and budget.max_cost is not None and self._max_out(choice) is None:
            raise ConfigError("max_cost needs the most that an answer may take: write params: {max_tokens: ...}")

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:
        """Reach the vendor, and find out what became of batches that an earlier run left open."""
        self._choice, self._began = choice, runtime.monotonic()
        with ExitStack() as self._stack:
            self._vendor = self._enter(choice)
            self._find_open()
            try:
                yield
            finally:
                self._vendor = None

    def _enter(self, choice: ModelChoice) -> BatchVendor:
        from sqlenrich.llm.batch.vendors import batch_vendor

        endpoint, model = choice.endpoint, choice.model
        assert endpoint is not None
        config: Any = getattr(model, "config", None)
        changes, make = request_changes(choice), self.policy.vendor
        vendor = batch_vendor(endpoint, config, changes=changes) if make is None else make(endpoint, config, changes)
        vendor.limits = vendor.limits.lowered(endpoint.batch_requests, endpoint.batch_bytes)
        return self._stack.enter_context(vendor)

    def _find_open(self) -> None:
        """Settle what a killed run left half made."""
        others: dict[str, int] = {}
        self._open.clear()
        self.client.backend.hold()
        for batch in self.ledger.batches():
            if not batch.open:
                continue
            if batch.endpoint != self.vendor.shown:
                others[batch.endpoint] = others.get(batch.endpoint, 0) + batch.requests
            elif (batch.name, batch.responses) == (self.name, self.client.plan.responses.relation):
                settled = batch if batch.state == "created" else self._creation().settle(batch)
                if settled.open:
                    self._open[settled.key] = settled
                else:
                    self._carried += settled.requests
        for place, requests in others.items():
            elsewhere = f"{counted(requests, 'request')} are in open batches at {place}"
            self._note(f"{elsewhere}: a run with that endpoint collects them")
        if self._open:
            waiting = counted(sum(one.requests for one in self._open.values()), "request")
            self._note(f"open at {self.vendor.shown}: {counted(len(self._open), 'batch', 'batches')} with {waiting}")

    # Rounds ----------------------------------------------------------------------------------------------------------

    def begin(self, call: Step, pending: int) -> None:
        """Begin a round: the pending requests, and those of open batches."""
        self.client.begin(call, pending)
        self._requests = iter(())
        waiting = sum(one.requests for one in self._open.values())
        self.client.progress.total += waiting
        self.left, self._again = pending + waiting, self._carried
        self._carried, self._tried = 0, False

    def ask_first(self, *, answered: bool) -> None:
        """Ask one request alone: it tells of a wrong key, model or schema at once."""
        if self.client.left and self._live:
            before = request_changes(self.choice)
            self._ask_live(lambda: self.client.ask_first(answered=answered))
            if request_changes(self.choice) != before:
                self._vendor = self._enter(self.choice)

    def _ask_live(self, ask: Callable[[], None]) -> None:
        before = self.client.left
        with self.client.open(self.choice):
            ask()
        self.left -= before - self.client.left

    def ask(self, most: int | None) -> None:
        """Send what is pending in batches, and wait for all that are open, unless the run is not to wait.

        Where no live request goes ahead, nothing is held back until an answer is accepted: that would take a day.
        """
        if not self._live:
            most = None
        elif most is not None and self.client.left and not self._tried:
            self._tried = True
            self._ask_live(lambda: self.client.ask(most))  # a batch would take hours to tell as much
            return
        self._requests = chain(self._requests, self.client.requests)
        self._collect_ended()
        held = self._send_all(most)
        while self._open and not (self.stopped or self._done):
            if not self.policy.wait or not self._pause(self._poll_s):
                break
            if self._collect_ended() and held and not self.ended:
                held = self._send_all(most)
        self.left = 0

    @property
    def _poll_s(self) -> float:
        later = runtime.monotonic() - self._began > self.policy.later_after_s
        return self.policy.later_poll_s if later else self.policy.poll_s

    # Sending ---------------------------------------------------------------------------------------------------------

    def _send_all(self, most: int | None) -> bool:
        """Send all requests that are left, or ``most``. Return True where the vendor takes no more for now."""
        from sqlenrich.llm.batch.errors import EnqueuedLimitError

        left = most
        while not self.ended:
            chunk = self._next_chunk(left)
            if not chunk:
                return False
            try:
                self._send(chunk)
            except EnqueuedLimitError as error:
                self._requests = chain(chunk, self._requests)
                self._fits = max(1, len(chunk) // 2) if not self._open else self._fits
                self._note(f"{error}; the next batch is sent once an open one ends")
                if not self._open and not self._pause(self._poll_s):
                    return True
                if self._open:
                    return True
                continue
            if left is not None and (left := left - len(chunk)) <= 0:
                return False
        return False

    def _next_chunk(self, most: int | None) -> list[Request]:
        """Return the next requests of one batch, within its limits and the caps."""
        vendor, limits = self.vendor, self.vendor.limits
        bounds = [limit for limit in (limits.requests, self._fits, most) if limit is not None]
        chunk: list[Request] = []
        size = 0
        for request in self._requests:
            length = len(vendor.line(vendor.request(request.request_hash, request.prompt)))
            over = len(chunk) >= min(bounds) or (chunk and size + length > limits.bytes)
            if over or not self._affords(chunk, size + length):
                self._requests = chain([request], self._requests)
                break
            chunk.append(request)
            size += length
        return chunk

    def _affords(self, chunk: list[Request], size: int) -> bool:
        """Tell whether the caps allow one more request in a batch of so many bytes."""
        budget = self._budget
        if budget is None:
            return True
        if budget.max_calls is not None and budget.calls + len(chunk) + 1 > budget.max_calls:
            budget.reached = None if chunk else "max_calls"
            return False
        if budget.max_cost is None:
            return True
        most = self._most(len(chunk) + 1, size)
        if budget.spent + budget.reserved + self._reserved + most > Decimal(str(budget.max_cost)):
            budget.reached = None if chunk else "max_cost"
            return False
        return True

    def _most(self, requests: int, size: int) -> Decimal:
        """Return the most that a batch may cost: no token is less than a byte."""
        budget = self._budget
        if budget is None or budget.max_cost is None:
            return Decimal(0)
        share = Decimal(1) if self.choice.price is None else self.choice.price.batch_share
        return budget.most(size, requests * (self._max_out(self.choice) or 0)) * share

    @staticmethod
    def _max_out(choice: ModelChoice) -> int | None:
        config: Any = getattr(choice.model, "config", None)
        return None if config is None else config.max_out

    def _send(self, chunk: list[Request]) -> None:
        vendor = self.vendor

        def lines() -> Iterator[bytes]:
            for request in chunk:
                yield vendor.line(vendor.request(request.request_hash, request.prompt))

        self._made += 1
        size = sum(map(len, lines()))
        batch = Batch(
            key=f"{self._run}-{self._made:04}",
            name=self.name,
            responses=self.client.plan.responses.relation,
            run_id=self.client.origin.run_id,
            endpoint=vendor.shown,
            model=self.choice.resolved.name,
            requests=len(chunk),
            bytes=size,
            noted_at=runtime.now(),
        )
        self.client.backend.hold()
        asked = [BatchedRequest(one.request_hash, one.attempt, one.sent_hash or one.request_hash) for one in chunk]
        self.ledger.note(batch, asked)
        batch = self._creation().create(batch, lines)
        self._open[batch.key] = batch
        self._sent += len(chunk)
        self._reserved += self._most(len(chunk), size)
        if (budget := self._budget) is not None:
            budget.calls += len(chunk)
        requests = f"{counted(len(chunk), 'request')} ({size / 1e6:,.1f} MB)"
        self._note(f"batch {batch.key}: {requests} sent to {vendor.shown} as {batch.batch_id or 'an unknown id'}")

    def _creation(self) -> Any:
        from sqlenrich.ask.batch_creation import BatchCreation, CreationPolicy

        policy = self.policy.creation or CreationPolicy()
        return BatchCreation(self.vendor, self.ledger, self._pause, self._note, policy)

    # Collecting ------------------------------------------------------------------------------------------------------

    def _collect_ended(self) -> bool:
        """Store the answers of the batches that have ended; tell whether there were any."""
        ended = False
        for key, batch in list(self._open.items()):
            if self.stopped:
                break
            if batch.state != "created":
                self._open[key] = batch = self._creation().settle(batch)
                if not batch.open:
                    del self._open[key]
                    self._again += batch.requests
                    ended = True
                    continue
            self.client.backend.hold()
            if batch.batch_id is not None and (info := self._state(batch)) is not None:
                self._collect(batch, info)
                ended = True
        return ended

    def _state(self, batch: Batch) -> BatchInfo | None:
        """Return what the vendor says of a batch that has ended; None while it is open, or can't be asked."""
        from sqlenrich.llm.batch.errors import GoneError, UnavailableError

        try:
            info = self.vendor.state(str(batch.batch_id))
        except UnavailableError as error:
            self._note(f"batch {batch.key}: {error}; it is asked for again")
            return None
        except GoneError as error:
            lost = replace(batch, state="abandoned", unasked=batch.requests, error=str(error))
            self.ledger.write(lost)
            del self._open[batch.key]
            self._again += batch.requests
            self._note(f"batch {batch.key}: {error}; its requests are asked again")
            return None
        if info.open:
            self._counts[batch.key] = info.counts.answered + info.counts.failed
            return None
        return info

    def _collect(self, batch: Batch, info: BatchInfo) -> None:
        from sqlenrich.ask.batch_collection import BatchCollection
        from sqlenrich.llm.batch.errors import DamagedFileError, EnqueuedLimitError, UnavailableError

        config: Any = getattr(self.choice.model, "config", None)
        sent = frozenset(() if config is None else config.params)
        candidates = partial(self._creation().candidates, claimed=True)
        collection = BatchCollection(self.vendor, self.ledger, self._store, candidates, sent, self.policy.committed)
        try:
            found = collection.collect(replace(batch, run_id=self.client.origin.run_id), info)
        except (UnavailableError, DamagedFileError) as error:
            self._note(f"batch {batch.key}: {error}; its answers are read again")
            return
        self._counts.pop(batch.key, None)
        if found.batch.open:
            self._open[batch.key] = found.batch
        else:
            del self._open[batch.key]
            self._account(batch, found)
        if isinstance(found.failure, EnqueuedLimitError) and not self._open:
            self._fits = max(1, batch.requests // 2)
        for line in found.notes:
            self._note(line)
        if found.failure is not None and not isinstance(found.failure, EnqueuedLimitError):
            raise found.failure

    def _account(self, batch: Batch, found: Collected) -> None:
        own = batch.key.startswith(f"{self._run}-")
        self._again += found.retryable + found.unasked - (found.cancelled if own else 0)
        self._done = self._done or (own and found.cancelled > 0)
        if (budget := self._budget) is not None and budget.max_cost is not None and budget.price is not None:
            share = Decimal(1) if self.choice.price is None else self.choice.price.batch_share
            budget.spent += budget.price(found.tokens_in, 0, found.tokens_out) * share
            if own:
                self._reserved = max(Decimal(0), self._reserved - self._most(batch.requests, batch.bytes))
        seconds = found.batch.seconds or 0.0
        told = [f"{found.answered:,} answered", f"{found.failed:,} failed", f"{found.unasked:,} not asked"]
        self._note(f"batch {batch.key} took {seconds / 60:,.0f} min: {', '.join(told)}")

    def _store(self, answers: Sequence[Answer]) -> None:
        client = self.client
        client.backend.append(client.plan, answers, client.origin)
        client.progress.answered(answers)
        if not client.progress.stored - len(answers):
            named = ((one.model, one.served_model, None, 1) for one in answers if one.call_error is None)
            client.progress.check_first(named)
        if client.progress.ends_run():
            self._done = True

    # Stops -----------------------------------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> bool:
        """Wait; return False where the run is stopped."""
        runtime.wait(self._wake, seconds)
        return not self.stopped

    def _note(self, line: str) -> None:
        self.client.progress.observer.note(line)

    def limit_shares(self) -> dict[str, float]:
        """Return nothing: a vendor does not tell which of its limits delay a batch."""
        return {}

    @property
    def _run(self) -> str:
        """The run in the keys of its batches: a vendor takes no full stop, which the run of a step has."""
        return self.client.origin.run_id.replace(".", "-")

    def stop(self) -> None:
        """Send nothing new, and leave open batches to the vendor."""
        self.stopped = True
        self._wake.set()
        self.client.stop()

    def stopping(self) -> str:
        """Return what is left open."""
        return "now: open batches go on at the vendor, and the same command collects them"

    def waiting(self) -> str:
        """Return the batches that are waited for."""
        batches = list(self._open.values())
        requests, done = sum(one.requests for one in batches), sum(self._counts.values())
        return f"{counted(len(batches), 'batch', 'batches')} at the vendor: {done:,} of {requests:,} requests done"
