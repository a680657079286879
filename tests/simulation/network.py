"""The simulated network and the model servers behind it: what is sent arrives later, broken, or not at all."""

from __future__ import annotations

import asyncio
import json
import math
import random
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.simulation.world import SimLoop, World

PROMPT = "Classify: "
ANSWER_TOKENS = 7
PROMPT_TOKENS = 9
REQUEST_TOKENS = PROMPT_TOKENS + ANSWER_TOKENS
ANSWER_COST = 0.07
"""What the tokens of an answer cost."""
PORT = 8001
"""The port of the first server; the others follow."""
STATUSES = {"429": 429, "busy": 503, "500": 500, "401": 401, "400": 400}
POISON = 11
"""Where there are texts that no request may have, they are one of so many."""
STALLS_FIRST, STALLS_EACH = 7, 8
"""The seeds in which a silent server makes no connection; in all others it makes one, and says nothing on it."""
PART_S = 0.002
"""The time from one part of a response to the next."""
SECOND = "large"
"""The second model of a cascade. Its requests are recorded with its name before the prompt."""


def answer_to(prompt: str, *, mends: bool = False) -> str:
    """Return the answer that every server gives to a prompt; some can't be used, with ``mends`` half as many.

    The second model differs from the first where that gives a low number.
    """
    first = prompt.removeprefix(f"{SECOND} ")
    draw = zlib.crc32(first.encode())
    if draw % 13 == 0 and first == prompt and not (mends and draw % 2):
        return "no JSON"
    urgency = draw % 5 + 1
    differs = first != prompt and urgency < 3
    return json.dumps({"label": "abc"[(draw + differs) % 3], "urgency": urgency})


@dataclass(frozen=True)
class Weather:
    """How servers and the network are, without single faults."""

    latency_s: float
    spread: float
    """The standard deviation of the logarithm of the latency."""
    rpm: int | None = None
    """Requests that a server takes in any 60 seconds; None: all."""
    tells_limits: bool = False
    """Whether its headers tell the limit."""
    chunks: int = 1
    """The parts in which a response arrives."""
    poison: str = ""
    """How a request fails that has one of some texts in it; "": there are no such texts."""


@dataclass
class Delivered:
    """What the servers have seen and what arrived."""

    asked: list[str] = field(default_factory=list)
    """Each request for an answer, in the order of arrival."""
    good: dict[str, int] = field(default_factory=dict)
    """How often a whole answer to a prompt reached a living client."""
    lied: set[str] = field(default_factory=set)
    """The prompts that got an answer of other content."""
    failed: dict[str, int] = field(default_factory=dict)
    """How often a request of a prompt failed."""
    at: list[tuple[float, tuple[int, str]]] = field(default_factory=list)
    """When a request arrived, at which server, and for which model."""

    failures: int = 0
    billed_at: list[float] = field(default_factory=list)
    """When the requests of the answers arrived that servers have worked on, whether or not these arrived."""

    @property
    def billed(self) -> int:
        """How many answers servers have worked on."""
        return len(self.billed_at)

    def fail(self, prompt: str) -> None:
        """Count a failed request."""
        self.failures += 1
        self.failed[prompt] = self.failed.get(prompt, 0) + 1


