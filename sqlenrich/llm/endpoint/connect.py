"""Connected sockets to an origin by its route."""

from __future__ import annotations

import asyncio
import socket

import aiohappyeyeballs
import httptools

from sqlenrich.llm.endpoint.route import Proxy, Route

NEXT_ADDRESS_S = 0.25
"""A further address of a host is tried after this time without a connection (RFC 8305)."""
MOST_REPLY_BYTES = 1 << 16


class ProxyError(OSError):
    """A proxy can't be reached or refuses. ``final``: it would refuse every request."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


async def connect(route: Route, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Return a socket that reaches the route's origin; TLS is not begun. Raises OSError."""
    if route.path is not None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, route.path)
        except BaseException:
            sock.close()
            raise
        return sock
    if route.proxy is None:
        return await _dial(route.host, route.port, loop)
    try:
        sock = await _dial(route.proxy.host, route.proxy.port, loop)
    except OSError as error:
        raise ProxyError(f"the proxy {route.proxy.shown} can't be reached: {error.strerror or error}") from None
    if route.tls is not None:
        try:
            await _open_tunnel(sock, route, route.proxy, loop)
        except BaseException:
            sock.close()
            raise
    return sock


async def _dial(host: str, port: int, loop: asyncio.AbstractEventLoop) -> socket.socket:
    """Connect to the first address of a host that answers."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS_S, interleave=1, loop=loop)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class _Reply:
    """The head of a proxy's reply."""

    status = 0

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()


async def _open_tunnel(sock: socket.socket, route: Route, proxy: Proxy, loop: asyncio.AbstractEventLoop) -> None:
    host = f"[{route.host}]" if ":" in route.host else route.host.encode("idna").decode()
    target = f"{host}:{route.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization is not None:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    reply, size = _Reply(), 0
    try:
        await loop.sock_sendall(sock, ("\r\n".join(lines) + "\r\n\r\n").encode())
        # The origin says nothing before the client begins TLS, so that no byte of it is read here.
        while not reply.status and (data := await loop.sock_recv(sock, 4096)) and size < MOST_REPLY_BYTES:
            size += len(data)
            reply.parser.feed_data(data)
    except (httptools.HttpParserError, ConnectionError):
        pass
    except httptools.HttpParserUpgrade:
        pass
    if reply.status != 200:
        raise proxy_refusal(proxy, reply.status)


def proxy_refusal(proxy: Proxy, status: int) -> ProxyError:
    """Return the error for a proxy that refuses to reach an origin; status 0: it gave no reply."""
    if not status:
        return ProxyError(f"the proxy {proxy.shown} closed the connection")
    if status == 407:
        what = "refuses the password" if proxy.authorization else "wants a password"
        todo = "write it as http://user:password@host:port"
        return ProxyError(f"the proxy {proxy.shown} {what} (HTTP 407): {todo}", final=True)
    if 400 <= status < 500 and status not in (408, 425, 429):
        todo = "ask for a permission, or set NO_PROXY"
        return ProxyError(f"the proxy {proxy.shown} refuses to reach the endpoint (HTTP {status}): {todo}", final=True)
    return ProxyError(f"the proxy {proxy.shown} can't reach the endpoint (HTTP {status})")
