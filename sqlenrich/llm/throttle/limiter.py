"""The rate limiter: it decides when a request is sent, and to which endpoint."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from sqlenrich.core import runtime
from sqlenrich.core.limits import PER_MINUTE, Limits
from sqlenrich.core.tokens import BYTES_PER_TOKEN
from sqlenrich.llm.health import Stopped, StopSignal
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.llm.throttle.concurrency import max_per_endpoint
from sqlenrich.llm.throttle.endpoint_state import EndpointState, Permit, open_files
from sqlenrich.llm.throttle.leases import Bucket, Leases
from sqlenrich.llm.throttle.limiter_policy import LimiterPolicy
from sqlenrich.llm.throttle.load_balancer import LoadBalancer
from sqlenrich.llm.throttle.quota import QuotaFinding
from sqlenrich.llm.throttle.rate_headers import Quota
from sqlenrich.llm.throttle.token_bucket import TokenBucket
from sqlenrich.llm.throttle.wait_times import WaitTimes


class Counted(NamedTuple):
    """What a request without a permit took of the limits a minute, and when."""

    at: float
    tokens_in: float
    tokens_out: float


class RateLimiter:
    """Gives permits to send, first come first served; retries go first. For the event loop's thread alone.

    ``endpoints`` is the number of endpoints that serve the same model. While the first one has fewer than
    ``nearest_room`` requests of this limiter in flight, it is chosen before the others. ``max_out`` is the most tokens
    of one answer, where that is set. With ``leases`` other processes share the limits. ``wait_times`` holds the seconds
    for which each limit delayed requests: ``concurrency``, the limits a minute, ``endpoint`` (none is up, or takes any
    now), ``endpoint_rate`` (a quota from rate headers, or an estimated one), ``max_cost``.

    Listeners: ``on_capacity`` (an endpoint is up again), ``on_budget_spent`` (a cap is reached), ``on_down`` (an
    endpoint is down), ``on_quota_found`` (a quota from rate headers is the limit: gets the endpoint, the setting's
    name, the amount a minute), ``on_quota_estimated``.
    """

    def __init__(
        self,
        endpoints: int,
        limits: Limits,
        *,
        max_out: int | None = None,
        nearest_room: int = 0,
        budget: Budget | None = None,
        policy: LimiterPolicy | None = None,
        leases: Leases | None = None,
    ) -> None:
        most = max_per_endpoint(endpoints, open_files())
        self.policy = policy or LimiterPolicy()
        self.endpoints = tuple(EndpointState(number, most) for number in range(endpoints))
        self.leases = leases
        self.fixed = limits.concurrency if leases is None else leases.width
        self.budget = budget
        self.max_out = max_out
        self.balancer = LoadBalancer(self.endpoints, self.policy, nearest_room)
        self.in_flight = 0
        self.wait_times = WaitTimes()
        self.on_capacity: dict[Callable[[], None], None] = {}
        self.on_budget_spent: dict[Callable[[], None], None] = {}
        self.on_down: Callable[[EndpointState], None] = _ignore
        self.on_quota_found: Callable[[EndpointState, str, int], None] = _ignore
        self.on_quota_estimated: Callable[[EndpointState, QuotaFinding], None] = _ignore
        now = runtime.monotonic()
        self._buckets: Mapping[str, Bucket] = {
            name: TokenBucket(float(limit), now) for name in PER_MINUTE if (limit := getattr(limits, name)) is not None
        }
        if leases is not None:
            self._buckets = leases.buckets
        self._waiting: deque[tuple[int, asyncio.Future[Permit], asyncio.Task[object] | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._tokens_in_ratio = 1.0
        most_out = self.policy.output_tokens
        self._tokens_out = float(most_out if max_out is None else min(max_out, most_out))
        self._tokens_out_known = False
        self._prefix_tokens = 0
        self._ahead: dict[asyncio.Future[None], asyncio.Task[object] | None] = {}
        """The requests without a permit that wait for the limits a minute, before all others: what ends their wait."""
        self._stop = StopSignal()

    @property
    def max_concurrency(self) -> int:
        """The most requests that may ever be in flight."""
        return self.fixed or sum(endpoint.concurrency.most for endpoint in self.endpoints)

    @property
    def concurrency(self) -> int:
        """The requests that may be in flight now."""
        if self.fixed is not None:
            return self.fixed
        return max(1, sum(endpoint.concurrency.limit for endpoint in self.endpoints if endpoint.up))

    @property
    def blocked_s(self) -> float:
        """The seconds until an endpoint that is up takes requests again; 0 where one does now."""
        now = runtime.monotonic()
        return max(0.0, min((endpoint.blocked_s(now) for endpoint in self.endpoints if endpoint.up), default=0.0))

    @property
    def waits_for_own_rate(self) -> bool:
        """Whether nothing is in flight because of the user's limits a minute."""
        return self.in_flight == 0 and self.wait_times.reason in PER_MINUTE

    def check_budget(self) -> None:
        """Raise Stopped, and tell the listeners, where the budget allows no further request."""
        if self.budget is not None and self.budget.exhausted:
            self._report_budget_spent()
            raise Stopped

    def mark_all_up(self) -> None:
        """Forget outages that a previous client saw. An endpoint that is disabled stays disabled."""
        for endpoint in self.endpoints:
            endpoint.up = not endpoint.disabled
            endpoint.failures, endpoint.unreached, endpoint.rests = 0, 0, 0

    def resume(self) -> None:
        """Give permits again after ``stop``."""
        self._stop.clear()

    def reset(self) -> None:
        """Forget what the parent of a forked process has in flight; what is known of the endpoints stays."""
        self.in_flight = 0
        self._waiting, self._timer, self._stop = deque(), None, StopSignal()
        self.on_capacity, self.on_budget_spent = {}, {}
        self.wait_times = WaitTimes()
        if self.budget is not None:
            self.budget.forget_open()
        for endpoint in self.endpoints:
            endpoint.in_flight = 0

    def begin(self, *, first: bool = True) -> None:
        """Begin a stream. ``first``: no other one is open."""
        if first:
            self.resume()
            for endpoint in self.endpoints:
                endpoint.restart()
        self.wait_times.begin(runtime.monotonic())

    def end(self) -> None:
        """End a stream."""
        self.wait_times.end(runtime.monotonic())
        if not self.wait_times.is_open:
            self._cancel_timer()
            if self._waiting:
                self._grant()

    def try_acquire(self, size: int) -> Permit | None:
        """Return a permit for a request of ``size`` bytes where it may be sent at once. Raises Stopped."""
        if self._stop:
            raise Stopped
        if self._waiting:
            return None
        now = runtime.monotonic()
        permit, reason, _ = self._admit(size, now)
        if permit is None or self.in_flight >= self.concurrency:
            self.wait_times.mark(reason or "concurrency", now)
        elif self.wait_times.reason:
            self.wait_times.mark("", now)
        return permit

    async def acquire(self, size: int, *, again: bool = False) -> Permit:
        """Wait for a permit; ``again``: for a retry. Raises Stopped at a cap, and after ``stop``."""
        if self._stop:
            raise Stopped
        waiting: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        entry = (size, waiting, asyncio.current_task())
        if again:
            self._waiting.appendleft(entry)
        else:
            self._waiting.append(entry)
        self._grant()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self.release(waiting.result())
            raise

    async def count_without_permit(self, size: int) -> Counted:
        """Wait until the limits a minute allow a request that takes no place of another one, and count it.

        Raises Stopped as soon as the run stops.
        """
        amounts = self._amounts(size / BYTES_PER_TOKEN * self._tokens_in_ratio)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ahead[ended] = asyncio.current_task()
        try:
            while not self._stop and (wait_s := self._rate_wait(amounts, runtime.monotonic())[1]) > 0:
                await asyncio.wait([ended], timeout=wait_s)
            if self._stop:
                raise Stopped
            now = runtime.monotonic()
            for name, bucket in self._buckets.items():
                bucket.take(amounts[name], now)
            return Counted(now, amounts["input_tpm"], amounts["output_tpm"])
        finally:
            del self._ahead[ended]
            self._grant()

    def _amounts(self, tokens_in: float) -> dict[str, float]:
        """Return what a request takes of each limit a minute."""
        out = self._tokens_out
        return {"rpm": 1.0, "tpm": tokens_in + out, "input_tpm": tokens_in, "output_tpm": out}

    def _rate_wait(self, amounts: Mapping[str, float], now: float) -> tuple[str, float]:
        """Return the first limit a minute that has no room for these amounts, and the seconds until it has."""
        for name, bucket in self._buckets.items():
            if (wait_s := bucket.wait_s(amounts[name], now)) > 0:
                return name, wait_s
        return "", 0.0

    def stop(self, tasks: Collection[asyncio.Task[None]] | None = None) -> None:
        """Raise Stopped in the requests of these tasks (without any: in all) that wait for a permit, now and later."""
        self._stop.set(tasks)
        if tasks is None:
            self._cancel_timer()
            self.wait_times.mark("", runtime.monotonic())
        for ended, task in self._ahead.items():
            if self._stop.covers(task) and not ended.done():
                ended.set_result(None)
        stopped = [entry for entry in self._waiting if self._stop.covers(entry[2])]
        if not stopped:
            return
        self._waiting = deque(entry for entry in self._waiting if not self._stop.covers(entry[2]))
        for _, waiting, _ in stopped:
            if not waiting.done():
                waiting.set_exception(Stopped())

    def settle_without_permit(self, counted: Counted, tokens_in: int | None, tokens_out: int | None) -> None:
        """Record the tokens of a request without a permit, where they are known, and look for room for others."""
        self._settle_tokens(counted, tokens_in, tokens_out)
        self._grant()

    def share_changed(self) -> None:
        """Look again whether requests may be sent: another share of common limits is granted."""
        if self.leases is not None:
            self.fixed = self.leases.width
        self._grant()
        for listener in tuple(self.on_capacity):
            listener()

    def answered(
        self, permit: Permit, tokens_in: int | None = None, tokens_out: int | None = None, cached: int | None = None
    ) -> None:
        """Record an answer, or the refusal of one row: the endpoint works. Its token counts, where it gives them."""
        endpoint, now = permit.endpoint, runtime.monotonic()
        # Answers that arrive together are recorded one by one, before new requests take their places.
        full = 2 * endpoint.in_flight > endpoint.concurrency.limit and self.fixed is None
        endpoint.answered(permit, now, full=full, adapt=self.fixed is None)
        if self.leases is not None:
            self.leases.answered(now - permit.at)
        if (found := endpoint.find_quota(now)) is not None:
            self.on_quota_found(endpoint, *found)
        if (estimated := endpoint.quota.answered(now)) is not None:
            self.on_quota_estimated(endpoint, estimated)
        self._settle(permit, tokens_in, tokens_out, cached)
        self._free(endpoint, now)

    def observe_headers(self, permit: Permit, quotas: Mapping[str, Quota], *, complete: bool) -> None:
        """Record the quotas of a response's headers; ``complete``: the quotas that are not in it are unknown again."""
        permit.endpoint.observe_headers(permit, quotas, runtime.monotonic(), complete=complete)

    def refused(self, permit: Permit, wait_s: float) -> None:
        """Record a refusal for a limit (429, 503). ``wait_s``: the seconds of its Retry-After."""
        endpoint, now = permit.endpoint, runtime.monotonic()
        endpoint.refused(permit, now)
        if self.leases is not None:
            self.leases.refused(now - permit.at)
        if (estimated := endpoint.quota.refused(permit.at, now)) is not None:
            self.on_quota_estimated(endpoint, estimated)
        if wait_s > 0 and now - endpoint.answered_at > self.policy.retry_after_quiet_s:
            endpoint.blocked_until = max(endpoint.blocked_until, now + wait_s)
        self.balancer.failed(endpoint, now)
        self._settle(permit, 0, 0, 0)
        self._free(endpoint, now)

    def failed(self, permit: Permit, *, unreachable: bool, timeout: bool, begun: bool = False) -> None:
        """Record a try without an answer; ``begun``: it may have to be paid for all the same."""
        endpoint, now = permit.endpoint, runtime.monotonic()
        if timeout and self.leases is not None:
            self.leases.refused(now - permit.at)
        elif timeout:
            endpoint.concurrency.refused(permit.at, endpoint.in_flight - 1, now)
        self._return(permit, begun)
        self.balancer.failed(endpoint, now)
        if not unreachable:
            endpoint.unreached = 0
        else:
            endpoint.unreached += 1
            others = any(other.up for other in self.endpoints if other is not endpoint)
            if endpoint.up and endpoint.unreached >= (1 if others else self.policy.failures_down):
                endpoint.up = False
                self.on_down(endpoint)
                endpoint.rests += 1
        self._free(endpoint, now)

    def release(self, permit: Permit, *, begun: bool = False) -> None:
        """Give a permit back whose request was abandoned; ``begun``: it may have to be paid for all the same."""
        now = runtime.monotonic()
        self._return(permit, begun)
        self._free(permit.endpoint, now)

    def mark_up(self, endpoint: EndpointState) -> None:
        """Record that an endpoint can be reached again."""
        if endpoint.disabled:
            return
        endpoint.up, endpoint.unreached = True, 0
        if endpoint.rests > 1:
            endpoint.failures = self.policy.failures_rest  # it answered probes before, and no request
        self._grant()
        for listener in tuple(self.on_capacity):
            listener()

    def disable(self, endpoint: EndpointState) -> None:
        """Send nothing more to an endpoint: it refuses every request for good."""
        endpoint.up, endpoint.disabled = False, True

    def _admit(self, size: int, now: float) -> tuple[Permit | None, str, float]:
        """Return a permit, or why there is none and the seconds until then (0: until another request ends).

        Raises Stopped at a cap.
        """
        if self.fixed is not None and self.in_flight >= self.fixed:
            return self._denied("concurrency", 0.0)
        tokens_in = size / BYTES_PER_TOKEN * self._tokens_in_ratio
        tokens_out = self._tokens_out
        needs = (1.0, tokens_in + tokens_out, tokens_in, tokens_out)
        endpoint, reason, wait_s = self.balancer.choose(needs, now, limited=self.fixed is None)
        if endpoint is None:
            return self._denied(reason, wait_s)
        cost = FREE
        if (budget := self.budget) is not None:
            # No token is less than a byte, but a server may put its own text before each prompt.
            cost = budget.most(
                size + self._prefix_tokens, math.ceil(tokens_out) if self.max_out is None else self.max_out
            )
            allowed = budget.allows(cost)
            if allowed is None:
                return None, "max_cost", 0.0
            if not allowed:
                self._report_budget_spent()
                raise Stopped
        if self._buckets:
            amounts = self._amounts(tokens_in)
            name, wait_s = self._rate_wait(amounts, now)
            if name or self._ahead:
                return None, name or "rpm", wait_s
        if budget is not None:
            budget.sent(cost)
        if self._buckets:
            for name, bucket in self._buckets.items():
                bucket.take(amounts[name], now)
        endpoint.in_flight += 1
        self.in_flight += 1
        return Permit(endpoint, now, size, tokens_in, tokens_out, cost), "", 0.0

    def _denied(self, reason: str, wait_s: float) -> tuple[None, str, float]:
        """Return why a request must wait. Raises Stopped where no call is left: the wait would be in vain."""
        self.check_budget()
        return None, reason, wait_s

    def _report_budget_spent(self) -> None:
        for listener in tuple(self.on_budget_spent):
            listener()

    def _return(self, permit: Permit, begun: bool) -> None:
        used = None if begun else 0
        self._settle(permit, used, used, used)

    def _settle(self, permit: Permit, tokens_in: int | None, tokens_out: int | None, cached: int | None) -> None:
        """Replace the estimate of a request by what it used."""
        self._settle_tokens(permit, tokens_in, tokens_out)
        if self.budget is not None:
            self._prefix_tokens = max(self._prefix_tokens, (tokens_in or 0) - permit.size)
            self.budget.settled(permit.cost, tokens_in, tokens_out, cached)

    def _settle_tokens(self, permit: Permit | Counted, tokens_in: int | None, tokens_out: int | None) -> None:
        """Replace the estimated tokens of a request by those that it used, and improve the estimates."""
        smoothing = self.policy.smoothing
        if tokens_in and permit.tokens_in:
            ratio = self._tokens_in_ratio * tokens_in / permit.tokens_in
            self._tokens_in_ratio += smoothing * (min(max(ratio, 0.1), 8.0) - self._tokens_in_ratio)
        if tokens_out:
            self._tokens_out += (smoothing if self._tokens_out_known else 1.0) * (tokens_out - self._tokens_out)
            self._tokens_out_known = True
        used_in = permit.tokens_in if tokens_in is None else tokens_in
        used_out = permit.tokens_out if tokens_out is None else tokens_out
        for name, bucket in self._buckets.items():
            if name != "rpm":
                counts_in, counts_out = name != "output_tpm", name != "input_tpm"
                more = counts_in * (used_in - permit.tokens_in) + counts_out * (used_out - permit.tokens_out)
                bucket.settle(more, permit.at)

    def _free(self, endpoint: EndpointState, now: float) -> None:
        endpoint.in_flight -= 1
        self.in_flight -= 1
        if self.leases is not None:
            self.leases.freed()
        if self._waiting:
            self._grant()
        elif self.wait_times.reason == "concurrency":
            self.wait_times.mark("", now)

    def _grant(self) -> None:
        """Give permits to those who wait, as far as possible, and set a timer for the next one."""
        now = runtime.monotonic()
        reason, wait_s = "", 0.0
        while self._waiting:
            size, waiting, _ = self._waiting[0]
            if waiting.done():
                self._waiting.popleft()
                continue
            try:
                permit, reason, wait_s = self._admit(size, now)
            except Stopped:
                self.stop()
                break
            if permit is None:
                break
            self._waiting.popleft()
            waiting.set_result(permit)
        self._cancel_timer()
        if self._waiting and wait_s > 0:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._grant)
        self.wait_times.mark(reason or ("concurrency" if self.in_flight >= self.concurrency else ""), now)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _ignore(*_: object) -> None:
    """Do nothing."""