class Network:
    """Servers on ports. ``fault_of`` names what happens to the request of a number."""

    def __init__(self, world: World, seed: int, weather: Weather, fault_of: Callable[[int], tuple[str, float] | None]):
        self.world, self.seed, self.weather, self.fault_of = world, seed, weather, fault_of
        self.delivered = Delivered()
        self.down: dict[int, tuple[str, float]] = {}
        """What is wrong with the servers of some ports, and until when."""
        self.windows: dict[int, deque[float]] = {}
        self.asking: set[Wire] = set()
        """The connections on which a request is not answered yet."""
        self.most_in_flight = 0
        self.written = self.served = 0
        """The requests that were sent, and those of them that arrived."""
        self.looked_at = -math.inf
        """When the last request that asks for no answer ended: one for the list of models."""
        self.opened = 0
        """The connections that were opened, ..."""
        self.broken = 0
        """... and those that did not end by the client's wish alone."""
        self.mends = False
        """Whether answers can be used that could not be used before: a retry asks."""
        self.on_request: Callable[[str], None] = lambda _: None
        self.on_answer: Callable[[tuple[str, ...], int], None] = lambda *_: None
        self.closes_every = 0
        """After each so many responses the server closes the connection; 0: never."""
        self.closes_idle_s = 0.0
        """It closes one on which nothing is asked for so long; 0: it says so in the response, and closes at once."""
        self.on_misuse: Callable[[], None] = lambda: None
        self.on_lie: Callable[[tuple[str, ...], int], None] = lambda *_: None
        self.on_failure: Callable[[str, tuple[str, ...], float], None] = lambda *_: None
        self.on_leave: Callable[[str], None] = lambda _: None
        self.on_abandon: Callable[[str, float], None] = lambda *_: None
        world.connect = self.connect
        world.refuses = lambda port: self.trouble(port) == "refuse"
        world.stalls = lambda port: seed % STALLS_EACH == STALLS_FIRST and self.trouble(port) == "silent"

    @property
    def lost(self) -> int:
        """The requests that were sent on connections which were closed before they arrived."""
        return self.written - self.served

    @property
    def in_flight(self) -> int:
        """The requests that are not answered yet."""
        return len(self.asking)

    def forget_clients(self) -> None:
        """Begin anew: what asked has ended, and its connections are of no interest, whenever they are freed."""
        self.asking.clear()
        self.most_in_flight = 0

    def trouble(self, port: int) -> str:
        """Return what is wrong with a server now."""
        kind, until = self.down.get(port, ("", 0.0))
        return kind if self.world.seconds < until else ""

    def poison(self, prompt: str) -> bool:
        """Whether each request with a prompt fails."""
        return self.weather.poison != "" and zlib.crc32(prompt.encode()) % POISON == 0

    def connect(self, loop: SimLoop, port: int, protocol: asyncio.Protocol) -> asyncio.Transport:
        self.opened += 1
        return Wire(self, loop, port, protocol)


def _nothing() -> None:
    """What happens as a response without an answer is complete."""


