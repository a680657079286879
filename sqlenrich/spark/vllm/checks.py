"""What a keeper asks its server: its health, its metrics, a text. Standard library only.

The names of the metrics are those of vLLM 0.20 and later: https://docs.vllm.ai/en/stable/design/metrics/, read
2026-11-23, and seen on vLLM 0.32.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

_METRICS: Mapping[str, str] = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_use",
    "vllm:prefix_cache_queries_total": "prefix_tokens",
    "vllm:prefix_cache_hits_total": "prefix_hit_tokens",
    "vllm:prompt_tokens_total": "tokens_in",
    "vllm:generation_tokens_total": "tokens_out",
}
_MEANS = frozenset({"kv_use"})
"""Shares: several engines of one server have a mean, where counts have a sum."""
TRIAL_TOKENS = 2


class CheckError(Exception):
    """A server did not answer as a healthy one does; the text says how."""


@dataclass(frozen=True)
class Metrics:
    """What a server's ``/metrics`` say: requests, tokens, and the share of the KV cache that is in use."""

    running: float = 0.0
    waiting: float = 0.0
    kv_use: float = 0.0
    prefix_tokens: float = 0.0
    prefix_hit_tokens: float = 0.0
    tokens_in: float = 0.0
    tokens_out: float = 0.0


def read_metrics(text: str) -> Metrics:
    """Return the metrics of a page in Prometheus's text format; what it does not have is 0."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        series, _, value = line.rpartition(" ")
        if (name := _METRICS.get(series.partition("{")[0])) is not None:
            found.setdefault(name, []).append(float(value))
    return Metrics(**{name: sum(values) / (len(values) if name in _MEANS else 1) for name, values in found.items()})


@dataclass(frozen=True)
class Server:
    """A server, by the URL that its clients use (``http://host:port/v1``), and the key that it wants."""

    url: str
    key: str | None = field(default=None, repr=False)

    async def health(self, timeout_s: float) -> Metrics:
        """Return the metrics of a healthy server. Raises CheckError."""
        async with _limit(timeout_s, "/health and /metrics"):
            await self._ask("GET", "/health")
            return read_metrics((await self._ask("GET", "/metrics")).decode("utf-8", "replace"))

    async def model(self, timeout_s: float) -> str:
        """Return the name of the first model that it serves. Raises CheckError."""
        async with _limit(timeout_s, "/v1/models"):
            answer = _json(await self._ask("GET", "/v1/models"))
        try:
            return str(answer["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise CheckError("/v1/models names no model") from None

    async def generate(self, model: str, timeout_s: float) -> None:
        """Have it generate a short text. Raises CheckError."""
        body = {"model": model, "prompt": "Hello", "max_tokens": TRIAL_TOKENS, "temperature": 0}
        async with _limit(timeout_s, "the trial text"):
            answer = _json(await self._ask("POST", "/v1/completions", body))
        if not (isinstance(answer, dict) and answer.get("choices")):
            raise CheckError("the trial text has no choices")

    async def _ask(self, method: str, page: str, body: Any = None) -> bytes:
        """Return the body of an answer with status 200. HTTP/1.0: the connection's end is the answer's."""
        url = urlsplit(self.url)
        secure = url.scheme == "https"
        prefix = url.path.rstrip("/").removesuffix("/v1")
        raw = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {prefix}{page} HTTP/1.0", f"Host: {url.netloc}", f"Content-Length: {len(raw)}"]
        head += ["Content-Type: application/json"] if raw else []
        head += [f"Authorization: Bearer {self.key}"] if self.key else []
        try:
            reader, writer = await asyncio.open_connection(
                url.hostname, url.port or (443 if secure else 80), ssl=secure or None
            )
            try:
                writer.write("\r\n".join([*head, "", ""]).encode() + raw)
                answer = await reader.read(-1)
            finally:
                writer.close()
        except OSError as error:
            raise CheckError(f"{page}: {error.strerror or error}") from None
        status, _, rest = answer.partition(b"\r\n")
        _, _, code = status.decode("latin-1").partition(" ")
        if not code.startswith("200"):
            raise CheckError(f"{page}: {code[:80] or 'no answer'}")
        return rest.partition(b"\r\n\r\n")[2]


@asynccontextmanager
async def _limit(seconds: float, what: str) -> AsyncIterator[None]:
    """Raise CheckError where the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise CheckError(f"{what}: no answer within {seconds:g} s") from None


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        raise CheckError("the answer is not JSON") from None
