"""Measure the gateway: requests a second that it asks and that it answers from its store, and limits over callers.

    python benchmarks/gateway.py [--requests 40000] [--width 256] [--litellm OTHER/bin/litellm] [--limit-minutes 1]

A bare HTTP/1.1 client sends chat requests over kept connections: to the endpoint itself, to the gateway (each request
new, then all of them again), and to LiteLLM's proxy where its command is given. Endpoint, gateway and client share this
machine. Then three clients at once send all that they can through a gateway with ``--rpm 600`` to an endpoint that
refuses more than 600 requests a minute. Prints a line of JSON for each phase.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import orjson
from local import COMMAND, Program, show

PAGE = "/chat/completions"
START_S = 60.0
SCRIPT = Path(__file__).resolve().parents[1] / "tests" / "support" / "endpoint.py"


class Caller(asyncio.Protocol):
    """One connection: it sends a request, and the next one once the answer is there."""

    def __init__(self, requests: Iterator[bytes], statuses: Counter[int], done: asyncio.Future[None]) -> None:
        self.requests, self.statuses, self.done = requests, statuses, done
        self.left, self.head = 0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        if not self.left:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.head[:end].lower()
            self.statuses[int(head[9:12])] += 1
            at = head.find(b"content-length: ") + 16
            self.left = int(head[at : at + 12].split(b"\r", 1)[0])
            data, self.head = self.head[end + 4 :], b""
        self.left -= len(data)
        if not self.left:
            self._next()

    def connection_lost(self, _: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _next(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.transport.close()
        else:
            self.transport.write(request)


async def call(url: str, texts: Sequence[str], width: int) -> tuple[float, Counter[int]]:
    """Send a chat request for each text; give the seconds and the statuses."""
    place = urlsplit(url)
    head = f"POST {place.path}{PAGE} HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-type: application/json\r\n".encode()

    def requests() -> Iterator[bytes]:
        for text in texts:
            body = orjson.dumps({"model": "mock", "messages": [{"role": "user", "content": text}], "max_tokens": 64})
            yield head + b"authorization: Bearer sk-1\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    loop, statuses, source = asyncio.get_running_loop(), Counter[int](), requests()
    started = time.perf_counter()
    ended = [loop.create_future() for _ in range(width)]
    for done in ended:
        caller = partial(Caller, source, statuses, done)
        await loop.create_connection(caller, str(place.hostname), int(place.port or 80))
    await asyncio.gather(*ended)
    return time.perf_counter() - started, statuses


def measured(phase: str, url: str, texts: Sequence[str], width: int, processes: Sequence[int] = ()) -> dict[str, Any]:
    """Send the requests and give what came of them."""
    import uvloop

    before = [cpu_s(pid) for pid in processes]
    seconds, statuses = uvloop.run(call(url, texts, width))
    used = [round((cpu_s(pid) - start) / len(texts) * 1e6) for pid, start in zip(processes, before, strict=True)]
    found = {"phase": phase, "requests": len(texts), "seconds": round(seconds, 2), "per_s": round(len(texts) / seconds)}
    found |= {"statuses": dict(statuses)} | ({"cpu_us": used[0]} if used else {})
    show(found)
    return found


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(command: Sequence[str], port: int, **environment: str) -> Iterator[int]:
    """Run a server until it listens, and give its process; it is ended with the context."""
    with Path(os.devnull).open("w") as nothing:
        process = subprocess.Popen(command, stdout=nothing, stderr=nothing, env={**os.environ, **environment})
    try:
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{command[0]} did not start") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def gateway(folder: Path, url: str, *options: object) -> Iterator[tuple[str, int]]:
    """Run a gateway; give its URL and its process."""
    port = free_port()
    given = ["gateway", "--output", folder / "answers.duckdb", "--endpoint", url, "--port", port, *options]
    with served([*COMMAND, *map(str, given)], port) as pid:
        yield f"http://127.0.0.1:{port}/v1", pid


def throughput(folder: Path, requests: int, width: int, litellm: str | None) -> None:
    """Measure the endpoint alone, the gateway, and LiteLLM's proxy."""
    texts = [f"text {number}" for number in range(requests)]
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    with served([sys.executable, str(SCRIPT), "--port", str(port), "--latency", "0.005"], port):
        direct = measured("endpoint alone", url, texts, width)
        with gateway(folder, url, "--concurrency", width) as (served_at, pid):
            asked = measured("gateway, asked", served_at, texts, width, [pid])
            stored = measured("gateway, stored", served_at, texts, width, [pid])
        share = {name: round(one["per_s"] / direct["per_s"], 3) for name, one in (("asked", asked), ("stored", stored))}
        show({"phase": "shares of the endpoint alone", **share})
        if litellm is not None:
            config = folder / "litellm.yaml"
            params = f"{{model: openai/mock, api_base: {url}, api_key: none}}"
            config.write_text(f"model_list:\n  - model_name: mock\n    litellm_params: {params}\n")
            port = free_port()
            command = [litellm, "--config", str(config), "--port", str(port), "--telemetry", "False"]
            with served(
                command, port, LITELLM_LOG="ERROR", LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_MASTER_KEY="sk-1"
            ) as pid:
                time.sleep(5)
                few = texts[: max(requests // 20, 500)]
                peer = measured("LiteLLM's proxy", f"http://127.0.0.1:{port}/v1", few, min(width, 64), [pid])
            show({"phase": "gateway by LiteLLM's proxy", "ratio": round(asked["per_s"] / peer["per_s"], 1)})


def limited(folder: Path, minutes: float) -> None:
    """Measure the limit of requests over three callers at once."""
    requests = round(600 * minutes)
    with Program(folder, "--rpm", 600) as endpoint, gateway(folder, endpoint.url, "--rpm", 600) as (url, _):
        callers = [
            subprocess.Popen(
                [sys.executable, __file__, "--call", url, "--name", str(n), "--requests", str(requests // 3)]
            )
            for n in range(3)
        ]
        statuses = [caller.wait() for caller in callers]
        seen = endpoint.stats()
        lasted = seen["last_accepted"] - seen["first_accepted"]
        facts = {"ended": statuses, "accepted": seen["accepted"], "seconds": round(lasted, 1)}
        facts |= {"used": round(seen["accepted"] / (lasted * 10), 3), "share_429": seen["share_429"]}
        show({"phase": "600 a minute over three callers", **facts})


def main() -> None:
    """Measure, and print a line of JSON each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=40_000)
    parser.add_argument("--width", type=int, default=256, help="requests in flight")
    parser.add_argument("--litellm", help="the command of LiteLLM's proxy")
    parser.add_argument("--limit-minutes", type=float, default=1.0)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.call:
        measured(f"caller {given.name}", given.call, [f"{given.name} {n}" for n in range(given.requests)], 16)
        return
    with TemporaryDirectory() as name:
        throughput(Path(name), given.requests, given.width, given.litellm)
    with TemporaryDirectory() as name:
        limited(Path(name), given.limit_minutes)


if __name__ == "__main__":
    main()
