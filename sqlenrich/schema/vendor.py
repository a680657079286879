"""The part of an output's JSON Schema that a vendor takes. The checks enforce the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..request import json_schema

SHAPE_ONLY = ("type", "enum", "properties", "required", "items", "description")
ALL = (*SHAPE_ONLY, "additionalProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
       "minLength", "maxLength", "pattern", "minItems", "maxItems")  # fmt: skip


def json_schema_format(name: str, schema: Mapping[str, Any], keep: tuple[str, ...] = ALL) -> dict[str, Any]:
    """Give OpenAI's ``response_format``: a JSON Schema, strict where every object is closed and wholly required."""
    written = json_schema(schema, keep)
    form: dict[str, Any] = {"name": name[:64], "schema": written}
    if is_strict(schema):
        form["strict"] = True
    return {"type": "json_schema", "json_schema": form}


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Tell whether every value of a plain schema has a type, and every object is closed and requires all it has."""
    if "type" not in schema:
        return False
    if "object" in schema["type"]:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
            return False
        if not all(is_strict(child) for child in properties.values()):
            return False
    return is_strict(schema["items"]) if "items" in schema else True
