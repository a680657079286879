"""What a request is: the model, its parameters and the output's shape, resolved for one engine and hashed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

HASH_VERSION = 1
HINT = "Answer with one JSON object that fits this JSON Schema, and nothing else: "
_SHAPE = ("type", "enum", "description", "required", "dependentRequired")
_ONE = ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
OWN = ("coerce", "column")
"""Keywords of ours: how a column reads a value. No model is told."""


@dataclass(frozen=True)
class ResolvedModel:
    """A model's own name and its parameters under the vendor's names. An alias is resolved before."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """How the engine is to call it; no part of the request, so not hashed."""


def canonical_json(value: Any) -> str:
    """Give the one JSON text of a value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact_json(value: Any) -> str:
    """Give a value as JSON without spaces, in its own order: models write properties in the schema's order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def subschemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the schemas right below a plain schema."""
    for keyword, value in schema.items():
        found = value.values() if keyword in _NAMED else value if keyword in _MANY else [value]
        if keyword in (*_NAMED, *_MANY, *_ONE):
            yield from (child for child in found if isinstance(child, Mapping))


def shape(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give what decides the form of an answer: types, enums, required names and descriptions, at every depth.

    Ranges, lengths, patterns and counts are left out: checks judge stored answers again, so changing one is free.
    """
    kept: dict[str, Any] = {key: schema[key] for key in _SHAPE if key in schema}
    for keyword, value in schema.items():
        if keyword in _NAMED:
            kept[keyword] = {name: shape(child) for name, child in value.items()}
        elif keyword in _MANY:
            kept[keyword] = [shape(child) for child in value]
        elif keyword in _ONE and isinstance(value, Mapping):
            kept[keyword] = shape(value)
    return kept


def hint_text(schema: Mapping[str, Any]) -> str:
    """Give the sentence that stands in where a vendor or model takes no schema."""
    return HINT + canonical_json(json_schema(schema))


_NEVER: dict[str, Any] = {"not": {}}


def json_schema(schema: Mapping[str, Any]) -> Any:
    """Give a plain schema as JSON Schema is usually written: one type as a text, no keyword that says nothing."""
    if schema == _NEVER:
        return False
    written: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in OWN or (keyword in ("required", "additionalProperties") and value in ([], True)):
            continue
        if keyword == "type":
            written[keyword] = value[0] if len(value) == 1 else list(value)
        elif keyword in _ONE:
            written[keyword] = value if isinstance(value, bool) else json_schema(value)
        elif keyword in _MANY:
            written[keyword] = [json_schema(child) for child in value]
        elif keyword in _NAMED:
            written[keyword] = {name: json_schema(child) for name, child in value.items()}
        else:
            written[keyword] = value
    return written


def request_constant(model: ResolvedModel, schema: Mapping[str, Any], hint: str | None) -> str:
    """Give ``C``: the SHA-256, in hexadecimal, of everything but the prompt that decides an answer.

    Of a hint only its wording counts: the schema in it may hold limits, and changing one must pay nothing.
    """
    parts = {
        "v": HASH_VERSION,
        "model": model.name,
        "params": dict(model.params),
        "shape": shape(schema),
        "hint": None if hint is None else HINT,
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def request_hash(constant: str, prompt: str | None) -> str | None:
    """Give the hash of one request, as the SQL of every engine gives it; None for a prompt that is None."""
    return None if prompt is None else hashlib.sha256((constant + prompt).encode()).hexdigest()
