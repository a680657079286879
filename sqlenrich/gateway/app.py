"""The HTTP face of a gateway, as an ASGI application: paths, tokens, bodies."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from typing import Any

import orjson

from sqlenrich.gateway.exchange import Exchange, Reply, refused
from sqlenrich.gateway.pages import PAGES

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PREFIX = "/v1"
USAGE, HEALTH, MODELS = "/usage", "/health", "/models"
READ = frozenset((b"authorization", b"host", b"origin", b"cache-control", b"x-sqlenrich-sample", b"content-encoding"))
"""The headers of a request that are read."""
OWN = (USAGE, HEALTH, MODELS)


class GatewayApp:
    """Serves an exchange. With a token each caller must send it; without one only this machine's programs may ask.

    A web page must not ask: a browser sends the page's ``Origin``, and another name than this machine's as ``Host``
    where a name was bound to a loopback address.
    """

    def __init__(self, exchange: Exchange, token: str | None) -> None:
        self.exchange = exchange
        self._bearer = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in READ}
        path = scope["path"]
        path = path.removeprefix(PREFIX) if path != PREFIX else "/"
        reply = self._refuse(headers) or await self._reply(scope["method"], path.rstrip("/"), headers, receive)
        body = reply.body
        length = (b"content-length", str(len(body)).encode())
        told = [(b"content-type", reply.content_type), length, *reply.headers]
        await send({"type": "http.response.start", "status": reply.status, "headers": told})
        await send({"type": "http.response.body", "body": body})

    def _refuse(self, headers: Mapping[str, str]) -> Reply | None:
        if self._bearer is not None:
            given = headers.get("authorization", "").encode("latin-1")
            if secrets.compare_digest(given, self._bearer):
                return None
            return refused(401, "the gateway wants its token as the API key", "wrong_token")
        if "origin" in headers:
            return refused(403, "web pages may not ask a gateway without a token", "forbidden")
        if not _is_this_machine(headers.get("host", "")):
            return refused(403, "the gateway answers programs of this machine: ask for localhost", "forbidden")
        return None

    async def _reply(self, method: str, path: str, headers: Mapping[str, str], receive: Receive) -> Reply:
        page = PAGES.get(path)
        wanted = "POST" if page is not None else "GET"
        if page is None and path not in OWN:
            known = ", ".join((*PAGES, *OWN))
            return refused(404, f"the gateway has no page {path[:100]}; it has {known}", "not_found")
        if method != wanted:
            return refused(405, f"{path} is asked by {wanted}", "method_not_allowed")
        if page is None:
            return await self._own(path)
        if headers.get("content-encoding", "identity") != "identity":
            return refused(415, "the gateway takes bodies without Content-Encoding", "unsupported_encoding")
        body = await self._body(receive)
        if body is None:
            most = self.exchange.policy.largest_body
            return refused(413, f"the body has more than {most >> 20} MiB", "too_large")

        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        return await self.exchange.answer(page, body, headers, gone)

    async def _own(self, path: str) -> Reply:
        exchange = self.exchange
        if path == MODELS:
            return await exchange.models_page()
        state = {"status": "stopping" if exchange.stopping else "ok", "in_flight": exchange.in_flight}
        if path == HEALTH:
            return Reply(200, orjson.dumps({**state, "stored": len(exchange.store)}))
        prices = exchange.spending.prices
        currency = None if prices is None else prices.currency
        facts = {**state, "stored": len(exchange.store), **exchange.counts.to_dict(), "currency": currency}
        return Reply(200, orjson.dumps(facts))

    async def _body(self, receive: Receive) -> bytes | None:
        """Return the body of a request; None for one that is too large, which is read to its end."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b""
            size += len(message.get("body", b""))
            if size <= self.exchange.policy.largest_body:
                parts.append(message.get("body", b""))
            else:
                parts.clear()
            if not message.get("more_body", False):
                break
        if size > self.exchange.policy.largest_body:
            return None
        return parts[0] if len(parts) == 1 else b"".join(parts)


@lru_cache(64)
def _is_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
