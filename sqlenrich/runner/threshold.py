"""The threshold of a cascade: the lowest score from which two models are certified to agree on a share of the rows.

docs/cascades.md has each formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlenrich.spec.cascade import least_sample

FIRST_ALLOWED = 3
"""The disagreements with which the first threshold of a classifier may still be certified."""


@dataclass(frozen=True)
class Certificate:
    """What a sample says of a threshold: of ``rows`` sampled ones ``disagreed`` are decided otherwise."""

    threshold: float | None
    """The least score that the first model decides; None: none is certified, and the first model decides no row."""
    rows: int
    decided: int
    """The rows of the sample at or above the threshold."""
    disagreed: int
    tried: int
    """The thresholds that were tested."""
    equal: int
    """The rows of the sample whose answers of both models agree."""

    of_decided: bool = False
    """Whether the agreement is a share of the decided rows."""

    @property
    def agreement(self) -> float | None:
        """The share of the sample that would be decided as by the second model, were it asked below the threshold."""
        rows = self.decided if self.of_decided else self.rows
        return 1 - self.disagreed / rows if rows else None


def binomial_cdf(k: int, n: int, p: float) -> float:
    """Return the probability of at most ``k`` successes in ``n`` trials, each with a chance of ``p`` in (0, 1)."""
    if k >= n:
        return 1.0
    log_p, log_q, all_ways = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    logs = (all_ways - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q for i in range(k + 1))
    return min(1.0, math.fsum(map(math.exp, logs)))


def most_disagreements(n: int, target: float, delta: float) -> int:
    """Return the most disagreements among ``n`` rows that certify a target; -1 where not even none does."""
    low, high = -1, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_cdf(middle, n, 1 - target) <= delta else (low, middle)
    return low


def _first_rows(rows: int, target: float, delta: float) -> int:
    """Return the fewest rows that certify a target in spite of ``FIRST_ALLOWED`` disagreements, or of those that all
    ``rows`` may have.
    """
    allowed, found = min(FIRST_ALLOWED, most_disagreements(rows, target, delta)), least_sample(target, delta)
    while binomial_cdf(allowed, found, 1 - target) > delta:
        found += 1
    return found


def certified_threshold(
    scores: Iterable[float],
    sample: Sequence[tuple[float | None, bool]],
    target: float,
    delta: float,
    *,
    of_decided: bool = False,
) -> Certificate:
    """Return the lowest of some ``scores`` that a sample certifies, tested from the highest down until one fails.

    ``sample`` has each sampled row: the score of its accepted answer, None where it is refused or has none, and whether
    the second model agrees. A threshold holds while so few rows at or above it disagree that, were more than
    ``1 - target`` of all rows decided otherwise than the second model does, the chance of it were at most ``delta``.
    Fewer rows disagree at a higher threshold, so that the first true hypothesis in this order is rejected with a chance
    of at most ``delta``, and those below it are tested only then.

    With ``of_decided`` the target is a share of the rows at or above the threshold. The first threshold tested is the
    highest one with as many rows of the sample as certify it in spite of a few disagreements: a few rows alone would
    fail by one of them, and end the search.
    """
    found, tried = None, 0
    least = _first_rows(len(sample), target, delta) if of_decided else 0
    rated = sorted(((score, same) for score, same in sample if score is not None), reverse=True)
    place = disagreed = 0
    certified = (0, 0)
    for threshold in sorted(set(scores), reverse=True):
        while place < len(rated) and rated[place][0] >= threshold:
            disagreed += not rated[place][1]
            place += 1
        if place < least:
            continue
        tried += 1
        if binomial_cdf(disagreed, place if of_decided else len(sample), 1 - target) > delta:
            break
        found, certified = threshold, (place, disagreed)
    return Certificate(found, len(sample), *certified, tried, sum(same for _, same in sample), of_decided)
