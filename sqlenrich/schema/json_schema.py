"""A plain schema as it is sent to a model, and the part of it that a request's hash covers."""

from __future__ import annotations

from typing import Any

from sqlenrich.core.json import canonical_json
from sqlenrich.schema.keywords import NEVER, OWN, SUBSCHEMAS, Schema, map_subschemas

HINT = "Answer with one JSON object that fits this JSON Schema, and nothing else: "
_SHAPE = ("type", "enum", "description", "required", "dependentRequired")


def json_schema(schema: Schema) -> Any:
    """Return a plain schema as JSON Schema is usually written: one type as a text, no keyword without effect."""
    if schema == NEVER:
        return False
    written: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in OWN or (keyword in ("required", "additionalProperties") and value in ([], True)):
            continue
        if keyword == "type":
            written[keyword] = value[0] if len(value) == 1 else list(value)
        else:
            written[keyword] = map_subschemas(keyword, value, json_schema)
    return written


def hint_text(schema: Schema) -> str:
    """Return the sentence that is added to a prompt where the vendor or the model takes no schema."""
    return HINT + canonical_json(json_schema(schema))


def shape(schema: Schema) -> dict[str, Any]:
    """Return what decides the form of an answer: types, enums, required names and descriptions, at every depth.

    Ranges, lengths, patterns and counts are left out: checks test stored answers again, so changing one is free.
    """
    kept: dict[str, Any] = {key: schema[key] for key in _SHAPE if key in schema}
    for keyword, value in schema.items():
        if keyword in SUBSCHEMAS and not isinstance(value, bool):
            kept[keyword] = map_subschemas(keyword, value, shape)
    return kept
