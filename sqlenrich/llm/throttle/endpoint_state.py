"""The state of one endpoint in a rate limiter: requests in flight, failures, and what it allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlenrich.llm.throttle.budget import FREE
from sqlenrich.llm.throttle.circuit_breaker import CircuitBreaker
from sqlenrich.llm.throttle.concurrency import ConcurrencyLimit
from sqlenrich.llm.throttle.quota import QuotaEstimator
from sqlenrich.llm.throttle.rate_headers import KINDS, Quota, QuotaBucket

_SETTING = dict(zip(KINDS, ("rpm", "tpm", "input_tpm", "output_tpm"), strict=True))


@dataclass(frozen=True)
class StatePolicy:
    """When a quota from rate headers counts as the endpoint's limit."""

    quota_after_s: float = 30.0
    """The quota delayed requests for at least this time, ..."""
    quota_within_s: float = 5.0
    """... and did so at most this long ago."""
    near: float = 0.15
    """The header's own limit is reported where the measured rate differs by this share at most."""
    smoothing: float = 0.1
    """Weight of a new latency in the running average."""
    unknown_latency_s: float = 0.25
    """The latency that is assumed before the first answer."""


class Permit:
    """The right to send one request, and the tokens that were estimated for it.

    ``spent`` is what was sent to its endpoint until then and with it, by kind.
    """

    __slots__ = ("at", "cost", "endpoint", "size", "spent", "tokens_in", "tokens_out")

    def __init__(
        self, endpoint: EndpointState, at: float, size: int, tokens_in: float, tokens_out: float, cost: Decimal = FREE
    ) -> None:
        self.endpoint, self.at, self.size = endpoint, at, size
        self.tokens_in, self.tokens_out, self.cost = tokens_in, tokens_out, cost
        self.spent = endpoint.take((1.0, tokens_in + tokens_out, tokens_in, tokens_out), at)


class EndpointState:
    """One endpoint. All times are monotonic, in seconds.

    ``failures`` counts the tries without an answer since the last answer, ``unreached`` those of them that reached
    nobody, ``rests`` how often the endpoint was then given no requests for a while. ``up``: it can be reached.
    ``disabled``: it refuses every request for good, and gets none.
    """

    def __init__(self, number: int, most: int, policy: StatePolicy | None = None) -> None:
        self.number = number
        self.policy = policy or StatePolicy()
        self.concurrency = ConcurrencyLimit(most=most)
        self.quota = QuotaEstimator()
        self.breaker = CircuitBreaker()
        self.in_flight = 0
        self.up = True
        self.disabled = False
        self.blocked_until = 0.0
        self.failures = self.unreached = self.rests = 0
        self.answered_at = float("-inf")
        self.latency_s: float | None = None
        self._buckets: dict[str, QuotaBucket] = {}
        self._spent = (0.0, 0.0, 0.0, 0.0)
        self._delays: dict[str, tuple[float, float, float]] = {}
        """Of each quota that delays requests: since when, what was spent until then, and when it last did."""
        self._quota_found = False

    def blocked_s(self, now: float) -> float:
        """Return the seconds until it may get a request: after Retry-After, a rest, or an open circuit breaker."""
        return max(self.blocked_until, self.breaker.until) - now

    def answered(self, permit: Permit, now: float, *, full: bool, adapt: bool) -> None:
        """Record an answer. ``adapt``: the concurrency limit is in use; ``full``: nothing else delays requests."""
        self.failures = self.unreached = self.rests = 0
        self.answered_at = now
        latency_s = now - permit.at
        if adapt:
            self.concurrency.answered(now, latency_s, full=full)
        if self.latency_s is None:
            self.latency_s = latency_s
        else:
            self.latency_s += self.policy.smoothing * (latency_s - self.latency_s)
        self.breaker.answered(permit.at, now)

    def refused(self, permit: Permit, now: float) -> None:
        """Record a refusal for a limit."""
        latency_s = self.policy.unknown_latency_s if self.latency_s is None else self.latency_s
        if not self.breaker.refused(permit.at, now, latency_s):
            self.concurrency.refused(permit.at, self.in_flight - 1, now)
        self.unreached = 0

    def restart(self) -> None:
        """Begin a new stream: delays of the last one say nothing."""
        self._delays.clear()

    def wait_s(self, needs: Sequence[float], now: float) -> float:
        """Return the seconds until the quotas allow a request with these needs, one for each of ``KINDS``."""
        wait_s = self.quota.wait_s(now)
        if self._buckets:
            for kind, units, spent in zip(KINDS, needs, self._spent, strict=True):
                if (bucket := self._buckets.get(kind)) is not None:
                    kind_wait_s = bucket.wait_s(units, spent, now)
                    if kind_wait_s > 0:
                        since, spent_then, _ = self._delays.get(kind, (now, spent, now))
                        self._delays[kind] = (since, spent_then, now)
                        wait_s = max(wait_s, kind_wait_s)
        return wait_s

    def take(self, needs: Sequence[float], now: float) -> tuple[float, float, float, float]:
        """Record that a request is sent; give what was sent until now and with it, by kind."""
        self.quota.sent(now)
        self.breaker.sent(now)
        self.concurrency.sent(now)
        requests, tokens, tokens_in, tokens_out = self._spent
        self._spent = (requests + 1, tokens + needs[1], tokens_in + needs[2], tokens_out + needs[3])
        if self._buckets:
            for kind, units in zip(KINDS, needs, strict=True):
                if kind in self._buckets:
                    self._buckets[kind].take(units)
        return self._spent

    def observe_headers(self, permit: Permit, quotas: Mapping[str, Quota], now: float, *, complete: bool) -> None:
        """Record the quotas of a response; ``complete``: the quotas that are not in it are unknown again."""
        if not (quotas or self._buckets):
            return
        for kind, spent in zip(KINDS, permit.spent, strict=True):
            if kind in quotas:
                self._buckets.setdefault(kind, QuotaBucket()).observe(quotas[kind], spent, now, admitted=complete)
            elif complete and kind in self._buckets:
                del self._buckets[kind]

    def find_quota(self, now: float) -> tuple[str, int] | None:
        """Give, once, the quota from rate headers that is the limit: its setting's name, and the amount a minute."""
        if self._quota_found:
            return None
        limit: tuple[str, float] | None = None
        for kind, (since, spent_then, last) in self._delays.items():
            if now - last > self.policy.quota_within_s:
                del self._delays[kind]
                break
            if now - since >= self.policy.quota_after_s:
                a_minute = (self._spent[KINDS.index(kind)] - spent_then) / (now - since) * 60
                bucket = self._buckets.get(kind)
                whole = bucket.limit if bucket is not None else None
                near = whole is not None and abs(a_minute - whole) <= self.policy.near * whole
                limit = _SETTING[kind], whole if near and whole is not None else _rounded(a_minute)
        if limit is None or limit[1] < 1:
            return None
        self._quota_found = True
        return limit[0], int(limit[1])


def _rounded(amount: float) -> float:
    return float(f"{amount:.2g}")


def open_files() -> float:
    """Return how many files this process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit
