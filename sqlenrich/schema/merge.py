"""Two plain schemas over one value as one, where that says the same: columns and reasons stay plain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_TOGETHER = (
    {"properties", "patternProperties", "additionalProperties"},
    {"prefixItems", "items"},
    {"contains", "minContains", "maxContains"},
    {"if", "then", "else"},
)
"""Keywords that read each other: two schemas that both have some are not the same as one with all."""
_WHOLE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "contains", "dependentSchemas"}
"""Keywords that may say something of a null."""


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give one plain schema for two over the same value, or None. A description of the first stays."""
    shared = set(first) & set(second) - {"description", "type", "required"}
    if shared or any(group & set(first) and group & set(second) for group in _TOGETHER):
        return None
    both = {**second, **first}
    if "type" in first and "type" in second:
        kinds = _common(first["type"], second["type"])
        if not kinds:
            return None
        both["type"] = kinds
    if "required" in first and "required" in second:
        both["required"] = list(dict.fromkeys((*first["required"], *second["required"])))
    return both


def _common(first: Sequence[str], second: Sequence[str]) -> list[str]:
    def has(kinds: Sequence[str], kind: str) -> bool:
        return kind in kinds or (kind == "integer" and "number" in kinds)

    return list(dict.fromkeys([k for k in first if has(second, k)] + [k for k in second if has(first, k)]))


def with_null(choices: Sequence[Mapping[str, Any]], *, one: bool = False) -> dict[str, Any] | None:
    """Give ``X or null``, as Pydantic writes an optional value, as X with null in its types; None for other choices.

    With ``one`` exactly one of the choices is met: so X is not null.
    """
    null = {"type": ["null"]}
    if len(choices) != 2 or null not in choices:
        return None
    other = next((dict(choice) for choice in choices if choice != null), None)
    if other is None or (_WHOLE - {"enum"}) & set(other) or not {"type", "enum"} & set(other):
        return None
    if one and "null" in other.get("type", ["null"]) and None in other.get("enum", [None]):
        return None
    if "type" in other:
        other["type"] = list(dict.fromkeys([*other["type"], "null"]))
    if "enum" in other and None not in other["enum"]:
        other["enum"] = [*other["enum"], None]
    return other
