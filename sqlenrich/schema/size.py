"""How large a schema may be, its references written out: every engine must plan its checks, in time and in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.schema.checks.ir import All, AnyItem, AnyMember, AnyOf, CountItems, Not, NotOne, Repeats, Test, Verdicts
from sqlenrich.schema.pointer import resolve

MAX_SCHEMAS = 2000
MAX_DEPTH = 32
"""Schemas in each other, references followed."""
MAX_TESTS = 5000
"""About a megabyte of SQL: BigQuery and Snowflake read no longer text."""
MAX_LOOPS = 10
"""Loops over items or members in each other: DuckDB's time to plan them doubles with each."""
_REPEATS = 200
"""Comparing nested items takes as much SQL as so many tests."""
_ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_NAMED = ("properties", "patternProperties", "dependentSchemas")


def too_large(schema: Any) -> str | None:
    """Give what is too large in a schema as it is written, or None: a ``$ref`` counts as often as it is used."""
    written = _Written(schema)
    count, depth = written.size(schema, 0)
    if written.circular:  # its place is told where references are followed
        return None
    if depth > MAX_DEPTH:
        return f"schemas nest more than {MAX_DEPTH} deep, references followed: write a flatter form"
    if count > MAX_SCHEMAS:
        return (
            f"it holds {count:,} schemas, each $ref written out where it is used; at most {MAX_SCHEMAS:,} can be "
            "checked in SQL: use fewer references, or leave inner parts open (type: object alone)"
        )
    return None


def too_many_tests(verdicts: Verdicts) -> str | None:
    """Give what is too large in the tests of a schema, or None."""
    sizes: dict[int, tuple[int, int]] = {}
    measured = [_measure(verdict.violated, sizes) for verdict in verdicts]
    count, loops = sum(one for one, _ in measured), max((loops for _, loops in measured), default=0)
    if loops > MAX_LOOPS:
        return f"arrays or maps nest {loops} deep, and at most {MAX_LOOPS} can be checked in SQL: write a flatter form"
    if count > MAX_TESTS:
        return (
            f"its checks are {count:,} tests, more than the {MAX_TESTS:,} that a query can hold: use fewer "
            "alternatives (anyOf, oneOf, if, dependentSchemas, an enum of objects)"
        )
    return None


class _Written:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.sizes: dict[int, tuple[int, int] | None] = {}
        self.circular = False

    def size(self, schema: Any, level: int) -> tuple[int, int]:
        """Give the schemas within one and how deep they nest, itself counted."""
        if not isinstance(schema, Mapping) or level > MAX_DEPTH:
            return 1, 1
        if id(schema) not in self.sizes:
            self.sizes[id(schema)] = None
            inner = [self.size(child, level + 1) for child in self.within(schema)]
            self.sizes[id(schema)] = (
                1 + sum(count for count, _ in inner),
                1 + max((depth for _, depth in inner), default=0),
            )
        size = self.sizes[id(schema)]
        self.circular = self.circular or size is None
        return size or (0, 0)

    def within(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for keyword in _ONE:
            if isinstance(schema.get(keyword), Mapping):
                yield schema[keyword]
        for keyword in _MANY:
            if isinstance(schema.get(keyword), list):
                yield from schema[keyword]
        for keyword in _NAMED:
            if isinstance(schema.get(keyword), Mapping):
                yield from schema[keyword].values()
        if isinstance(schema.get("$ref"), str):
            yield from resolve(self.root, schema["$ref"]) or ()


def _measure(test: Test, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Give how many tests are printed for one, and how deep its loops nest; a part that stands twice is read once."""
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
                sizes[id(test)] = _REPEATS if levels else 1, 1 + levels
            case _:
                sizes[id(test)] = 1, 0
    return sizes[id(test)]
