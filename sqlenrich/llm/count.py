"""How many tokens prompts have, where the endpoint counts them: vLLM and its kin do."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from .discover import OPENER

AT_ONCE = 4
PROBE = "Hello"


def token_counter(
    url: str, api_key: str | None, model: str, *, timeout_s: float = 10.0
) -> Callable[[Sequence[str]], list[int | None]] | None:
    """Give what counts the tokens of prompts, each as one user message in the model's chat template.

    ``url`` is that of the completions; the page ``/tokenize`` lies beside its ``/v1``. It is first asked about a word
    that is nobody's data: None where that is not counted. A prompt that can't be counted counts None.
    """
    place, _, query = url.partition("?")
    page = place.rstrip("/").removesuffix("/v1") + "/tokenize" + (f"?{query}" if query else "")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}

    def count(prompt: str) -> int | None:
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]}).encode()
        request = urllib.request.Request(page, data=body, headers=headers)
        try:
            with OPENER.open(request, timeout=timeout_s) as response:
                answer = json.load(response)
        except (OSError, ValueError, http.client.HTTPException):
            return None
        found = answer.get("count") if isinstance(answer, dict) else None
        return found if type(found) is int and found > 0 else None

    def count_all(prompts: Sequence[str]) -> list[int | None]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(count, prompts))

    return None if count(PROBE) is None else count_all
