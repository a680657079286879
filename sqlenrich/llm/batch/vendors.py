"""The table of the vendors of batches, and which of them an endpoint is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlenrich.core.endpoint import FOLDER_SCHEME, Endpoint
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.llm.batch.anthropic_vendor import AnthropicVendor
from sqlenrich.llm.batch.folder_vendor import FolderVendor
from sqlenrich.llm.batch.openai_vendor import OpenAIVendor
from sqlenrich.llm.batch.vendor import BatchLimits, BatchVendor
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.wire.apis import api_of
from sqlenrich.llm.endpoint.wire.forms import Body, new_body

NEVER_IN_BATCHES = ("stream",)
"""The changes of live requests that no batch has: its answers are whole."""

Make = Callable[[Endpoint, RequestConfig, Sequence[RequestChange], BatchLimits | None], BatchVendor]


def batch_body(endpoint: Endpoint, config: RequestConfig, changes: Sequence[RequestChange] = ()) -> Body:
    """Return the writer of bodies that equal those of live requests after some changes."""
    body = new_body(endpoint, config)
    for change in changes:
        if change.name not in NEVER_IN_BATCHES:
            body.change(change.name, len(body.changes))
    return body


def _openai(
    endpoint: Endpoint, config: RequestConfig, changes: Sequence[RequestChange], limits: BatchLimits | None
) -> BatchVendor:
    return OpenAIVendor(endpoint, batch_body(endpoint, config, changes), limits)


def _anthropic(
    endpoint: Endpoint, config: RequestConfig, changes: Sequence[RequestChange], limits: BatchLimits | None
) -> BatchVendor:
    return AnthropicVendor(endpoint, batch_body(replace(endpoint, api="anthropic"), config, changes), limits)


def _folder(
    endpoint: Endpoint, config: RequestConfig, changes: Sequence[RequestChange], limits: BatchLimits | None
) -> BatchVendor:
    path = Path(unquote(urlsplit(endpoint.url).path))
    return FolderVendor(path, batch_body(endpoint, config, changes), limits)


VENDORS: Mapping[str, Make] = {"openai": _openai, "anthropic": _anthropic, "folder": _folder}


def vendor_name(endpoint: Endpoint) -> str:
    """Return the vendor that the URL of an endpoint names: ``openai`` is also who copies it."""
    url = urlsplit(endpoint.url)
    if url.scheme == FOLDER_SCHEME:
        return "folder"
    api = api_of(endpoint)
    return "openai" if api == "responses" else api


def batch_vendor(
    endpoint: Endpoint,
    config: RequestConfig,
    *,
    name: str | None = None,
    changes: Sequence[RequestChange] = (),
    limits: BatchLimits | None = None,
) -> BatchVendor:
    """Return the vendor of batches behind an endpoint; nothing is sent, and no SDK imported, before it is entered.

    ``name`` is one of ``VENDORS``, by default what the endpoint's ``api`` or its URL says. ``changes`` are those of a
    live model that asked before (:attr:`.EndpointModel.changes`). ``limits`` replace the vendor's. Raises ConfigError.
    """
    chosen = vendor_name(endpoint) if name is None else name
    if chosen not in VENDORS:
        raise ConfigError(f'no vendor of batches "{chosen}"{did_you_mean(chosen, VENDORS)}: {", ".join(VENDORS)}')
    return VENDORS[chosen](endpoint, config, changes, limits)
