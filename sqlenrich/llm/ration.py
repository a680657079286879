"""The requests a second that an endpoint admits, found out from its refusals where nobody tells them."""

from __future__ import annotations

import math

from .drip import Drip

SAMPLE, SMALL_SAMPLE, ALL = 30, 10, 0.9
"""Of so many requests in a row, sent after a first refusal, so many are refused: the endpoint is shut. Below a rate
that is known to be of use, where refusals are rare, fewer tell."""
LONGEST_DRAIN_S = 10.0
HOLD_S, LONGEST_HOLD_S, LONGEST_ASKED_S = 0.25, 5.0, 60.0
SHARE = 0.98
SLOWEST, LOWEST = 1 / 30, 0.5
"""No lower rate than this, nor than this part of the one before."""
HARDLY = 0.25
"""What answered less than this share while it was not shut has no quota that was used up."""
NOTABLE, FEWEST_REFUSED, FEWEST_A_S = 0.2, 30, 20.0
"""A rate is tried where so large a share is refused, so many, and so many a second; few a second cost nothing."""
WATCH_S, WATCH_LATENCIES, LONGEST_WATCH_S = 2.0, 3.0, 20.0
MOSTLY, MANY_REFUSED, MANY_WATCH_S = 0.5, 50, 0.5
"""Where most is refused, and so many, so short a time is enough to see it."""
FEW = 0.0125
PLAIN, PLAIN_REFUSED = 0.1, 5
"""So large a share of what was sent, and so many, end a round below a rate at once."""
PAUSE_S = 1.0
TRIAL_S, TRIAL_OUTCOMES = 0.2, 40
ROUND_S, ROUND_OUTCOMES = 5.0, 20
STEP, LARGEST_STEP = 0.1, 1.0
LONGEST_ROUND_S = 20.0
LONGEST_PATIENCE, UNUSED_ROUNDS = 16, 6
DEAF_S, LONGEST_DEAF_S = 120.0, 600.0
SMOOTH = 0.1


