"""A caller's request: its canonical body, which identifies it, and what it wants of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from sqlenrich.core.errors import ConfigError
from sqlenrich.gateway.pages import Page

STREAMED = ("stream", "stream_options")
"""The fields that say how an answer is told, not which one."""
UNORDERED = ("messages", "input")
"""The fields whose objects may have their names in any order. In a schema the order counts: models write in it."""
LARGEST_NUMBER = 2.0**63
"""A whole number from here on is read as a float, in which other numbers are equal to it."""


class UnreadableError(Exception):
    """A body that can't be read: it is passed on as it is, and its answer is not stored."""


class Caching(NamedTuple):
    """What a caller's ``Cache-Control`` says; ``sample`` numbers one of several answers to equal requests."""

    no_store: bool = False
    no_cache: bool = False
    only_stored: bool = False
    max_age_s: float | None = None
    sample: str = ""

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> Caching:
        """Read the headers of a request, their names in lower case. Raises ConfigError for a number that is none."""
        if "cache-control" not in headers and "x-sqlenrich-sample" not in headers:
            return PLAIN
        found: dict[str, str] = {}
        for directive in headers.get("cache-control", "").lower().split(","):
            name, _, value = directive.strip().partition("=")
            found[name] = value.strip('" ')
        sample, age = headers.get("x-sqlenrich-sample", ""), found.get("max-age")
        if sample and not (sample.isascii() and sample.isdigit()):
            raise ConfigError(f'x-sqlenrich-sample is a whole number, not "{sample[:20]}"')
        if age is not None and not (age.isascii() and age.isdigit()):
            raise ConfigError(f'max-age of Cache-Control is a number of seconds, not "{age[:20]}"')
        return cls(
            no_store="no-store" in found,
            no_cache="no-cache" in found,
            only_stored="only-if-cached" in found,
            max_age_s=None if age is None else float(age),
            sample=sample.lstrip("0"),
        )


PLAIN = Caching()


class GatewayRequest(NamedTuple):
    """A request as it is sent on, and as it is identified."""

    page: Page
    sent: str
    """The body for the endpoint."""
    model: str
    canonical: str
    """The body with its fields in order, less what only says how the answer is told."""
    stream: bool
    usage: bool
    """Whether a stream ends with the usage."""
    fixed: bool
    """Whether the same answer is expected each time: temperature 0, a seed, or vectors."""
    background: bool
    """Whether the answer is to be fetched later: it is none that can be stored."""
    max_tokens: int | None


def read_request(page: Page, raw: bytes, extra_body: Mapping[str, Any]) -> GatewayRequest:
    """Read the body of a request. Raises UnreadableError for one that is no JSON object with a model."""
    try:
        written = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise UnreadableError("the body is not JSON") from None
    if not isinstance(written, dict) or not isinstance(written.get("model"), str):
        raise UnreadableError("the body is no JSON object with a model")
    fields = {**written, **extra_body}
    asked = {name: value for name, value in fields.items() if name not in STREAMED}
    if any(isinstance(value, float) and abs(value) >= LARGEST_NUMBER for value in asked.values()):
        raise UnreadableError("the body has a number that is too large")
    changed = len(asked) < len(fields) or bool(extra_body)
    options, bounds = fields.get("stream_options"), (asked.get(name) for name in page.max_tokens)
    return GatewayRequest(
        page=page,
        sent=(orjson.dumps(asked) if changed else raw).decode(),
        model=str(asked["model"]),
        canonical=_canonical(asked),
        stream=fields.get("stream") is True and page.events is not None,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        fixed=page.events is None or asked.get("temperature") == 0 or asked.get("seed") is not None,
        background=asked.get("background") is True,
        max_tokens=next((bound for bound in bounds if isinstance(bound, int)), None),
    )


def _canonical(asked: Mapping[str, Any]) -> str:
    parts = []
    for name in sorted(asked):
        option = orjson.OPT_SORT_KEYS if name in UNORDERED else None
        parts.append(orjson.dumps(name) + b":" + orjson.dumps(asked[name], option=option))
    return (b"{" + b",".join(parts) + b"}").decode()
