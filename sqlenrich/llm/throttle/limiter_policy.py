"""The settings of the rate limiter that no user sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LimiterPolicy:
    """When an endpoint gets no requests for a while, and how token counts are estimated."""

    failures_down: int = 3
    """An endpoint is down after this many failed connections in a row; after one where another endpoint is up."""
    failures_rest: int = 5
    """An endpoint rests after this many failures in a row, where another one answers."""
    first_rest_s: float = 0.25
    """Length of the first rest; each further one is twice as long."""
    longest_rest_s: float = 5.0
    retry_after_quiet_s: float = 1.0
    """Retry-After is obeyed where the endpoint answered nothing for this time."""
    output_tokens: int = 256
    """Tokens of an answer that are assumed before the first answer."""
    smoothing: float = 0.05
    """Weight of a new token count in the running averages."""