class Ration:
    """Finds a rate below which 429 stay away. Where a lower rate does not lessen them, it is taken back.

    Where all is refused, and still is when nothing is under way any more, a quota is used up: one request now and then
    finds out when that ends; what was answered from one such end to the next is the rate. Where a part is refused,
    what is not is the rate, on trial. A rate without refusals is raised after as long a time as the quota takes to
    show, by ever more, until they come again. ``rate`` is in requests a second, None: none is known.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self.sure = False
        """Whether requests went at the rate for a while, and none was refused."""
        self._sent = self._out = 0
        self._latency_s = 0.0
        self._drip = Drip()
        # While all is refused.
        self._shut_after: int | None = None
        self._draining = self._quota = False
        self._probe: int | None = None
        self._hold_s, self._hold_until = HOLD_S, 0.0
        # Since it was so the last time.
        self._opened_at: float | None = None
        self._answers = self._refusals = 0
        self._cycle_s = 0.0
        self._sample_after: int | None = None
        self._sample, self._sample_refused = SAMPLE, 0
        # The rate, and how it fares.
        self._trial: float | None = None
        self._early = False
        """The rate was found while the width grew, so it may be far too low: it is raised at once, until refused."""
        self._proven: float | None = None
        self._step, self._patience, self._unused = LARGEST_STEP, 1, 0
        self._raise_at = 0.0
        self._pause_until = -math.inf
        self._deaf_until = self._never_shut_until = -math.inf
        self._deaf_s = DEAF_S
        self._from, self._mark, self._good, self._bad, self._held = 0.0, 0, 0, 0, False

    @property
    def engaged(self) -> bool:
        """Whether refusals are taken for those of a limit a minute, not of too many at a time."""
        return self._shut_after is not None or self.rate is not None

    def restart(self) -> None:
        """A new stream begins: the time since the last one says nothing."""
        self._opened_at = None
        self._answers = self._refusals = 0
        self._begin_round(0.0)

    def wait_s(self, now: float) -> float:
        """Give in how many seconds a request may be sent: 0 for at once, infinity for after those under way."""
        if self._shut_after is not None:
            if self._draining:
                return max(self._hold_until - now, 0.0) if self._out else 0.0
            return math.inf if self._probe is not None else max(self._hold_until - now, 0.0)
        if now < self._pause_until and self._sample_after is not None and self._sent >= self._sample_after + SAMPLE:
            return self._pause_until - now
        if self.rate is None:
            return 0.0
        wait_s = self._drip.wait_s(1.0, self.rate, now)
        self._held = self._held or wait_s > 0
        return wait_s

    def take(self, now: float) -> int:
        """Take note that a request is sent; give its number."""
        self._sent += 1
        self._out += 1
        if self._shut_after is not None:
            self._probe, self._draining = self._sent, False
        elif self.rate is not None:
            self._drip.take(1.0)
        if self._opened_at is None:
            self._opened_at = now
            self._begin_round(now)
        return self._sent

    def answered(self, number: int, latency_s: float, now: float) -> None:
        """Take note of an answer."""
        self._out -= 1
        self._answers += 1
        self._latency_s += SMOOTH * (latency_s - self._latency_s) if self._latency_s else latency_s
        if self._shut_after is not None:
            if number > self._shut_after:
                self._reopen(now)
            return
        if self._sample_after is not None and number > self._sample_after:
            self._sample_after = None
        self._good += number > self._mark
        if self.rate is not None or self._bad:
            self._judge(now)
        elif now - self._from > WATCH_S:
            self._begin_round(now)

    def refused(self, number: int, asked_s: float, now: float) -> None:
        """Take note of a 429; ``asked_s``: the seconds that it asked to wait."""
        self._out -= 1
        if self._shut_after is not None:
            if number == self._probe:
                self._probe, self._quota = None, True
                self._hold(asked_s, now)
            return
        self._refusals += 1
        if self._sample_after is None or number > self._sample_after + 4 * SAMPLE:
            self._sample_after, self._sample_refused = number, 0
            self._sample = SMALL_SAMPLE if self.rate is not None and self._trial is None else SAMPLE
            if self._pause_until == -math.inf:
                self._pause_until = now + PAUSE_S  # the first refusal of all: what becomes of those sent after it?
        elif self._sample_after < number <= self._sample_after + self._sample:
            self._sample_refused += 1
            if self._sample_refused >= ALL * self._sample and now >= self._never_shut_until:
                self._shut(now)
                return
        self._bad += number > self._mark
        self._judge(now)

    def lost(self, number: int, now: float) -> None:
        """Take note that a request came to nothing that would say anything."""
        self._out -= 1
        if number == self._probe:
            self._probe = None
            self._hold(0.0, now)

    def _shut(self, now: float) -> None:
        self._shut_after, self._probe, self._sample_after = self._sent, None, None
        self._draining, self._quota, self._hold_s = True, False, HOLD_S
        self._hold_until = now + LONGEST_DRAIN_S

    def _hold(self, asked_s: float, now: float) -> None:
        self._hold_until = now + max(self._hold_s, min(asked_s, LONGEST_ASKED_S))
        self._hold_s = min(2 * self._hold_s, LONGEST_HOLD_S)

    def _reopen(self, now: float) -> None:
        """The quota has room again: what was answered since it had the last time is what it gives in that time."""
        opened_at = now if self._opened_at is None else self._opened_at
        quota = self._quota and self._answers >= HARDLY * (self._answers + self._refusals)
        self._shut_after = self._probe = self._trial = None
        if not quota:
            # Who takes some when nothing is under way, or refused most before, has no quota that is used up.
            self._never_shut_until = now + WATCH_S + WATCH_LATENCIES * self._latency_s
        else:
            self._cycle_s = max(now - opened_at, HOLD_S)
            admitted = SHARE * self._answers / self._cycle_s
            self.rate = max(admitted if self.rate is None else min(admitted, self.rate), SLOWEST)
            self._raise_at, self._proven = now + self._cycle_s, None
        self._opened_at, self._answers, self._refusals = now, 0, 0
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._from, self._mark = now, self._sent
        self._good = self._bad = 0
        self._held = False

    def _judge(self, now: float) -> None:
        """At the end of a round choose the rate of the next one."""
        past, outcomes = now - self._from, self._good + self._bad
        if self.rate is None:
            mostly = self._bad >= max(MANY_REFUSED, MOSTLY * outcomes)
            if past < max(MANY_WATCH_S if mostly else WATCH_S, WATCH_LATENCIES * self._latency_s):
                return
            notable = self._bad >= max(FEWEST_REFUSED, FEWEST_A_S * past, NOTABLE * outcomes)
            if notable and self._good and now >= self._deaf_until:
                self._lower(now, past, self._bad / outcomes)
            elif notable or past >= LONGEST_WATCH_S:
                self._begin_round(now)
            return
        short = self._early or self._trial is not None
        least_s, least = (TRIAL_S, TRIAL_OUTCOMES) if short else (ROUND_S, ROUND_OUTCOMES)
        # Refusals come at once, and answers later: they are compared with what was sent.
        many = max(PLAIN_REFUSED, PLAIN * (self._sent - self._mark))
        plain = self._trial is None and self._good > 0 and self._bad >= many
        if not plain and (past < least_s or (outcomes < least and past < LONGEST_ROUND_S)):
            return
        share = self._bad / max(outcomes, 1)
        if self._bad <= 1 or share < FEW:
            self._trial = None
            self._raise(now)
            self._begin_round(now)
        elif self._trial is not None and share > self._trial / 2:
            self._take_back(now)
            self._begin_round(now)
        else:
            self._lower(now, past, share)

    def _take_back(self, now: float) -> None:
        self.rate = self._trial = None
        self._deaf_until = self._never_shut_until = now + self._deaf_s
        self._deaf_s = min(2 * self._deaf_s, LONGEST_DEAF_S)

    def _lower(self, now: float, past: float, share: float) -> None:
        first = self._early = self.rate is None and not self._cycle_s
        if self._proven is not None:
            self.rate, self._proven, self._trial = self._proven, None, None
        else:
            # What is not refused yet may be answered later, or refused.
            admitted = (self._sent - self._mark - self._bad) / past
            if past > 2 * self._latency_s:
                admitted = min(admitted, self._good / (past - self._latency_s))
            lower = SHARE * (admitted if self.rate is None else max(min(self.rate, admitted), LOWEST * self.rate))
            self.rate, self._trial = max(lower, SLOWEST), share if share >= NOTABLE else None
        if first:
            self._step, self._raise_at = LARGEST_STEP, now
        else:
            self._step, self._patience = STEP, min(2 * self._patience, LONGEST_PATIENCE)
            self._raise_at = now + max(self._cycle_s, ROUND_S) * self._patience
        self._begin_round(now)

    def _raise(self, now: float) -> None:
        assert self.rate is not None
        if not self._held:  # something else was the limit
            self._unused += 1
            if self._unused >= UNUSED_ROUNDS:
                self.rate, self._unused, self._patience = None, 0, 1
            return
        self._unused = 0
        self.sure = True
        if now >= self._raise_at:
            self._proven = self.rate
            self.rate *= 1 + self._step
            self._step = min(2 * self._step, LARGEST_STEP)
            self._raise_at = now + (0.0 if self._early else max(self._cycle_s, ROUND_S))
