"""The headers of an endpoint's requests, with a key that may expire during a run."""

from __future__ import annotations

import asyncio

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.wire.forms import key_headers

CONSTANT_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "sqlenrich"}


class Credentials:
    """Resolves an endpoint's key, again where the endpoint refuses one that it accepted before.

    ``generation`` counts the keys. A key that was never accepted is wrong, not expired.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._key: str | None = None
        self._own: dict[str, str] = {}
        self._accepted = False
        self._lock = asyncio.Lock()
        self.generation = 0

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request."""
        return {**CONSTANT_HEADERS, **key_headers(self._endpoint, self._key), **self._own}

    @property
    def secrets(self) -> list[str]:
        """What no message may show."""
        constant = {value for value in self._endpoint.headers.values() if not value.startswith("env:")}
        return [value for value in (self._key, *self._own.values()) if value and value not in constant]

    @property
    def present(self) -> bool:
        """Whether something identifies the user."""
        return bool(self.secrets)

    def open(self) -> None:
        """Resolve the key and the headers. Raises ConfigError."""
        self._key, self._own = self._endpoint.resolve_key(), self._endpoint.resolve_headers()
        self._accepted, self._lock = False, asyncio.Lock()

    def accepted(self) -> None:
        """Record that a request was answered."""
        self._accepted = True

    async def renew(self, generation: int) -> bool:
        """Resolve the key again after a refusal of one generation; give whether there is another one now."""
        async with self._lock:
            if self.generation != generation:
                return True
            if not self._accepted:
                return False
            key = await asyncio.to_thread(self._endpoint.resolve_key)
            if key is None or key == self._key:
                return False
            self._key, self._accepted = key, False
            self.generation += 1
            return True


def resolved_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the headers of one request. Raises ConfigError."""
    credentials = Credentials(endpoint)
    credentials.open()
    return credentials.headers
