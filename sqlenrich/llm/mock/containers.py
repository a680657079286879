"""Samplers of arrays and objects."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from sqlenrich.llm.mock.alternatives import NEVER, Schema, as_list, never
from sqlenrich.llm.mock.draw import Draw
from sqlenrich.llm.mock.text import compiled, pattern_sampler, text_pool

Sampler: TypeAlias = Callable[[Draw], Any]
"""Draws one value."""
Make: TypeAlias = Callable[[Schema], Sampler]
"""Gives the sampler of an inner schema."""

_MAX_EXTRA_ITEMS = 8
"""Items of an array beyond the least number that are drawn at most."""
_TRIES = 24
"""Values that are drawn for one item, before an array with unique items ends without it."""


def array_sampler(schema: Schema, make: Make, *, tested: bool) -> Sampler:
    """Return a sampler of arrays. Raises ValueError where no length is possible.

    ``tested``: inner samplers have a validator, so that ``maxContains`` can exclude values from the other items.
    """
    items = schema.get("items", {})
    low, high = int(schema.get("minItems", 0)), schema.get("maxItems")
    prefix = list(schema.get("prefixItems", ()))
    places: list[Schema] = list(prefix)
    wanted = [one for one in as_list(schema.get("contains", [])) if schema.get("minContains", 1) > 0]
    for one in wanted:
        for _ in range(int(schema.get("minContains", 1))):
            places.append({"allOf": [one, items]})
    most = int(high) if high is not None else max(low, len(places)) + 3
    if wanted and (len(places) > most or never(items)):
        places = _first_items(prefix, items, wanted, int(schema.get("minContains", 1)), make)
    first = list(_possible_samplers(places, make))
    if len(first) < len(places) or never(items):
        most = min(most, len(first))
    if wanted:
        low = max(low, len(places))
    if low > most:
        raise ValueError(f"the mock model finds no array with {low} to {most} items")
    rest: Sampler | None = None
    if most > len(first):
        try:
            rest = make(_other_items(schema, items) if tested else items)
        except ValueError:
            most = max(low, len(first))
            if low > len(first):
                raise
    unique = bool(schema.get("uniqueItems"))

    def made(draw: Draw) -> list[Any]:
        values: list[Any] = []
        seen: set[str] = set()
        for place in range(low + draw.below(min(most - low, _MAX_EXTRA_ITEMS) + 1)):
            one = first[place] if place < len(first) else rest
            for _ in range(_TRIES if one is not None else 0):
                value = one(draw) if one is not None else None
                key = json.dumps(value, sort_keys=True) if unique else ""
                if key not in seen or not unique:
                    seen.add(key)
                    values.append(value)
                    break
        return values

    return made


def _other_items(schema: Schema, items: Schema) -> Schema:
    """Return the schema of the items that don't count for ``contains``."""
    if "maxContains" not in schema or "contains" not in schema:
        return items
    apart = [{"not": one} for one in as_list(schema["contains"])]
    return {"allOf": [items, *apart]}


def _possible_samplers(places: list[Schema], make: Make) -> Iterator[Sampler]:
    """Return the samplers of the first items, up to the first item that has no possible value."""
    for one in places:
        try:
            yield make(one)
        except ValueError:
            return


def _first_items(prefix: list[Any], items: Schema, wanted: list[Any], count: int, make: Make) -> list[Schema]:
    """Return the schemas of the first items, where ``prefixItems`` also meet ``contains``."""
    places: list[Schema] = list(prefix)
    for one in wanted:
        left = count
        for place, own in enumerate(prefix):
            both = {"allOf": [own, one]}
            if left and _possible(both, make):
                places[place] = both
                left -= 1
        places += [{"allOf": [one, items]}] * left
    return places


def _possible(schema: Schema, make: Make) -> bool:
    try:
        make(schema)
    except ValueError:
        return False
    return True


