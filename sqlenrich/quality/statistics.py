"""What chance alone may give: the interval of a share, and how likely a difference is without a cause."""

from __future__ import annotations

import math

Z95 = 1.959963984540054


def wilson(right: int, rows: int) -> tuple[float, float] | None:
    """Give Wilson's 95 % interval of a share; None without rows."""
    if not rows:
        return None
    share, square = right / rows, Z95 * Z95 / rows
    middle = share + square / 2
    reach = Z95 * math.sqrt(share * (1 - share) / rows + square / rows / 4)
    return (max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square)))


def sign_test(a: int, b: int) -> float:
    """Give the two-sided p of ``a`` against ``b`` heads under a fair coin."""
    count = a + b
    logs = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2)
        for k in range(min(a, b) + 1)
    )
    return min(1.0, 2 * math.fsum(map(math.exp, logs)))
