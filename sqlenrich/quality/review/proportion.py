"""The share of wrong rows in a finite table, from a stratified sample: an estimate and its exact-type interval.

Clopper and Pearson's interval (1934) is taken with Kish's effective sample size (1965) and the finite population
correction, and is rounded outward to whole rows. ``docs/quality.md`` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
PRECISION = 1e-12
"""How exactly a quantile is found: well within a row of any table."""


@dataclass(frozen=True)
class Stratum:
    """A part of the table. ``requests`` maps the number of rows that share a request to the number of such requests.

    ``judged`` has, for each judged request, its rows and its wrong share: 0 right, 1 wrong, between where reviewers
    disagree.
    """

    requests: Mapping[int, int]
    judged: Sequence[tuple[int, float]]

    @property
    def rows(self) -> int:
        """The rows of the stratum."""
        return sum(rows * count for rows, count in self.requests.items())


@dataclass(frozen=True)
class WrongRows:
    """How many of ``rows`` are wrong: the estimate, and the 95 % interval in whole rows. None where none is judged."""

    rows: int
    judged: int
    """The judged requests."""
    wrong: float
    """The wrong ones among them; a request on which reviewers disagree counts in part."""
    estimate: float | None
    least: int
    most: int

    @property
    def share(self) -> float | None:
        """The estimated share of wrong rows."""
        return None if self.estimate is None else self.estimate / self.rows

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval as shares; None where no row is judged."""
        return None if self.estimate is None else (self.least / self.rows, self.most / self.rows)


@dataclass(frozen=True)
class _Cell:
    """Rows that were drawn alike: their number, their wrong share, and the variance of it for a share of 1/2, times 4.

    ``unit_variance`` is 1 over the effective number of judged requests, with the finite population correction.
    """

    rows: int
    share: float
    unit_variance: float


def wrong_rows(strata: Iterable[Stratum]) -> WrongRows:
    """Estimate the wrong rows of a table from the judged requests of its strata."""
    strata = list(strata)
    total = sum(stratum.rows for stratum in strata)
    seen = [one for stratum in strata for one in stratum.judged]
    wrong = sum(share for _, share in seen)
    if not seen:
        return WrongRows(total, 0, 0.0, None, 0, total)
    cells, unknown = _cells(strata)
    known = [cell for cell in cells if cell.unit_variance == 0]
    drawn = [cell for cell in cells if cell.unit_variance > 0]
    certain = sum(cell.rows * cell.share for cell in known)
    rows = sum(cell.rows for cell in drawn)
    share, low, high = 0.0, 0.0, 0.0
    if rows:
        share = sum(cell.rows * cell.share for cell in drawn) / rows
        effective = 1 / sum((cell.rows / rows) ** 2 * cell.unit_variance for cell in drawn)
        low, high = clopper_pearson(share * effective, effective)
    covered = sum(cell.rows for cell in cells)
    estimate = (certain + rows * share) / covered * total
    # What was seen bounds the count too. The tolerance keeps a rounding error from moving a bound by a row.
    least = max(certain + rows * low, sum(count * one for count, one in seen))
    most = min(certain + rows * high + unknown, total - sum(count * (1 - one) for count, one in seen))
    return WrongRows(total, len(seen), wrong, estimate, math.floor(least + 1e-9), math.ceil(most - 1e-9))


def _cells(strata: Sequence[Stratum]) -> tuple[list[_Cell], int]:
    """Return the cells of all strata, and the rows of which none was judged."""
    cells: list[_Cell] = []
    unknown = 0
    for stratum in strata:
        least_heavy = heavy_from(stratum.requests, len(stratum.judged))
        for heavy in (True, False):
            judged = [one for one in stratum.judged if (one[0] >= least_heavy) == heavy]
            held = {size: count for size, count in stratum.requests.items() if (size >= least_heavy) == heavy}
            if judged:
                cells.append(_cell(held, judged, by_rows=heavy))
            else:
                unknown += sum(size * count for size, count in held.items())
    return cells, unknown


def _cell(requests: Mapping[int, int], judged: Sequence[tuple[int, float]], *, by_rows: bool) -> _Cell:
    """Return the cell of some requests. The chance to be drawn grew with the rows, unless all were drawn (``by_rows``).

    The correction counts requests, not rows: of requests of unequal sizes that is the wider of the two.
    """
    weights = [float(size) if by_rows else 1.0 for size, _ in judged]
    total = sum(weights)
    share = sum(weight * one for weight, (_, one) in zip(weights, judged, strict=True)) / total
    kish = total * total / sum(weight * weight for weight in weights)
    left = max(0.0, 1 - len(judged) / sum(requests.values()))
    return _Cell(sum(size * count for size, count in requests.items()), share, left / kish)


def heavy_from(requests: Mapping[int, int], draws: int) -> float:
    """Return the least number of rows from which a request is drawn for certain among ``draws``; infinity for none."""
    least, rows, left = math.inf, sum(size * count for size, count in requests.items()), draws
    for size in sorted(requests, reverse=True):
        if left <= 0 or size * left < rows:
            break
        least, rows, left = size, rows - size * requests[size], left - requests[size]
    return least


# The distribution ----------------------------------------------------------------------------------------------------


def clopper_pearson(successes: float, trials: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a proportion. Neither number needs to be whole."""
    tail = (1 - confidence) / 2
    low = beta_quantile(tail, successes, trials - successes + 1) if successes > 1e-9 else 0.0
    high = beta_quantile(1 - tail, successes + 1, trials - successes) if trials - successes > 1e-9 else 1.0
    return low, high


@lru_cache(maxsize=100_000)
def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the quantile of the beta distribution, by bisection."""
    low, high = 0.0, 1.0
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_cdf(middle, a, b) < probability else (low, middle)
    return (low + high) / 2


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function of ``x`` from 0 to 1."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast below it
        return 1 - beta_cdf(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b))
    return math.exp(front) * _fraction(_coefficients(x, a, b)) / a


def _coefficients(x: float, a: float, b: float) -> Iterator[float]:
    """Return the coefficients of the continued fraction, DLMF 8.17.22."""
    yield 1.0
    for m in range(10_000):
        if m:
            yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))


def _fraction(coefficients: Iterator[float]) -> float:
    """Return the value of a continued fraction, by the modified method of Lentz."""
    tiny = 1e-300
    value, c, d = tiny, tiny, 0.0
    for coefficient in coefficients:
        d = 1 / ((1 + coefficient * d) or tiny)
        c = (1 + coefficient / c) or tiny
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
