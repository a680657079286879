"""The model client. It runs wherever requests are sent, and stands on ``sqlenrich.core`` alone.

Its public names are imported when they are used, so that importing the room costs nothing.
"""

from __future__ import annotations

from importlib import import_module

_MODULES = {
    "Answer": "messages",
    "ApiKey": "endpoint.api_key",
    "Budget": "throttle.budget",
    "Client": "client",
    "EndpointConfig": "endpoint.config",
    "EndpointModel": "endpoint.model",
    "EnvironmentKey": "endpoint.api_key",
    "Limits": "throttle.limits",
    "LiteralKey": "endpoint.api_key",
    "MockModel": "mock.model",
    "Model": "model",
    "Request": "messages",
    "Stopped": "health",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
