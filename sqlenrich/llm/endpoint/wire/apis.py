"""Which API an endpoint has."""

from __future__ import annotations

from urllib.parse import urlsplit

from sqlenrich.core.endpoint import Endpoint

ANTHROPIC_HOST = "api.anthropic.com"


def api_of(endpoint: Endpoint) -> str:
    """Return the API of an endpoint: the setting's, or by the URL."""
    if endpoint.api is not None:
        return endpoint.api
    url = urlsplit(endpoint.url)
    return "anthropic" if url.hostname == ANTHROPIC_HOST or "/publishers/anthropic" in url.path else "openai"


def form_name(endpoint: Endpoint) -> str:
    """Return the wire form of an endpoint: its API, or the cloud that has it in a form of its own."""
    api, host = api_of(endpoint), urlsplit(endpoint.url).hostname or ""
    if api != "anthropic":
        return api
    if host.startswith("bedrock-runtime."):
        return "bedrock"
    return "vertex" if host.endswith("aiplatform.googleapis.com") else api
