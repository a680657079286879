"""The times and sizes of a gateway, and what it did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

ALL, FIXED = "all", "fixed"
REUSE = (ALL, FIXED)
"""Which stored answers are given again: all, or those of requests that always have the same answer."""


@dataclass(frozen=True)
class GatewayPolicy:
    """Times and sizes of a gateway."""

    queue_s: float = 600.0
    """A request that was not sent for this time gets HTTP 503."""
    outage_s: float = 15.0
    """A request gets HTTP 503 where no URL could be reached for this time while it waited."""
    check_s: float = 1.0
    """The time between two looks for an outage."""
    watch_s: float = 2.0
    """Callers that left are looked for after this time; what nobody waits for and was not sent is left out."""
    grace_s: float = 120.0
    """What is in flight at the end has this time."""
    full_disk_s: float = 5.0
    """After the disk took no answer, requests are refused for this time before one is tried again."""
    commit_s: float = 0.002
    """Answers that arrive within this time share a write to the disk."""
    largest_body: int = 1 << 26
    """The bytes of a request."""


@dataclass
class GatewayCounts:
    """What a gateway did since it started."""

    requests: int = 0
    hits: int = 0
    """Those that a stored answer was given to."""
    joined: int = 0
    """Those that waited for the answer to an equal one."""
    answered: int = 0
    """Those that the endpoint answered."""
    failed: int = 0
    """Those that the endpoint, or this gateway, refused."""
    unstored: int = 0
    """Answers that were given and not stored."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    """Of the answers whose price is known."""
    saved: Decimal = Decimal(0)
    """What the answers of hits and joined requests would have cost."""

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {**asdict(self), "cost": float(self.cost), "saved": float(self.saved)}
