"""How often ``sqlenrich drift`` alarms without a change, and finds one: simulated runs, and four other measures.

    python benchmarks/drift.py [--runs 1000] [--seed 1]

Five fields of 2, 3, 5, 10 and 20 values; runs of 50 to 1,000,000 rows; 1 to 30 earlier runs. The shares of the values
vary from run to run by 0 to 3 points: the standard deviation of a value that half of the rows have. They vary in
two ways: ``all``, each value for itself (Dirichlet), and ``two``, the two most frequent values exchange a share that is
uniform within the points. The change: a value of one field goes from 12 % to 47 % of the rows.

The statistics are those of the SELECT (sqlenrich/plan/drift.py) in numpy, many runs at once; its constants are the
SELECT's own. A test holds the SELECT and a second, plain form of the statistics together (tests/quality).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sqlenrich.plan.drift import (
    EARLIER_WINDOWS,
    RARE_ROWS,
    RARE_SHARE,
    TOGETHER,
    USUAL_RUNS,
    USUAL_VARIATION,
    WINDOW_ROWS,
    field_threshold,
)
from sqlenrich.spec.quality import DriftSettings

FIELDS = (2, 3, 5, 10, 20)
ROWS = (50, 200, 1_000, 10_000, 100_000, 1_000_000)
EARLIER = (1, 3, 10, 30)
POINTS = (0.0, 1.0, 2.0, 3.0)
WAYS = ("all", "two")
BEFORE, AFTER = 0.12, 0.47
FOUND_FROM = (200, 3)
"""The rows of a run and the earlier runs from which on a change must be found."""

Array = Any


class Setting(NamedTuple):
    rows: int
    earlier: int
    points: float
    way: str


def shares(values: int, changed: float = BEFORE) -> Array:
    """Return the shares of a field's values: the first is the one that changes, the others fall off by their place."""
    rest = 1 / np.arange(1, values)
    return np.concatenate([[changed], (1 - changed) * rest / rest.sum()])


def draw(numbers: np.random.Generator, many: int, runs: int, setting: Setting, base: Array) -> Array:
    """Return the rows of each value: by simulation, run and value."""
    shape = (many, runs, len(base))
    if setting.points == 0:
        varied = np.broadcast_to(base, shape)
    elif setting.way == "all":
        scale = 1 / (2 * setting.points / 100) ** 2 - 1
        varied = numbers.standard_gamma(np.broadcast_to(base * scale, shape))
        varied = varied / varied.sum(2, keepdims=True)
    else:
        first, second = np.argsort(base)[-2:]
        varied = np.broadcast_to(base, shape).copy()
        moved = numbers.uniform(-setting.points / 100, setting.points / 100, shape[:2])
        varied[..., first] -= moved
        varied[..., second] += moved
    return numbers.multinomial(setting.rows, varied).astype(float)


