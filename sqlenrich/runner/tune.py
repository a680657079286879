"""``sqlenrich tune``: how many requests in flight an endpoint works on best, measured by doubling them."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sqlenrich.ask.model_choice import only_model
from sqlenrich.ask.observer import NullObserver, Observer
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.result import Result
from sqlenrich.core.text_table import table
from sqlenrich.llm.messages import Request
from sqlenrich.spec.settings import Config, find_config

PROMPT = "{number}. Classify the customer message: my card has not arrived and I need it for a trip. Answer in a word."


@dataclass(frozen=True)
class TunePolicy:
    """How an endpoint is tried."""

    first: int = 4
    most: int = 1024
    seconds: float = 6.0
    """How long each width is tried, ..."""
    latencies: float = 3.0
    """... and for at least this many latencies of the width before."""
    gain: float = 1.15
    """Doubling the width is worth it where the rate grows by this factor."""
    enough: float = 0.9
    """The smallest width with this share of the best rate is chosen."""
    failures: float = 0.02
    """At this share of failed requests the widths end."""
    max_tokens: int = 16


@dataclass(frozen=True)
class Width:
    """What an endpoint did with so many requests in flight."""

    width: int
    rate: float
    """Answers a second."""
    p50_ms: int
    p95_ms: int
    failed: float
    """The share of requests that failed or were refused."""


@dataclass(frozen=True, repr=False)
class Tuned(Result):
    """The widths that were tried, and the best one. ``written`` is the file that has it now, None for none."""

    url: str
    model: str
    widths: tuple[Width, ...]
    concurrency: int
    written: str | None

    def to_text(self) -> str:
        """Return it as a table and a line that says what is set."""
        lines = [["width", "answers/s", "p50 ms", "p95 ms", "failed"]]
        lines += [
            [f"{one.width}", f"{one.rate:,.1f}", f"{one.p50_ms:,}", f"{one.p95_ms:,}", f"{one.failed:.1%}"]
            for one in self.widths
        ]
        where = f"written to {self.written}" if self.written else "write it under [endpoints.NAME] in sqlenrich.toml"
        return "\n".join([*table(lines, 80), f"concurrency = {self.concurrency}: {where}"])


def tune(
    endpoint: str | Endpoint,
    *,
    model: str | None = None,
    write: bool = True,
    config: Config | None = None,
    observer: Observer | None = None,
    policy: TunePolicy | None = None,
) -> Tuned:
    """Find how many requests in flight an endpoint works on best, and write it to ``sqlenrich.toml``.

    The width is doubled until the rate of answers no longer grows, or requests fail. ``endpoint`` is a URL, a name of
    the settings, or an :class:`~sqlenrich.Endpoint`; ``model`` the model's own name, by default the only one there. The
    setting is written where the settings name the endpoint, unless ``write`` is false. Each width asks for some
    seconds: an endpoint that costs money takes some hundreds of short requests. Raises ConfigError, RunError.
    """
    config = config if config is not None else find_config(None)
    settings = endpoint if isinstance(endpoint, Endpoint) else config.endpoint(endpoint)
    settings = replace(settings, concurrency=None)
    name = model or settings.model or only_model(settings)
    policy, observer = policy or TunePolicy(), observer or NullObserver()
    widths: list[Width] = []
    width, seconds = policy.first, policy.seconds
    while width <= policy.most:
        found = _try(settings, name, width, seconds, policy)
        widths.append(found)
        observer.note(f"width {width}: {found.rate:,.1f} answers/s, p50 {found.p50_ms:,} ms")
        grown = len(widths) == 1 or found.rate >= policy.gain * widths[-2].rate
        if not grown or found.failed > policy.failures:
            break
        width, seconds = 2 * width, max(policy.seconds, policy.latencies * found.p50_ms / 1000)
    best = max(one.rate for one in widths)
    chosen = next(one.width for one in widths if one.rate >= policy.enough * best)
    written = _write(config, settings, chosen) if write else None
    return Tuned(settings.url, name, tuple(widths), chosen, written)


def _try(settings: Endpoint, model: str, width: int, seconds: float, policy: TunePolicy) -> Width:
    """Ask for some seconds with so many requests in flight."""
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.endpoint.batched_model import endpoint_model
    from sqlenrich.llm.endpoint.request_config import RequestConfig

    config = RequestConfig(model, params={"max_tokens": policy.max_tokens}, max_tries=1, max_refusals=1)
    asked = endpoint_model(replace(settings, concurrency=width), config)
    latencies: list[int] = []
    failed = 0
    last = ""
    with Client(asked, concurrency=width, batch_rows=max(1, width // 8)) as client:
        client.preflight([_request(0)])
        timer = threading.Timer(seconds, client.stop)
        timer.start()
        began = time.monotonic()
        try:
            for batch in client.stream(_requests()):
                for answer in batch:
                    if answer.call_error is None:
                        latencies.append(answer.latency_ms or 0)
                    else:
                        failed, last = failed + 1, answer.call_error
        finally:
            timer.cancel()
        lasted = time.monotonic() - began
    if not latencies:
        raise RunError(f"{settings.url} answers nothing with {width} requests in flight: {last or 'no answer in time'}")
    latencies.sort()
    p50, p95 = (latencies[min(len(latencies) - 1, len(latencies) * share // 100)] for share in (50, 95))
    return Width(width, round(len(latencies) / lasted, 3), p50, p95, round(failed / (failed + len(latencies)), 4))


def _requests() -> Iterator[Request]:
    number = 0
    while True:
        number += 1
        yield _request(number)


def _request(number: int) -> Request:
    # Different at the beginning: a cache of prefixes would answer faster than it does in a run.
    return Request(f"{number}-{time.monotonic_ns()}", 1, PROMPT.format(number=f"{number}-{time.monotonic_ns()}"))


def _write(config: Config, settings: Endpoint, concurrency: int) -> str | None:
    """Set ``concurrency`` of the endpoint in its file, and leave all else as it is; None where no file names it."""
    names = [name for name, known in config.endpoints.items() if known.urls == settings.urls]
    if config.path is None or not names:
        return None
    written = _with_concurrency(config.path.read_text(encoding="utf-8"), names[0], concurrency)
    if written is None:
        raise ConfigError(f"{config.path}: write concurrency = {concurrency} under [endpoints.{names[0]}] by hand")
    Path(config.path).write_text(written, encoding="utf-8")
    return str(config.path)


def _with_concurrency(text: str, name: str, concurrency: int) -> str | None:
    """Return a settings file with the concurrency of an endpoint; None where its table is not written as one."""
    head = re.search(rf'(?m)^\[endpoints\.(?:{re.escape(name)}|"{re.escape(name)}")\][^\n]*\n', text)
    if head is None:
        return None
    end = re.search(r"(?m)^\[", text[head.end() :])
    body = text[head.end() : head.end() + end.start()] if end else text[head.end() :]
    line = re.compile(r"(?m)^(concurrency[ \t]*=[ \t]*)\d+")
    set_again = line.sub(rf"\g<1>{concurrency}", body, count=1)
    changed = set_again if line.search(body) else f"concurrency = {concurrency}\n{body}"
    return text[: head.end()] + changed + text[head.end() + len(body) :]
