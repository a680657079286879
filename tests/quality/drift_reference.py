"""The statistics of drift in Python, written apart from the SELECT, with scipy's exact F distribution."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

Run = Mapping[str, Mapping[str, int]]
"""Field to level to rows; ``_error`` counts all of them."""


class Scored(NamedTuple):
    new_rows: int
    old_rows: int
    windows: int
    moved: float
    ratio: float
    above: float
    below: float
    sigma: float


def windows_of(runs: Sequence[Run]) -> list[Run]:
    """Join runs under 200 rows, the newest first: a new window begins after every 200 rows of small runs."""
    groups: dict[int, list[Run]] = {}
    before = 0
    for place, run in enumerate(runs):
        total = sum(run["_error"].values())
        groups.setdefault(place if total >= 200 else -1 - before // 200, []).append(run)
        before += total if total < 200 else 0
    return [joined(group) for group in groups.values()][:31]


def joined(runs: Sequence[Run]) -> Run:
    fields = {field for run in runs for field in run}
    return {
        field: {
            level: sum(run.get(field, {}).get(level, 0) for run in runs)
            for level in {level for run in runs for level in run.get(field, {})}
        }
        for field in fields
    }


def score(windows: Sequence[Run], field: str) -> Scored | None:
    """Return the score of a field; None where one side has no rows."""
    new, *old = [window.get(field, {}) for window in windows]
    old = [counts for counts in old if sum(counts.values())]
    n0, sizes = sum(new.values()), [sum(counts.values()) for counts in old]
    n, m = sum(sizes), len(old)
    if not n0 or not n:
        return None
    names = set(new).union(*old)
    totals = {name: sum(counts.get(name, 0) for counts in old) for name in names}
    pooled = {name for name in names if totals[name] < 0.01 * n or totals[name] * n0 < 5 * n}
    groups = [{name} for name in sorted(names - pooled)] + ([pooled] if pooled else [])
    moved = squares = varied = 0.0
    for group in groups:
        q = sum(new.get(name, 0) for name in group) / n0
        p = sum(totals[name] for name in group) / n
        share = max(p, 0.01, 5 / n0) if group == pooled else p
        moved += abs(q - p) / 2
        squares += (q - p) ** 2 / share
        parts = [sum(counts.get(name, 0) for name in group) / size for counts, size in zip(old, sizes, strict=True)]
        varied += sum(size * (part - p) ** 2 for part, size in zip(parts, sizes, strict=True)) / share
    d = len(groups) - 1
    if d == 0:
        return Scored(n0, n, m, moved, 0, 0, 0, 0)
    weighted = sum(size * size for size in sizes) / n
    extra = 0.0025 if m == 1 else (4 * 0.0025 + (m - 1) * (varied / d - (m - 1)) / (n - weighted)) / (m + 3)
    ratio = squares / d / (1 / n0 + 1 / n + max(extra, 0) * (1 + weighted / n))
    above, below = d ** (2 / 3), (m + 3) * d
    return Scored(n0, n, m, moved, ratio, above, below, max(0.0, paulson(ratio, above, below)))


def paulson(ratio: float, above: float, below: float) -> float:
    """Return Paulson's normal score of an F."""
    if ratio == 0:
        return 0.0
    a, b = 2 / (9 * above), 2 / (9 * below)
    root = math.pow(ratio, 1 / 3)
    return ((1 - b) * root - (1 - a)) / math.sqrt(b * root * root + a)


def random_runs(numbers: random.Random, most: int = 45) -> list[Run]:
    """Return at most so many runs of several sizes, the newest first, whose levels vary."""
    levels = {f"f{i}": [f"v{j}" for j in range(numbers.randint(1, 12))] for i in range(4)}
    weights = {field: [numbers.random() ** 3 + 0.001 for _ in names] for field, names in levels.items()}
    runs: list[Run] = []
    for _ in range(numbers.randint(1, most)):
        rows = numbers.choice((20, 90, 150, 199, 200, 300, 2000))
        shares = {field: [w * numbers.uniform(0.7, 1.4) for w in given] for field, given in weights.items()}
        run: dict[str, dict[str, int]] = {"_error": {"accepted": rows}}
        for field, names in levels.items():
            drawn = numbers.choices(names, shares[field], k=rows - numbers.randint(0, 5))
            run[field] = {name: drawn.count(name) for name in names if name in drawn}
        runs.append(run)
    return runs
