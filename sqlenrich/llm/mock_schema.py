"""JSON Schema turned into a maker of valid values, once; the mock model then draws from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

from .draw import Draw
from .mock_number import number as number_maker
from .mock_text import FORMATS, compiled, matching, pool, words

Schema: TypeAlias = Mapping[str, Any]
Maker: TypeAlias = Callable[[Draw], Any]

_COMBINING = ("$ref", "allOf", "anyOf", "oneOf")
_BY_KEYWORD = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "dependentRequired"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_MOST_OPTIONS = 64
_LOWER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_HIGHER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")


def maker(schema: Schema | bool) -> Maker:
    """Give a function that draws values valid under ``schema``.

    Raises ValueError for what has no (findable) value: a contradiction, a recursive or foreign ``$ref``.
    """
    root: Schema = schema if isinstance(schema, Mapping) else {}
    return _maker(schema, root, ())


def _maker(schema: Schema | bool, root: Schema, trail: tuple[str, ...]) -> Maker:
    options = [one for plain in _expand(schema, root, trail) for one in _by_type(plain)]
    if not options:
        raise ValueError(f"the mock model finds no value for the schema {json.dumps(schema)[:200]}")
    # A value is more telling than null: null is drawn less often than the rest.
    weighted = [one for one in options for _ in range(1 if one["type"] == "null" else 3)]
    made: dict[int, Maker] = {}
    problems: list[ValueError] = []
    for one in options:
        try:
            made[id(one)] = _plain(one, root, trail)
        except ValueError as error:
            problems.append(error)
    makers = [made[id(one)] for one in weighted if id(one) in made]
    if not makers:
        raise problems[0]
    if len(made) == 1:
        return makers[0]
    return lambda draw: draw.pick(makers)(draw)


def _expand(schema: Schema | bool, root: Schema, trail: tuple[str, ...]) -> list[dict[str, Any]]:
    """Give the schemas without references and combinations that are each enough for ``schema``."""
    if not isinstance(schema, Mapping):
        return [{}] if schema else []
    found = [{key: value for key, value in schema.items() if key not in _COMBINING}]
    parts: list[list[dict[str, Any]]] = []
    if "$ref" in schema:
        name = str(schema["$ref"])
        if name in trail:
            raise ValueError(f'the mock model can\'t answer a recursive schema: "{name}"')
        parts.append([{**one, "_trail": (*trail, name)} for one in _expand(_lookup(root, name), root, (*trail, name))])
    parts += [_expand(member, root, trail) for member in schema.get("allOf", ())]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            parts.append([one for member in schema[key] for one in _expand(member, root, trail)])
    for part in parts:
        joined = (_merge(left, right) for left, right in product(found, part))
        found = [one for one in joined if one is not None][:_MOST_OPTIONS]
    return found


def _lookup(root: Schema, name: str) -> Schema | bool:
    if not name.startswith("#"):
        raise ValueError(f'the mock model follows local references only, not "{name}"')
    here: Any = root
    for step in name[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            here = here[int(step)] if isinstance(here, list) else here[step]
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValueError(f'the schema has no "{name}"') from None
    return here  # type: ignore[no-any-return]


def _merge(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any] | None:
    """Give a schema that demands what both demand, or None where that is nothing."""
    both = dict(left)
    for key, value in right.items():
        if key not in left or left[key] == value:
            both[key] = value
        elif key in ("type", "enum"):
            both[key] = _common_types(left[key], value) if key == "type" else [v for v in left[key] if v in value]
            if not both[key]:
                return None
        elif key == "const":
            return None
        elif key in ("required", "pattern", "_trail"):
            both[key] = list(dict.fromkeys([*_listed(left[key]), *_listed(value)]))
        elif key == "properties":
            parts = (left[key], value)
            both[key] = {
                name: {"allOf": [part[name] for part in parts if name in part]} for part in parts for name in part
            }
        elif key in ("items", "additionalProperties"):
            both[key] = {"allOf": [left[key], value]}
        elif key == "multipleOf":
            one, other = Fraction(str(left[key])), Fraction(str(value))
            scale = one.denominator * other.denominator
            both[key] = math.lcm(int(one * scale), int(other * scale)) / scale
        elif key in _LOWER:
            both[key] = min(left[key], value)
        elif key in _HIGHER:
            both[key] = max(left[key], value)
        else:
            both[key] = value
    return both


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _common_types(left: Any, right: Any) -> list[str]:
    one, other = _listed(left), _listed(right)
    found = [name for name in one if name in other]
    if "integer" not in found and {"integer", "number"} <= {*one, *other}:
        found.append("integer")
    return found


def _by_type(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Give one schema for each type that ``schema`` allows; ``enum`` is a type of its own here."""
    types = _listed(schema["type"]) if "type" in schema else []
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        values = [one for one in values if not types or any(_is(one, name) for name in types)]
        if "const" in schema and "enum" in schema:
            values = [one for one in values if one in schema["enum"]]
        return [{"type": "enum", "enum": values}] if values else []
    if not types:
        types = [name for name, keys in _BY_KEYWORD.items() if any(key in schema for key in keys)][:1] or ["string"]
    return [{**schema, "type": name} for name in types]


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) or name == "boolean":
        return isinstance(value, bool) and name == "boolean"
    kinds: dict[str, Any] = {"string": str, "array": list, "object": Mapping, "number": int | float}
    if name == "integer":
        return isinstance(value, int | float) and value == int(value)
    return value is None if name == "null" else isinstance(value, kinds.get(name, ()))


