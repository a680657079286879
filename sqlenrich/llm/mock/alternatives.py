"""A plain schema without its combining keywords: the alternatives of which a value meets one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

NEVER: Schema = {"not": {}}
"""The schema that no value meets."""
_MAX_ALTERNATIVES = 64
_COMBINING = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not")


def never(schema: Schema) -> bool:
    """Tell whether a schema forbids every value by an empty ``not``."""
    return schema.get("not") == {}


def alternatives(schema: Schema) -> list[dict[str, Any]]:
    """Return schemas without combining keywords. A value that meets one of them probably meets ``schema``.

    ``not`` is left out, and so is the rule that a value meets exactly one branch of ``oneOf``: a validator tests them.
    """
    if never(schema):
        return []
    found = [{key: value for key, value in schema.items() if key not in _COMBINING}]
    parts: list[list[dict[str, Any]]] = []
    if "column" in schema:
        parts.append([_decimal(schema["column"], limited=not schema.keys().isdisjoint((*_MINIMA, *_MAXIMA)))])
    parts += [alternatives(part) for part in schema.get("allOf", ())]
    parts += [
        [one for part in schema[key] for one in alternatives(part)] for key in ("anyOf", "oneOf") if key in schema
    ]
    if "if" in schema:
        met = {"allOf": [schema["if"], schema.get("then", {})]}
        parts.append([*alternatives(met), *alternatives(schema.get("else", {}))])
    for name, part in schema.get("dependentSchemas", {}).items():
        present = {"allOf": [part, {"required": [name]}]}
        parts.append([*alternatives(present), {"properties": {name: NEVER}}])
    for part in parts:
        merged = (_merged(left, right) for left, right in product(found, part))
        found = [one for one in merged if one is not None][:_MAX_ALTERNATIVES]
    return found


def as_list(value: Any) -> list[Any]:
    """Return a list of one value or of several: merged schemas have several patterns, and several ``contains``."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _decimal(column: str, *, limited: bool) -> dict[str, Any]:
    """Return the schema of a ``decimal(p,s)``, a number or a text; values are small unless a limit is ``limited``."""
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


def _merged(left: Schema, right: Schema) -> dict[str, Any] | None:
    """Return the schema of the values that meet both, or None where there is plainly none."""
    both = {**left, **right}
    for key in left.keys() & right.keys():
        if left[key] == right[key]:
            continue
        if key == "prefixItems":
            count = max(len(left[key]), len(right[key]))
            both[key] = [{"allOf": [_item(left, place), _item(right, place)]} for place in range(count)]
        elif key in _MERGE:
            both[key] = _MERGE[key](left[key], right[key])
    return None if [] in (both.get("type"), both.get("enum")) else both


def _item(schema: Schema, place: int) -> Any:
    first = schema.get("prefixItems", ())
    return first[place] if place < len(first) else schema.get("items", {})


def _common_types(left: list[str], right: list[str]) -> list[str]:
    found = [name for name in left if name in right]
    if "integer" not in found and {"integer", "number"} <= {*left, *right}:
        found.append("integer")
    return found


def _common_values(left: list[Any], right: list[Any]) -> list[Any]:
    keys = [_json_key(value) for value in right]
    return [value for value in left if _json_key(value) in keys]


def _json_key(value: Any) -> str:
    """Return a text that is the same for values that are equal in JSON, where 1 is 1.0 and is not true."""
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)


def _union(left: Any, right: Any) -> list[Any]:
    return [*as_list(left), *(one for one in as_list(right) if one not in as_list(left))]


def _all_of(left: Any, right: Any) -> Schema:
    """Return the schema of both; one of them may be a boolean, as ``additionalProperties`` is."""
    schemas = [{} if one is True else NEVER if one is False else one for one in (left, right)]
    return {"allOf": schemas}


def _by_name(left: Schema, right: Schema) -> dict[str, Schema]:
    parts = (left, right)
    return {name: {"allOf": [part[name] for part in parts if name in part]} for part in parts for name in part}


def _names_by_name(left: Mapping[str, list[str]], right: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: [*left.get(name, ()), *right.get(name, ())] for name in {**left, **right}}


def _common_multiple(left: float, right: float) -> float:
    one, other = Fraction(str(left)), Fraction(str(right))
    scale = one.denominator * other.denominator
    return math.lcm(int(one * scale), int(other * scale)) / scale


_MAXIMA = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_MINIMA = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_MERGE: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _common_types,
    "enum": _common_values,
    **dict.fromkeys(("required", "pattern", "contains"), _union),
    **dict.fromkeys(("properties", "patternProperties"), _by_name),
    **dict.fromkeys(("items", "additionalProperties", "propertyNames"), _all_of),
    "dependentRequired": _names_by_name,
    "multipleOf": _common_multiple,
    **dict.fromkeys(_MAXIMA, min),
    **dict.fromkeys(_MINIMA, max),
}
"""How two values of a keyword become one; the second value of any other keyword is kept."""
