"""The HTTP of the scripted endpoint: requests read from connections, answers written, whole or broken."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING, Any

from tests.support.faults import STATUS_FAULTS, error
from tests.support.tally import Seen, load, prompt_of, utf8
from tests.support.vectors import NO_DIMENSIONS

if TYPE_CHECKING:
    from tests.support.endpoint import ScriptedEndpoint


PAGES = ("/completions", "/embeddings", "/responses")
"""The pages that ask the model."""


@dataclass(eq=False, slots=True)
class Work:
    """An answer under way, and where it goes."""

    connection: Connection
    seen: Seen
    body: dict[str, Any]


class Connection(asyncio.Protocol):
    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self.endpoint = endpoint
        self.buffer = b""
        self.transport: asyncio.Transport | None = None
        self.mute: set[Seen] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is a transport, but no subclass
        self.endpoint.connections += 1
        self.endpoint.open.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.transport = None
        self.endpoint.open.discard(self)
        for seen in self.mute:
            self.endpoint.tally.end(seen)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.buffer[0] == 0x16 and self.transport is not None:  # the hello of a TLS client
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            first, _, lines = self.buffer[:end].partition(b"\r\n")
            headers = b"\r\n" + lines
            stop = end + 4 + int(_header(headers, b"content-length") or 0)
            if len(self.buffer) < stop:
                return
            body, self.buffer = self.buffer[end + 4 : stop], self.buffer[stop:]
            path = first.split(b" ")[1].decode("latin1")
            seen = Seen(path, body, time.monotonic(), _header(headers, b"authorization").decode("latin1"))
            if self.endpoint.keep:
                self.endpoint.log.append(seen)
            self.handle(seen)

    def handle(self, seen: Seen) -> None:
        endpoint = self.endpoint
        completes = seen.path.partition("?")[0].endswith(PAGES)
        try:
            if not completes:
                self.reply(seen, 200, endpoint.page(seen))
                return
            body = load(seen.body)
            prompt = prompt_of(body)
        except (ValueError, LookupError, TypeError):
            self.reply(seen, 400, error("the body can't be read", "BadRequestError"))
            return
        seen.digest = sha256(utf8(prompt)).digest()
        endpoint.tally.begin(seen)
        if endpoint.key and seen.authorization != f"Bearer {endpoint.key}":
            self.refuse(seen, "401", STATUS_FAULTS["401"])
            return
        seen.tokens = endpoint.cost(prompt, body)
        wait = endpoint.window.admit(seen.at, seen.tokens)
        endpoint.tally.admitted(seen, fits=wait == 0.0)
        if endpoint.tells:
            seen.head = endpoint.window.told(seen.at, endpoint.tells)
        if wait:
            self.refuse(seen, "limit", endpoint.window.refusal(wait))
            return
        if "dimensions" in body and endpoint.dimensions == "refused":
            self.refuse(seen, "dimensions", (400, "", NO_DIMENSIONS))
            return
        seen.fault = fault = endpoint.fault(seen)
        if fault in STATUS_FAULTS:
            self.refuse(seen, fault, STATUS_FAULTS[fault])
        elif fault == "reset":
            self.drop()
            endpoint.tally.end(seen)
        elif fault == "hang":
            self.mute.add(seen)
        elif endpoint.slots and endpoint.busy >= endpoint.slots:
            endpoint.waiting.append(Work(self, seen, body))
        else:
            self.work(seen, body)

    def refuse(self, seen: Seen, fault: str, answer: tuple[int, str, bytes]) -> None:
        """Answer without a completion."""
        seen.fault = fault
        status, extra, body = answer
        given = seen.authorization.removeprefix("Bearer ").encode()
        self.reply(seen, status, body.replace(b"KEY", given), extra)
        self.endpoint.tally.end(seen)

    def work(self, seen: Seen, body: dict[str, Any]) -> None:
        endpoint = self.endpoint
        endpoint.busy += 1
        endpoint.busy_peak = max(endpoint.busy_peak, endpoint.busy)
        if endpoint.latency_s > 0:
            endpoint.loop.call_later(endpoint.latency_s, self.finish, seen, body)
        else:
            self.finish(seen, body)

    def finish(self, seen: Seen, body: dict[str, Any]) -> None:
        endpoint = self.endpoint
        endpoint.busy -= 1
        fault = seen.fault
        if self.transport is None:
            endpoint.tally.end(seen)
        else:
            raw = endpoint.completion(body, fault)
            if fault in _PARTS:
                _PARTS[fault](self, seen, raw)
            else:
                self.reply(seen, 200, raw, kind="text/html" if fault == "wrong_type" else "application/json")
                seen.complete = True
                endpoint.tally.end(seen)
        while endpoint.waiting and endpoint.busy < endpoint.slots:
            work = endpoint.waiting.popleft()
            if work.connection.transport is not None:
                work.connection.work(work.seen, work.body)
            else:
                endpoint.tally.end(work.seen)

    def cut(self, seen: Seen, raw: bytes) -> None:
        """Close the connection after half of the answer."""
        self.reply(seen, 200, raw, keep=len(raw) // 2)
        if self.transport is not None:
            self.transport.close()
        self.endpoint.tally.end(seen)

    def reset(self, seen: Seen, raw: bytes) -> None:
        """Reset the connection after half of the answer."""
        self.reply(seen, 200, raw, keep=len(raw) // 2)
        self.endpoint.loop.call_later(0.01, self.drop)
        self.endpoint.tally.end(seen)

    def stall(self, seen: Seen, raw: bytes) -> None:
        """Send half of the answer, then nothing."""
        self.reply(seen, 200, raw, keep=len(raw) // 2)
        self.mute.add(seen)

    def drip(self, seen: Seen, raw: bytes) -> None:
        """Send a piece every 20 ms."""
        self.reply(seen, 200, raw, keep=0)
        self.trickle(seen, raw)

    def trickle(self, seen: Seen, raw: bytes) -> None:
        if self.transport is not None:
            self.transport.write(raw[:40])
            if len(raw) > 40:
                self.endpoint.loop.call_later(0.02, self.trickle, seen, raw[40:])
                return
            seen.complete = True
        self.endpoint.tally.end(seen)

    def reply(
        self,
        seen: Seen,
        status: int,
        body: bytes,
        extra: str = "",
        *,
        kind: str = "application/json",
        keep: int | None = None,
    ) -> None:
        if self.transport is not None:
            seen.status = status
            head = (
                f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{extra}{seen.head}\r\n"
            )
            self.transport.write(head.encode() + body[:keep])

    def drop(self) -> None:
        """Reset the connection."""
        if self.transport is not None:
            if (socket := self.transport.get_extra_info("socket")) is not None:
                socket.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


_PARTS: dict[str, Callable[[Connection, Seen, bytes], None]] = {
    "cut": Connection.cut,
    "reset_mid": Connection.reset,
    "stall": Connection.stall,
    "slow": Connection.drip,
}


def _header(lines: bytes, name: bytes) -> bytes:
    """Return a header's value, b"" where it is not there. ``lines`` begins with a line's end."""
    at = lines.lower().find(b"\r\n" + name + b":")
    return b"" if at < 0 else lines[at + len(name) + 3 :].partition(b"\r\n")[0].strip()
