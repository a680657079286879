"""What a process may use of limits that several processes share, as its rate limiter sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Bucket(Protocol):
    """A limit a minute."""

    def wait_s(self, units: float, now: float) -> float:
        """Return the seconds until ``units`` can be taken; 0: now."""

    def take(self, units: float, now: float) -> None:
        """Take units, or with a negative number give back what was not used."""

    def settle(self, units: float, taken_at: float) -> None:
        """Add to what was taken at a time, or with a negative number give back what was not used of it."""


class Leases(Protocol):
    """Shares of common limits. A limiter that has them keeps no limit of its own.

    Who grants the shares calls the limiter's ``share_changed`` when there is more.
    """

    buckets: Mapping[str, Bucket]
    """The limits a minute, by the names of ``PER_MINUTE``."""
    width: int
    """The requests that may be in flight."""

    def answered(self, latency_s: float) -> None:
        """Tell of an answer: the common concurrency limit is found by them."""

    def refused(self, latency_s: float) -> None:
        """Tell of a refusal for a limit, or a timeout."""

    def freed(self) -> None:
        """Tell that one request fewer is in flight, for whatever reason."""
