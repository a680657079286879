"""Replies as servers write them, byte for byte, and every way of breaking off."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from sqlenrich.llm.endpoint import http as module
from sqlenrich.llm.endpoint.http import HttpError, HttpPool, HttpResponse, HttpTimeoutError, target_of
from sqlenrich.llm.endpoint.route import find_route

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
PACKED = gzip.compress(b"hello " * 50)
BOMB = gzip.compress(b"y" * 9_000_000)


class Server:
    """Writes scripted bytes: one list of parts for each request; ``close`` ends the connection after them."""

    def __init__(self, *replies: list[bytes | float | str]) -> None:
        self.replies = list(replies)
        self.seen: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.seen.append(head + await reader.readexactly(length))
                for part in self.replies.pop(0):
                    if isinstance(part, bytes):
                        writer.write(part)
                        await writer.drain()
                    elif isinstance(part, float):
                        await asyncio.sleep(part)
                    elif part == "reset":
                        writer.transport.abort()
                        return
                    else:
                        return
        except (asyncio.IncompleteReadError, ConnectionError, IndexError):
            return
        finally:
            writer.close()


def with_wire(server: Server, work: Callable[[HttpPool, int], Awaitable[Any]], timeout_s: float = 0.3) -> Any:
    async def main() -> Any:
        listening = await asyncio.start_server(server, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        wire = HttpPool(find_route(f"http://127.0.0.1:{port}/v1"), {"x-one": "1"}, timeout_s=timeout_s)
        try:
            return await asyncio.wait_for(work(wire, port), 10)
        finally:
            await wire.close()
            listening.close()
            await asyncio.sleep(0.01)

    return asyncio.run(main())


def once(*parts: bytes | float | str, timeout_s: float = 0.3) -> HttpResponse:
    async def work(wire: HttpPool, _: int) -> HttpResponse:
        return await wire.send("POST", "/v1/x", b"body")

    found = with_wire(Server(list(parts)), work, timeout_s)
    assert isinstance(found, HttpResponse)
    return found


@pytest.mark.parametrize(
    ("parts", "status", "body"),
    [
        pytest.param([OK], 200, b"hi", id="a length"),
        pytest.param([bytes([byte]) for byte in OK], 200, b"hi", id="byte by byte"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], 200, b"", id="empty"),
        pytest.param([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b"", id="no content"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n", b"3;x=1\r\n yo\r\n0\r\n\r\n"],
            200,
            b"hi yo",
            id="chunks",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\ncontent-encoding: gzip\r\n\r\n"],
            200,
            b"hi",
            id="a trailer",
        ),
        pytest.param([OK + OK], 200, b"hi", id="more than was asked for"),
        pytest.param([OK + b"\x00garbage"], 200, b"hi", id="garbage behind it"),
        pytest.param([b"HTTP/1.0 200 OK\r\n\r\nuntil", b" the end", "close"], 200, b"until the end", id="no length"),
        pytest.param([b"HTTP/1.1 100 Continue\r\n\r\n", OK], 200, b"hi", id="continue first"),
        pytest.param([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK], 200, b"hi", id="hints first"),
        pytest.param([b"HTTP/1.1 503 Busy\r\nContent-Length: 1\r\nRetry-After: 7\r\n\r\nx"], 503, b"x", id="an error"),
        pytest.param([b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi"], 200, b"hi", id="close"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(PACKED), PACKED],
            200,
            b"hello " * 50,
            id="packed",
        ),
        pytest.param([0.2, OK[:20], 0.2, OK[20:]], 200, b"hi", id="slow, but not silent"),
    ],
)
def test_replies(parts: list[bytes | float | str], status: int, body: bytes) -> None:
    found = once(*parts)
    assert (found.status, found.body) == (status, body)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        pytest.param(["close"], "connection closed before the answer", id="closed at once"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "close"], "broke off", id="cut body"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-le", "close"], "broke off", id="cut head"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf", "close"], "broke off", id="cut chunk"
        ),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", "reset"], "broke off", id="reset body"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n"], "not HTTP", id="another protocol"),
        pytest.param([b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\nhi"], "not HTTP", id="a length in words"),
        pytest.param([b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 100_000], "head is too long", id="a long head"),
        pytest.param([b"HTTP/1.1 200 OK\r\n\r\n", b"y" * 9_000_000, "close"], "longer than 8 MiB", id="a long body"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(BOMB), BOMB],
            "longer than 8 MiB",
            id="a long body once unpacked",
        ),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nhalf"], "unpacked", id="not packed"
        ),
    ],
)
def test_broken_replies(parts: list[bytes | float | str], text: str) -> None:
    with pytest.raises(HttpError, match=text):
        once(*parts)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        pytest.param([5.0], "no byte for 0.3 s", id="silent"),
        pytest.param([OK[:20], 5.0], "no byte for 0.3 s", id="silent in the middle"),
        pytest.param(
            [b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", *[b"x", 0.1] * 30], "no whole answer", id="drips"
        ),
    ],
)
def test_timeouts(parts: list[bytes | float | str], text: str) -> None:
    with pytest.raises(HttpTimeoutError, match=text):
        once(*parts)


def test_what_is_sent_and_that_connections_are_kept() -> None:
    server = Server([OK], [OK], [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"], [OK])

    async def work(wire: HttpPool, port: int) -> int:
        for body in (b"one", b"", b"three", b"four"):
            await wire.send("POST", "/v1/x?y=1", body)
        return port

    port = with_wire(server, work)
    head = b"POST /v1/x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-one: 1\r\ncontent-length: " % port
    assert server.seen == [head + b"%d\r\n\r\n%b" % (len(body), body) for body in (b"one", b"", b"three", b"four")]
    assert server.connections == 2


def test_many_at_once() -> None:
    count = 300
    replies: list[list[bytes | float | str]] = [[0.01, OK]] * count
    server = Server(*replies)

    async def work(wire: HttpPool, _: int) -> list[HttpResponse]:
        return await asyncio.gather(*(wire.send("POST", "/", b"%d" % n) for n in range(count)))

    assert {response.body for response in with_wire(server, work, 5.0)} == {b"hi"}
    assert len(server.seen) == count


def test_an_idle_connection_that_speaks_or_ages_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([OK, 0.05, b"junk"], [OK], [OK])

    async def work(wire: HttpPool, _: int) -> None:
        await wire.send("POST", "/")
        await asyncio.sleep(0.2)
        await wire.send("POST", "/")
        monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.05)
        await asyncio.sleep(0.1)
        await wire.send("POST", "/")

    with_wire(server, work)
    assert server.connections == 3


def test_a_cancelled_request_ends_its_connection() -> None:
    server = Server([5.0], [OK])

    async def work(wire: HttpPool, _: int) -> HttpResponse:
        task = asyncio.create_task(wire.send("POST", "/"))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await wire.send("POST", "/")

    assert with_wire(server, work).body == b"hi"
    assert server.connections == 2


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_request_cancelled_at_any_moment_leaves_no_connection(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def main() -> None:
        silence: list[bytes | float | str] = [5.0]
        listening = await asyncio.start_server(Server(*[silence] * 20), "127.0.0.1", 0)
        wire = HttpPool(find_route(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"), {}, timeout_s=5)
        for turns in range(20):
            request = asyncio.create_task(wire.send("GET", "/v1"))
            for _ in range(turns):
                await asyncio.sleep(0)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            await asyncio.wait_for(wire.close(), 2)
        listening.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_deflate_is_unpacked() -> None:
    packed = zlib.compress(b"abc")
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(packed)
    assert once(head + packed).body == b"abc"


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h/v1", "/v1/models"),
        ("http://h/v1/", "/v1/models"),
        ("http://h", "/models"),
        ("http://h/v1?api-version=2024-10-21&k=a b", "/v1/models?api-version=2024-10-21&k=a%20b"),
        ("http://h/ä b/%41", "/%C3%A4%20b/%41/models"),
    ],
)
def test_targets(url: str, target: str) -> None:
    assert target_of(urlsplit(url), "/models") == target


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000, id="long"),
        pytest.param(b"HTTP/1.1 503 Busy\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n", id="packed nothing"),
    ],
)
def test_a_connection_is_kept_after(response: bytes) -> None:
    server = Server([response], [response])

    async def work(wire: HttpPool, _: int) -> list[int]:
        first = await wire.send("POST", "/v1/x", b"body")
        second = await wire.send("POST", "/v1/x", b"body")
        return [first.status, second.status, len(first.body), len(second.body)]

    assert with_wire(server, work)[2:] in ([200_000] * 2, [0, 0])
    assert server.connections == 1


def test_a_kept_connection_that_ends_before_the_answer_says_so() -> None:
    async def work(wire: HttpPool, _: int) -> None:
        await wire.send("POST", "/v1/x", b"body")
        with pytest.raises(HttpError, match="closed before the answer"):
            await wire.send("POST", "/v1/x", b"body")

    with_wire(Server([OK], ["reset"]), work)