def object_sampler(schema: Schema, make: Make, valid_name: Callable[[Any], bool] | None) -> Sampler:
    """Return a sampler of objects. Raises ValueError where a required property has no possible value.

    ``valid_name`` is the test of a property's name, None where any name is valid.
    """
    required = dict.fromkeys(schema.get("required", ()))
    along: Mapping[str, list[str]] = schema.get("dependentRequired", {})
    low, high = int(schema.get("minProperties", 0)), schema.get("maxProperties", math.inf)
    inner = _value_schemas(schema)
    known = dict.fromkeys((*schema.get("properties", {}), *required))
    known |= dict.fromkeys(name for name in along if name not in known and not never(inner(name)))
    known |= dict.fromkeys(other for name in known for other in along.get(name, ()))
    samplers: dict[str, Sampler] = {}
    for name in known:
        try:
            samplers[name] = make(inner(name))
        except ValueError:
            # An optional property without a possible value is left out of every object.
            if name in required and not never(inner(name)):
                raise
        if valid_name is not None and not valid_name(name):
            samplers.pop(name, None)
    if len(samplers) < low:
        for name in _new_names(schema, make):
            if name not in known and (valid_name is None or valid_name(name)) and _possible(inner(name), make):
                samplers[name] = make(inner(name))
                if len(samplers) == low:
                    break
    if missing := [name for name in required if name not in samplers]:
        raise ValueError(f'the mock model may not write the required "{min(missing)}"')

    def closed(names: set[str]) -> set[str]:
        while more := {other for name in names for other in along.get(name, ())} - names:
            names = names | more
        return names

    must = closed(set(required))
    if low > len(samplers) or len(must) > high or not must <= samplers.keys():
        raise ValueError(f"the mock model finds no object with {low} to {high} properties")

    optional = [name for name in samplers if name not in required]
    free = not along and low <= len(must) and len(samplers) <= high

    def made(draw: Draw) -> dict[str, Any]:
        wished = [name for name in optional if draw.below(2)]
        chosen = must.union(wished) if free else must
        for name in (*wished, *optional) if not free else ():
            wider = closed(chosen | {name})
            if (name in wished or len(chosen) < low) and len(wider) <= high and wider <= samplers.keys():
                chosen = wider
        return {name: one(draw) for name, one in samplers.items() if name in chosen}

    return made


def _value_schemas(schema: Schema) -> Callable[[str], Schema]:
    """Return the function from a property's name to the schema of its value."""
    properties = schema.get("properties", {})
    patterns = [(compiled(pattern), inner) for pattern, inner in schema.get("patternProperties", {}).items()]
    rest = schema.get("additionalProperties", True)
    others: Schema = {} if rest is True else NEVER if rest is False else rest

    def inner(name: str) -> Schema:
        parts = [properties[name]] if name in properties else []
        parts += [part for pattern, part in patterns if pattern.search(name)]
        if any(never(part) for part in parts):
            return NEVER
        return {"allOf": parts} if len(parts) > 1 else parts[0] if parts else others

    return inner


def _new_names(schema: Schema, make: Make) -> Iterator[str]:
    """Return names for further properties, the simplest first."""
    low = int(schema.get("minProperties", 0))
    yield from (f"extra_{number}" for number in range(1, low + 1))
    for pattern in schema.get("patternProperties", {}):
        tests = compiled(pattern)
        try:
            names = text_pool(pattern_sampler(pattern, 1, None), partial(_found, tests), pattern)
        except ValueError:
            continue
        yield from names
        longer = (f"{name}{number}" for name in names for number in range(1, low + 1))
        yield from filter(tests.search, longer)
    if "propertyNames" in schema and not never(schema["propertyNames"]):
        one = make({"type": ["string"], "allOf": [schema["propertyNames"]]})
        drawn = (one(Draw(f"name{number}".encode(), "an example text")) for number in range(200))
        yield from dict.fromkeys(drawn)


def _found(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.search(name) is not None
