"""The typed columns that an output's JSON Schema gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    STRING,
    TIMESTAMP,
    Array,
    Coerced,
    Struct,
    Type,
    parse_type,
)
from sqlenrich.schema.keywords import TYPES, kinds_of

_SCALARS: dict[frozenset[str], Type] = {
    frozenset(["string"]): STRING,
    frozenset(["integer"]): BIGINT,
    frozenset(["number", "integer"]): DOUBLE,
    frozenset(["number"]): DOUBLE,
    frozenset(["boolean"]): BOOLEAN,
}
_FORMATS: dict[str, Type] = {"date": DATE, "date-time": TIMESTAMP}


def output_columns(schema: Mapping[str, Any]) -> dict[str, Type]:
    """Give one column per property of a plain schema, in order.

    A value of several types, and an array or object without a described inside, is JSON text.
    """
    return {name: column_type(child) for name, child in properties_of(schema).items()}


def column_type(schema: Mapping[str, Any]) -> Type:
    """Give the type by which the column of one plain schema is read."""
    if "column" in schema:
        return parse_type(schema["column"])
    kinds = value_kinds(schema) - {"null"}
    if kinds == {"array"}:
        item = _first(schema, "items")
        described = item is not None and _first(schema, "prefixItems") is None
        inner = column_type(item) if item is not None and described else JSON
        return JSON if inner == JSON else Array(inner)
    if kinds == {"object"}:
        properties = output_columns(schema)
        return Struct(tuple(properties.items())) if properties else JSON
    found = _SCALARS.get(frozenset(kinds), JSON)
    if found == STRING:
        found = _FORMATS.get(str(_first(schema, "format")), STRING)
    if schema.get("coerce"):
        return Coerced(found, tuple(value for value in schema.get("enum", ()) if isinstance(value, str)))
    return found


def nullable_items(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Give the places of a plain schema's array columns whose items may be null: ``orders[].notes``."""
    match column_type(schema):
        case Array():
            items = _first(schema, "items")
            if "null" in value_kinds(items):
                yield place
            yield from nullable_items(items, f"{place}[]")
        case Struct():
            for name, child in properties_of(schema).items():
                yield from nullable_items(child, f"{place}.{name}" if place else name)


def value_kinds(schema: Mapping[str, Any]) -> set[str]:
    """Give the JSON types that a value may have, ``integer`` beside ``number``."""
    kinds = set(schema.get("type", TYPES))
    if "number" in kinds:
        kinds.add("integer")
    if "enum" in schema:
        allowed = {kind for value in schema["enum"] for kind in kinds_of(value)}
        if all("integer" in kinds_of(value) for value in schema["enum"] if "number" in kinds_of(value)):
            allowed -= {"number"}
        kinds &= allowed
    for part in schema.get("allOf", ()):
        kinds &= value_kinds(part)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            kinds &= set().union(*(value_kinds(part) for part in schema[keyword]))
    return kinds


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for part in schema.get("allOf", ()):
        yield from _parts(part)


def _first(schema: Mapping[str, Any], keyword: str) -> Any:
    return next((part[keyword] for part in _parts(schema) if keyword in part), None)


def properties_of(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Give the properties of an object column; what several parts describe is one, over all of these descriptions."""
    found: dict[str, Mapping[str, Any]] = {}
    for part in _parts(schema):
        for name, child in part.get("properties", {}).items():
            found[name] = {"allOf": [found[name], child]} if name in found else child
    return found