class Wire(asyncio.Transport):
    """A connection of the client to one server. The server takes one request after the other."""

    def __init__(self, network: Network, loop: SimLoop, port: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.network, self.loop, self.port, self.protocol = network, loop, port, protocol
        self.received = b""
        self.closed = False
        self.ends = False
        """Whether its server closes it after this response, or the client leaves it with a request on it."""
        self.asked: tuple[str, ...] = ()
        """The prompts of the request that is here and not answered: several of one for vectors."""
        self.asked_at = 0.0
        self.looks = False
        """Whether a request is here that asks for no answer."""

    def write(self, data: Any) -> None:
        self.received += bytes(data)
        head, end, rest = self.received.partition(b"\r\n\r\n")
        if not end:
            return
        size = int(head.lower().rpartition(b"content-length:")[2].split(b"\r\n")[0])
        if len(rest) >= size:
            self.received = rest[size:]
            self.network.written += 1
            self.loop.call_later(0.0005, self.serve, head.split(b" ")[1].decode(), rest[:size])

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        self.ends |= bool(self.asked)
        for prompt in self.asked:  # the client waits no longer
            self.network.delivered.fail(prompt)
            if not self.loop.is_closed():
                self.network.on_abandon(prompt, self.network.world.seconds - self.asked_at)
        self.leave()
        if not self.closed:
            self.network.broken += self.ends
            self.closed = True
            self.loop.call_soon(self.protocol.connection_lost, None)

    def leave(self) -> None:
        """End the request that is here."""
        for prompt in self.asked:
            self.network.on_leave(prompt)
        self.network.asking.discard(self)
        self.asked = ()
        if self.looks:
            self.network.looked_at, self.looks = self.network.world.seconds, False

    def lose(self) -> None:
        """The network or the server breaks the connection off."""
        self.leave()
        if not self.closed:
            self.network.broken += 1
            self.closed = True
            self.protocol.connection_lost(ConnectionResetError(104, "Connection reset by peer"))

    def serve(self, path: str, body: bytes) -> None:
        """Take a request and plan what comes back."""
        if self.closed:
            return
        self.network.served += 1
        network, world = self.network, self.network.world
        trouble = network.trouble(self.port)
        if not path.endswith(("/chat/completions", "/embeddings")):
            self.looks = True
            if trouble in ("silent", "refuse"):
                return
            status = {"busy": 503, "401": 401}.get(trouble, 404)
            self.send(0.01, status, {}, b'{"error": {"message": "not here"}}')
            return
        asked = json.loads(body)
        prompts = tuple(asked["input"]) if "input" in asked else (asked["messages"][-1]["content"],)
        if asked["model"] == SECOND:
            prompts = tuple(f"{SECOND} {prompt}" for prompt in prompts)
        delivered = network.delivered
        delivered.asked.append(prompts[0])
        delivered.at.append((world.seconds, (self.port, asked["model"])))
        number = len(delivered.asked)
        self.asked, self.asked_at = prompts, world.seconds
        network.asking.add(self)
        network.most_in_flight = max(network.most_in_flight, network.in_flight)
        draw = random.Random(f"{network.seed}/{number}")
        latency = network.weather.latency_s * draw.lognormvariate(0.0, network.weather.spread)
        kind, amount = network.fault_of(number) or (trouble, 0.0)
        if kind in ("", "late", "lie") and any(network.poison(prompt) for prompt in prompts):
            kind = network.weather.poison
        shown = ", ".join(repr(prompt.replace(PROMPT, "")) for prompt in prompts)
        world.note(f"request {number} on {self.port}: {shown}{f' {kind} {amount:.2f}' if kind else ''}")
        for prompt in prompts:
            network.on_request(prompt)
        headers: dict[str, str] = {}
        if not kind and network.weather.rpm is not None:
            window = network.windows.setdefault(self.port, deque())
            while window and window[0] <= world.seconds - 60:
                window.popleft()
            left = network.weather.rpm - len(window)
            if network.weather.tells_limits:
                headers = {"x-ratelimit-limit-requests": str(network.weather.rpm),
                           "x-ratelimit-remaining-requests": str(max(left - 1, 0)),
                           "x-ratelimit-reset-requests": f"{60.0 / network.weather.rpm:.3f}s"}  # fmt: skip
            if left <= 0:
                kind, amount = "429", -1.0
            else:
                window.append(world.seconds)
        answer = vectors if "input" in asked else partial(completion, mends=network.mends)
        self.reply(kind, amount, prompts, answer, latency, headers)

    def reply(
        self, kind: str, amount: float, prompts: tuple[str, ...], answer: Callable[..., bytes], latency: float,
        headers: dict[str, str],
    ) -> None:  # fmt: skip
        """Plan the response to a request for answers: a good one, or what a fault makes of it."""
        delivered = self.network.delivered
        if kind in ("", "late", "cut", "lie"):
            delivered.billed_at += [self.asked_at] * len(prompts)
        if kind in ("", "late", "cut"):
            delay = latency if kind != "late" else latency + amount
            cut = amount if kind == "cut" else None
            self.send(delay, 200, headers, answer(*prompts), partial(self.answer, prompts), cut)
            if cut is None:
                return
            self.loop.call_later(delay, self.tell, kind, prompts)
        for prompt in prompts:
            delivered.fail(prompt)
        if kind == "cut":
            return
        if kind == "silent":
            return
        waits = kind in ("429", "busy") and amount > 0
        told_s = float(int(amount)) if waits else 0.0
        known_s = latency * amount if kind in ("reset", "refuse") else latency / 10 if kind in STATUSES else latency
        self.loop.call_later(known_s - 1e-6, self.tell, kind, prompts, told_s)
        if kind in ("reset", "refuse"):
            self.loop.call_later(latency * amount, self.lose)
        elif kind in STATUSES:
            status = STATUSES[kind]
            if waits:
                headers = headers | {"retry-after": str(int(amount))}
            self.send(latency / 10, status, headers, b'{"error": {"message": "not now"}}')
        elif kind == "error-200":
            self.send(latency, 200, headers, b'{"error": {"message": "upstream failed", "code": 502}}')
        elif kind == "no-choice":
            self.send(latency, 200, headers, answer())
        elif kind == "no-http":
            self.loop.call_later(latency, self.deliver, b"\x00\x01 what\r\n\r\n", _nothing)
        elif kind == "lie":
            delivered.lied |= {*prompts}
            lie = partial(self.network.on_lie, prompts, self.port)
            self.send(latency, 200, headers, answer(*prompts, lies=True), lie)
        else:
            raise AssertionError(kind)

    def send(
        self, delay: float, status: int, headers: dict[str, str], body: bytes, whole: Callable[[], None] = _nothing,
        cut: float | None = None,
    ) -> None:  # fmt: skip
        """Send a response after a time, in parts. ``whole`` is called before the client gets the last one.

        ``cut``: the share of the bytes after which the connection breaks.
        """
        lines = [f"HTTP/1.1 {status} x", "content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        network = self.network
        closes = network.closes_every and len(network.delivered.asked) % network.closes_every == 0
        if closes and not network.closes_idle_s:
            lines.append("connection: close")
            self.ends = True
        data = ("\r\n".join(lines) + "\r\n\r\n").encode() + body
        if cut is not None:
            self.loop.call_later(delay, self.deliver, data[: int(len(data) * cut)])
            self.loop.call_later(delay + 0.001, self.lose)
            return
        parts = max(1, min(self.network.weather.chunks, len(data)))
        step = -(-len(data) // parts)
        for number in range(parts):
            part, is_last = data[number * step : (number + 1) * step], number == parts - 1
            self.loop.call_later(delay + number * PART_S, self.deliver, part, whole if is_last else None)
        if closes:
            self.loop.call_later(delay + parts * PART_S + network.closes_idle_s, self.end)

    def end(self) -> None:
        """Close the connection after a response that said so, or one that is idle."""
        if self.asked and not self.network.closes_idle_s:
            self.network.on_misuse()
        if not (self.asked or self.received) or not self.network.closes_idle_s:
            self.lose()

    def tell(self, kind: str, prompts: tuple[str, ...], told_s: float = 0.0) -> None:
        """Tell that the client learns now of a failure; ``told_s``: it is to ask after so many seconds at least."""
        if not self.closed:
            self.network.on_failure(kind, prompts, told_s)

    def deliver(self, data: bytes, whole: Callable[[], None] | None = None) -> None:
        """Give bytes to the client. With ``whole`` the response is complete."""
        if whole is not None:
            self.leave()
        if self.closed:
            return
        if whole is not None:
            whole()
        self.protocol.data_received(data)

    def answer(self, prompts: tuple[str, ...]) -> None:
        """Note that the client gets the answers to a request."""
        good = self.network.delivered.good
        for prompt in prompts:
            good[prompt] = good.get(prompt, 0) + 1
        self.network.on_answer(prompts, self.port)


def completion(*prompts: str, lies: bool = False, mends: bool = False) -> bytes:
    """Return the body of a response for a text; without a prompt there is no text in it."""
    model = SECOND if prompts and prompts[0].startswith(SECOND) else "m"
    usage = {
        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS, "total_tokens": REQUEST_TOKENS
    }  # fmt: skip
    texts = ['{"label": "z"}' if lies else answer_to(prompt, mends=mends) for prompt in prompts]
    choices = [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} for text in texts
    ]
    return json.dumps({"id": "x", "model": model, "choices": choices, "usage": usage}).encode()


def vectors(*prompts: str, lies: bool = False) -> bytes:
    """Return the body of a response for vectors, the last one first."""
    data = [
        {"index": place, "embedding": [9.0, 9.0] if lies else vector_of(prompt)} for place, prompt in enumerate(prompts)
    ]
    return json.dumps(
        {"model": "m", "data": data[::-1], "usage": {"prompt_tokens": PROMPT_TOKENS * len(data)}}
    ).encode()


def vector_of(prompt: str) -> list[float]:
    """Return the vector that every server gives to a prompt."""
    draw = zlib.crc32(prompt.encode())
    return [draw % 1000 / 8, draw % 77 / 4]
