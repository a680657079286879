"""What came of a request that was sent, after all its tries."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlenrich.llm.endpoint.failure import Failure
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion


class Reply(NamedTuple):
    """What came of the tries of one request, and what is known of the last of them."""

    result: Completion | BatchCompletion | Failure
    request_id: str | None
    shown: str
    calls: int
    began: float
    """The monotonic time of the first try."""
    asked_at: datetime
    latency_ms: int
    spent: bool
    """Whether its timeouts allow no further try."""
