"""The addresses of one endpoint, what a try there came to where no completion came, and what no message may show."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from sqlenrich.llm.endpoint.config import EndpointConfig
from sqlenrich.llm.endpoint.http import WireError, target_of
from sqlenrich.llm.endpoint.response import Fault

ALIKE, CLOSED_ALIKE, ALIKE_S = 100, 5, 3.0
"""So many requests refused in a row with the same words, over so long and the time of two answers, are no fault of
their rows; where an endpoint that answered before wants a key or has no such page, fewer tell."""
_SHORTEST_SECRET, _SHORTEST_VALUE = 4, 8


@dataclass(frozen=True, slots=True)
class Failure:
    """A try without a completion: its text, whose fault it is, the seconds that the endpoint asked to wait.

    ``unreachable``: no HTTP answer came; ``timeout``: for too long. ``busy``: a limit was met, so somebody answers
    there; ``begun``: the endpoint may have answered, and want to be paid for it. ``closes``: why no other request would
    fare better at this endpoint, and what to do.
    """

    text: str
    fault: Fault = Fault.AGAIN
    wait_s: float = 0.0
    unreachable: bool = False
    timeout: bool = False
    busy: bool = False
    begun: bool = False
    closes: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """The addresses of one endpoint; ``shown`` is without the query, which can hold a key."""

    shown: str
    url: str
    chat: str
    models: str

    @classmethod
    def of(cls, written: str) -> Site:
        """Give the addresses that follow from a url."""
        url = urlsplit(written)
        shown = url._replace(path=url.path.rstrip("/"), query="", fragment="").geturl()
        return cls(shown, written, target_of(url, "/chat/completions"), target_of(url, "/models"))


class Refusals:
    """Counts the requests that an endpoint refused in a row, all for one reason and none answered between."""

    def __init__(self) -> None:
        self._what, self._count, self._since = "", 0, 0.0

    def met(self, fault: Fault, text: str, latency_s: float, now: float) -> int:
        """Take note of a refusal; give how many came in a row: 1 until it is for long. Others' limits don't count."""
        if fault in (Fault.AGAIN, Fault.ROW):
            return 0
        what = text if fault in (Fault.UNCLEAR, Fault.RUN) else fault.value
        if what != self._what:
            self._what, self._count, self._since = what, 0, now
        self._count += 1
        return self._count if now - self._since >= max(ALIKE_S, 2 * latency_s) else 1

    def over(self) -> None:
        """Take note of an answer."""
        self._what = ""


def unreached_text(error: Exception) -> str:
    """Say why no HTTP answer came."""
    if isinstance(error, WireError):
        return str(error)
    if isinstance(error, socket.gaierror):
        return "the host name can't be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, ConnectionError):
        return "connection closed before the answer"
    return f"connection failed: {error or type(error).__name__}"


def secrets_of(config: EndpointConfig) -> tuple[str, ...]:
    """Give what no message may show, the longest first: the key, and the urls' queries, which servers repeat."""
    queries = [urlsplit(url).query for url in config.urls]
    found = {config.api_key or "", *queries, *(urlsplit(target_of(urlsplit(url))).query for url in config.urls)}
    for query in queries:
        found |= {value for name, value in parse_qsl(query) if len(value) >= _SHORTEST_VALUE and "version" not in name}
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True))
