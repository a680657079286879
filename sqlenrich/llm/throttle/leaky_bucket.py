"""A leaky bucket: it spreads requests evenly at a rate that may change."""

from __future__ import annotations

BURST_S = 0.1
STILL_S = 1.0
"""Seconds to wait at a rate of 0."""


class LeakyBucket:
    """Lets units through at a rate a second that may differ from call to call, a tenth of a second of it at once."""

    def __init__(self) -> None:
        self._level = 1.0
        self._at = 0.0

    def wait_s(self, units: float, rate: float, now: float) -> float:
        """Return the seconds until ``units`` may pass; 0: now."""
        self._level = min(max(units, rate * BURST_S), self._level + max(now - self._at, 0.0) * rate)
        self._at = max(now, self._at)
        missing = units - self._level
        if missing <= 1e-6:
            return 0.0
        return missing / rate if rate > 0 else STILL_S

    def take(self, units: float) -> None:
        """Let units through."""
        self._level -= units
