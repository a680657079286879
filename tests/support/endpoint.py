"""A scripted OpenAI-compatible endpoint on loopback: valid answers, limits, and every way in which an endpoint fails.

In tests it is a context manager; as a program: ``python tests/support/endpoint.py --port 18100 --latency 0.02``. Beside
/v1/chat/completions and /v1/embeddings it gives /v1/models, /health and /tokenize; GET /stats and /timeline tell what
it saw, POST /reset begins to count anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sqlenrich.llm.mock.model import MockModel
from sqlenrich.schema import normalise
from tests.support.faults import FAULTS, HUGE, ODD_CONTENT, STATUS_FAULTS, STOPPED, checked, error
from tests.support.http_wire import PAGES, Connection, Work
from tests.support.limits import TELLS, Window
from tests.support.tally import Seen, Tally, is_response, load, prompt_of, utf8
from tests.support.vectors import Vector, embedded, unit_vector

__all__ = ["FAULTS", "HUGE", "STATUS_FAULTS", "ScriptedEndpoint", "Seen", "error"]

Content = str | Sequence[str] | Callable[[str], str]
CACHE_BLOCK = 16
BYTES_A_TOKEN = 4


class ScriptedEndpoint:
    """Serves on 127.0.0.1 from a thread of its own while it is entered.

    ``rates``: fault name -> share of requests, after the first ``calm`` ones. ``script``: number of a request
    (from 1) -> fault. ``by_prompt``: text -> fault for prompts that hold it. ``latency_s`` is the time of an
    answer, ``slots`` how many are worked on at once (0 = any number). ``content``: the answers' text, texts of
    which the prompt chooses one, or a function of the prompt; without it answers fit the schema that is asked
    for. ``vector`` gives the vector of a text and a length, and ``dimensions`` says what becomes of the length that
    is asked for: ``obeyed``, ``ignored`` or ``refused``. ``rpm`` and ``tpm`` are held over each ``window_s``
    seconds; what is beyond gets 429; ``tells`` names a style of headers that say how much is left. A request has
    the tokens of its prompt and its answer, or with ``count_max_tokens`` its ``max_tokens``. ``huge``: bytes of a
    huge answer. ``cut``: the most tokens that are counted of a prompt, as by a server that cuts it. ``served``:
    the number of a request -> the model and the fingerprint that its answer names. ``tells_cached``: whether the
    usage has cached tokens. ``tokenizes``: whether it has the page of that name. ``log_file``: a line of JSON for each
    request; with ``keep`` the requests themselves are in ``log``.
    """

    def __init__(
        self,
        *,
        rates: Mapping[str, float] | None = None,
        calm: int = 0,
        script: Mapping[int, str] | None = None,
        by_prompt: Mapping[str, str] | None = None,
        latency_s: float = 0.0,
        slots: int = 0,
        content: Content | None = None,
        vector: Vector = unit_vector,
        dimensions: str = "obeyed",
        models: tuple[str, ...] = ("mock", "small"),
        max_model_len: int = 32_768,
        cut: int = 0,
        served: Callable[[int], tuple[str | None, str | None]] | None = None,
        tells_cached: bool = True,
        tokenizes: bool = True,
        key: str = "",
        huge: int = HUGE,
        rpm: int = 0,
        tpm: int = 0,
        window_s: float = 60.0,
        count_max_tokens: bool = False,
        tells: str = "",
        log_file: Path | None = None,
        keep: bool = True,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.rates = {checked(name): share for name, share in (rates or {}).items()}
        self.calm = calm
        self.cut = cut
        self.served = served
        self.tells_cached = tells_cached
        self.tokenizes = tokenizes
        self.script = {number: checked(name) for number, name in (script or {}).items()}
        self.by_prompt = {text: checked(name) for text, name in (by_prompt or {}).items()}
        self.latency_s = latency_s
        self.slots = slots
        self.content = content
        self.vector = vector
        self.dimensions = dimensions
        self.models = models
        self.max_model_len = max_model_len
        self.key = key
        self.huge = huge
        self.count_max_tokens = count_max_tokens
        self.tells = tells
        self.port = port
        self.window = Window(rpm, tpm, window_s)
        self.tally = Tally(log_file)
        self.keep = keep
        self.log: list[Seen] = []
        self.connections = 0
        self.busy = 0
        self.busy_peak = 0
        self.open: set[Connection] = set()
        self.waiting: deque[Work] = deque()
        self._number = 0
        self._models: dict[bytes, MockModel] = {}
        self._text: tuple[object, str] = (None, "")
        self._last_prompt = b""
        self._random = random.Random(seed)
        self.loop = _new_loop()
        self._server: asyncio.AbstractServer | None = None
        self._thread = threading.Thread(target=self.loop.run_forever, name="endpoint", daemon=True)

    @property
    def url(self) -> str:
        """What a client is told."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def asked(self) -> list[Seen]:
        """The requests for a completion."""
        return [seen for seen in self.log if any(page in seen.path for page in PAGES)]

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self.tally.close()

    def die(self) -> None:
        """Stop listening and drop every connection, as a killed server does."""
        asyncio.run_coroutine_threadsafe(self._die(), self.loop).result()

    def revive(self) -> None:
        """Listen again at the same port."""
        asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result()

    async def _listen(self) -> None:
        self._server = await self.loop.create_server(lambda: Connection(self), "127.0.0.1", self.port, backlog=4096)
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
            prompt = seen.prompt
            for text, name in self.by_prompt.items():
                if text in prompt:
                    return name
        point = self._random.random() if self.rates and self._number > self.calm else 1.0
        for name, share in self.rates.items():
            point -= share
            if point < 0:
                return name
        return ""

    def cost(self, prompt: str, body: dict[str, Any]) -> int:
        """Return the tokens of a request as the limits count them."""
        if "input" in body and not is_response(body):
            return sum(map(tokens, body["input"]))
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        answer = int(limit) if self.count_max_tokens and limit else tokens(self.text(prompt, body))
        return tokens(prompt) + answer

    def completion(self, body: dict[str, Any], fault: str) -> bytes:
        """Return the body of a good answer, or of one whose message is odd."""
        if "input" in body and not is_response(body):
            return embedded(body, self.vector, self.dimensions, tokens)
        prompt = prompt_of(body)
        text: str | None = self.text(prompt, body)
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if fault in ODD_CONTENT:
            message["content"] = text = ODD_CONTENT[fault]
        elif fault == "huge":
            message["content"] = text = '{"x":"' + "y" * self.huge + '"}'
        elif fault in STOPPED:
            message["content"] = text = ""
        elif fault == "refusal":
            message |= {"content": None, "refusal": "I can't do that."}
        came, went = tokens(prompt), tokens(text or "")
        if self.cut:
            came = min(came, self.cut)
        usage = {
            "prompt_tokens": came,
            "completion_tokens": went,
            "total_tokens": came + went,
            "prompt_tokens_details": {"cached_tokens": self._cached(prompt, came)},
        }
        if is_response(body):
            return _response(body, message["content"], usage)
        choice = {"index": 0, "message": message, "finish_reason": STOPPED.get(fault, "stop")}
        if "prompt" in body:
            choice = {"index": 0, "text": message["content"], "logprobs": None, "finish_reason": "stop"}
        answer = {"id": "c", "object": "chat.completion", "created": 0, "model": body.get("model"), "choices": [choice]}
        if self.served is not None:
            answer["model"], answer["system_fingerprint"] = self.served(self._number)
        if not self.tells_cached:
            del usage["prompt_tokens_details"]
        answer["usage"] = usage
        try:
            return orjson.dumps(answer)
        except TypeError:  # a lone surrogate
            return json.dumps(answer).encode()

    def text(self, prompt: str, body: dict[str, Any]) -> str:
        """Return the answer's text."""
        if isinstance(self.content, str):
            return self.content
        if callable(self.content):
            return self.content(prompt)
        if self.content is not None:
            return self.content[zlib.crc32(utf8(prompt)) % len(self.content)]
        if self._text[0] is not body:
            told = (body.get("response_format") or {}).get("json_schema") or (body.get("text") or {}).get("format")
            shape = (told or {}).get("schema") or {}
            name = orjson.dumps(shape)
            if name not in self._models:
                self._models[name] = MockModel(normalise(shape, columns=False)[0])
            self._text = (body, self._models[name].text(prompt))
        return self._text[1]

    def _cached(self, prompt: str, count: int) -> int:
        """Return how many tokens a cache of the last prompt spares: whole blocks, and never all of them."""
        mine, last = utf8(prompt), self._last_prompt
        self._last_prompt = mine
        step = CACHE_BLOCK * BYTES_A_TOKEN
        low, high = 0, min(len(mine), len(last)) // step
        while low < high:
            middle = (low + high + 1) // 2
            if mine[low * step : middle * step] == last[low * step : middle * step]:
                low = middle
            else:
                high = middle - 1
        return min(low, (count - 1) // CACHE_BLOCK) * CACHE_BLOCK

    def page(self, seen: Seen) -> bytes:
        """Return what is asked for beside completions; the models for whatever has no page."""
        name = seen.path.partition("?")[0].rpartition("/")[2]
        if name == "stats":
            return orjson.dumps({**self.tally.stats(), "busy_peak": self.busy_peak, "connections": self.connections})
        if name == "timeline":
            return orjson.dumps(self.tally.seconds())
        if name == "reset":
            self.tally.clear()
            self.window.clear()
            self.busy_peak, self.connections = self.busy, len(self.open)
            self.log.clear()
            return b"{}"
        if name == "health":
            return b""
        if name == "tokenize" and self.tokenizes:
            body = load(seen.body)
            prompt = body["prompt"] if "prompt" in body else prompt_of(body)
            return orjson.dumps({"count": tokens(prompt), "max_model_len": self.max_model_len})
        data = [
            {"id": model, "object": "model", "created": 0, "owned_by": "test", "max_model_len": self.max_model_len}
            for model in self.models
        ]
        return orjson.dumps({"object": "list", "data": data})


def _response(body: dict[str, Any], text: str | None, usage: dict[str, Any]) -> bytes:
    """Return the body of an answer of /responses."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}
    counts = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
    counts |= {"total_tokens": usage["total_tokens"], "input_tokens_details": {"cached_tokens": 0}}
    whole = {"id": "r", "object": "response", "created_at": 0, "status": "completed", "model": body.get("model")}
    return orjson.dumps(whole | {"output": [item], "usage": counts, "parallel_tool_calls": True, "tools": []})


def tokens(text: str) -> int:
    """Return how many tokens a text has: one, and one more for each four bytes."""
    return (len(text) if text.isascii() else len(utf8(text))) // BYTES_A_TOKEN + 1


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def main() -> None:
    """Serve until interrupted, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0, the default: any free one, which is printed")
    parser.add_argument("--latency", type=float, default=0.0, metavar="S", help="seconds that an answer takes")
    parser.add_argument("--slots", type=int, default=0, help="answers worked on at once; 0: any number")
    parser.add_argument("--rpm", type=int, default=0, help="requests in each window; 0: any number")
    parser.add_argument("--tpm", type=int, default=0, help="tokens in each window; 0: any number")
    parser.add_argument("--window", type=float, default=60.0, metavar="S", help="seconds of the limits' window")
    parser.add_argument("--count-max-tokens", action="store_true", help="count max_tokens, not the answer's tokens")
    parser.add_argument("--tells", choices=TELLS, default="", help="tell in headers how much of the limits is left")
    parser.add_argument("--fault", action="append", default=[], metavar="KIND=SHARE", help=", ".join(FAULTS))
    parser.add_argument("--calm", type=int, default=0, metavar="N", help="so many first requests have no such fault")
    parser.add_argument(
        "--fault-prompt", action="append", default=[], metavar="TEXT=KIND", help="for prompts with TEXT"
    )
    parser.add_argument("--fault-nth", action="append", default=[], metavar="N=KIND", help="for the n-th request")
    parser.add_argument("--content", action="append", metavar="TEXT", help="an answer; of several the prompt chooses")
    parser.add_argument("--huge", type=int, default=HUGE, metavar="BYTES", help="size of a huge answer")
    parser.add_argument("--log", type=Path, metavar="FILE", help="a line of JSON for each request")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    try:
        endpoint = ScriptedEndpoint(
            rates={name: float(share) for name, _, share in (one.rpartition("=") for one in given.fault)},
            calm=given.calm,
            by_prompt={text: name for text, _, name in (one.rpartition("=") for one in given.fault_prompt)},
            script={int(number): name for number, _, name in (one.partition("=") for one in given.fault_nth)},
            latency_s=given.latency,
            slots=given.slots,
            content=given.content,
            huge=given.huge,
            rpm=given.rpm,
            tpm=given.tpm,
            window_s=given.window,
            count_max_tokens=given.count_max_tokens,
            tells=given.tells,
            log_file=given.log,
            keep=False,
            seed=given.seed,
            port=given.port,
        )
    except ValueError as problem:
        parser.error(str(problem))
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with endpoint:
        sys.stdout.write(f"listening {endpoint.url}\n")
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    main()
