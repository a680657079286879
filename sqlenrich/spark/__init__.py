"""Spark beside a model: what runs in its executors, and what the driver needs for that.

It stands on the model client alone, and imports pyspark only where a session is at hand. Its public names are imported
when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlenrich.spark.registration import Registration, register
    from sqlenrich.spark.vllm.fleet import VLLMFleet
    from sqlenrich.spark.vllm.policy import FleetPolicy
    from sqlenrich.spark.vllm.status import ServerStatus

_MODULES = {
    "FleetPolicy": "spark.vllm.policy",
    "Registration": "spark.registration",
    "ServerStatus": "spark.vllm.status",
    "VLLMFleet": "spark.vllm.fleet",
    "register": "spark.registration",
}

__all__ = ["FleetPolicy", "Registration", "ServerStatus", "VLLMFleet", "register"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"sqlenrich.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
