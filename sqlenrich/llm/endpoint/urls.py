"""The URLs of one endpoint, and the secrets that no message may show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from sqlenrich.llm.endpoint.http import target_of

SHORTEST_SECRET_CHARS = 4
SHORTEST_QUERY_VALUE_CHARS = 8


@dataclass(frozen=True, slots=True)
class EndpointUrl:
    """The URL of one endpoint and its pages; ``shown`` is without the query, which can hold a key."""

    shown: str
    url: str
    asked: str
    """The page of requests."""
    models: str

    @classmethod
    def of(cls, written: str, page: str, models: str) -> EndpointUrl:
        """Return the pages of a URL as the user writes it; ``page`` is that of requests."""
        url = urlsplit(written)
        return cls(shown_url(written), written, target_of(url, page), target_of(url, models))


def shown_url(written: str) -> str:
    """Return a URL without what may be secret: its user, its password and its query."""
    url = urlsplit(written)
    place = url.netloc.rpartition("@")[2]
    return url._replace(netloc=place, path=url.path.rstrip("/"), query="", fragment="").geturl()


class Secrets:
    """Replaces secrets by ``***``: keys, and the URLs' queries, which servers repeat in their messages."""

    def __init__(self, values: Sequence[str], urls: Sequence[str]) -> None:
        queries = [urlsplit(url).query for url in urls]
        found = {*values, *queries, *(urlsplit(target_of(urlsplit(url))).query for url in urls)}
        for query in queries:
            found |= {
                value
                for name, value in parse_qsl(query)
                if len(value) >= SHORTEST_QUERY_VALUE_CHARS and "version" not in name
            }
        long_enough = (one for one in found if len(one) >= SHORTEST_SECRET_CHARS)
        self._secrets = tuple(sorted(long_enough, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Secrets({len(self._secrets)} hidden)"

    def hide(self, text: str) -> str:
        """Return a text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def hide_bytes(self, raw: bytes) -> bytes:
        """Return bytes without the secrets."""
        for secret in self._secrets:
            raw = raw.replace(secret.encode(), b"***")
        return raw
