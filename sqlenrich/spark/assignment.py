"""What workers are told to ask, as the desk hands it out and as a worker reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.turn import Turn
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig
from sqlenrich.llm.messages import AnsweredRequest
from sqlenrich.spark.vllm.placement import own_server_first

HANDED = ("url", "others", "timeout", "prefix_order", "model", "origin", "client_cert", "client_key", "embed_batch")
"""The settings of an endpoint that workers get as they are. Files must be at the same places on executors."""
_PARTS: Mapping[str, type[OutputForm] | type[Turn]] = {"fallbacks": OutputForm, "turns": Turn}
"""The settings of a request that are tuples of named parts, which JSON has not."""
A_TOKEN = Decimal("0.000001")


@dataclass(frozen=True)
class Assignment:
    """What workers ask: the model and its parameters at the endpoint, and what stands beside each answer."""

    endpoint: Endpoint | None
    """None: a class of the user, which travels with the tasks."""
    config: RequestConfig | None
    """None: a worker says itself what it sends."""
    origin: Mapping[str, str | None] = field(default_factory=dict)
    price: Mapping[str, str] | None = None
    """The prices of a million tokens, by ``input``, ``cached`` and ``output``."""
    answered: AnsweredRequest | None = None
    """A request that the model has answered: the canary of workers that have got no answer yet."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, without the endpoint's key."""
        served: dict[str, Any] = {"endpoint": None, "headers": {}}
        if self.endpoint is not None:
            settings = {name: getattr(self.endpoint, name) for name in HANDED}
            served["endpoint"] = {**settings, "extra_body": dict(self.endpoint.extra_body)}
            served["headers"] = self.endpoint.resolve_headers()
        return {
            **served,
            "config": None if self.config is None else _written(self.config),
            "origin": dict(self.origin),
            "answered": None if self.answered is None else list(self.answered),
        }

    def resolve_key(self) -> str | None:
        """Return the endpoint's key. Raises ConfigError."""
        return None if self.endpoint is None else self.endpoint.resolve_key()


@dataclass(frozen=True)
class HandedEndpoint(Endpoint):
    """An endpoint whose headers the driver has read."""

    handed: Mapping[str, str] = field(default_factory=dict, repr=False)

    def resolve_headers(self) -> dict[str, str]:
        """Return the headers with their values."""
        return dict(self.handed)


class HandedKey:
    """A key that the desk hands out, and reads again where the endpoint refuses it."""

    def __init__(self, key: str | None, again: Callable[[], str | None]) -> None:
        self._key, self._again, self._given = key, again, False

    def resolve(self) -> str | None:
        """Return the key."""
        if self._given and self._key is not None:
            self._key = self._again()
        self._given = True
        return self._key


def _written(config: RequestConfig) -> dict[str, Any]:
    parts = {name: [part._asdict() for part in getattr(config, name)] for name in _PARTS}
    return {**asdict(config), **parts}


def config_of(written: Mapping[str, Any]) -> RequestConfig:
    """Return what a desk has handed out to be sent with every request."""
    parts: dict[str, Any] = {name: tuple(kind(**part) for part in written[name]) for name, kind in _PARTS.items()}
    if (vector := written["embedding"]) is not None:
        parts["embedding"] = Embedding(**vector)
    return RequestConfig(**{**written, **parts})


def endpoint_of(settings: Mapping[str, Any], key: HandedKey) -> Endpoint:
    """Return the endpoint that a desk has handed out, the server beside this executor first where there is one."""
    written = settings["endpoint"]
    others = tuple(written["others"])
    endpoint = HandedEndpoint(**{**written, "others": others}, api_key=key, handed=settings["headers"])
    return own_server_first(endpoint)


def price_of(price: Mapping[str, str] | None) -> Callable[[int, int, int], Decimal] | None:
    """Return the price of tokens read, those of them from the cache, and tokens written; None for none."""
    if price is None:
        return None
    into, cached, out = (Decimal(price[name]) for name in ("input", "cached", "output"))

    def exact(tokens_in: int, tokens_cached: int, tokens_out: int) -> Decimal:
        spared = min(tokens_cached, tokens_in)
        return (into * (tokens_in - spared) + cached * spared + out * tokens_out) * A_TOKEN

    return exact
