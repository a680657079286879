"""Which models an endpoint offers."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from ..errors import ConfigError, RunError


def list_models(url: str, api_key: str | None, *, timeout_s: float = 10.0) -> list[str]:
    """Give the names that ``GET /models`` lists; none where the endpoint has no such page.

    Raises RunError where nothing answers, and where the endpoint refuses the key.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f'the endpoint "{url}" must start with http:// or https://')
    request = urllib.request.Request(f"{url}/models")
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            body = json.load(response)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (401, 403):
            raise RunError(
                f"{url} refuses the key (HTTP {error.code}): set the variable that api_key_env names, or OPENAI_API_KEY"
            ) from None
        return []
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise RunError(f"{url} can't be reached: {reason}; is the server running, and the URL right?") from None
    data = body.get("data") if isinstance(body, dict) else None
    return [str(model["id"]) for model in data or () if isinstance(model, dict) and "id" in model]
