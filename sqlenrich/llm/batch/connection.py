"""The HTTP client below a vendor's SDK: the routes, the certificates, the key and the headers of a live endpoint."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from base64 import b64decode
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.batch.answer_lines import CHUNK_BYTES
from sqlenrich.llm.batch.errors import BatchError, WrongKeyError
from sqlenrich.llm.batch.failures import CONTENT, Step, sdk_failure, unread
from sqlenrich.llm.batch.vendor import BatchLine
from sqlenrich.llm.endpoint.credentials import CONSTANT_HEADERS, Credentials
from sqlenrich.llm.endpoint.route import PORTS, UNIX_SCHEME, Proxy, find_route
from sqlenrich.llm.endpoint.urls import Secrets, shown_url

PLACEHOLDER_KEY = "sqlenrich"
"""The key that an SDK is given. The real one replaces it in each request, so that no SDK holds or logs it."""
KEY_HEADERS = ("authorization", "x-api-key")
AMBIENT_HEADERS = ("openai-organization", "openai-project")
"""Headers that an SDK takes from the environment. A live request has none, and must not go to another account."""
LEAST_TIMEOUT_S = 600.0
"""A vendor may take minutes to answer the last byte of a large file."""
CONNECT_S = 10.0
KEEP_ALIVE_S = 60
"""Firewalls forget a connection on which nothing moves, as while a vendor checks a large file."""
INSTALL = "pip install 'sqlenrich[batch]'"
PAGE_BATCHES = 100
"""The batches that one page of a vendor's list holds."""
READ_TRIES = 4
"""How often an SDK repeats a call that creates nothing."""