def windowed(counts: Array) -> Array:
    """Join runs of few rows. All runs of a simulation have the same number of rows."""
    rows, runs = counts[0, 0].sum(), counts.shape[1]
    if rows >= WINDOW_ROWS:
        return counts[:, : EARLIER_WINDOWS + 1]
    places = (np.arange(runs) * rows // WINDOW_ROWS).astype(int)
    joined = [counts[:, places == place].sum(1) for place in range(places.max() + 1)]
    return np.stack(joined[: EARLIER_WINDOWS + 1], 1)


def scores(counts: Array) -> tuple[Array, Array]:
    """Return σ and the share that moved, of each simulation; zeros where there is no earlier window."""
    counts = windowed(counts)
    windows = counts.shape[1] - 1
    if windows < 1:
        return np.zeros(len(counts)), np.zeros(len(counts))
    sizes = counts.sum(2)
    new_rows, old_rows = sizes[:, :1], sizes[:, 1:].sum(1, keepdims=True)
    old = counts[:, 1:].sum(1)
    pooled = (old < RARE_SHARE * old_rows) | (old * new_rows < RARE_ROWS * old_rows)
    own, rest = np.where(pooled[:, None], 0, counts), np.where(pooled[:, None], counts, 0).sum(2, keepdims=True)
    cells = np.concatenate([own, rest], 2)
    new_shares, old_shares = cells[:, 0] / new_rows, cells[:, 1:].sum(1) / old_rows
    there = cells.sum(1) > 0
    share = old_shares.copy()
    share[:, -1:] = np.maximum(np.maximum(share[:, -1:], RARE_SHARE), RARE_ROWS / new_rows)
    share = np.where(there, share, 1)
    change = new_shares - old_shares
    freedom = there.sum(1) - 1.0
    compared = np.maximum(freedom, 1)
    squares = (change**2 / share).sum(1)
    varied = ((cells[:, 1:] ** 2 / sizes[:, 1:, None]).sum(1) - cells[:, 1:].sum(1) ** 2 / old_rows) / share
    old_total = old_rows[:, 0]
    weighted = (sizes[:, 1:] ** 2).sum(1) / old_total
    extra = np.full(len(counts), USUAL_VARIATION)
    if windows > 1:
        found = (varied.sum(1) / compared - (windows - 1)) / (old_total - weighted)
        extra = (USUAL_RUNS * USUAL_VARIATION + (windows - 1) * found) / (USUAL_RUNS + windows - 1)
    expected = 1 / new_rows[:, 0] + 1 / old_total + np.maximum(extra, 0) * (1 + weighted / old_total)
    ratio = squares / compared / expected
    above, below = compared**TOGETHER, (windows - 1 + USUAL_RUNS) * compared
    a, b = 2 / (9 * above), 2 / (9 * below)
    sigma = ((1 - b) * np.cbrt(ratio) - (1 - a)) / np.sqrt(b * np.cbrt(ratio) ** 2 + a)
    return np.where(freedom > 0, np.maximum(sigma, 0), 0), np.abs(change).sum(1) / 2


# Beside it: what else is used, against all earlier runs together ------------------------------------------------------


def two_sigma_per_value(new: Array, old: Array) -> Array:
    """Alarm where a value's share differs by two standard errors."""
    n, m = new.sum(1, keepdims=True), old.sum(1, keepdims=True)
    p = (new + old) / (n + m)
    error = np.sqrt(p * (1 - p) * (1 / n + 1 / m))
    return (np.abs(new / n - old / m) > 2 * error).any(1)


def population_stability(new: Array, old: Array) -> Array:
    """Alarm where the population stability index is above 0.2."""
    q, p = ((part + 0.5) / (part + 0.5).sum(1, keepdims=True) for part in (new, old))
    return ((q - p) * np.log(q / p)).sum(1) > 0.2


def chi_squared(new: Array, old: Array) -> Array:
    """Alarm where a χ² test of two samples has p below 0.05 (by the normal score of Wilson and Hilferty)."""
    n, m = new.sum(1, keepdims=True), old.sum(1, keepdims=True)
    p = (new + old) / (n + m)
    there = p > 0
    ratio = ((new / n - old / m) ** 2 / np.where(there, p, 1)).sum(1) / (1 / n + 1 / m)[:, 0]
    freedom = np.maximum(there.sum(1) - 1, 1)
    return (np.cbrt(ratio / freedom) - (1 - 2 / (9 * freedom))) / np.sqrt(2 / (9 * freedom)) > 1.6449


def jensen_shannon(new: Array, old: Array) -> Array:
    """Alarm where the Jensen–Shannon distance (base 2) is above 0.1."""
    q, p = (part / part.sum(1, keepdims=True) for part in (new, old))
    middle = (p + q) / 2

    def divergence(a: Array) -> Array:
        return (a * np.log2(np.where(a > 0, a, 1) / np.where(middle > 0, middle, 1))).sum(1)

    return np.sqrt(np.maximum((divergence(p) + divergence(q)) / 2, 0)) > 0.1


OTHERS = {
    "2 σ per value": two_sigma_per_value,
    "PSI > 0.2": population_stability,
    "χ² p < 0.05": chi_squared,
    "Jensen–Shannon > 0.1": jensen_shannon,
}


# The settings --------------------------------------------------------------------------------------------------------


class Result(NamedTuple):
    setting: Setting
    alarms: float
    """The share of runs without a change that alarm."""
    found: float
    """The least share of changes that are found, over the field that changed."""
    others: dict[str, tuple[float, float]]


def simulate(setting: Setting, many: int, numbers: np.random.Generator) -> Result:
    """Return the alarms of one setting."""
    limits = DriftSettings()
    threshold = field_threshold(limits.sigma, len(FIELDS))
    alarms, found = np.zeros(many, bool), 1.0
    others = {name: (np.zeros(many, bool), 1.0) for name in OTHERS}
    for values in FIELDS:
        counts = draw(numbers, many, setting.earlier + 1, setting, shares(values))
        changed = counts.copy()
        changed[:, :1] = draw(numbers, many, 1, setting, shares(values, AFTER))
        sigma, moved = scores(counts)
        alarms |= (sigma >= threshold) & (moved >= limits.moved)
        sigma, moved = scores(changed)
        found = min(found, float(((sigma >= threshold) & (moved >= limits.moved)).mean()))
        for name, alarm in OTHERS.items():
            told, least = others[name]
            told |= alarm(counts[:, 0], counts[:, 1:].sum(1))
            others[name] = told, min(least, float(alarm(changed[:, 0], changed[:, 1:].sum(1)).mean()))
    shown = {name: (float(told.mean()), least) for name, (told, least) in others.items()}
    return Result(setting, float(alarms.mean()), found, shown)


def settings() -> Iterator[Setting]:
    for rows in ROWS:
        for earlier in EARLIER:
            for points in POINTS:
                for way in WAYS if points else WAYS[:1]:
                    yield Setting(rows, earlier, points, way)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs of each setting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print every setting")
    given = parser.parse_args()
    numbers = np.random.default_rng(given.seed)
    results = [simulate(setting, given.runs, numbers) for setting in settings()]
    if given.all:
        for one in results:
            print(f"{one.setting}: {one.alarms:.3f} alarms, {one.found:.3f} found")
    rows, earlier = FOUND_FROM
    sure = [one for one in results if one.setting.rows >= rows and one.setting.earlier >= earlier]
    print(
        f"{len(results)} settings, {given.runs} runs each; found: {len(sure)} settings from {rows} rows, {earlier} runs"
    )
    print(f"{'':22}{'alarms: most':>14}{'mean':>8}{'found: least':>15}")
    lines = {"sqlenrich drift": ([one.alarms for one in results], [one.found for one in sure])}
    for name in OTHERS:
        lines[name] = [one.others[name][0] for one in results], [one.others[name][1] for one in sure]
    for name, (alarms, found) in lines.items():
        print(f"{name:22}{100 * max(alarms):12.1f} %{100 * float(np.mean(alarms)):6.1f} %{100 * min(found):13.1f} %")
    worst = max(results, key=lambda one: one.alarms)
    least = min(sure, key=lambda one: one.found)
    print(f"most alarms: {worst.setting}")
    print(f"least found: {least.setting}")


if __name__ == "__main__":
    main()
