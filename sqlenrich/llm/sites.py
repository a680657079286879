"""The addresses of one endpoint, what a try there came to where no completion came, and what no message may show."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from .replies import Fault
from .settings import EndpointConfig
from .wire import target_of

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


def secrets_of(config: EndpointConfig) -> tuple[str, ...]:
    """Give what no message may show, the longest first: the key, and the urls' queries, which servers repeat."""
    queries = [urlsplit(url).query for url in config.urls]
    found = {config.api_key or "", *queries, *(urlsplit(target_of(urlsplit(url))).query for url in config.urls)}
    for query in queries:
        found |= {value for name, value in parse_qsl(query) if len(value) >= _SHORTEST_VALUE and "version" not in name}
    return tuple(sorted((one for one in found if len(one) >= _SHORTEST_SECRET), key=len, reverse=True))
