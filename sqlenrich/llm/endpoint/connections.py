"""Requests to the URLs of one endpoint: by which routes, and with which headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.credentials import Credentials
from sqlenrich.llm.endpoint.http import HttpPool, HttpResponse, Transport, Unsent
from sqlenrich.llm.endpoint.route import Route, find_route
from sqlenrich.llm.endpoint.urls import EndpointUrl, Secrets

MakeTransport = Callable[[Route, Mapping[str, str], float], Transport]


def http_pool(route: Route, headers: Mapping[str, str], timeout_s: float, unsent: Unsent = nullcontext) -> Transport:
    """Return the Transport of a run."""
    return HttpPool(route, headers, timeout_s=timeout_s, unsent=unsent)


class Connections:
    """Sends requests to the URLs of one endpoint. In the loop's thread alone.

    Its methods raise HttpError, OSError or ssl.SSLError where no response came.
    """

    def __init__(self, endpoint: Endpoint, page: str, models_page: str, transport: MakeTransport = http_pool) -> None:
        self.endpoint, self.page = endpoint, page
        self.urls = tuple(EndpointUrl.of(url, page, models_page) for url in endpoint.urls)
        self.secrets = Secrets((), endpoint.urls)
        """What no message may show."""
        self._transport = transport
        self._credentials = Credentials(endpoint)
        self._transports: tuple[Transport, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return bool(self._transports)

    @property
    def has_key(self) -> bool:
        """Whether a request says who sends it."""
        return self._credentials.present

    def open(self) -> None:
        """Resolve keys and routes; nothing is sent yet. Raises ConfigError."""
        endpoint, credentials = self.endpoint, self._credentials
        credentials.open()
        self.secrets = Secrets(credentials.secrets, endpoint.urls)
        routes = [find_route(url, endpoint.client_cert, endpoint.client_key) for url in endpoint.urls]
        self._transports = tuple(self._transport(route, credentials.headers, endpoint.timeout) for route in routes)

    async def close(self) -> None:
        """Close all connections."""
        transports, self._transports = self._transports, ()
        for transport in transports:
            await transport.close()

    def accepted(self) -> None:
        """Record that a request was answered, so that its key is right."""
        self._credentials.accepted()

    async def post(self, number: int, body: bytes, *, timeout_s: float | None = None) -> HttpResponse:
        """Post a request to the page of one URL, again where the key had expired and there is a new one."""
        credentials, target = self._credentials, self.urls[number].asked
        generation = credentials.generation
        response = await self._transports[number].send("POST", target, body, timeout_s=timeout_s)
        if response.status != 401 or not await credentials.renew(generation):
            return response
        self.secrets = Secrets(credentials.secrets, self.endpoint.urls)
        for transport in self._transports:
            transport.set_headers(credentials.headers)
        return await self._transports[number].send("POST", target, body, timeout_s=timeout_s)

    async def models(self, number: int, timeout_s: float) -> HttpResponse:
        """Get the list of models of one URL."""
        return await self._transports[number].send("GET", self.urls[number].models, timeout_s=timeout_s)
