"""The table of wire forms, and which of them an endpoint has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import quote, urlsplit

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.endpoint.adaptations import RequestChange
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion
from sqlenrich.llm.endpoint.wire.apis import ANTHROPIC_HOST, api_of, form_name
from sqlenrich.llm.endpoint.wire.chat_completions import CHAT_COMPLETIONS
from sqlenrich.llm.endpoint.wire.chat_form import ChatForm
from sqlenrich.llm.endpoint.wire.embeddings import EmbeddingBody
from sqlenrich.llm.endpoint.wire.kserve import METADATA_PAGE, KServeBody
from sqlenrich.llm.endpoint.wire.messages import BEDROCK, MESSAGES, VERTEX
from sqlenrich.llm.endpoint.wire.request_body import RequestBody
from sqlenrich.llm.endpoint.wire.responses import RESPONSES

ANTHROPIC_VERSION = "2023-06-01"
"""The version that takes temperature, top_p and top_k. 2026-10-21 refuses them.

https://platform.claude.com/docs/en/api/versioning, read 2026-11-27.
"""


class Body(Protocol):
    """Writes the bodies of requests and reads their answers. ``changes``: what it writes otherwise after refusals."""

    page: str
    changes: list[RequestChange]

    @property
    def fields(self) -> frozenset[str]:
        """The names of the constant fields beside the model."""
        ...

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the exact bytes of the request for some prompts."""
        ...

    def change(self, name: str, known: int) -> bool:
        """Change what is written, after a request of ``known`` changes was refused; False where that can't be."""
        ...

    def change_for(self, message: str, param: str) -> str:
        """Return the change that a refusal calls for, "" for none."""
        ...

    def refused_field(self, message: str, param: str) -> str:
        """Return the parameter of the prompt file that a refusal names, "" for none."""
        ...

    def change_text(self, refusal: str) -> str:
        """Say what was refused last, and what is done instead."""
        ...

    def read(self, raw: bytes) -> Completion | BatchCompletion:
        """Return what the body of an HTTP 200 says. Raises ValueError, with a short text, for no answer."""
        ...


Headers = Callable[[Endpoint, str], Mapping[str, str]]


@dataclass(frozen=True)
class WireForm:
    """One API: what its requests hold, and where they go."""

    chat: ChatForm | None
    """None: it takes no conversation."""
    key: Headers
    """Returns the headers that show an endpoint's key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of each request."""
    models_page: str = "/models"
    """The page that shows the models, or the model."""


def _bearer(_: Endpoint, key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _anthropic_key(endpoint: Endpoint, key: str) -> dict[str, str]:
    """Return Anthropic's own header. Servers that copy it take that or a bearer token."""
    own = {"x-api-key": key}
    return own if urlsplit(endpoint.url).hostname == ANTHROPIC_HOST else {**own, **_bearer(endpoint, key)}


WIRE_FORMS: Mapping[str, WireForm] = {
    "openai": WireForm(CHAT_COMPLETIONS, _bearer),
    "responses": WireForm(RESPONSES, _bearer),
    "anthropic": WireForm(MESSAGES, _anthropic_key, {"anthropic-version": ANTHROPIC_VERSION}),
    "bedrock": WireForm(BEDROCK, _bearer),
    "vertex": WireForm(VERTEX, _bearer),
    "kserve": WireForm(None, _bearer, models_page=METADATA_PAGE),
}
"""Each API by its name; ``bedrock`` and ``vertex`` have Anthropic's messages."""


def takes_several(endpoint: Endpoint, config: RequestConfig) -> bool:
    """Whether one request may have several texts."""
    return config.embedding is not None or WIRE_FORMS[form_name(endpoint)].chat is None


def new_body(endpoint: Endpoint, config: RequestConfig) -> Body:
    """Return what writes the bodies of an endpoint's requests. Raises ConfigError for what its API doesn't have."""
    form = WIRE_FORMS[form_name(endpoint)]
    if form.chat is None:
        return KServeBody(config, endpoint.kserve_settings, endpoint.extra_body)
    if config.embedding is not None:
        if api_of(endpoint) == "anthropic":
            raise ConfigError("Anthropic has no vectors: name another endpoint for an enrichment with embed")
        return EmbeddingBody(config, config.embedding, endpoint.extra_body, endpoint.embed_batch)
    return RequestBody(config, endpoint.extra_body, form=form.chat)


def key_headers(endpoint: Endpoint, key: str | None) -> dict[str, str]:
    """Return the headers that a wire form adds to each request."""
    form = WIRE_FORMS[form_name(endpoint)]
    return {**form.headers, **({} if key is None else form.key(endpoint, key))}


def named_page(page: str, model: str) -> str:
    """Return a page with the model's name, where it has one."""
    return page.replace("{model}", quote(model, safe="@:"))


def models_page(endpoint: Endpoint, model: str) -> str:
    """Return the page that shows the models, or the model."""
    return named_page(WIRE_FORMS[form_name(endpoint)].models_page, model)
