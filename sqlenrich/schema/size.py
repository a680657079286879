"""Sizes: of a schema as written, of its checks, and of the shortest answer that it allows.

Every engine must be able to plan the checks, within its time and its memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.core.json import compact_json
from sqlenrich.schema.checks.ir import All, AnyItem, AnyMember, AnyOf, Checks, CountItems, Not, NotOne, Repeats, Test
from sqlenrich.schema.json_types import TYPES
from sqlenrich.schema.keywords import Schema, resolve, subschemas

MAX_SCHEMAS = 2000
MAX_DEPTH = 32
"""Schemas inside each other, references followed."""
MAX_TESTS = 5000
"""About a megabyte of SQL: BigQuery and Snowflake read no longer text."""
MAX_LOOPS = 10
"""Loops over items or members inside each other: DuckDB's time to plan them doubles with each."""
REPEATS_TESTS = 200
"""Comparing nested items takes about as much SQL as this many tests."""
MAX_COUNTED_ITEMS = 1000
"""Items of an array that the size of the shortest answer counts."""


def too_large(schema: Any) -> str | None:
    """Return what is too large in a schema as it is written, or None: a ``$ref`` counts as often as it is used."""
    written = _Written(schema)
    count, depth = written.size(schema, 0)
    if written.circular:  # reported where references are followed, with its place
        return None
    if depth > MAX_DEPTH:
        return f"schemas nest more than {MAX_DEPTH} deep, references followed: write a flatter form"
    if count > MAX_SCHEMAS:
        return (
            f"it holds {count:,} schemas, each $ref written out where it is used; at most {MAX_SCHEMAS:,} can be "
            "checked in SQL: use fewer references, or leave inner parts open (type: object alone)"
        )
    return None


def too_many_tests(checks: Checks) -> str | None:
    """Return what is too large in the checks of a schema, or None."""
    sizes: dict[int, tuple[int, int]] = {}
    measured = [_measure(check.violated, sizes) for check in checks]
    count, loops = sum(one for one, _ in measured), max((loops for _, loops in measured), default=0)
    if loops > MAX_LOOPS:
        return f"arrays or maps nest {loops} deep, and at most {MAX_LOOPS} can be checked in SQL: write a flatter form"
    if count > MAX_TESTS:
        return (
            f"its checks are {count:,} tests, more than the {MAX_TESTS:,} that a query can hold: use fewer "
            "alternatives (anyOf, oneOf, if, dependentSchemas, an enum of objects)"
        )
    return None


def min_answer_bytes(schema: Schema) -> int:
    """Return a lower bound of the bytes of a compact JSON text that meets a plain schema."""
    if "enum" in schema:
        return min((_json_bytes(value) for value in schema["enum"]), default=0)
    least = min((_min_bytes(kind, schema) for kind in schema.get("type", TYPES)), default=0)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            least = max(least, min(map(min_answer_bytes, schema[keyword]), default=0))
    return max([least, *map(min_answer_bytes, schema.get("allOf", ()))])


class _Written:
    """A schema as written: its size with every reference followed."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.sizes: dict[int, tuple[int, int] | None] = {}
        self.circular = False

    def size(self, schema: Any, level: int) -> tuple[int, int]:
        """Return how many schemas one holds and how deep they nest, itself counted."""
        if not isinstance(schema, Mapping) or level > MAX_DEPTH:
            return 1, 1
        if id(schema) not in self.sizes:
            self.sizes[id(schema)] = None
            inner = [self.size(child, level + 1) for child in self.children(schema)]
            self.sizes[id(schema)] = (
                1 + sum(count for count, _ in inner),
                1 + max((depth for _, depth in inner), default=0),
            )
        size = self.sizes[id(schema)]
        self.circular = self.circular or size is None
        return size or (0, 0)

    def children(self, schema: Schema) -> Iterator[Any]:
        yield from (child for _, child in subschemas(schema))
        if isinstance(schema.get("$ref"), str):
            yield from resolve(self.root, schema["$ref"]) or ()


def _measure(test: Test, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Return how many tests are printed for one, and how deep its loops nest.

    ``sizes`` holds the results by the identity of a test: a test that is used twice is measured once.
    """
    if id(test) not in sizes:
        match test:
            case All(inner) | AnyOf(inner) | NotOne(inner):
                parts = [_measure(one, sizes) for one in inner]
                sizes[id(test)] = 1 + sum(count for count, _ in parts), max((loops for _, loops in parts), default=0)
            case AnyItem() | AnyMember() | CountItems():
                count, loops = _measure(test.test, sizes)
                sizes[id(test)] = 1 + count, 1 + loops
            case Not(inner_test):
                count, loops = _measure(inner_test, sizes)
                sizes[id(test)] = 1 + count, loops
            case Repeats(_, _, levels):
                sizes[id(test)] = REPEATS_TESTS if levels else 1, 1 + levels
            case _:
                sizes[id(test)] = 1, 0
    return sizes[id(test)]


def _min_bytes(kind: str, schema: Schema) -> int:
    match kind:
        case "null" | "boolean":
            return 4
        case "string":
            return 2 + int(schema.get("minLength", 0))
        case "array":
            count, first = int(schema.get("minItems", 0)), schema.get("prefixItems", ())
            positions = range(min(count, MAX_COUNTED_ITEMS))
            items = [schema.get("items", {}) if n >= len(first) else first[n] for n in positions]
            return 2 + sum(map(min_answer_bytes, items)) + max(0, count - 1)
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", ())
            members = [_json_bytes(name) + 1 + min_answer_bytes(properties.get(name, {})) for name in required]
            return 2 + sum(members) + max(0, len(members) - 1)
    return 1


def _json_bytes(value: Any) -> int:
    return len(compact_json(value).encode())
