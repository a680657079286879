"""Schemas taken apart for the mock model: references followed, combinations joined to plain alternatives."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_MOST_OPTIONS = 64
_COMBINING = ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")
_LOWER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_HIGHER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_NAMED = ("properties", "patternProperties")
_ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties")
_MANY = ("prefixItems", "allOf", "anyOf", "oneOf")
_MAPPED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_BOTH = ("items", "additionalProperties", "propertyNames")
_LISTS = ("required", "pattern", "contains", "_trail")


def never(schema: Any) -> bool:
    """Tell whether a schema plainly has no value."""
    return schema is False or (isinstance(schema, Mapping) and schema.get("not", False) in ({}, True))


def plain(schema: Schema | bool) -> dict[str, Any]:
    """Give a schema without booleans as schemas and with lists of types, as the judge reads it."""
    if not isinstance(schema, Mapping):
        return {} if schema else {"not": {}}
    written: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _ONE and not (key == "additionalProperties" and isinstance(value, bool)):
            written[key] = plain(value)
        elif key in _MANY:
            written[key] = [plain(one) for one in value]
        elif key in _MAPPED:
            written[key] = {name: plain(one) for name, one in value.items()}
        elif key != "_trail":
            written[key] = listed(value) if key == "type" else value
    return written


def expand(schema: Schema | bool, root: Schema, trail: tuple[str, ...]) -> list[dict[str, Any]]:
    """Give schemas without references and combinations, each of which probably is enough for ``schema``.

    ``not``, and that exactly one branch of ``oneOf`` holds, is left to trying.
    """
    if never(schema) or not isinstance(schema, Mapping):
        return [] if never(schema) else [{}]
    own = {key: value for key, value in schema.items() if key not in (*_COMBINING, "not")}
    if "const" in own:
        own["enum"] = [one for one in own.get("enum", [own["const"]]) if equal(one, own["const"])]
        del own["const"]
    found = [own]
    parts: list[list[dict[str, Any]]] = []
    if "$ref" in schema:
        name = str(schema["$ref"])
        if name in trail:
            raise ValueError(f'the mock model can\'t answer a recursive schema: "{name}"')
        inner = (*trail, name)
        parts.append([{**one, "_trail": list(inner)} for one in expand(_lookup(root, name), root, inner)])
    if "column" in own:
        parts.append([_exact(str(own["column"]), limited=not own.keys().isdisjoint((*_LOWER, *_HIGHER)))])
    parts += [expand(member, root, trail) for member in schema.get("allOf", ())]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            parts.append([one for member in schema[key] for one in expand(member, root, trail)])
    if "if" in schema:
        met = {"allOf": [schema["if"], schema.get("then", {})]}
        parts.append([*expand(met, root, trail), *expand(schema.get("else", {}), root, trail)])
    for name, member in schema.get("dependentSchemas", {}).items():
        there = {"allOf": [member, {"required": [name]}]}
        parts.append([*expand(there, root, trail), {"properties": {name: False}}])
    for part in parts:
        joined = (_merge(left, right) for left, right in product(found, part))
        found = [one for one in joined if one is not None][:_MOST_OPTIONS]
    return found


def _exact(column: str, *, limited: bool) -> dict[str, Any]:
    """Give what ``decimal(p,s)`` asks of a number, and of a text that holds one; small where nothing limits it."""
    precision, scale = map(int, re.findall("[0-9]+", column))
    whole = precision - scale
    bound = 10**whole
    most = {"exclusiveMinimum": -bound} if limited else {"minimum": 0}
    digits = f"[1-9][0-9]{{0,{min(whole - 1, 3)}}}" if whole else "0"
    return {
        **most,
        "exclusiveMaximum": bound if limited else min(bound, 100),
        "multipleOf": float(f"1e-{scale}") if scale else 1,
        "pattern": rf"^{digits}(\.[0-9]{{1,{min(scale, 4)}}})?$" if scale else f"^{digits}$",
    }


def equal(left: Any, right: Any) -> bool:
    """Tell whether two values are one in JSON, where 1 is 1.0 and not true."""
    return _key(left) == _key(right)


def _key(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)


def listed(value: Any) -> list[Any]:
    """Give a list of what may be one or several."""
    return list(value) if isinstance(value, list | tuple) else [value]


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
        elif key == "type":
            both[key] = _common_types(left[key], value)
            if not both[key]:
                return None
        elif key == "enum":
            both[key] = [one for one in left[key] if any(equal(one, other) for other in value)]
            if not both[key]:
                return None
        elif key in _LISTS:
            both[key] = [*listed(left[key]), *(one for one in listed(value) if one not in listed(left[key]))]
        elif key in _NAMED:
            parts = (left[key], value)
            both[key] = {
                name: {"allOf": [part[name] for part in parts if name in part]} for part in parts for name in part
            }
        elif key in _BOTH:
            both[key] = {"allOf": [left[key], value]}
        elif key == "prefixItems":
            both[key] = [
                {"allOf": [_item(left, place), _item(right, place)]} for place in range(max(len(left[key]), len(value)))
            ]
        elif key == "dependentRequired":
            both[key] = {name: [*left[key].get(name, ()), *value.get(name, ())] for name in {**left[key], **value}}
        elif key == "multipleOf":
            one, other = Fraction(str(left[key])), Fraction(str(value))
            scale = one.denominator * other.denominator
            both[key] = math.lcm(int(one * scale), int(other * scale)) / scale
        elif key in _LOWER:
            both[key] = min(left[key], value)
        elif key in _HIGHER:
            both[key] = max(left[key], value)
        elif key == "uniqueItems":
            both[key] = True
        else:
            both[key] = value
    return both


def _item(schema: Schema, place: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[place] if place < len(first) else schema.get("items", True)


def _common_types(left: Any, right: Any) -> list[str]:
    one, other = listed(left), listed(right)
    found = [name for name in one if name in other]
    if "integer" not in found and {"integer", "number"} <= {*one, *other}:
        found.append("integer")
    return found
