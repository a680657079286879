"""OpenAI's strict mode: which schemas it takes, and how optional properties are told to it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from sqlenrich.schema.traversal import Schema, children, walk
from sqlenrich.schema.vendor.dialects import OPENAI, STRICT

_PRESENCE = {"dependentRequired", "dependentSchemas", "maxProperties", "not", "if", "oneOf", "anyOf", "allOf"}
"""What may tell a property that is null from one that is missing."""


def strict_part(part: Schema, *, left_out: Sequence[str] = (), nullable: bool = False) -> dict[str, Any] | None:
    """Give a vendor's part as OpenAI's strict mode takes it: closed, wholly required, of its keywords; else None.

    An optional property that may be null is told as a required one, unless what was left out may tell the two apart.
    ``nullable``: any other, too, as one that may be null, which the repair ``null_as_absent`` then takes for absent;
    but none of the name of a property whose null is a value.
    """
    members = [member for _, _, node in walk(part) for member in node.get("properties", {}).items()]
    null = {name for name, child in members if _may_be_null(child)}
    absent = {name for name, _ in members} - null if nullable else set()
    apart = any(one.rpartition(".")[2] in _PRESENCE for one in left_out)
    strict = _strict(part, absent, apart)
    return strict if strict is not None and _within(strict) else None


def _strict(node: Schema, absent: Set[str], apart: bool) -> dict[str, Any] | None:
    """``absent``: the names that may be told as null where they are optional; ``apart``: null is not as missing."""
    if not set(node) <= OPENAI.keywords or not node.keys() & {"type", "anyOf"}:
        return None
    told = dict(node)
    if "format" in node and node["format"] not in OPENAI.formats:
        return None
    if any(isinstance(value, list | dict) for value in node.get("enum", ())):
        return None
    if "anyOf" in node:
        # A repair can't tell which branch an absent name belongs to.
        branches = [_strict(branch, frozenset(), apart) for branch in node["anyOf"]]
        told["anyOf"] = branches
        return None if None in branches else told
    if "array" in node["type"]:
        items = _strict(node["items"], absent, apart) if "items" in node else None
        if items is None:
            return None
        told["items"] = items
    if "object" in node["type"]:
        properties, required = node.get("properties", {}), node.get("required", ())
        optional = set(properties) - set(required)
        told_null = {one for one in optional if one in absent or (not apart and _may_be_null(properties[one]))}
        if node.get("additionalProperties") is not False or optional != told_null:
            return None
        told["properties"] = {}
        for name, child in properties.items():
            inner = _strict(child, absent, apart)
            if inner is None:
                return None
            told["properties"][name] = _nullable(inner) if name in optional else inner
        told["required"] = list(properties)
    return told


def _may_be_null(node: Schema) -> bool:
    return any(map(_may_be_null, node["anyOf"])) if "anyOf" in node else "null" in node.get("type", ("null",))


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in node:
        null = {"type": ["null"]}
        return node if null in node["anyOf"] else {**node, "anyOf": [*node["anyOf"], null]}
    if "null" in node["type"]:
        return node
    enum = {"enum": [*node["enum"], None]} if "enum" in node else {}
    return {**node, "type": [*node["type"], "null"], **enum}


def _within(schema: Schema) -> bool:
    """Tell whether a schema is within the sizes of strict mode."""
    nodes = [node for _, _, node in walk(schema)]
    names = [name for node in nodes for name in node.get("properties", {})]
    enums = [[str(value) for value in node["enum"]] for node in nodes if "enum" in node]
    long = [sum(map(len, values)) for values in enums if len(values) > STRICT.long_enum]
    characters = sum(map(len, names)) + sum(len(value) for values in enums for value in values)
    return (
        len(names) <= STRICT.properties
        and _objects_deep(schema) <= STRICT.depth
        and characters <= STRICT.characters
        and sum(map(len, enums)) <= STRICT.enum_values
        and max(long, default=0) <= STRICT.long_enum_characters
    )


def _objects_deep(schema: Schema) -> int:
    inner = max((_objects_deep(child) for _, child in children(schema, "")), default=0)
    return inner + ("properties" in schema)
