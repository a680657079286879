"""How many tokens prompts have, where the endpoint counts them: vLLM and its kin do."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlenrich.llm.endpoint.server_info import OPENER

AT_ONCE = 4
PROBE = "Hello"
RUN_A_FEW = "run a few rows first (--max-rows 100), their answers tell"
UNCOUNTED = (OSError, ValueError, http.client.HTTPException)


def token_counter(
    url: str, api_key: str | None, model: str, *, timeout_s: float = 10.0
) -> Callable[[Sequence[str]], list[int | None]] | str:
    """Give what counts the tokens of prompts, each as one user message in the model's chat template.

    ``url`` is that of the completions; the page ``/tokenize`` lies beside its ``/v1``. It is first asked about a word
    that is nobody's data: where that is not counted, why, and what to do. A prompt that can't be counted counts None.
    """
    place, _, query = url.partition("?")
    shown = place.rstrip("/").removesuffix("/v1") + "/tokenize"
    page = shown + (f"?{query}" if query else "")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}

    def ask(prompt: str) -> int:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()
        request = urllib.request.Request(page, data=body, headers=headers)
        with OPENER.open(request, timeout=timeout_s) as response:
            answer = json.load(response)
        found = answer.get("count") if isinstance(answer, dict) else None
        if type(found) is not int or found <= 0:
            raise ValueError
        return found

    def count(prompt: str) -> int | None:
        try:
            return ask(prompt)
        except UNCOUNTED:
            return None

    def count_all(prompts: Sequence[str]) -> list[int | None]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(count, prompts))

    try:
        ask(PROBE)
    except UNCOUNTED as error:
        return f"{shown} {_why_not(error)}"
    return count_all


def _why_not(error: Exception) -> str:
    """Say why an endpoint counts nothing. Of the error only its kind: its text may hold what was sent."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        if error.code in (401, 403):
            return f"refuses the key (HTTP {error.code}): set the variable that api_key_env names, or OPENAI_API_KEY"
        if error.code in (404, 405, 501):
            return f"is not there (HTTP {error.code}), for only vLLM and its kin count: {RUN_A_FEW}"
        return f"fails (HTTP {error.code}): look at the server, or {RUN_A_FEW}"
    if isinstance(error, OSError):
        reason = getattr(error, "reason", error)
        words = reason.strerror if isinstance(reason, OSError) and reason.strerror else type(reason).__name__
        return f"can't be reached ({words}): start the server, or correct the url"
    return f"gives no count: {RUN_A_FEW}"
