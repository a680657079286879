"""Which models an endpoint offers, and what time it is there."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.llm.endpoint.failure import MEND_KEY, unreached_text
from sqlenrich.llm.endpoint.http import HttpError, target_of
from sqlenrich.llm.endpoint.page import send_once
from sqlenrich.llm.endpoint.response import load_json


class ServerInfo(NamedTuple):
    """What ``GET /models`` tells: the names, none where there is no such page, and the difference of the clocks."""

    models: tuple[str, ...]
    ahead_s: float | None = None
    """How far the clock here is ahead of the server's; None where it tells no time."""


def list_models(endpoint: Endpoint, url: str, *, timeout_s: float = 10.0) -> list[str]:
    """Return the names that ``GET /models`` lists at one of the URLs. Raises as :func:`ask_server` does."""
    return list(ask_server(endpoint, url, timeout_s=timeout_s).models)


def ask_server(endpoint: Endpoint, url: str, *, timeout_s: float = 10.0) -> ServerInfo:
    """Return what one of the URLs tells of itself.

    Raises RunError where nothing answers, and where the endpoint refuses the key; ConfigError.
    """
    shown = url.partition("?")[0]  # a query can hold a key
    try:
        response = send_once(endpoint, url, "GET", target_of(urlsplit(url), "/models"), timeout_s=timeout_s)
    except (HttpError, OSError) as error:
        why = unreached_text(error)
        raise RunError(f"{shown} can't be reached: {why}; is the server running, and the URL right?") from None
    if response.status in (401, 403):
        raise RunError(f"{shown} refuses the key (HTTP {response.status}): {MEND_KEY}")
    try:
        body = load_json(response.body) if response.status == 200 else None
    except (ValueError, RecursionError):
        body = None
    data = body.get("data") if isinstance(body, dict) else None
    models = data if isinstance(data, list) else []
    names = tuple(str(model["id"]) for model in models if isinstance(model, dict) and "id" in model)
    return ServerInfo(names, _ahead_s(response.headers.get("date")))


def _ahead_s(written: str | None) -> float | None:
    """Return how far the clock here is ahead of a ``Date`` header."""
    try:
        told = parsedate_to_datetime(written or "")
    except ValueError:
        return None
    return (datetime.now(UTC) - told.astimezone(UTC)).total_seconds()
