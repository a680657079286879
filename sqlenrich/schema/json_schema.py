"""What a request is: the model, its parameters and the output's shape, resolved for one engine and hashed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.core.json import canonical_json
from sqlenrich.schema.keywords import OWN

HINT = "Answer with one JSON object that fits this JSON Schema, and nothing else: "
_SHAPE = ("type", "enum", "description", "required", "dependentRequired")
_ONE = ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "dependentSchemas")


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
