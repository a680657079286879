"""What refusals do to the width of a stream: smaller, unless they have another cause than too many requests."""

from __future__ import annotations

import math

DECREASE, EVERY_S = 0.7, 1.0
USUAL, UNUSUAL, FEWEST = 0.1, 3.0, 4
"""Such a share of refusals is usual, so many standard deviations more may be chance, and fewer than the last are no
matter: a busy endpoint refuses some, however many it is sent."""
SERIES_S = 10.0
"""Decreases that follow each other by less belong together."""
SURE = 4.0
"""The logarithm of how many times likelier something must be than its contrary to be believed."""
DEAF_S, LONGEST_DEAF_S = 5.0, 60.0
"""So long refusals are not listened to, twice as long each time."""
TRIAL_EVERY_S, LONGEST_TRIAL_EVERY_S = 10.0, 160.0
TRIAL_S, TRIAL_WIDER, TRIAL_WORTH = 2.0, 4, 1.7
"""So much wider is tried for so long, and kept where it brings so many times the answers a second."""
LONGEST_TRIAL, MANY, FEW = 10, 0.25, 8
"""A trial lasts for the time of so many answers at most, begins where such a share is refused, and fewer answers tell
nothing."""


class Pushback:
    """Makes the width smaller where more is refused than usual, to seven tenths, once in the time of an answer.

    A series of decreases that takes away as many answers as it makes the width smaller is in vain: the width before it
    comes back, and refusals are not listened to for a while (``deaf_until``). Where many are refused for long at a
    small width, which tells little, four times as many are tried now and then. All times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self.deaf_until = self._at = float("-inf")
        self._deaf_s = DEAF_S
        self._since, self._answers = -1.0, 0
        self._first: tuple[int, float] | None = None
        self._evidence = 0.0
        self._last_width = 0
        self._trial: tuple[int, float] | None = None
        self._trial_every_s = TRIAL_EVERY_S
        self._long_s, self._long_answers, self._long_refusals = 0.0, 0, 0
        self._period_s, self._period_at = EVERY_S, 0.0
        self._sent = self._refused = self._sent_before = self._refused_before = 0

    def sent(self, now: float) -> None:
        """Take note that a request is sent."""
        if now - self._period_at >= self._period_s:
            self._period_at = now
            self._sent_before, self._refused_before = self._sent, self._refused
            self._sent = self._refused = 0
        self._sent += 1

    def answered(self, now: float) -> None:
        """Take note of an answer."""
        self._begin(now)
        self._answers += now >= self._since
        if self._first is None and self._trial is None and now - self._since >= 2 * EVERY_S:
            self._since, self._answers = now, 0

    def refused(self, now: float, width: int, most: int, latency_s: float) -> int | None:
        """Take note of a refusal at a width; give another width where it is to change."""
        self._begin(now)
        self._long_refusals += 1
        self._refused += 1
        self._period_s = max(EVERY_S, 1.5 * latency_s)
        if now < self.deaf_until or now - self._at < self._period_s:
            return None
        if self._trial is None and not self._unusual():
            return None
        if now - self._at > max(SERIES_S, 5 * latency_s):
            self._first = None
        self._at = now
        self._sent = self._refused = self._sent_before = self._refused_before = 0
        past_s = max(now - self._since, 0.1)
        if self._trial is not None and self._answers < FEW and past_s < LONGEST_TRIAL * max(1.0, latency_s):
            return None
        answers = self._answers
        self._since, self._answers = now, 0
        self._last_width = self._next(now, width, most, latency_s, answers, past_s)
        return self._last_width

    def _begin(self, now: float) -> None:
        if self._since < 0:
            self._since = now

    def _unusual(self) -> bool:
        usual = USUAL * (self._sent + self._sent_before)
        return self._refused + self._refused_before >= max(FEWEST, usual + UNUSUAL * math.sqrt(usual))

    def _next(self, now: float, width: int, most: int, latency_s: float, answers: int, past_s: float) -> int:
        rate = answers / past_s
        if self._trial is not None:
            before, rate_before = self._trial
            self._trial = None
            if answers < FEW or rate < TRIAL_WORTH * rate_before:
                self._trial_every_s = min(2 * self._trial_every_s, LONGEST_TRIAL_EVERY_S)
                return before
            if width < most:
                return self._try(now, width, most, latency_s, rate)
            return self._deafen(now, width)
        if self._first is None or rate > self._first[1]:
            self._first, self._evidence = (width, rate), 0.0
        elif self._in_vain(width, answers, past_s):
            return self._deafen(now, self._first[0])
        self._long_s += past_s
        self._long_answers += answers
        if self._long_s >= self._trial_every_s:
            many = self._long_refusals >= MANY * (self._long_refusals + self._long_answers)
            rate = self._long_answers / self._long_s
            self._forget()
            if many:
                return self._try(now, width, most, latency_s, rate)
        return max(1, int(width * DECREASE))

    def _in_vain(self, width: int, answers: int, past_s: float) -> bool:
        """Take what was counted after a decrease for evidence: as many answers as before, or fewer as the width is."""
        first, rate = self._first or (width, 0.0)
        share, whole = min((width + self._last_width) / 2 / first, 1.0), rate * past_s
        if answers >= whole * share / 2:  # else it answers nobody for a while, whatever the width
            self._evidence = max(self._evidence + answers * math.log(share) + whole * (1 - share), -SURE)
        return self._evidence > SURE

    def _deafen(self, now: float, width: int) -> int:
        self.deaf_until, self._deaf_s = now + self._deaf_s, min(2 * self._deaf_s, LONGEST_DEAF_S)
        self._first = None
        self._forget()
        return width

    def _try(self, now: float, width: int, most: int, latency_s: float, rate: float) -> int:
        self._trial, self._first = (width, rate), None
        self._since = now + 1.5 * latency_s  # then come the answers to what is sent at that width
        self.deaf_until = now + max(TRIAL_S, 3 * latency_s)
        return min(most, TRIAL_WIDER * width)

    def _forget(self) -> None:
        self._long_s, self._long_answers, self._long_refusals = 0.0, 0, 0
