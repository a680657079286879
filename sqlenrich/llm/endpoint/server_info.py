"""Which models an endpoint offers."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request

from sqlenrich.core.errors import RunError


def list_models(url: str, api_key: str | None, *, timeout_s: float = 10.0) -> list[str]:
    """Give the names that ``GET /models`` lists; none where the endpoint has no such page.

    Raises RunError where nothing answers, and where the endpoint refuses the key.
    """
    shown, _, query = url.partition("?")  # a query can hold a key
    request = urllib.request.Request(f"{shown}/models" + (f"?{query}" if query else ""))
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with OPENER.open(request, timeout=timeout_s) as response:
            body = json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            raise RunError(
                f"{shown} refuses the key (HTTP {error.code}): "
                "set the variable that api_key_env names, or OPENAI_API_KEY"
            ) from None
        return []
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Of the error only its kind: its text may hold what was sent.
        reason = getattr(error, "reason", None)
        words = reason if isinstance(reason, OSError) else type(error).__name__
        raise RunError(f"{shown} can't be reached: {words}; is the server running, and the URL right?") from None
    data = body.get("data") if isinstance(body, dict) else None
    models = data if isinstance(data, list) else []
    return [str(model["id"]) for model in models if isinstance(model, dict) and "id" in model]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key must not follow to where somebody else points."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Take a redirect for the answer that it is."""


OPENER = urllib.request.build_opener(_NoRedirect)
