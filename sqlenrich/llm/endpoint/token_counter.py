"""How many tokens prompts have, where the endpoint counts them: vLLM and its kin do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import orjson

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.failure import MEND_KEY, unreached_text
from sqlenrich.llm.endpoint.http import HttpError, HttpResponse, target_of
from sqlenrich.llm.endpoint.page import send_all
from sqlenrich.llm.endpoint.response import load_json, storable

PROBE = "Hello"
RUN_A_FEW = "run a few rows first (--max-rows 100), their answers tell"


def token_counter(
    endpoint: Endpoint, url: str, model: str, *, timeout_s: float = 10.0
) -> Callable[[Sequence[str]], list[int | None]] | str:
    """Return what counts the tokens of prompts, each as one user message in the model's chat template.

    ``url`` is that of the completions; the page ``/tokenize`` lies beside its ``/v1``. It is first asked about a word
    that is nobody's data: where that is not counted, why, and what to do. A prompt that can't be counted counts None.
    """
    place, _, query = url.partition("?")  # a query can hold a key
    shown = place.rstrip("/").removesuffix("/v1") + "/tokenize"
    target = target_of(urlsplit(shown + (f"?{query}" if query else "")))

    def ask(prompts: Sequence[str]) -> list[HttpResponse | HttpError | OSError]:
        bodies = [
            orjson.dumps({"model": model, "messages": [{"role": "user", "content": storable(prompt)}]})
            for prompt in prompts
        ]
        return send_all(endpoint, url, "POST", target, bodies, timeout_s=timeout_s)

    def count(prompts: Sequence[str]) -> list[int | None]:
        return [_count(found) for found in ask(prompts)]

    (found,) = ask([PROBE])
    return count if _count(found) is not None else f"{shown} {_why_not(found)}"


def _count(found: HttpResponse | HttpError | OSError) -> int | None:
    if not isinstance(found, HttpResponse) or found.status != 200:
        return None
    try:
        answer = load_json(found.body)
    except (ValueError, RecursionError):
        return None
    count = answer.get("count") if isinstance(answer, dict) else None
    return count if type(count) is int and count > 0 else None


def _why_not(found: HttpResponse | HttpError | OSError) -> str:
    """Say why an endpoint counts nothing."""
    if not isinstance(found, HttpResponse):
        return f"can't be reached ({unreached_text(found)}): start the server, or correct the url"
    if found.status in (401, 403):
        return f"refuses the key (HTTP {found.status}): {MEND_KEY}"
    if found.status in (404, 405, 501):
        return f"is not there (HTTP {found.status}), for only vLLM and its kin count: {RUN_A_FEW}"
    if found.status != 200:
        return f"fails (HTTP {found.status}): look at the server, or {RUN_A_FEW}"
    return f"gives no count: {RUN_A_FEW}"
