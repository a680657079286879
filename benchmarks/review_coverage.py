"""Measure how often the interval of a review holds the true number of wrong rows: 95 % is promised.

    python benchmarks/review_coverage.py [--draws 2000] [--seed 1]

45 settings: 300 to 100,000 rows, 50 to 300 judged, 1 to 20 % of the rows wrong. The rows are in six strata of very
unequal sizes with very unequal shares of wrong rows, and are drawn as ``sqlenrich review`` draws them. Then 9 settings
in which requests are shared by 1 to some hundred rows. Prints a Markdown table. The exit status is 1 where an interval
held the truth in fewer than 95 % of the draws.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from itertools import product

import numpy as np

from sqlenrich.plan.sample import LEAST_OF_STRATUM
from sqlenrich.quality.review.proportion import Stratum, WrongRows, wrong_rows

ROWS = (300, 1000, 3000, 10_000, 100_000)
JUDGED = (50, 100, 300)
WRONG = (0.01, 0.05, 0.2)
SIZES = (0.5, 0.2, 0.15, 0.1, 0.04, 0.01)
"""The parts of the strata in the rows."""
RATES = (0.5, 1, 1, 1.5, 3, 4)
"""The share of wrong rows in each stratum, relative to each other."""
PROMISED = 0.95


def strata_of(rows: int, wrong: float) -> list[tuple[int, int]]:
    """Return the rows and the wrong rows of each stratum."""
    scale = wrong / sum(size * rate for size, rate in zip(SIZES, RATES, strict=True))
    sizes = [max(1, round(size * rows)) for size in SIZES]
    sizes[0] += rows - sum(sizes)
    return [(size, round(size * min(1.0, rate * scale))) for size, rate in zip(sizes, RATES, strict=True)]


def coverage(rng: np.random.Generator, rows: int, judged: int, wrong: float, draws: int) -> tuple[float, float]:
    """Return how often the interval held the truth, and its mean width as a share of the rows. No request is shared."""
    strata = strata_of(rows, wrong)
    truth = sum(bad for _, bad in strata)
    # What the SELECT of the sample draws of each stratum: its part, rounded up, and at least a few.
    taken = [min(size, max(LEAST_OF_STRATUM, -(-judged * size // rows))) for size, _ in strata]
    counts = [rng.hypergeometric(bad, size - bad, taken[i], draws) for i, (size, bad) in enumerate(strata)]
    held = width = 0.0
    for found, times in Counter(zip(*(map(int, column) for column in counts), strict=True)).items():
        result = wrong_rows(
            Stratum({1: size}, [(1, 1.0)] * bad + [(1, 0.0)] * (taken[i] - bad))
            for i, ((size, _), bad) in enumerate(zip(strata, found, strict=True))
        )
        held += times * (result.least <= truth <= result.most)
        width += times * (result.most - result.least) / rows
    return held / draws, width / draws


def shared_coverage(
    rng: np.random.Generator, requests: int, judged: int, wrong: float, draws: int
) -> tuple[float, float, int]:
    """Return the same where rows share requests, and the number of rows. Half of the requests have one row."""
    sizes = np.minimum(rng.zipf(1.8, requests), 300)
    bad = rng.random(requests) < wrong
    rows, truth = int(sizes.sum()), int(sizes[bad].sum())
    multiplicities = {int(size): int(count) for size, count in zip(*np.unique(sizes, return_counts=True), strict=True)}
    held = width = 0.0
    for _ in range(draws):
        order = np.argpartition(rng.random(requests) / sizes, judged)[:judged]
        result: WrongRows = wrong_rows([Stratum(multiplicities, [(int(sizes[i]), float(bad[i])) for i in order])])
        held += result.least <= truth <= result.most
        width += (result.most - result.least) / rows
    return held / draws, width / draws, rows


def main() -> None:
    """Measure all settings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    print("| rows | judged | wrong | coverage | mean width |\n| ---: | ---: | ---: | ---: | ---: |")
    least = math.inf
    for rows, judged, wrong in product(ROWS, JUDGED, WRONG):
        share, width = coverage(rng, rows, judged, wrong, given.draws)
        least = min(least, share)
        print(f"| {rows:,} | {judged} | {wrong:.0%} | {share:.1%} | {width:.1%} |", flush=True)
    for requests, judged, wrong in ((10_000, judged, wrong) for judged in JUDGED for wrong in WRONG):
        share, width, rows = shared_coverage(rng, requests, judged, wrong, given.draws)
        least = min(least, share)
        print(f"| {rows:,} of {requests:,} requests | {judged} | {wrong:.0%} | {share:.1%} | {width:.1%} |", flush=True)
    print(f"\nleast coverage: {least:.2%}")
    sys.exit(0 if least >= PROMISED else 1)


if __name__ == "__main__":
    main()
