"""A scripted OpenAI-compatible endpoint on loopback: valid answers, and every way in which an endpoint fails.

In tests it is a context manager; as a program: ``python tests/llm/endpoint.py --port 18100 --latency 0.02``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sqlenrich.llm.mock import MockModel


def error(message: str, kind: str = "", param: str | None = None, code: str | None = None) -> bytes:
    """Give an error body as OpenAI and vLLM write it."""
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


TOO_LONG = "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 tokens."
NO_FORMAT = "Grammar error: Unimplemented keys in response_format"
# Fault name -> status, further header lines, body.
STATUS_FAULTS: dict[str, tuple[int, str, bytes]] = {
    "429": (429, "", error("rate limit", "rate_limit_error")),
    "429_after": (429, "retry-after: 1\r\n", error("rate limit", "rate_limit_error")),
    "500": (500, "", error("boom", "InternalServerError")),
    "503": (503, "", error("overloaded", "ServiceUnavailable")),
    "401": (
        401,
        "",
        error("Incorrect API key provided: KEY", "invalid_request_error", code="invalid_api_key"),
    ),
    "403": (403, "", error("no access for KEY", "permission_error")),
    "404_model": (404, "", error("The model `x` does not exist.", "NotFoundError", code="model_not_found")),
    "404_path": (404, "", b'{"detail":"Not Found"}'),
    "307": (307, "location: https://elsewhere.invalid/v1\r\n", b""),
    "400_context": (400, "", error(TOO_LONG, "BadRequestError", "input_tokens", "400")),
    "400_policy": (400, "", error("flagged by the content management policy", "", None, "content_filter")),
    "400_format": (400, "", error(NO_FORMAT, "BadRequestError", "response_format")),
    "400_unclear": (400, "", error("computer says no", "BadRequestError")),
    "413": (413, "", b"too big"),
    "422": (422, "", b'{"detail":[{"msg":"computer says no"}]}'),
    "quota": (
        429,
        "",
        error("You exceeded your current quota", "insufficient_quota", code="insufficient_quota"),
    ),
    "html": (200, "", b"<html><body>Sign in to the network</body></html>"),
    "no_choices": (200, "", b'{"object":"chat.completion","choices":[]}'),
    "error_200": (200, "", error("upstream is busy")),
}
OTHER_FAULTS = (
    "reset",
    "hang",
    "slow",
    "cut",
    "wrong_type",
    "empty",
    "blank",
    "null",
    "huge",
    "refusal",
    "surrogate",
)
FAULTS = (*STATUS_FAULTS, *OTHER_FAULTS)
HUGE = 3_000_000


@dataclass
class Seen:
    """One request; ``status`` is what was sent for it (0 = nothing), ``at`` its monotonic time."""

    path: str
    body: bytes
    at: float
    authorization: str = ""
    status: int = 0

    @property
    def prompt(self) -> str:
        """The user message."""
        return str(json.loads(self.body)["messages"][0]["content"])


class ScriptedEndpoint:
    """Serves on 127.0.0.1 from a thread of its own while it is entered.

    ``rates``: fault name -> share of requests. ``script``: number of a request (from 1) -> fault.
    ``by_prompt``: text -> fault for prompts that hold it. ``latency_s`` is the time of an answer, ``slots``
    how many are worked on at once (0 = any number). ``content``: the answers' text, or a function of the
    prompt.
    """

    def __init__(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        script: Mapping[int, str] | None = None,
        by_prompt: Mapping[str, str] | None = None,
        latency_s: float = 0.0,
        slots: int = 0,
        content: str | Callable[[str], str] | None = None,
        models: tuple[str, ...] = ("mock", "small"),
        key: str = "",
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.rates = dict(rates or {})
        self.script = dict(script or {})
        self.by_prompt = dict(by_prompt or {})
        for name in (*self.rates, *self.script.values(), *self.by_prompt.values()):
            if name and name not in FAULTS:
                raise ValueError(f"unknown fault {name}: known are {', '.join(FAULTS)}")
        self.latency_s = latency_s
        self.slots = slots
        self.content = content
        self.models = models
        self.key = key
        self.port = port
        self.log: list[Seen] = []
        self.connections = 0
        self.busy = 0
        self.busy_peak = 0
        self.open: set[_Connection] = set()
        self.waiting: deque[tuple[_Connection, Seen, dict[str, Any]]] = deque()
        self._number = 0
        self._models: dict[str, MockModel] = {}
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoint", daemon=True)

    @property
    def url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Seen]:
        """The requests for a completion."""
        return [seen for seen in self.log if "/chat/completions" in seen.path]

    def __enter__(self) -> ScriptedEndpoint:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def die(self) -> None:
        """Stop listening and drop every connection, as a killed server does."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result()

    def revive(self) -> None:
        """Listen again at the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port, backlog=4096)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _die(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self.open):
            connection.drop()
        await asyncio.sleep(0.01)

    def fault(self, seen: Seen) -> str:
        """Say how this request is to fail, "" for not at all."""
        self._number += 1
        if self._number in self.script:
            return self.script[self._number]
        if self.by_prompt:
            for text, name in self.by_prompt.items():
                if text in seen.prompt:
                    return name
        point = self._random.random()
        for name, share in self.rates.items():
            point -= share
            if point < 0:
                return name
        return ""

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        """Give the body of a good answer, or of one whose message is odd."""
        prompt = body["messages"][0]["content"]
        message: dict[str, Any] = {"role": "assistant", "content": self._content(prompt, body)}
        reason = "stop"
        odd = {"empty": "", "blank": " \n ", "null": None}
        if fault in odd:
            message["content"] = odd[fault]
        elif fault == "huge":
            message["content"] = '{"x":"' + "y" * HUGE + '"}'
        elif fault == "refusal":
            message |= {"content": None, "refusal": "I can't do that."}
        elif fault == "surrogate":
            message["content"] = '{"x":"\ud800 \x00"}'
        usage = {
            "prompt_tokens": len(prompt) // 4 + 1,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 2},
        }
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()

    def _content(self, prompt: str, body: dict[str, Any]) -> str:
        if self.content is not None:
            return self.content if isinstance(self.content, str) else self.content(prompt)
        shape = ((body.get("response_format") or {}).get("json_schema") or {}).get("schema") or {}
        name = json.dumps(shape)
        if name not in self._models:
            self._models[name] = MockModel(shape)
        return self._models[name].text(prompt)


class _Connection(asyncio.Protocol):
    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self.endpoint = endpoint
        self.buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.endpoint.connections += 1
        self.endpoint.open.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self.transport = None
        self.endpoint.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.buffer[0] == 0x16 and self.transport is not None:  # the hello of a TLS client
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self.buffer[:end].decode("latin1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            stop = end + 4 + int(headers.get("content-length", "0"))
            if len(self.buffer) < stop:
                return
            body, self.buffer = self.buffer[end + 4 : stop], self.buffer[stop:]
            seen = Seen(first.split(" ")[1], body, time.monotonic(), headers.get("authorization", ""))
            self.endpoint.log.append(seen)
            self.handle(seen)

    def handle(self, seen: Seen) -> None:
        endpoint = self.endpoint
        if not seen.path.partition("?")[0].endswith("/chat/completions"):
            data = [{"id": name, "object": "model"} for name in endpoint.models]
            self.reply(seen, 200, json.dumps({"object": "list", "data": data}).encode())
            return
        fault = endpoint.fault(seen)
        if endpoint.key and seen.authorization != f"Bearer {endpoint.key}":
            fault = "401"
        if fault in STATUS_FAULTS:
            status, extra, body = STATUS_FAULTS[fault]
            given = seen.authorization.removeprefix("Bearer ").encode()
            self.reply(seen, status, body.replace(b"KEY", given), extra)
        elif fault == "reset":
            self.drop()
        elif fault != "hang":
            body_fields = json.loads(seen.body) | {"_fault": fault}
            if endpoint.slots and endpoint.busy >= endpoint.slots:
                endpoint.waiting.append((self, seen, body_fields))
            else:
                self.work(seen, body_fields)

    def work(self, seen: Seen, body: dict[str, Any]) -> None:
        self.endpoint.busy += 1
        self.endpoint.busy_peak = max(self.endpoint.busy_peak, self.endpoint.busy)
        asyncio.get_running_loop().call_later(self.endpoint.latency_s, self.finish, seen, body)

    def finish(self, seen: Seen, body: dict[str, Any]) -> None:
        endpoint = self.endpoint
        endpoint.busy -= 1
        fault = body["_fault"]
        raw = endpoint.completion(body, fault)
        if fault == "cut":
            self.reply(seen, 200, raw, keep=len(raw) // 2)
            self.drop(soft=True)
        elif fault == "slow":
            self.reply(seen, 200, raw, keep=0)
            self.trickle(raw)
        else:
            self.reply(seen, 200, raw, kind="text/html" if fault == "wrong_type" else "application/json")
        while endpoint.waiting and endpoint.busy < endpoint.slots:
            connection, waiting, fields = endpoint.waiting.popleft()
            if connection.transport is not None:
                connection.work(waiting, fields)

    def trickle(self, raw: bytes) -> None:
        """Send a piece every 20 ms."""
        if self.transport is not None and raw:
            self.transport.write(raw[:40])
            asyncio.get_running_loop().call_later(0.02, self.trickle, raw[40:])

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
        seen.status = status
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        if self.transport is not None:
            self.transport.write(head.encode() + body[:keep])

    def drop(self, *, soft: bool = False) -> None:
        if self.transport is not None:
            if soft:
                self.transport.close()
            else:
                self.transport.abort()


def main() -> None:
    """Serve until interrupted, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=18100)
    parser.add_argument("--latency", type=float, default=0.0, metavar="S")
    parser.add_argument("--slots", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", action="append", default=[], metavar="FAULT=SHARE", help=", ".join(FAULTS))
    parser.add_argument("--nth", action="append", default=[], metavar="N=FAULT", help="fault of the n-th request")
    given = parser.parse_args()
    rates = {name: float(share) for name, _, share in (one.partition("=") for one in given.rate)}
    script = {int(number): name for number, _, name in (one.partition("=") for one in given.nth)}
    with ScriptedEndpoint(
        rates=rates,
        script=script,
        latency_s=given.latency,
        slots=given.slots,
        seed=given.seed,
        port=given.port,
    ) as endpoint:
        sys.stdout.write(f"listening {endpoint.url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
