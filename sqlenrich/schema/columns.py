"""The columns of an output: the type of each, and what its JSON Schema must meet to be a column."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    Decimal,
    Struct,
    Type,
    parse_type,
    type_json,
)
from sqlenrich.schema.json_types import SCALAR_TYPES, TYPES, json_types
from sqlenrich.schema.keywords import OWN, Schema, join_path

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""The names that a column may have."""
EXACT_DIGITS = 15
"""The digits of a decimal that survive being read as a double."""
_SCALARS: dict[frozenset[str], Type] = {
    frozenset(["string"]): STRING,
    frozenset(["integer"]): BIGINT,
    frozenset(["number", "integer"]): DOUBLE,
    frozenset(["number"]): DOUBLE,
    frozenset(["boolean"]): BOOLEAN,
}
_FORMATS: dict[str, Type] = {"date": DATE, "date-time": TIMESTAMP}


def output_columns(schema: Schema) -> dict[str, Type]:
    """Return one column per property of a plain schema, in order.

    A value of several types is JSON text, and so is an array or an object whose parts have no schema.
    """
    return {name: column_type(child) for name, child in properties_of(schema).items()}


def column_type(schema: Schema) -> Type:
    """Return the type by which the column of a plain schema is read."""
    if "column" in schema:
        return parse_type(schema["column"])
    kinds = value_types(schema) - {"null"}
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


def nullable_items(schema: Schema, path: str = "") -> Iterator[str]:
    """Return the paths of a plain schema's array columns whose items may be null: ``orders[].notes``."""
    match column_type(schema):
        case Array():
            items = _first(schema, "items")
            if "null" in value_types(items):
                yield path
            yield from nullable_items(items, f"{path}[]")
        case Struct():
            for name, child in properties_of(schema).items():
                yield from nullable_items(child, join_path(path, name))


def value_types(schema: Schema) -> set[str]:
    """Return the JSON types that a value of a plain schema may have; with ``number`` comes ``integer``."""
    kinds = set(schema.get("type", TYPES))
    if "number" in kinds:
        kinds.add("integer")
    if "enum" in schema:
        allowed = {kind for value in schema["enum"] for kind in json_types(value)}
        if all("integer" in json_types(value) for value in schema["enum"] if "number" in json_types(value)):
            allowed -= {"number"}
        kinds &= allowed
    for part in schema.get("allOf", ()):
        kinds &= value_types(part)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            kinds &= set().union(*(value_types(part) for part in schema[keyword]))
    return kinds


def properties_of(schema: Schema) -> dict[str, Schema]:
    """Return the properties of a plain schema and of its ``allOf`` parts; equal names are joined by ``allOf``."""
    found: dict[str, Schema] = {}
    for part in _all_parts(schema):
        for name, child in part.get("properties", {}).items():
            found[name] = {"allOf": [found[name], child]} if name in found else child
    return found


def column_problems(plain: Schema, *, top: bool) -> Iterator[str]:
    """Return what keeps a plain schema from being a column's, or with ``top`` the whole answer's: one line each."""
    if plain.get("type") == ["null"]:
        yield "a value that is always null is no column"
    if "type" not in plain:
        kind = "object" if "properties" in plain and not top else "array" if "items" in plain else None
        if kind is not None:
            yield f'a type is missing: write "type: {kind}"'
    lower: dict[str, str] = {}
    for name in properties_of(plain):
        # The name of a part's property is reported with that part.
        if not NAME.fullmatch(name) and name in plain.get("properties", {}):
            yield f'the property name "{name}" is no column name: letters, digits, _ and -, at most 64'
        if (other := lower.setdefault(name.lower(), name)) != name:
            yield f'"{other}" and "{name}" are equal but for case; SQL columns are not'


def misplaced_keywords(schema: Schema) -> Iterator[str]:
    """Return a problem for each keyword of :data:`~.keywords.OWN` in a schema that is no column's own."""
    for keyword in OWN:
        if schema.get(keyword):
            yield (
                f"{keyword} says how a column is read: write it beside the type of a property or of an array's "
                "items, not in a part (anyOf, $ref with more beside it, ...)"
            )


def coerce_problem(plain: Schema) -> str | None:
    """Return why the values of a plain schema can't be read from their texts, or None."""
    kinds = [kind for kind in plain.get("type", []) if kind != "null"]
    texts = [value for value in plain.get("enum", []) if isinstance(value, str)]
    lower = {value.lower() for value in texts}
    if len(kinds) != 1 or kinds[0] not in SCALAR_TYPES or (kinds == ["string"] and not texts):
        return "coerce is for a number, an integer, a boolean, or a text with an enum"
    if len(lower) != len(set(texts)) or not all(value.isascii() for value in texts):
        return "coerce reads an enum in any case: its values are ASCII and differ by more than case"
    return None


def decimal_column(written: object, plain: Schema) -> Any:
    """Return the decimal that the keyword ``column`` names, as files write it.

    Raises ValueError with one line where it is no decimal, or where the values don't fit it.
    """
    kinds = set(plain.get("type", ())) - {"null"}
    try:
        kind = parse_type(written)
    except ValueError as error:
        raise ValueError(f"column: {error}") from None
    if not isinstance(kind, Decimal):
        raise ValueError(f"column is a decimal(p,s), for exact numbers, not {written!r}")
    if kinds not in ({"string"}, {"number"}, {"integer"}):
        raise ValueError("column is for a number, an integer, or a text that holds a number")
    if kinds != {"string"} and kind.precision > EXACT_DIGITS:
        raise ValueError(
            f"a JSON number has {EXACT_DIGITS} digits on every engine: for {type_json(kind)} write type: string"
        )
    return type_json(kind)


def _all_parts(schema: Schema) -> Iterator[Schema]:
    yield schema
    for part in schema.get("allOf", ()):
        yield from _all_parts(part)


def _first(schema: Schema, keyword: str) -> Any:
    return next((part[keyword] for part in _all_parts(schema) if keyword in part), None)
