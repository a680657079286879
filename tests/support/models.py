"""The model behind an endpoint, from the settings that a test names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.llm.endpoint.connections import MakeTransport
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.throttle.budget import Budget

SENT = {one.name for one in fields(RequestConfig)}


def endpoint_model(
    *urls: str,
    policy: EndpointPolicy | None = None,
    budget: Budget | None = None,
    transport: MakeTransport | None = None,
    **settings: Any,
) -> EndpointModel:
    """A model behind ``urls``; ``settings`` are the fields of Endpoint and of RequestConfig."""
    sent = {name: settings.pop(name) for name in SENT & settings.keys()}
    endpoint = Endpoint(urls[0], others=urls[1:], **settings)
    config = RequestConfig(**{"model": "mock"} | sent)
    return EndpointModel(endpoint, config, policy=policy, budget=budget, transport=transport)
