"""Which models an endpoint offers."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.llm.endpoint.failure import MEND_KEY, unreached_text
from sqlenrich.llm.endpoint.http import HttpError, target_of
from sqlenrich.llm.endpoint.page import send_once
from sqlenrich.llm.endpoint.response import load_json


def list_models(endpoint: Endpoint, url: str, *, timeout_s: float = 10.0) -> list[str]:
    """Return the names that ``GET /models`` lists at one of the URLs; none where the endpoint has no such page.

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
    return [str(model["id"]) for model in models if isinstance(model, dict) and "id" in model]
