"""The interval of the share wrong, and Cohen's κ, against scipy and scikit-learn."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from sqlenrich.quality.review.agreement import cohen_kappa
from sqlenrich.quality.review.proportion import (
    Stratum,
    beta_quantile,
    clopper_pearson,
    heavy_from,
    wrong_rows,
)

TABLES = 1000


def test_intervals_equal_those_of_scipy() -> None:
    from scipy.stats import beta, binomtest

    rng = random.Random(19)
    for _ in range(TABLES):
        trials = rng.randint(1, 5000)
        successes = rng.randint(0, trials)
        expected = binomtest(successes, trials).proportion_ci(0.95, "exact")
        assert clopper_pearson(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)
        a, b, share = rng.uniform(0.01, 1000), rng.uniform(0.01, 1e6), rng.random()
        assert beta_quantile(share, a, b) == pytest.approx(beta.ppf(share, a, b), abs=1e-9)


def test_kappa_equals_that_of_scikit_learn() -> None:
    from sklearn.metrics import cohen_kappa_score

    rng = random.Random(19)
    for _ in range(TABLES):
        labels = rng.choice(("ab", "abc", "abcdefghijklmnopqrst"))
        pairs = [(rng.choice(labels), rng.choice(labels)) for _ in range(rng.randint(2, 300))]
        pairs += [(label, label) for label in rng.choices(labels, k=rng.randint(0, 300))]
        found = cohen_kappa(pairs)
        if len({label for pair in pairs for label in pair}) == 1:
            assert found is None
        else:
            assert found == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)), abs=1e-9)
    assert cohen_kappa([]) is None


def of(*shares: float, rows: int = 1) -> list[tuple[int, float]]:
    return [(rows, share) for share in shares]


WRONG, RIGHT = 1.0, 0.0
NINETEEN = (*[RIGHT] * 18, WRONG)
CASES: Sequence[tuple[str, list[Stratum], tuple[float | None, int, int]]] = (
    ("nothing is judged", [Stratum({1: 70}, [])], (None, 0, 70)),
    ("all are judged", [Stratum({1: 4}, of(WRONG, RIGHT, RIGHT, RIGHT))], (1, 1, 1)),
    ("a few of many", [Stratum({1: 10_000}, of(*NINETEEN))], (10_000 / 19, 13, 2600)),
    ("half of them: the finite population correction", [Stratum({1: 38}, of(*NINETEEN))], (2, 1, 7)),
    ("reviewers disagree", [Stratum({1: 2}, of(0.5, RIGHT))], (0.5, 0, 1)),
    ("what was seen bounds the count", [Stratum({1: 3}, of(WRONG, RIGHT))], (1.5, 1, 2)),
    ("a request of all rows but two", [Stratum({1: 2, 998: 1}, of(RIGHT, rows=998) + of(WRONG))], (2, 1, 2)),
    ("its answer decides", [Stratum({1: 2, 998: 1}, of(WRONG, rows=998) + of(RIGHT))], (998, 998, 999)),
    ("a stratum that nobody judged", [Stratum({1: 4}, of(*[RIGHT] * 4)), Stratum({1: 6}, [])], (0, 0, 6)),
)  # fmt: skip


@pytest.mark.parametrize(("strata", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_wrong_rows(strata: list[Stratum], expected: tuple[float | None, int, int]) -> None:
    found = wrong_rows(strata)
    assert (found.estimate, found.least, found.most) == (
        None if expected[0] is None else pytest.approx(expected[0]),
        *expected[1:],
    )


def test_strata_of_unequal_weight_are_weighted() -> None:
    """900 rows, 10 judged, none wrong; 100 rows, 10 judged, all wrong: 10 % wrong, of 5.49 effective rows."""
    from scipy.stats import beta

    found = wrong_rows([Stratum({1: 900}, of(*[RIGHT] * 10)), Stratum({1: 100}, of(*[WRONG] * 10))])
    effective = 1 / (0.9**2 / 10 * (1 - 10 / 900) + 0.1**2 / 10 * (1 - 10 / 100))
    low, high = (
        beta.ppf(0.025, 0.1 * effective, 0.9 * effective + 1),
        beta.ppf(0.975, 0.1 * effective + 1, 0.9 * effective),
    )
    assert found.estimate == pytest.approx(100)
    assert (found.least, found.most) == (max(10, math.floor(1000 * low)), math.ceil(1000 * high))


@pytest.mark.parametrize(
    ("requests", "draws", "least"),
    [
        ({1: 100}, 10, math.inf),
        ({1: 100}, 100, 1),
        ({1: 10, 90: 1}, 2, 90),
        ({1: 900, 50: 2}, 10, math.inf),
        ({1: 900, 50: 2}, 20, 50),
        ({1: 50, 3: 4, 500: 1}, 20, 500),
        ({1: 50, 4: 4, 500: 1}, 20, 4),  # 4 of 66 rows left, 19 draws
    ],
)  # fmt: skip
def test_requests_that_are_drawn_for_certain(requests: Mapping[int, int], draws: int, least: float) -> None:
    assert heavy_from(requests, draws) == least
