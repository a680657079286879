"""The configuration of an endpoint, and the constant part of each request's body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

import orjson

from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.endpoint.api_key import ApiKey
from sqlenrich.llm.throttle.limits import Limits

_FIXED = ("messages", "model", "stream", "n")


@dataclass(frozen=True)
class EndpointConfig:
    """How to reach a model, and what to send with every prompt. It can be pickled, and holds no key.

    ``url`` ends where ``/chat/completions`` begins, usually in ``/v1``; several URLs serve the same model. ``api_key``
    is a reference, resolved when a model opens. ``params`` are in the endpoint's own names; ``response_format`` is sent
    as it is; ``hint`` follows the prompt after an empty line; ``extra_body`` adds fields to the body. A try ends after
    ``timeout_s`` seconds without a byte. ``max_tries`` bounds the failed tries of one request, ``max_refusals`` those
    that met a limit (429, 503). Raises ConfigError.
    """

    url: str | tuple[str, ...]
    model: str
    api_key: ApiKey | None = None
    limits: Limits = field(default_factory=Limits)
    timeout_s: float = 120.0
    max_tries: int = 5
    max_refusals: int = 20
    params: Mapping[str, object] = field(default_factory=dict)
    response_format: Mapping[str, object] | None = None
    hint: str | None = None
    extra_body: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for written in self.urls:
            _check_url(written)
        for name, value in {
            **asdict(self.limits),
            "max_tries": self.max_tries,
            "max_refusals": self.max_refusals,
        }.items():
            if value is not None and value < 1:
                raise ConfigError(f"the endpoint's {name} must be at least 1")
        if not self.timeout_s > 0:
            raise ConfigError("the endpoint's timeout_s must be above 0")
        for name in _FIXED:
            if name in self.extra_body or name in self.params:
                raise ConfigError(f"\"{name}\" can't be set in the request's body: sqlenrich sets it")

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs."""
        return (self.url,) if isinstance(self.url, str) else tuple(self.url)

    @property
    def max_out(self) -> int | None:
        """The most tokens of one answer, None where that is not set."""
        limits = [self.params.get(name) for name in ("max_tokens", "max_completion_tokens")]
        return next((limit for limit in limits if isinstance(limit, int)), None)


def _check_url(written: str) -> None:
    try:
        url = urlsplit(written)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")
    except ValueError:
        raise ConfigError("the endpoint's url can't be read: write it as http://host:port/v1") from None
    if url.username is not None or url.password is not None:
        raise ConfigError("the endpoint's url holds a password: use api_key_env instead")
    if not usable:
        raise ConfigError("the endpoint's url has no host: write it as http://host:port/v1")


def body_parts(config: EndpointConfig) -> tuple[bytes, bytes, frozenset[str]]:
    """Give the bytes before and after the prompt's JSON text (less its last quote), and the fields' names.

    The order of the fields is fixed: model, parameters, response_format, extra_body, messages. A schema keeps
    its own order, for models write the properties in it. Raises ConfigError.
    """
    fields: dict[str, object] = {"model": config.model}
    fields.update(sorted(config.params.items()))
    if config.response_format is not None:
        fields["response_format"] = config.response_format
    fields.update(sorted(config.extra_body.items()))
    try:
        constant = orjson.dumps(fields)
    except TypeError as error:
        raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
    tail = b'"' if config.hint is None else orjson.dumps("\n\n" + config.hint)[1:]
    sent = frozenset(fields) - {"model"}
    return constant[:-1] + b',"messages":[{"role":"user","content":', tail + b"}]}", sent
