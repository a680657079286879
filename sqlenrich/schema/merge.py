"""Two plain schemas for the same value, merged into one where the result is equivalent.

A merged schema has the columns and the reason codes of a schema that was written as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlenrich.schema.json_types import common_types
from sqlenrich.schema.keywords import Schema

_DEPENDENT = (
    {"properties", "patternProperties", "additionalProperties"},
    {"prefixItems", "items"},
    {"contains", "minContains", "maxContains"},
    {"if", "then", "else"},
)
"""Keywords that depend on each other: two schemas that both have some of a set can't be merged."""
_TEST_NULL = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "contains", "dependentSchemas"}
"""Keywords, beside the type and the enum, that may refuse or require a null."""


def merged(first: Schema, second: Schema) -> dict[str, Any] | None:
    """Return one plain schema that is equivalent to two, or None. The description of the first is kept."""
    shared = set(first) & set(second) - {"description", "type", "required"}
    if shared or any(group & set(first) and group & set(second) for group in _DEPENDENT):
        return None
    both = {**second, **first}
    if "type" in first and "type" in second:
        kinds = common_types(first["type"], second["type"])
        if not kinds:
            return None
        both["type"] = kinds
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys((*first["required"], *second["required"])))
    return both


def with_null(choices: Sequence[Schema], *, one: bool = False) -> dict[str, Any] | None:
    """Return the choices ``X or null``, as Pydantic writes an optional value, as X with null in its types.

    None for other choices. ``one``: a value must meet exactly one of the choices, so X must not allow null.
    """
    null = {"type": ["null"]}
    if len(choices) != 2 or null not in choices:
        return None
    other = next((dict(choice) for choice in choices if choice != null), None)
    if other is None or _TEST_NULL & set(other) or not {"type", "enum"} & set(other):
        return None
    if one and "null" in other.get("type", ["null"]) and None in other.get("enum", [None]):
        return None
    if "type" in other:
        other["type"] = list(dict.fromkeys([*other["type"], "null"]))
    if "enum" in other and None not in other["enum"]:
        other["enum"] = [*other["enum"], None]
    return other
