"""Statistics of small samples: the confidence interval of a proportion, and the sign test."""

from __future__ import annotations

import math

Z95 = 1.959963984540054
"""The standard normal quantile of a two-sided 95 % interval."""


def wilson_interval(successes: int, trials: int) -> tuple[float, float] | None:
    """Return Wilson's 95 % confidence interval of a proportion; None without rows."""
    if not trials:
        return None
    share, square = successes / trials, Z95 * Z95 / trials
    middle = share + square / 2
    reach = Z95 * math.sqrt(share * (1 - share) / trials + square / trials / 4)
    return (max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square)))


def sign_test(a: int, b: int) -> float:
    """Return the two-sided p-value of ``a`` against ``b`` heads under a fair coin."""
    count = a + b
    logs = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2)
        for k in range(min(a, b) + 1)
    )
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))


def p_value_text(p: float) -> str:
    """Return a p-value with two or three digits."""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def rows_to_tell(share: float, least: float) -> int | None:
    """Return about how many rows put Wilson's interval of a share on one side of ``least``; None where none do.

    Inside the interval are the shares whose score test does not reject: its bound is reached where
    ``n (share - least)² = z² least (1 - least)``.
    """
    distance = abs(share - least)
    if distance == 0:
        return None
    needed = Z95 * Z95 * least * (1 - least) / (distance * distance)
    return math.ceil(needed) if needed < 1e9 else None
