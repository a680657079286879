"""OpenAI's strict mode: which schemas it takes, and how optional properties are written for it."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from sqlenrich.schema.keywords import Schema, subschemas, walk
from sqlenrich.schema.vendor.dialects import OPENAI, STRICT

_PRESENCE = {"dependentRequired", "dependentSchemas", "maxProperties", "not", "if", "oneOf", "anyOf", "allOf"}
"""Keywords that may tell a property that is null from one that is missing."""


def strict_part(part: Schema, *, left_out: Sequence[str] = (), nullable: bool = False) -> dict[str, Any] | None:
    """Return a vendor's part as OpenAI's strict mode takes it, or None where it can't: closed, every property required.

    An optional property that may be null becomes a required one, unless a keyword in ``left_out`` may tell null from
    missing. With ``nullable``, any other optional property becomes one that may be null, too: the repair
    ``null_as_absent`` then removes it. A name that has null as a value anywhere in the part is an exception.
    """
    members = [member for _, _, node in walk(part) for member in node.get("properties", {}).items()]
    null = {name for name, child in members if _may_be_null(child)}
    absent = {name for name, _ in members} - null if nullable else set()
    tested = any(one.rpartition(".")[2] in _PRESENCE for one in left_out)
    strict = _strict(part, absent, tested)
    return strict if strict is not None and _within_sizes(strict) else None


def _strict(node: Schema, absent: Set[str], tested: bool) -> dict[str, Any] | None:
    """Return one schema in strict form, or None.

    ``absent``: names that may be null instead of missing; ``tested``: a check may tell null from missing.
    """
    if not set(node) <= OPENAI.keywords or not node.keys() & {"type", "anyOf"}:
        return None
    strict = dict(node)
    if "format" in node and node["format"] not in OPENAI.formats:
        return None
    if any(isinstance(value, list | dict) for value in node.get("enum", ())):
        return None
    if "anyOf" in node:
        # The repair can't know to which branch an absent name belongs.
        branches = [_strict(branch, frozenset(), tested) for branch in node["anyOf"]]
        strict["anyOf"] = branches
        return None if None in branches else strict
    if "array" in node["type"]:
        items = _strict(node["items"], absent, tested) if "items" in node else None
        if items is None:
            return None
        strict["items"] = items
    if "object" in node["type"]:
        properties, required = node.get("properties", {}), node.get("required", ())
        optional = set(properties) - set(required)
        may_be_null = {one for one in optional if one in absent or (not tested and _may_be_null(properties[one]))}
        if node.get("additionalProperties") is not False or optional != may_be_null:
            return None
        strict["properties"] = {}
        for name, child in properties.items():
            inner = _strict(child, absent, tested)
            if inner is None:
                return None
            strict["properties"][name] = _nullable(inner) if name in optional else inner
        strict["required"] = list(properties)
    return strict


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


def _within_sizes(schema: Schema) -> bool:
    """Tell whether a schema is within the sizes of strict mode."""
    nodes = [node for _, _, node in walk(schema)]
    names = [name for node in nodes for name in node.get("properties", {})]
    enums = [[str(value) for value in node["enum"]] for node in nodes if "enum" in node]
    long = [sum(map(len, values)) for values in enums if len(values) > STRICT.long_enum]
    characters = sum(map(len, names)) + sum(len(value) for values in enums for value in values)
    return (
        len(names) <= STRICT.properties
        and _object_depth(schema) <= STRICT.depth
        and characters <= STRICT.characters
        and sum(map(len, enums)) <= STRICT.enum_values
        and max(long, default=0) <= STRICT.long_enum_characters
    )


def _object_depth(schema: Schema) -> int:
    inner = max((_object_depth(child) for _, child in subschemas(schema)), default=0)
    return inner + ("properties" in schema)
