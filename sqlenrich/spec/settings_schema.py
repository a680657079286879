"""The JSON Schema of ``sqlenrich.toml``, for completion in editors: made from what its checks read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.endpoint import ENDPOINT_KEYS, Kind
from sqlenrich.engines import engine_names, get_engine
from sqlenrich.spec.settings import SPARK_KEYS, TARGET_KEYS

_TEXT = {"type": "string"}
_TYPES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    Mapping: "object",
}
_OF_TARGETS: Mapping[str, dict[str, Any]] = {
    "conf": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "desk_port": {"type": "integer", "minimum": 0, "maximum": 65535},
}


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of a ``sqlenrich.toml``."""
    engines = list(engine_names())
    alias = {
        "anyOf": [_TEXT, {"type": "object", "properties": {"model": _TEXT}, "required": ["model"]}],
        "description": 'The engine\'s own name of the model, or {model = "name", temperature = 0}.',
    }
    endpoint = {
        "type": "object",
        "properties": {key: _of_kind(kind) for key, kind in ENDPOINT_KEYS.items()},
        "required": ["url"],
        "additionalProperties": False,
    }
    target = {
        "type": "object",
        "properties": {
            **{key: _OF_TARGETS.get(key, _TEXT) for key in (*TARGET_KEYS, *SPARK_KEYS)},
            "engine": {"enum": engines},
        },
        "required": ["engine"],
        "additionalProperties": False,
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",  # what editors of TOML read
        "title": "sqlenrich.toml",
        "type": "object",
        "properties": {
            "prices": {**_TEXT, "description": 'The path of a file of prices, or "genai-prices".'},
            "models": _tables(
                {
                    "type": "object",
                    "properties": dict.fromkeys((*engines, "endpoint"), alias),
                    "additionalProperties": False,
                },
                "An alias of a model: its name on each engine, and behind an endpoint.",
            ),
            "endpoints": _tables(endpoint, "An endpoint of a model."),
            "targets": _tables(target, "Where the tables are."),
            "facts": {
                "type": "object",
                "properties": {name: _facts(name) for name in engines if get_engine(name).reading is not None},
                "additionalProperties": False,
                "description": "Facts about an engine's own function that are set otherwise.",
            },
        },
        "additionalProperties": False,
    }


def _tables(each: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": each, "description": description}


def _facts(engine: str) -> dict[str, Any]:
    reading = get_engine(engine).reading
    places = {"type": "object", "additionalProperties": _TEXT}
    facts = {} if reading is None or reading.mended is None else reading.facts
    found = {name: _TEXT if isinstance(fact.value, str) else places for name, fact in facts.items()}
    return {
        "type": "object",
        "properties": {**found, **{name.replace(" ", "_"): kind for name, kind in found.items()}},
        "additionalProperties": False,
    }


def _of_kind(kind: Kind) -> dict[str, Any]:
    """Return the schema of a setting of an endpoint."""
    types = [name for one, name in _TYPES.items() if one in kind.types]
    if "number" in types:
        types.remove("integer")
    found: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if kind.choices:
        found = {"enum": list(kind.choices)}
    if kind.above_0:
        found["exclusiveMinimum"] = 0
    return found
