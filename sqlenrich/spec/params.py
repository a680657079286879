"""``params`` of a header: those that every engine has, and a vendor's own under its engine's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.errors import did_you_mean
from sqlenrich.engines import is_engine
from sqlenrich.spec.header import PARAMS
from sqlenrich.spec.turns import Problem

_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "number": ((int, float), "a number"),
    "integer": ((int,), "an integer"),
    "array": ((list,), "a list of texts"),
}
"""By type of JSON Schema: the types of Python, and the type's name in a message."""


def read_params(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[Problem]]:
    """Return the parameters, those of each engine by its name, and the problems."""
    params: dict[str, Any] = {}
    engines: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for name, value in given.items():
        if name == "endpoint" or (name not in PARAMS and is_engine(name)):
            if isinstance(value, dict):
                engines[name] = value
            else:
                problems.append((f"params.{name} must be a mapping", ("params", name)))
        elif name not in PARAMS:
            near = did_you_mean(name, PARAMS)
            message = (
                f'unknown parameter "{name}"{near}; write a vendor\'s own under its engine, '
                f"as in params: {{snowflake: {{{name}: ...}}}}"
            )
            problems.append((message, ("params", name)))
        elif problem := _problem(PARAMS[name], value):
            problems.append((f"{name} {problem}, not {value!r}", ("params", name)))
        else:
            params[name] = value
    return params, engines, problems


def _problem(schema: Mapping[str, Any], value: Any) -> str | None:
    types, words = _TYPES[schema["type"]]
    if isinstance(value, bool) or not isinstance(value, types):
        return f"must be {words}"
    if isinstance(value, list):
        fits = all(isinstance(item, str) for item in value) and len(value) <= schema["maxItems"]
        return None if fits else f"must be a list of at most {schema['maxItems']} texts"
    if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"must be from {schema['minimum']}" + (f" to {schema['maximum']}" if "maximum" in schema else "")
    return None
