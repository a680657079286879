"""The typed columns that an output's JSON Schema gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Struct, Type

_SCALARS: dict[str, Type] = {"string": STRING, "integer": BIGINT, "number": DOUBLE, "boolean": BOOLEAN}


def output_columns(schema: Mapping[str, Any]) -> dict[str, Type]:
    """Give one column per property of a plain schema, in order. Objects without properties stay JSON text."""
    return {name: column_type(child) for name, child in schema["properties"].items()}


def column_type(schema: Mapping[str, Any]) -> Type:
    """Give the column type of one plain schema."""
    kinds = [kind for kind in schema["type"] if kind != "null"]
    if "array" in kinds:
        return Array(column_type(schema["items"]) if "items" in schema else STRING)
    if "object" in kinds:
        properties = schema.get("properties")
        return Struct(tuple(output_columns(schema).items())) if properties else STRING
    kind = "number" if "number" in kinds else kinds[0]
    return _SCALARS[kind]
