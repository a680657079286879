"""The circuit breaker of an endpoint that refuses everything for a while: it gets a probe now and then."""

from __future__ import annotations

import random

SURE_S, SURE = 0.25, 12
"""The breaker opens after SURE refusals sent over at least SURE_S, at least half of all, with no answer between."""
SHORT_S, MOST_SURE = 15.0, 96
"""After an opening shorter than this, or than two answers, the next one needs twice as many, at most MOST_SURE."""
BRAKE_S, HOLD_S, LONGEST_HOLD_S = 0.25, 0.5, 5.0
MANY = 0.25
"""At this share of refusals nothing is sent for at most BRAKE_S. The first probe waits HOLD_S, later ones longer."""
FIRST, EACH = 6, 3
"""After an opening FIRST requests are sent, and EACH more for each answer."""
OPEN_AFTER, OPEN_AFTER_S = 32, 4.0


class CircuitBreaker:
    """Says when an endpoint that refuses for its limits may be sent the next request.

    Where a quarter of the requests is refused, nothing is sent for a moment. Where all are refused the breaker opens:
    probes are sent one at a time, ever less often. After the first answer more requests follow as answers arrive.
    Responses to requests that were sent before the opening are ignored: a slow endpoint still answers what it accepted
    before. All times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self.until = 0.0
        """Before that nothing is sent."""
        self.is_open = False
        self._opened_at = self._braked_at = self._closed_at = 0.0
        self._hold_s, self._latency_s = HOLD_S, 0.0
        self._refused_from: float | None = None
        self._refused, self._sure = 0, SURE
        self._sent = self._sent_since = self._refused_since = 0
        self._left: int | None = None
        self._answers = 0

    def sent(self, now: float) -> None:
        """Record that a request is sent."""
        self._sent += 1
        self._sent_since += 1
        if self.is_open:
            self.until = now + self._hold_s
        elif self._left is not None:
            self._left -= 1
            if now - self._closed_at >= OPEN_AFTER_S:
                self._left = None
            elif self._left <= 0:
                self.until = now + HOLD_S

    def refused(self, sent_at: float, now: float, latency_s: float) -> bool:
        """Record a refusal of a request that was sent then; True where the open breaker explains it.

        ``latency_s`` is the time of an answer: a longer wait would cost more than it saves.
        """
        if sent_at < self._opened_at:
            return True
        if self.is_open:
            self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)
            self.until = now + self._hold_s * random.uniform(0.8, 1.2)
            return True
        if self._refused_from is None:
            self._refused_from, self._refused, self._sent = sent_at, 0, 1
        self._refused += 1
        self._latency_s = latency_s
        if sent_at >= self._braked_at:
            self._refused_since += 1
        if self._refused_since >= MANY * max(self._sent_since, 1):
            self._braked_at, self._sent_since, self._refused_since = now, 0, 0
            self.until = now + min(BRAKE_S, latency_s)
        if 2 * self._refused >= self._sent and self._refused >= self._sure and sent_at - self._refused_from >= SURE_S:
            self.is_open, self._opened_at, self._hold_s = True, now, HOLD_S
            self.until = now + HOLD_S
        return False

    def answered(self, sent_at: float, now: float) -> None:
        """Record an answer to a request that was sent then."""
        if sent_at < self._opened_at:
            return
        if self.is_open:
            short = now - self._opened_at < max(SHORT_S, 2 * self._latency_s)
            self._sure = min(2 * self._sure, MOST_SURE) if short else SURE
            self.is_open, self._refused_from, self._closed_at = False, None, now
            self._left, self._answers, self.until = FIRST, 0, 0.0
            return
        if self._refused_from is not None and sent_at >= self._refused_from:
            self._refused_from = None
        if self._left is not None:
            self._answers += 1
            self._left += EACH
            self.until = 0.0
            if self._answers >= OPEN_AFTER:
                self._left = None
