"""Many small HTTP/1.1 requests to one origin over kept connections, at little more than the cost of the bytes.

The parser is httptools; what stands here is the pool, the timeouts, and what each way of breaking off is called. A
general client costs several times as much a request, which on the machine of a local model is taken from the model.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol, cast
from urllib.parse import SplitResult, quote

import httptools

from sqlenrich.llm.endpoint.connect import connect, proxy_refusal
from sqlenrich.llm.endpoint.route import Route

CONNECT_S = 10.0
# Servers drop idle connections (vLLM after 5 s): a shorter life here avoids sending into a closed one.
KEEP_ALIVE_S = 4.0
MOST_HEAD_BYTES = 1 << 16
MOST_BODY_BYTES = 1 << 23
"""The largest body that is read: no answer of a row is that long, and many at a time would fill the memory."""
Unsent = Callable[[], AbstractContextManager[None]]
"""Around what comes before a request is sent: it may end that with an error."""
_PATH = "/%:@!$&'()*+,;=~-._"


class HttpError(Exception):
    """No response came; the text says why."""


class HttpTimeoutError(HttpError):
    """No connection, no byte or no end within the time."""


class HttpConnectError(HttpTimeoutError):
    """No connection came about in time: nothing was sent."""


class HttpTooLongError(HttpError):
    """The response is longer than the largest that is read."""


class HttpResponse(NamedTuple):
    """A whole response. The names of ``headers`` are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """What sends requests to one origin."""

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with all further requests."""
        ...

    async def send(
        self, method: str, target: str, body: bytes = b"", *, timeout_s: float | None = None
    ) -> HttpResponse:
        """Return the response to one request. Raises HttpError, OSError or ssl.SSLError where none came."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class HttpPool:
    """A Transport over kept connections. In the loop's thread alone.

    A try ends with HttpTimeoutError after ``timeout_s`` seconds without a byte, and after twice that in all: a server
    that sends a byte now and then would never end.
    """

    def __init__(
        self, route: Route, headers: Mapping[str, str], *, timeout_s: float, unsent: Unsent = nullcontext
    ) -> None:
        self.timeout_s = timeout_s
        self._unsent = unsent
        self.largest_body = MOST_BODY_BYTES
        self.connect_s = min(timeout_s, CONNECT_S)
        self._route, self._prefix = route, route.prefix
        self.set_headers(headers)
        self._idle: list[_Connection] = []
        self._busy: dict[_Connection, None] = {}  # in order, as a set of objects is not
        self._open: dict[_Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with all further requests."""
        proxy = self._route.proxy
        own = {"host": self._route.authority}
        if self._prefix and proxy is not None and proxy.authorization is not None:
            own["proxy-authorization"] = proxy.authorization
        lines = [f"{name}: {value}" for name, value in {**own, **headers}.items()]
        self._head = ("\r\n".join(lines) + "\r\ncontent-length: ").encode()

    async def send(
        self, method: str, target: str, body: bytes = b"", *, timeout_s: float | None = None
    ) -> HttpResponse:
        """Return the response to one request. Raises HttpError, OSError or ssl.SSLError where none came."""
        loop = asyncio.get_running_loop()
        connection = self._kept(loop.time()) or await self._connect(loop)
        line = f"{method} {self._prefix}{target}".encode()
        head = b"%b HTTP/1.1\r\n%b%d\r\n\r\n" % (line, self._head, len(body))
        waiter = connection.begin(head + body, loop, timeout_s or self.timeout_s)
        self._busy[connection] = None
        if self._sweeper is None:
            self._sweep(loop)
        try:
            response = await waiter
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.pop(connection, None)
        if connection.reusable:
            connection.idle_since = loop.time()
            self._idle.append(connection)
        else:
            connection.close()
        if response.status == 407 and self._route.proxy is not None:
            raise proxy_refusal(self._route.proxy, 407)
        return response

    async def close(self) -> None:
        """Close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in tuple(self._open):
            connection.close()
        self._idle.clear()
        while self._open:
            await asyncio.sleep(0)

    def _kept(self, now: float) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < KEEP_ALIVE_S:
                return connection
            connection.close()
        return None

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> _Connection:
        connection, route = _Connection(self._open, self.largest_body), self._route
        sock = None
        try:
            with self._unsent():
                async with asyncio.timeout(self.connect_s):
                    sock = await connect(route, loop)
                    name = route.host if route.tls is not None else None
                    await loop.create_connection(lambda: connection, sock=sock, ssl=route.tls, server_hostname=name)
        except BaseException as error:
            if sock is not None:
                sock.close()
            # uvloop says nothing to a connection that was just made when the wait for it is cancelled.
            connection.close()
            self._open.pop(connection, None)
            if isinstance(error, TimeoutError):
                raise HttpConnectError("timeout: no connection") from None
            raise
        return connection

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look for silent connections now and then: a timer for each request would cost more than the request."""
        now = loop.time()
        for connection in tuple(self._busy):
            connection.check(now)
        while self._idle and now - self._idle[0].idle_since >= KEEP_ALIVE_S:
            self._idle.pop(0).close()
        if self._busy or self._idle:
            self._sweeper = loop.call_later(min(1.0, self.timeout_s / 8), self._sweep, loop)
        else:
            self._sweeper = None


class _Connection(asyncio.Protocol):
    """One connection with at most one request under way; it is also what httptools calls.

    ``among`` holds it while it is open. ``largest_body`` is in bytes.
    """

    def __init__(self, among: dict[_Connection, None], largest_body: int) -> None:
        self._among, self._largest_body = among, largest_body
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard = self._until = self._timeout_s = 0.0
        self._reset()

    def _reset(self) -> None:
        self._status, self._reason = 0, b""
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = self._head_size = 0

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent here."""
        return self._transport is not None and not self._transport.is_closing() and self._waiter is None

    def begin(self, data: bytes, loop: asyncio.AbstractEventLoop, timeout_s: float) -> asyncio.Future[HttpResponse]:
        """Send a request; give what will hold its response."""
        waiter: asyncio.Future[HttpResponse] = loop.create_future()
        self._waiter, self._loop, self._timeout_s = waiter, loop, timeout_s
        self._heard = loop.time()
        self._until = self._heard + 2 * timeout_s
        if self._transport is None or self._transport.is_closing():
            self._fail(HttpError("connection closed before the answer"))
        else:
            self._transport.write(data)
        return waiter

    def check(self, now: float) -> None:
        """End a request that waits for too long."""
        if now - self._heard >= self._timeout_s:
            self._fail(HttpTimeoutError(f"timeout: no byte for {self._timeout_s:g} s"))
        elif now >= self._until:
            self._fail(HttpTimeoutError(f"timeout: no whole answer within {2 * self._timeout_s:g} s"))

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        self._among[self] = None

    def data_received(self, data: bytes) -> None:
        """Parse what came; bytes that nobody asked for end the connection."""
        if self._waiter is None or self._loop is None:
            self.close()
            return
        self._heard = self._loop.time()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(HttpError("the answer is not HTTP"))
            return
        if not self._status and self._waiter is not None:
            self._head_size += len(data)
            if self._head_size > MOST_HEAD_BYTES:
                self._fail(HttpError("the answer's head is too long"))

    def connection_lost(self, error: Exception | None) -> None:
        """A body without a length ends here; any other response that is not whole broke off."""
        self._transport = None
        self._among.pop(self, None)
        if self._waiter is None:
            return
        framed = "content-length" in self._headers or "transfer-encoding" in self._headers
        if self._status >= 200 and not framed and error is None:
            self._finish()
        elif isinstance(error, ssl.SSLError):  # with TLS 1.3 the server refuses a certificate after the handshake
            self._fail(error)
        elif self._status or self._head_size:
            self._fail(HttpError("the answer broke off"))
        else:
            self._fail(HttpError("connection closed before the answer"))

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Refuse a response that nobody asked for."""
        if self._waiter is None:
            self.close()

    def on_status(self, reason: bytes) -> None:
        """Take the reason, which may come in parts."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; what follows the body is none."""
        if not self._status:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Take the status."""
        self._status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """Take a part of the body."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._largest_body:
            self._parts.clear()
            self._fail(_too_long(self._largest_body))

    def on_message_complete(self) -> None:
        """Give the response, unless it only says that the real one is to come."""
        if self._status < 200:
            self._reset()
            return
        if not self._parser.should_keep_alive():
            self.close()
        self._finish()

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is None or waiter.done():
            return
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        if body and self._headers.get("content-encoding", "").lower() in ("gzip", "x-gzip", "deflate"):
            try:
                body = _inflated(body, self._largest_body)
            except zlib.error:
                waiter.set_exception(HttpError("the answer broke off: it can't be unpacked"))
                return
            except HttpError as error:
                waiter.set_exception(error)
                return
        waiter.set_result(HttpResponse(self._status, self._reason.decode("latin-1"), self._headers, body))
        self._reset()

    def _fail(self, error: HttpError | ssl.SSLError) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.close()


def _inflated(body: bytes, largest: int) -> bytes:
    unpacker = zlib.decompressobj(47)
    found = unpacker.decompress(body, largest)
    if unpacker.unconsumed_tail:
        raise _too_long(largest)
    if not unpacker.eof:
        raise HttpError("the answer broke off: it can't be unpacked")
    return found


def _too_long(largest: int) -> HttpTooLongError:
    return HttpTooLongError(f"the answer is longer than {largest >> 20} MiB")


def target_of(url: SplitResult, page: str = "") -> str:
    """Return what stands in the request line for a page below a url."""
    path = quote(url.path.rstrip("/") + page, safe=_PATH) or "/"
    return path + (f"?{quote(url.query, safe=_PATH + '?')}" if url.query else "")