def _plain(schema: dict[str, Any], root: Schema, trail: tuple[str, ...]) -> Maker:
    trail = tuple(schema.get("_trail", trail))
    kind = schema["type"]
    if kind == "enum":
        values = schema["enum"]
        return lambda draw: draw.pick(values)
    if kind == "null":
        return lambda _: None
    if kind == "boolean":
        return lambda draw: draw.below(2) == 1
    if kind in ("integer", "number"):
        return number_maker(schema, whole=kind == "integer")
    if kind == "string":
        return _string(schema)
    if kind == "array":
        return _array(schema, root, trail)
    if kind == "object":
        return _object(schema, root, trail)
    raise ValueError(f'the mock model knows no type "{kind}"')


def _string(schema: Schema) -> Maker:
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    high = None if high is None else int(high)
    if high is not None and high < low:
        raise ValueError(f"the mock model finds no text with minLength {low} and maxLength {high}")
    make = FORMATS.get(schema.get("format", ""))
    patterns = _listed(schema.get("pattern", []))
    if make is None and not patterns:
        return words(low, high)
    limited = "minLength" in schema or "maxLength" in schema
    if make is not None and not patterns and not limited:
        return make
    tests = [compiled(pattern) for pattern in patterns]

    def fits(text: str) -> bool:
        in_length = len(text) >= low and (high is None or len(text) <= high)
        return in_length and all(test.search(text) for test in tests)

    makers = [make] if make is not None else [matching(pattern, low, high) for pattern in patterns]
    name = " ".join(f"{key} {schema[key]}" for key in _BY_KEYWORD["string"] if key in schema)
    texts = pool(lambda draw: draw.pick(makers)(draw), fits, name)
    return lambda draw: draw.pick(texts)


def _array(schema: Schema, root: Schema, trail: tuple[str, ...]) -> Maker:
    first = [_maker(item, root, trail) for item in schema.get("prefixItems", ())]
    items = schema.get("items", True)
    low = int(schema.get("minItems", 0))
    high = int(schema.get("maxItems", max(low, len(first)) + 3))
    if "contains" in schema:
        low = max(low, len(first) + 1)
        first = [*first, _maker({"allOf": [schema["contains"], items]}, root, trail)]
    if items is False:
        high = min(high, len(first))
    if low > high:
        raise ValueError(f"the mock model finds no array with {low} to {high} items")
    rest = _maker(items, root, trail) if high > len(first) else None
    unique = bool(schema.get("uniqueItems"))

    def make(draw: Draw) -> list[Any]:
        values: list[Any] = []
        seen: set[str] = set()
        for place in range(low + draw.below(min(high - low, 8) + 1)):
            one = first[place] if place < len(first) else rest
            for _ in range(24 if one is not None else 0):
                value = one(draw) if one is not None else None
                key = json.dumps(value, sort_keys=True) if unique else ""
                if key not in seen or not unique:
                    seen.add(key)
                    values.append(value)
                    break
        return values

    return make


def _object(schema: Schema, root: Schema, trail: tuple[str, ...]) -> Maker:
    required = set(schema.get("required", ()))
    low, high = int(schema.get("minProperties", 0)), schema.get("maxProperties", math.inf)
    others = schema.get("additionalProperties", True)
    properties = dict(schema.get("properties", {}))
    for name in [*schema.get("required", ()), *(f"extra_{number}" for number in range(1, low + 1))]:
        if others is not False and (name in required or len(properties) < low):
            properties.setdefault(name, others)
    makers: list[tuple[str, bool, Maker]] = []
    for name, inner in properties.items():
        try:
            makers.append((name, name in required, _maker(inner, root, trail)))
        except ValueError:
            # An optional property without a possible value is one that is never there.
            if name in required:
                raise
    if missing := required - {name for name, _, _ in makers}:
        raise ValueError(f'the mock model may not write the required "{min(missing)}"')
    along: Mapping[str, Sequence[str]] = schema.get("dependentRequired", {})
    if low > len(makers) or len(required) > high:
        raise ValueError(f"the mock model finds no object with {low} to {high} properties")

    def make(draw: Draw) -> dict[str, Any]:
        chosen = {name for name, must, _ in makers if must or draw.below(2)}
        for name, must, _ in makers:
            if len(chosen) < low:
                chosen.add(name)
            elif len(chosen) > high and not must:
                chosen.discard(name)
        while more := {other for name in chosen for other in along.get(name, ())} - chosen:
            chosen |= more
        return {name: one(draw) for name, _, one in makers if name in chosen}

    return make
