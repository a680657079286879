"""How short an answer may be: what a model writes at least."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.json import compact_json

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")


def shortest(schema: Mapping[str, Any]) -> int:
    """Give a number of bytes that no compact JSON text of a value of a plain schema is below."""
    if "enum" in schema:
        return min((_bytes(value) for value in schema["enum"]), default=0)
    least = min((_least(kind, schema) for kind in schema.get("type", KINDS)), default=0)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            least = max(least, min(map(shortest, schema[keyword]), default=0))
    return max([least, *map(shortest, schema.get("allOf", ()))])


def _least(kind: str, schema: Mapping[str, Any]) -> int:
    match kind:
        case "null" | "boolean":
            return 4
        case "string":
            return 2 + int(schema.get("minLength", 0))
        case "array":
            count, first = int(schema.get("minItems", 0)), schema.get("prefixItems", ())
            items = [schema.get("items", {}) if n >= len(first) else first[n] for n in range(min(count, 1000))]
            return 2 + sum(map(shortest, items)) + max(0, count - 1)
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", ())
            members = [_bytes(name) + 1 + shortest(properties.get(name, {})) for name in required]
            return 2 + sum(members) + max(0, len(members) - 1)
    return 1


def _bytes(value: Any) -> int:
    return len(compact_json(value).encode())
