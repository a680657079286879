"""The load balancer: it chooses the endpoint of a request, and lets one rest that only fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlenrich.llm.throttle.endpoint_state import EndpointState
from sqlenrich.llm.throttle.limiter_policy import LimiterPolicy


@dataclass(frozen=True)
class LoadBalancer:
    """Chooses between endpoints that serve the same model.

    While the first one has fewer than ``nearest_room`` requests of this process in flight, it is chosen before the
    others.
    """

    endpoints: tuple[EndpointState, ...]
    policy: LimiterPolicy
    nearest_room: int = 0

    def choose(self, needs: Sequence[float], now: float, *, limited: bool) -> tuple[EndpointState | None, str, float]:
        """Return the endpoint with the lowest load, or why none can be used and the seconds until then (0: unknown).

        ``needs`` are the request's amounts, one for each of ``KINDS``. ``limited``: each endpoint has a concurrency
        limit of its own.
        """
        best: EndpointState | None = None
        choice = len(self.endpoints) > 1 and self._any_answers()
        blocked = rated = math.inf
        anyone = False
        for endpoint in self.endpoints:
            if not endpoint.up:
                continue
            if (blocked_s := endpoint.blocked_s(now)) > 0:
                blocked = min(blocked, blocked_s)
                continue
            anyone = True
            if limited and endpoint.in_flight >= endpoint.concurrency.limit:
                continue
            if choice and endpoint.failures >= self.policy.failures_rest and endpoint.in_flight:
                continue  # one request at a time finds out whether it answers again
            if (wait_s := endpoint.wait_s(needs, now)) > 0:
                rated = min(rated, wait_s)
                continue
            if best is None or self._load(endpoint, limited) < self._load(best, limited):
                best = endpoint
        if best is not None:
            return best, "", 0.0
        wait_s = min(blocked, rated)
        reason = "endpoint_rate" if rated < math.inf else "concurrency" if anyone else "endpoint"
        return None, reason, 0.0 if wait_s == math.inf else wait_s

    def failed(self, endpoint: EndpointState, now: float) -> None:
        """Let an endpoint rest that only fails where others answer: failing at once makes its load the lowest."""
        policy = self.policy
        endpoint.failures += 1
        if (
            endpoint.failures >= policy.failures_rest
            and now >= endpoint.blocked_until
            and len(self.endpoints) > 1
            and self._any_answers()
        ):
            rest_s = policy.first_rest_s * 2.0 ** min(endpoint.rests, 16)
            endpoint.blocked_until = now + min(rest_s, policy.longest_rest_s)
            endpoint.rests += 1

    def _load(self, endpoint: EndpointState, limited: bool) -> tuple[float, int]:
        if endpoint.number == 0 and endpoint.in_flight < self.nearest_room:
            return -1.0, endpoint.failures
        return endpoint.in_flight / (endpoint.concurrency.limit if limited else 1), endpoint.failures

    def _any_answers(self) -> bool:
        return any(endpoint.up and endpoint.failures < self.policy.failures_rest for endpoint in self.endpoints)
