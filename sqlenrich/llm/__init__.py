"""The model client. It runs wherever requests are sent, and stands on ``sqlenrich.core`` alone.

Its public names are imported when they are used, so that importing the room costs nothing.
"""

from __future__ import annotations

from importlib import import_module

_MODULES = {
    "Answer": "llm.messages",
    "ApiKey": "core.api_key",
    "Budget": "llm.throttle.budget",
    "Client": "llm.client",
    "Endpoint": "core.endpoint",
    "EndpointModel": "llm.endpoint.model",
    "LiteralKey": "core.api_key",
    "MockModel": "llm.mock.model",
    "Model": "llm.model",
    "Request": "llm.messages",
    "RequestConfig": "llm.endpoint.request_config",
    "Stopped": "llm.health",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sqlenrich.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