_KEEP_ALIVE = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)] + [
    (socket.IPPROTO_TCP, option, KEEP_ALIVE_S)
    for option in (getattr(socket, name, None) for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"))
    if option is not None
]

T = TypeVar("T")


class VendorConnection:
    """Reaches the first URL of an endpoint: what a vendor stores belongs to one account.

    ``call`` runs a call of an SDK and gives its failures as :class:`.errors.BatchError`.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.shown = shown_url(endpoint.url)
        self.secrets = Secrets((), endpoint.urls)
        self._credentials = Credentials(endpoint)
        self._key: str | None = None
        self._own: dict[str, str] = {}
        self._url = urlsplit(endpoint.url)
        self._origin = _origin(self.base_url)

    @property
    def base_url(self) -> str:
        """The URL for the SDK, without the query."""
        parts = self._url._replace(query="", fragment="")
        if parts.scheme == UNIX_SCHEME:
            parts = parts._replace(scheme="http", netloc="localhost")
        return parts.geturl()

    @property
    def query(self) -> dict[str, str]:
        """The query of the URL, such as the version of an API."""
        return dict(parse_qsl(self._url.query, keep_blank_values=True))

    def open(self) -> None:
        """Resolve the key and the headers. Raises ConfigError."""
        self._credentials.open()
        self._take_headers()

    def http_client(self, client_type: type[T], timeout_type: Any) -> T:
        """Return an HTTP client of the SDK's own kind; ``timeout_type`` is the type of its timeouts.

        The transport is ours: with their own, SDKs take proxies from the environment whatever they are told. Raises
        ConfigError.
        """
        endpoint = self.endpoint
        route = find_route(endpoint.url, endpoint.client_cert, endpoint.client_key)
        package = sys.modules[client_type.__mro__[1].__module__.partition(".")[0]]  # the one below the SDK
        transport = package.HTTPTransport(
            # Without TLS nothing is trusted: a vendor may name files at another origin.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if route.tls is None else route.tls,
            proxy=None if route.proxy is None else _proxy_url(route.proxy),
            uds=route.path,
            trust_env=False,
            socket_options=_KEEP_ALIVE if route.path is None else None,
        )
        options: dict[str, Any] = {
            "transport": transport,
            "timeout": self.timeout(timeout_type),
            "trust_env": False,
            "follow_redirects": False,
            "event_hooks": {"request": [self._authorize]},
        }
        return client_type(**options)

    def timeout(self, timeout_type: Any) -> Any:
        """Return the timeouts of a call."""
        return timeout_type(max(self.endpoint.timeout, LEAST_TIMEOUT_S), connect=CONNECT_S)

    def call(self, step: Step, ask: Callable[[], T]) -> T:
        """Return what an SDK's call gives, asked again where the key had expired and there is a new one."""
        try:
            done = self._call(step, ask)
        except WrongKeyError:
            if not self._renewed():
                raise
            done = self._call(step, ask)
        self._credentials.accepted()
        return done

    def content(self, opened: AbstractContextManager[Any]) -> Generator[bytes, None, None]:
        """Return the content of an SDK's streaming response in pieces; it is closed with the generator.

        Raises UnavailableError for a connection that breaks off.
        """
        with ExitStack() as stack:
            response = self.call(CONTENT, lambda: stack.enter_context(opened))
            pieces = response.iter_bytes(CHUNK_BYTES)
            while (piece := self.call(CONTENT, lambda: next(pieces, None))) is not None:
                yield piece

    def without_secrets(self, line: BatchLine) -> BatchLine:
        """Return a line whose message has no secret of the endpoint."""
        return line._replace(message=self.secrets.hide(line.message)) if line.message else line

    def unread(self, step: Step) -> BatchError:
        """Return the failure of a reply that is not what was asked for, such as a page for people."""
        return unread(step, self.shown, "it has none of the fields of one")

    def _call(self, step: Step, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except BatchError:
            raise
        except Exception as error:
            if not is_http_error(error):
                raise
            raise sdk_failure(error, step, self.shown, self.secrets) from None

    def _renewed(self) -> bool:
        """Resolve the key again; whether there is another one. In a thread: the caller's may run an event loop."""
        credentials = self._credentials
        with ThreadPoolExecutor(1) as thread:
            done: bool = thread.submit(asyncio.run, credentials.renew(credentials.generation)).result()
        if done:
            self._take_headers()
        return done

    def _take_headers(self) -> None:
        headers = {name: value for name, value in self._credentials.headers.items() if name not in CONSTANT_HEADERS}
        bearer = headers.pop("authorization", None)
        self._key = None if bearer is None else bearer.removeprefix("Bearer ")
        self._own = headers
        self.secrets = Secrets(self._credentials.secrets, self.endpoint.urls)

    def _authorize(self, request: Any) -> None:
        """Give a request its key and its headers, where it goes to the endpoint's own origin alone."""
        headers, own_origin = request.headers, _origin(str(request.url)) == self._origin
        for name in AMBIENT_HEADERS:
            headers.pop(name, None)
        for name in KEY_HEADERS:
            written = headers.pop(name, None)
            if written is not None and PLACEHOLDER_KEY in written and self._key is not None and own_origin:
                headers[name] = written.replace(PLACEHOLDER_KEY, self._key)
        headers["user-agent"] = CONSTANT_HEADERS["user-agent"]
        if own_origin:
            headers.update(self._own)


def is_http_error(error: Exception) -> bool:
    """Whether an exception is one of an SDK, or of the HTTP client below it."""
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return isinstance(error, OSError) or bool(packages & {"openai", "anthropic", "httpx", "httpx2", "pydantic_core"})


def _origin(url: str) -> tuple[str, bytes, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").encode("idna"), parts.port or PORTS[parts.scheme]


def _proxy_url(proxy: Proxy) -> str:
    user = ""
    if proxy.authorization is not None:
        name, _, password = b64decode(proxy.authorization.removeprefix("Basic ")).decode().partition(":")
        user = f"{quote(name, safe='')}:{quote(password, safe='')}@"
    return f"http://{user}{proxy.host}:{proxy.port}"
