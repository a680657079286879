"""Whether refusals (429, 503) come from too many requests at a time, or by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class ChancePolicy:
    """The test for refusals by chance."""

    growth_share: float = 0.1
    """Fast growth ends at this share of refusals in a round trip, ..."""
    growth_refusals: int = 3
    """... and at least this many."""
    deviations: float = 4.0
    """Refusals beyond the usual share by this many standard deviations, ..."""
    few: int = 2
    """... and by more than this number, are not chance."""
    largest_share: float = 0.7
    """No larger share of refusals is taken for chance."""
    remains: float = 0.5
    """After a decrease this part of the share remains where refusals are chance, ..."""
    falls: float = 0.125
    """... and this part where the limit is their cause."""
    evidence: float = 3.0
    """The test ends at this log-likelihood ratio."""
    smallest_share: float = 0.005
    """A smaller usual share counts as none."""
    memory: int = 2_000
    """The usual share is an average over about this many requests."""


class ChanceTest:
    """Knows the usual share of refusals, and tests after a decrease whether the refusals went with it.

    An endpoint with a limit of requests at a time refuses much less below it. Refusals by chance stay the same share.
    The test is a sequential probability ratio test between the two.
    """

    def __init__(self, policy: ChancePolicy | None = None) -> None:
        self.policy = policy or ChancePolicy()
        self.usual = 0.0
        """The share of requests that is refused whatever the concurrency."""
        self.testing = False
        self.sent = self.refused = 0
        """Counts of the current round trip."""
        self._sent_lately = self._refused_lately = 0.0
        self._sent_before = self._refused_before = 0.0
        self._sent = self._refused = 0

    def begin_round(self) -> None:
        """Begin to count a round trip."""
        if self.usual and self.sent:
            weight = min(self.sent / self.policy.memory, 1.0)
            share = min(self.refused / self.sent, self.policy.largest_share)
            self.usual += weight * (share - self.usual)
            if self.usual < self.policy.smallest_share:
                self.usual = 0.0
        self._sent_lately = self._sent_lately / 2 + self.sent
        self._refused_lately = self._refused_lately / 2 + self.refused
        self.sent = self.refused = 0

    def count_sent(self) -> None:
        """Count a request that is sent."""
        self.sent += 1
        self._sent += 1

    def count_refused(self) -> None:
        """Count the refusal of a request of this round trip."""
        self.refused += 1
        self._refused += 1

    def count_refused_before(self) -> None:
        """Count the refusal of a request that was sent before the decrease."""
        self._refused_before += 1

    def unusual(self, *, growing: bool) -> bool:
        """Whether more is refused in this round trip than by chance."""
        policy, expected = self.policy, self.usual * self.sent
        if expected and self.refused <= expected + policy.deviations * math.sqrt(expected) + policy.few:
            return False
        return self.refused >= (max(policy.growth_refusals, policy.growth_share * self.sent) if growing else 1)

    def begin_test(self) -> None:
        """Begin a test: the limit was decreased because of the refusals of this round trip."""
        self._sent_before = max(self._sent_lately / 2 + self.sent, 1.0)
        self._refused_before = self._refused_lately / 2 + self.refused
        self._sent_lately = self._refused_lately = 0.0
        self._sent = self._refused = 0
        self.testing = True

    def result(self) -> bool | None:
        """End the test where it is decided. True: chance. False: the limit is the cause. None: no decision."""
        if not self.testing:
            return None
        policy = self.policy
        before = self._refused_before / self._sent_before
        before = min(before, policy.largest_share)
        chance, cause = policy.remains * before, max(policy.falls * before, min(self.usual, before / 4))
        refused, admitted = self._refused, max(self._sent - self._refused, 0)
        evidence = refused * math.log(chance / cause) + admitted * math.log((1 - chance) / (1 - cause))
        if abs(evidence) < policy.evidence:
            return None
        self.testing = False
        share = refused / max(self._sent, refused, 1)
        if evidence > 0 and share <= policy.largest_share:
            self.usual = max(share, self.usual)
            return True
        self.usual = min(self.usual, share)
        return False
