"""The canary of an endpoint: a request that it answered before shows whether it works while others fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal

from sqlenrich.core import runtime
from sqlenrich.llm.endpoint.connections import Connections
from sqlenrich.llm.endpoint.http import HttpError
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion
from sqlenrich.llm.health import EndpointHealth, Stopped
from sqlenrich.llm.throttle.budget import FREE
from sqlenrich.llm.throttle.limiter import Counted, RateLimiter


@dataclass(frozen=True)
class CanaryPolicy:
    """Times of the canary, in seconds."""

    valid_s: float = 5.0
    """A result is used again for this time."""
    least_timeout_s: float = 10.0
    """The canary's timeout, where answers are fast; ..."""
    latencies: float = 4.0
    """... else this many times the longest latency of the request that it repeats."""


@dataclass
class _State:
    """What is known of one URL: the request to repeat, its latency and its most tokens, and the last result."""

    body: bytes | None = None
    latency_s: float = 0.0
    answers: bool = False
    asked_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Canary:
    """Says whether a URL answers now. For the event loop's thread alone. Its methods raise Stopped.

    It repeats the shortest request that the URL answered before, or else another URL: a gateway lists its models while
    it refuses every request. Where none was answered, or the caps allow no further request, it asks for the list of
    models: any status but 401, 403 and 5xx shows that the endpoint works.
    """

    def __init__(
        self,
        connections: Connections,
        health: EndpointHealth,
        read: Callable[[bytes], Completion | BatchCompletion],
        *,
        timeout_s: float,
        max_out: int,
        limiter: RateLimiter,
        policy: CanaryPolicy | None = None,
    ) -> None:
        self.policy = policy or CanaryPolicy()
        self._connections = connections
        self._health, self._read = health, read
        self._timeout_s = timeout_s
        self._max_out = max_out
        self._limiter, self._budget = limiter, limiter.budget
        self._least_s = min(self.policy.least_timeout_s, timeout_s)
        self._states = tuple(_State() for _ in connections.urls)

    def open(self) -> None:
        """Begin in this process."""
        for state in self._states:
            state.lock, state.asked_at = asyncio.Lock(), float("-inf")

    def knows(self, number: int) -> bool:
        """Whether a URL answered a request before."""
        return self._states[number].body is not None

    def answered(self, number: int, body: bytes, latency_s: float) -> None:
        """Record a request that a URL answered."""
        state = self._states[number]
        if state.body is None or len(body) < len(state.body):
            state.body, state.latency_s = body, latency_s

    async def answers_again(self, body: bytes, latency_s: float) -> bool:
        """Whether one of the URLs answers a request that was answered in another process; it is their canary then."""
        state = _State(body, latency_s)
        for number in range(len(self._states)):
            with suppress(HttpError, OSError, ValueError):
                if await self._repeat(number, state):
                    return True
        return False

    async def any_answers(self) -> bool:
        """Whether one of the URLs that get requests answers now: what a disabled one answers is of no use."""
        taken = [endpoint.number for endpoint in self._limiter.endpoints if not endpoint.disabled]
        return any(await asyncio.gather(*map(self.answers, taken)))

    async def answers(self, number: int) -> bool:
        """Whether a URL answers now."""
        state = self._states[number]
        async with state.lock:
            if runtime.monotonic() - state.asked_at >= self.policy.valid_s:
                try:
                    state.answers = await self._ask(number, self._repeated(state))
                except (HttpError, OSError, ValueError):
                    state.answers = False
                state.asked_at = runtime.monotonic()
            return state.answers

    def _repeated(self, state: _State) -> _State:
        """Return the state whose request is asked: of the URL, or of another one where it answered nothing yet."""
        others = [one for one in self._states if one.body is not None]
        return state if state.body is not None or not others else min(others, key=lambda one: len(one.body or b""))

    async def _ask(self, number: int, state: _State) -> bool:
        if state.body is not None and (answered := await self._repeat(number, state)) is not None:
            return answered
        response = await self._connections.models(number, self._least_s)
        return response.status < 500 and response.status not in (401, 403)

    async def _repeat(self, number: int, state: _State) -> bool | None:
        """Repeat a request; give None where the caps do not allow it. Raises Stopped."""
        assert state.body is not None
        if not await self._affords(state.body):
            return None
        timeout_s = min(max(self._least_s, self.policy.latencies * state.latency_s), self._timeout_s)
        completion: Completion | BatchCompletion | None = None
        counted = await self._limiter.count_without_permit(len(state.body))
        if not await self._affords(state.body):  # others may have spent it meanwhile
            return None
        if self._health.stopped:
            raise Stopped
        if self._budget is not None:
            self._budget.sent(self._cost(state.body))
        try:
            self._health.sent(again=True)
            response = await self._connections.post(number, state.body, timeout_s=timeout_s)
            completion = self._read(response.body) if response.status == 200 else None
        finally:
            self._settle(state.body, counted, completion)
        if completion is not None:
            self.answered(number, state.body, state.latency_s)
        return completion is not None

    def _cost(self, body: bytes) -> Decimal:
        return FREE if self._budget is None else self._budget.most(len(body), self._max_out)

    async def _affords(self, body: bytes) -> bool:
        return self._budget is None or await self._budget.affords(self._cost(body))

    def _settle(self, body: bytes, counted: Counted, completion: Completion | BatchCompletion | None) -> None:
        tokens_in = tokens_out = cached = None
        if completion is not None:
            tokens_in, tokens_out, cached = completion.tokens_in, completion.tokens_out, completion.tokens_cached
        if self._budget is not None:
            self._budget.settled(self._cost(body), tokens_in, tokens_out, cached)
        self._limiter.settle_without_permit(counted, tokens_in, tokens_out)
