"""Failed tries: what they say, whose fault they are, and how many in a row were refused alike."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from sqlenrich.llm.endpoint.connect import ProxyError
from sqlenrich.llm.endpoint.http import HttpError
from sqlenrich.llm.endpoint.response import Fault

MEND_KEY = "set the variable that api_key_env names, or OPENAI_API_KEY"
"""What to do about a key that is refused."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A try without a completion: its text, whose fault it is, and the seconds that the endpoint asked to wait.

    ``unreachable``: no HTTP response came; ``timeout``: none in time. ``busy``: a limit was met. ``begun``: the
    endpoint may have answered, and may charge for it. ``disables``: why every other request would fail here too,
    and what to do. ``suspected``: the same, where only further failures would prove it. ``final``: the endpoint wants
    no further try of this request. ``change``: what makes the endpoint take the request, see :mod:`.adaptations`.
    """

    text: str
    fault: Fault = Fault.TRANSIENT
    wait_s: float = 0.0
    unreachable: bool = False
    timeout: bool = False
    busy: bool = False
    begun: bool = False
    disables: str = ""
    suspected: str = ""
    final: bool = False
    change: str = ""


class RefusalCounter:
    """Counts the requests that an endpoint refused in a row for one reason, with no answer between them.

    Several tries of one request count once.

    A series counts once it lasts ``least_s`` seconds and the time of two answers.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._reason, self._since = "", 0.0
        self._requests: set[str] = set()

    def add(self, fault: Fault, text: str, request: str, latency_s: float, now: float) -> int:
        """Count a refusal of a request, named by its hash; give the length of its series.

        The length is 1 until the series counts, and 0 for a fault of one request.
        """
        if fault in (Fault.TRANSIENT, Fault.ROW):
            return 0
        reason = text if fault in (Fault.UNCLEAR, Fault.RUN) else fault.value
        if reason != self._reason:
            self._reason, self._since = reason, now
            self._requests.clear()
        self._requests.add(request)
        return len(self._requests) if now - self._since >= max(self._least_s, 2 * latency_s) else 1

    def answered(self, sent_at: float) -> None:
        """Record an answer: the series is over, unless the request was sent before it began."""
        if sent_at >= self._since:
            self._reason = ""


def unreached_text(error: Exception) -> str:
    """Say why no HTTP response came."""
    if isinstance(error, HttpError | ProxyError):
        return str(error)
    if isinstance(error, socket.gaierror):
        return "the host name can't be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, ConnectionError):
        return "connection closed before the answer"
    return f"connection failed: {error or type(error).__name__}"
