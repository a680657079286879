"""The concurrency limit of one endpoint: how many requests may be in flight. It is found by trying."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from sqlenrich.llm.throttle.refusals import ChancePolicy, ChanceTest

OTHER_FILES = 128
"""Open files that are left to the rest of the program."""


@dataclass(frozen=True)
class ConcurrencyPolicy:
    """How the limit grows and shrinks. Rates are answers a second."""

    start: int = 8
    largest: int = 512
    start_s: float = 8.0
    """After the first answer the limit is what a server of one request at a time answers in this time ..."""
    largest_start: int = 64
    """... but no more than this."""
    growth: int = 4
    """Fast growth multiplies the limit by this in a round trip, ..."""
    queued_growth: int = 2
    """... and by this where requests queue at the endpoint."""
    queued: float = 1.25
    """Requests queue where answers take longer than the first ones by this factor."""
    turn_s: float = 0.1
    """The shortest round trip of the fast growth."""
    round_s: float = 0.5
    """The shortest round of the search for the best rate."""
    wider: float = 0.25
    """The search tries a limit that is larger by this share, ..."""
    narrower: float = 0.1
    """... and one that is smaller by this share."""
    worth: float = 0.25
    """A larger limit is kept where at least this share of the increase returns as a higher rate."""
    enough: float = 0.9
    """After the fast growth the smallest limit with this share of the best rate is chosen."""
    loss: float = 0.05
    """A smaller limit is kept where at most this share of the decrease is lost as rate."""
    smoothing: float = 0.1
    """Weight of a new latency in the running average."""
    longest_rest: int = 16
    """The most rounds between two trials."""
    decrease: float = 0.95
    """Refusals multiply the limit by this, or set it to what the endpoint still works on, if that is less."""
    fast_again: float = 0.25
    """Fast growth begins again after steps of this share of the limit without refusals."""
    chance: ChancePolicy = field(default_factory=ChancePolicy)


def max_per_endpoint(endpoints: int, open_files: float, policy: ConcurrencyPolicy | None = None) -> int:
    """Return the most connections to each of several endpoints that a limit of open files allows."""
    policy = policy or ConcurrencyPolicy()
    return int(min(policy.largest, max(policy.start, (open_files - OTHER_FILES) / endpoints)))


class ConcurrencyLimit:
    """How many requests may be in flight at one endpoint. All times are monotonic, in seconds.

    Fast growth: the limit is multiplied in each round trip, until more requests in flight bring no higher rate, or a
    tenth of the requests is refused. Where nothing is refused, a search for the best rate follows: a larger and a
    smaller limit are tried from time to time. Where requests are refused, additive increase and multiplicative decrease
    (AIMD) follow: the limit returns quickly to the last one without refusals, then grows one by one, ever more rarely
    while that is refused. Refusals by chance do not change the limit.
    """

    def __init__(self, *, most: int | None = None, policy: ConcurrencyPolicy | None = None) -> None:
        self.policy = policy = policy or ConcurrencyPolicy()
        self.most = policy.largest if most is None else most
        self.limit = min(policy.start, self.most)
        self.growing = True
        self.chance = ChanceTest(policy.chance)
        self._latency_s = self._first_latency_s = 0.0
        self._growth = policy.growth
        self._full = False
        self._from = 0.0
        self._answers = 0
        self._turn_limit = self.limit
        self._turns: list[tuple[int, float]] = []
        self._base: tuple[int, float] | None = None
        self._rest, self._rested, self._narrower = 1, 0, False
        self._ceiling: int | None = None
        self._step = 1
        self._before: tuple[int, bool] = (self.limit, True)
        self._changed_at = self._decreased_from = -math.inf
        self._round_from = -math.inf
        self._round_full = False
        self._round_limit = self.limit
        self._good = 0
        """The last limit of a whole round trip in which no more was refused than by chance."""

    def sent(self, now: float) -> None:
        """Record that a request is sent."""
        if now - self._round_from >= max(self._latency_s, self.policy.turn_s):
            self._end_round_trip(now)
        self.chance.count_sent()

    def answered(self, now: float, latency_s: float, *, full: bool) -> None:
        """Record an answer. ``full``: nothing but this limit delayed requests.

        Answers are counted over whole latencies: those to requests that were sent together arrive together.
        """
        policy = self.policy
        if self._from == 0.0:
            self._latency_s = self._first_latency_s = latency_s
            start = min(policy.largest_start, int(policy.start_s / max(latency_s, 0.001)))
            if self.growing:
                self.limit = min(max(self.limit, start), self.most)
            self._begin(now, skip_s=latency_s if self.limit > policy.start else 0.0)
        self._latency_s += policy.smoothing * (latency_s - self._latency_s)
        self._full = self._full or full
        self._round_full = self._round_full or full
        self._answers += now >= self._from
        if self._ceiling is not None:
            return
        if self.growing:
            # Only at the end of a turn, so that its answers are those to requests sent at its limit.
            if full and now - self._from >= policy.turn_s - self._latency_s:
                queued = latency_s > policy.queued * self._first_latency_s
                growth = policy.queued_growth if queued else self._growth
                grown = min(self.most, self.limit + growth - 1, growth * self._turn_limit)
                self.limit = max(self.limit, grown)
            if now - self._from >= max(policy.turn_s, self._latency_s):
                self._end_turn(now)
        elif now - self._from >= max(policy.round_s, 2 * self._latency_s):
            self._end_round(now)

    def refused(self, sent_at: float, in_flight: int, now: float) -> None:
        """Record a refusal, or a timeout, of a request that was sent then; ``in_flight`` others are under way."""
        if sent_at < self._changed_at:
            if sent_at >= self._decreased_from:  # the rest of the refusals that caused the last decrease
                self.chance.count_refused_before()
                self.limit = max(1, min(self.limit, in_flight))
            return
        self.chance.count_refused()
        if self.chance.testing:
            self._judge(now)
        elif self.chance.unusual(growing=self.growing):
            self._decrease(sent_at, in_flight, now)

    def _decrease(self, sent_at: float, in_flight: int, now: float) -> None:
        self._before = (self.limit, self.growing)
        self._ceiling = self.limit
        self._rest = min(2 * self._rest, self.policy.longest_rest) if not self.growing else 1
        self._rested, self._step = 0, 1
        self.limit = int(max(1, min(in_flight, self.limit * self.policy.decrease)))
        self.growing, self._base = False, None
        self.chance.begin_test()
        # What is sent until then may meet the requests that caused the decrease.
        settles_s = min(2 * (now - sent_at), max(self._latency_s, self.policy.turn_s))
        self._decreased_from, self._changed_at = max(self._round_from, self._changed_at), now + settles_s
        self._begin_round_trip(now)

    def _judge(self, now: float) -> None:
        """Take back a decrease where the refusals are chance."""
        by_chance = self.chance.result()
        if by_chance:
            limit, growing = self._before
            self._ceiling = None
            self.limit = max(limit, self.limit)
            self._grow_fast(now) if growing else self._begin(now)

    def _begin_round_trip(self, now: float) -> None:
        self._round_from, self._round_full, self._round_limit = now, False, self.limit
        self.chance.begin_round()

    def _end_round_trip(self, now: float) -> None:
        full, round_limit = self._round_full, self._round_limit
        self._begin_round_trip(now)
        if self.chance.testing:
            self._judge(now)
        if not full:
            return
        if not self.chance.testing:
            self._good = min(round_limit, self.limit)
        if self._ceiling is None:
            return
        goal = min(self._good, self._ceiling - 1) if self.chance.testing else self._ceiling - 1
        if self.limit < goal:
            self.limit += max(1, (goal + 1 - self.limit) // 2)
        elif self.chance.testing:
            return
        elif self.limit >= self._ceiling:  # more than the ceiling, and not refused
            self._step, self._rest = 2 * self._step, 1
            if self._step >= max(4, self.policy.fast_again * self.limit) or self.limit >= self.most:
                self._ceiling = None
                self._grow_fast(now)
                return
            self.limit = self._ceiling = min(self.most, self.limit + self._step)
        else:
            self._rested += 1
            if self._rested >= self._rest:
                self._rested, self.limit = 0, self._ceiling

    def _grow_fast(self, now: float) -> None:
        self.growing, self._growth, self._turns = True, self.policy.queued_growth, []
        self._begin(now, skip_s=self._latency_s)

    def _begin(self, now: float, *, skip_s: float = 0.0) -> None:
        self._from, self._answers, self._full = now + skip_s, 0, False
        self._turn_limit = self.limit

    def _end_turn(self, now: float) -> None:
        policy = self.policy
        rate = self._answers / (now - self._from)
        if self._full:
            self._turns.append((self._turn_limit, rate))
            if self._latency_s > policy.queued * self._first_latency_s:
                self._growth = policy.queued_growth
            # Over two turns, or one in which the limit tripled: a smaller gain may be chance.
            before = [r for limit, r in self._turns if 3 * limit <= self._turn_limit]
            before += [r for _, r in self._turns[-3:-2]]
            little = any(rate < (1 + policy.worth) ** 2 * earlier for earlier in before[-2:])
            if little or self._turn_limit == self.most:
                self.growing = False
                best = max(rate for _, rate in self._turns)
                enough = min(limit for limit, rate in self._turns if rate >= policy.enough * best)
                # A queue at the server keeps it busy between two answers, unless the queue slows it down.
                queue = policy.wider if rate >= policy.enough * best else 0.0
                self.limit = min(self.most, round(enough * (1 + queue)))
        self._begin(now, skip_s=0.0 if self.growing else self._latency_s)

    def _end_round(self, now: float) -> None:
        """Compare the limit that was tried with the last one, and choose the next."""
        rate, full = self._answers / (now - self._from), self._full
        tried = self.limit
        if not full:
            self._begin(now)  # something else was the limit: the rate says nothing
            return
        if self._base is None:
            self._base = (tried, rate)
        limit, before = self._base
        if tried > limit:
            kept = rate >= before * (1 + self.policy.worth * (tried / limit - 1))
        elif tried < limit:
            kept = rate >= before * (1 - self.policy.loss * (1 - tried / limit))
        else:
            # Older rates count less, for an endpoint changes.
            self._base = (limit, 0.5 * before + 0.5 * rate)
            kept = False
        if kept:
            self._base, self._rest, self._rested = (tried, rate), 1, 0
            self.limit = self._next(tried, narrower=tried < limit)
        elif tried != limit:
            self.limit = limit
            self._narrower = tried > limit
            if not self._narrower:
                self._rest = min(2 * self._rest, self.policy.longest_rest)
            self._rested = 0
        else:
            self._rested += 1
            if self._rested >= self._rest:
                self.limit = self._next(limit, narrower=self._narrower and limit > 1)
        self._begin(now, skip_s=0.0 if self.limit == tried else self._latency_s)

    def _next(self, limit: int, *, narrower: bool) -> int:
        if narrower:
            return max(1, limit - max(1, round(limit * self.policy.narrower)))
        return min(self.most, limit + max(1, round(limit * self.policy.wider)))
