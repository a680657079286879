"""Arrays and objects for the mock model."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from sqlenrich.llm.mock.draw import Draw
from sqlenrich.llm.mock.merge import Schema, listed, never
from sqlenrich.llm.mock.text import compiled, matching, pool

Maker: TypeAlias = Callable[[Draw], Any]
Make: TypeAlias = Callable[[Schema | bool], Maker]
"""The maker of the values within."""

_MOST_ITEMS = 8


def array(schema: Schema, make: Make, *, tried: bool) -> Maker:
    """Give a maker of arrays. Raises ValueError where no length is possible.

    ``tried``: what must not be contained too often is kept out of the other items by trying.
    """
    items = schema.get("items", True)
    low, high = int(schema.get("minItems", 0)), schema.get("maxItems")
    prefix = list(schema.get("prefixItems", ()))
    places: list[Schema | bool] = list(prefix)
    wanted = [one for one in listed(schema.get("contains", [])) if schema.get("minContains", 1) > 0]
    for one in wanted:
        for _ in range(int(schema.get("minContains", 1))):
            places.append({"allOf": [one, items]})
    most = int(high) if high is not None else max(low, len(places)) + 3
    if wanted and (len(places) > most or never(items)):
        places = _within(prefix, items, wanted, int(schema.get("minContains", 1)), make)
    first = list(_while_possible(places, make))
    if len(first) < len(places) or never(items):
        most = min(most, len(first))
    if wanted:
        low = max(low, len(places))
    if low > most:
        raise ValueError(f"the mock model finds no array with {low} to {most} items")
    rest: Maker | None = None
    if most > len(first):
        try:
            rest = make(_others(schema, items) if tried else items)
        except ValueError:
            most = max(low, len(first))
            if low > len(first):
                raise
    unique = bool(schema.get("uniqueItems"))

    def made(draw: Draw) -> list[Any]:
        values: list[Any] = []
        seen: set[str] = set()
        for place in range(low + draw.below(min(most - low, _MOST_ITEMS) + 1)):
            one = first[place] if place < len(first) else rest
            for _ in range(24 if one is not None else 0):
                value = one(draw) if one is not None else None
                key = json.dumps(value, sort_keys=True) if unique else ""
                if key not in seen or not unique:
                    seen.add(key)
                    values.append(value)
                    break
        return values

    return made


def _others(schema: Schema, items: Schema | bool) -> Schema | bool:
    """Give the schema of the items that are not there to be contained."""
    if "maxContains" not in schema or "contains" not in schema:
        return items
    apart = [{"not": one} for one in listed(schema["contains"])]
    return {"allOf": [items, *apart]}


def _while_possible(places: list[Schema | bool], make: Make) -> Iterator[Maker]:
    """Give the makers of the first items, up to one that can't be."""
    for one in places:
        try:
            yield make(one)
        except ValueError:
            return


def _within(prefix: list[Any], items: Schema | bool, wanted: list[Any], count: int, make: Make) -> list[Schema | bool]:
    """Give the first items where those that must be contained are among them."""
    places: list[Schema | bool] = list(prefix)
    for one in wanted:
        left = count
        for place, own in enumerate(prefix):
            both = {"allOf": [own, one]}
            if left and _possible(both, make):
                places[place] = both
                left -= 1
        places += [{"allOf": [one, items]}] * left
    return places


def _possible(schema: Schema | bool, make: Make) -> bool:
    try:
        make(schema)
    except ValueError:
        return False
    return True


def object_(schema: Schema, make: Make, named: Callable[[Any], bool] | None) -> Maker:
    """Give a maker of objects. Raises ValueError where a required property can't be.

    ``named`` tests a property's name, None where any will do.
    """
    required = dict.fromkeys(schema.get("required", ()))
    along: Mapping[str, list[str]] = schema.get("dependentRequired", {})
    low, high = int(schema.get("minProperties", 0)), schema.get("maxProperties", math.inf)
    inner = _inner(schema)
    known = dict.fromkeys((*schema.get("properties", {}), *required))
    known |= dict.fromkeys(name for name in along if name not in known and not never(inner(name)))
    known |= dict.fromkeys(other for name in known for other in along.get(name, ()))
    makers: dict[str, Maker] = {}
    for name in known:
        try:
            makers[name] = make(inner(name))
        except ValueError:
            # An optional property without a possible value is one that is never there.
            if name in required and not never(inner(name)):
                raise
        if named is not None and not named(name):
            makers.pop(name, None)
    if len(makers) < low:
        for name in _new_names(schema, make):
            if name not in known and (named is None or named(name)) and _possible(inner(name), make):
                makers[name] = make(inner(name))
                if len(makers) == low:
                    break
    if missing := [name for name in required if name not in makers]:
        raise ValueError(f'the mock model may not write the required "{min(missing)}"')

    def closed(names: set[str]) -> set[str]:
        while more := {other for name in names for other in along.get(name, ())} - names:
            names = names | more
        return names

    must = closed(set(required))
    if low > len(makers) or len(must) > high or not must <= makers.keys():
        raise ValueError(f"the mock model finds no object with {low} to {high} properties")

    optional = [name for name in makers if name not in required]
    free = not along and low <= len(must) and len(makers) <= high

    def made(draw: Draw) -> dict[str, Any]:
        wished = [name for name in optional if draw.below(2)]
        chosen = must.union(wished) if free else must
        for name in (*wished, *optional) if not free else ():
            wider = closed(chosen | {name})
            if (name in wished or len(chosen) < low) and len(wider) <= high and wider <= makers.keys():
                chosen = wider
        return {name: one(draw) for name, one in makers.items() if name in chosen}

    return made


def _inner(schema: Schema) -> Callable[[str], Schema | bool]:
    """Give the function from a name to what holds for its value."""
    properties = schema.get("properties", {})
    patterns = [(compiled(pattern), inner) for pattern, inner in schema.get("patternProperties", {}).items()]
    others = schema.get("additionalProperties", True)

    def inner(name: str) -> Schema | bool:
        parts = [properties[name]] if name in properties else []
        parts += [part for pattern, part in patterns if pattern.search(name)]
        if any(never(part) for part in parts):
            return False
        return {"allOf": parts} if len(parts) > 1 else parts[0] if parts else others

    return inner


def _new_names(schema: Schema, make: Make) -> Iterator[str]:
    """Give names that no property has yet, likely ones first."""
    low = int(schema.get("minProperties", 0))
    yield from (f"extra_{number}" for number in range(1, low + 1))
    for pattern in schema.get("patternProperties", {}):
        tests = compiled(pattern)
        try:
            names = pool(matching(pattern, 1, None), partial(_found, tests), pattern)
        except ValueError:
            continue
        yield from names
        longer = (f"{name}{number}" for name in names for number in range(1, low + 1))
        yield from filter(tests.search, longer)
    if "propertyNames" in schema and not never(schema["propertyNames"]):
        one = make({"type": "string", "allOf": [schema["propertyNames"]]})
        drawn = (one(Draw(f"name{number}".encode(), "an example text")) for number in range(200))
        yield from dict.fromkeys(drawn)


def _found(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None
