"""An endpoint that refuses all it is sent for a while, for a limit that nobody told: it is asked now and then."""

from __future__ import annotations

import random

SURE_S, SURE = 0.25, 12
"""It is a wall where so many requests, sent over so long, were refused, at least half of all, and none answered."""
SHORT_S, MOST_SURE = 15.0, 96
"""One that is over so soon, or within two answers' time, may have been chance: then it takes twice as many."""
BRAKE_S, HOLD_S, LONGEST_HOLD_S = 0.25, 0.5, 5.0
MANY = 0.25
"""Where such a share is refused nothing is sent for BRAKE_S at most; behind a wall each probe waits from HOLD_S on."""
FIRST, EACH = 6, 3
"""Behind a wall so many requests are sent at first, and for each answer so many more."""
OPEN_AFTER, OPEN_AFTER_S = 32, 4.0


class Wall:
    """Says when an endpoint that refuses for its limits may be sent the next request.

    Where a quarter of what is sent is refused, nothing is sent for a moment. Where all is refused it is a wall: one
    request at a time finds out, ever less often, and then more follow as answers come. What was sent before a wall was
    met says nothing of it, whenever its answer comes: a slow endpoint still answers what it took in before. All times
    are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self.until = 0.0
        """Before that nothing is sent."""
        self.stands = False
        self._met_at = self._braked_at = self._over_at = 0.0
        self._hold_s, self._latency_s = HOLD_S, 0.0
        self._refused_from: float | None = None
        self._refused, self._sure = 0, SURE
        self._sent = self._sent_since = self._refused_since = 0
        self._left: int | None = None
        self._answers = 0

    def sent(self, now: float) -> None:
        """Take note that a request is sent."""
        self._sent += 1
        self._sent_since += 1
        if self.stands:
            self.until = now + self._hold_s
        elif self._left is not None:
            self._left -= 1
            if now - self._over_at >= OPEN_AFTER_S:
                self._left = None
            elif self._left <= 0:
                self.until = now + HOLD_S

    def refused(self, sent_at: float, now: float, latency_s: float) -> bool:
        """Take note of a refusal of what was sent then; tell whether a wall explains it.

        ``latency_s`` is what an answer takes: to wait longer would cost more than it spares.
        """
        if sent_at < self._met_at:
            return True
        if self.stands:
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
            self.stands, self._met_at, self._hold_s = True, now, HOLD_S
            self.until = now + HOLD_S
        return False

    def answered(self, sent_at: float, now: float) -> None:
        """Take note of an answer to what was sent then."""
        if sent_at < self._met_at:
            return
        if self.stands:
            short = now - self._met_at < max(SHORT_S, 2 * self._latency_s)
            self._sure = min(2 * self._sure, MOST_SURE) if short else SURE
            self.stands, self._refused_from, self._over_at = False, None, now
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
