"""The schemas within a vendor's part, and how a place is written: ``items[].price``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
NEVER: dict[str, Any] = {"not": {}}
"""The schema without a value, in the plain form."""


def at(place: str, name: str) -> str:
    """Give the place of what stands under a name."""
    return f"{place}.{name}" if place else name


def walk(schema: Schema, place: str = "", depth: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Give each schema within one, itself first: its depth, its place and the schema."""
    yield depth, place, schema  # type: ignore[misc]
    for inner, child in children(schema, place):
        yield from walk(child, inner, depth + 1)


def children(schema: Schema, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the schemas right below one, each with its place."""
    for name, child in schema.get("properties", {}).items():
        yield at(place, name), child
    for number, child in enumerate(schema.get("prefixItems", ())):
        yield f"{place}[{number}]", child
    if isinstance(schema.get("items"), dict) and schema["items"] != NEVER:
        yield f"{place}[]", schema["items"]
    if isinstance(schema.get("additionalProperties"), dict):
        yield at(place, "*"), schema["additionalProperties"]
    for number, child in enumerate(schema.get("anyOf", ())):
        yield f"{place}.anyOf[{number}]", child
