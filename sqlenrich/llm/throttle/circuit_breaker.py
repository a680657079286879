"""The circuit breaker: an endpoint that refuses everything gets only a probe from time to time."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class CircuitBreakerPolicy:
    """When the breaker opens and closes. Times are in seconds."""

    opens_after: int = 12
    """Consecutive refusals, at least half of what was sent, after which the breaker opens, ..."""
    opens_after_s: float = 0.25
    """... if they were sent over at least this time."""
    short_s: float = 15.0
    """After an opening shorter than this, or than two answers, the next one needs twice as many refusals, ..."""
    opens_after_most: int = 96
    """... at most this number."""
    pause_share: float = 0.25
    """At this share of refusals nothing is sent for a moment, ..."""
    pause_s: float = 0.25
    """... at most for this time."""
    first_probe_s: float = 0.5
    """The time before the first probe. It doubles with each refused probe, ..."""
    longest_probe_s: float = 5.0
    """... up to this."""
    after_probe: int = 6
    """Requests that follow the first answered probe at once, ..."""
    per_answer: int = 3
    """... and for each further answer."""
    closed_after_answers: int = 32
    """Answers after which requests are no longer counted, ..."""
    closed_after_s: float = 4.0
    """... or this time."""


class CircuitBreaker:
    """Says when an endpoint that refuses for its limits may be sent the next request.

    Where a quarter of the requests is refused, nothing is sent for a moment. Where all are refused the breaker opens:
    probes are sent one at a time, ever less often. After the first answer more requests follow as answers arrive.
    Responses to requests that were sent before the opening are ignored: a slow endpoint still answers what it accepted
    before. All times are monotonic, in seconds.
    """

    def __init__(self, policy: CircuitBreakerPolicy | None = None) -> None:
        self.policy = policy or CircuitBreakerPolicy()
        self.until = 0.0
        """Before that nothing is sent."""
        self.is_open = False
        self._opened_at = self._paused_at = self._closed_at = 0.0
        self._probe_s, self._latency_s = self.policy.first_probe_s, 0.0
        self._refused_from: float | None = None
        self._refused, self._opens_after = 0, self.policy.opens_after
        self._sent = self._sent_since_pause = self._refused_since_pause = 0
        self._left: int | None = None
        self._answers = 0

    def sent(self, now: float) -> None:
        """Record that a request is sent."""
        self._sent += 1
        self._sent_since_pause += 1
        if self.is_open:
            self.until = now + self._probe_s
        elif self._left is not None:
            self._left -= 1
            if now - self._closed_at >= self.policy.closed_after_s:
                self._left = None
            elif self._left <= 0:
                self.until = now + self.policy.first_probe_s

    def refused(self, sent_at: float, now: float, latency_s: float) -> bool:
        """Record a refusal of a request that was sent then; True where the open breaker explains it.

        ``latency_s`` is the time of an answer: a longer wait would cost more than it saves.
        """
        policy = self.policy
        if sent_at < self._opened_at:
            return True
        if self.is_open:
            self._probe_s = min(2 * self._probe_s, policy.longest_probe_s)
            self.until = now + self._probe_s * random.uniform(0.8, 1.2)
            return True
        if self._refused_from is None:
            self._refused_from, self._refused, self._sent = sent_at, 0, 1
        self._refused += 1
        self._latency_s = latency_s
        if sent_at >= self._paused_at:
            self._refused_since_pause += 1
        if self._refused_since_pause >= policy.pause_share * max(self._sent_since_pause, 1):
            self._paused_at, self._sent_since_pause, self._refused_since_pause = now, 0, 0
            self.until = now + min(policy.pause_s, latency_s)
        if (
            2 * self._refused >= self._sent
            and self._refused >= self._opens_after
            and sent_at - self._refused_from >= policy.opens_after_s
        ):
            self.is_open, self._opened_at, self._probe_s = True, now, policy.first_probe_s
            self.until = now + policy.first_probe_s
        return False

    def answered(self, sent_at: float, now: float) -> None:
        """Record an answer to a request that was sent then."""
        policy = self.policy
        if sent_at < self._opened_at:
            return
        if self.is_open:
            short = now - self._opened_at < max(policy.short_s, 2 * self._latency_s)
            self._opens_after = min(2 * self._opens_after, policy.opens_after_most) if short else policy.opens_after
            self.is_open, self._refused_from, self._closed_at = False, None, now
            self._left, self._answers, self.until = policy.after_probe, 0, 0.0
            return
        if self._refused_from is not None and sent_at >= self._refused_from:
            self._refused_from = None
        if self._left is not None:
            self._answers += 1
            self._left += policy.per_answer
            self.until = 0.0
            if self._answers >= policy.closed_after_answers:
                self._left = None
