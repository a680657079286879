"""The short form of an output, after Dotprompt's Picoschema: ``name: type, description``, expanded to JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlenrich.core.errors import did_you_mean
from sqlenrich.schema.json_types import TYPES, json_type
from sqlenrich.schema.keywords import ANNOTATIONS, CHECKED, CORE, OWN

SHORT_TYPES: Mapping[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "null": {"type": "null"},
    "any": {},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
}
KINDS = ("enum", "array", "object")
"""What may be in parentheses after a name: ``name(enum, description)``."""
WILDCARD = "(*)"
"""The name of all other properties."""
_KEY = re.compile(r"([^?(]*?)\s*(\?)?\s*(?:\(\s*([^,]*?)\s*(?:,\s*(.*?)\s*)?\))?", re.DOTALL)
_MARKS = {"properties": Mapping, "$ref": str, "$schema": str, "allOf": list, "anyOf": list, "oneOf": list}
"""A keyword at the top with a value of this Python type marks JSON Schema."""
_KEYWORDS = {*ANNOTATIONS, *CHECKED, *CORE, "$anchor"} - {*OWN}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Expanded:
    """A JSON Schema, the problems of its short form, and where each part of the schema was written.

    The paths in ``problems`` and the values of ``places`` are keys as written: ``("intent(enum)",)``.
    """

    schema: Any
    problems: list[tuple[str, Path]] = field(default_factory=list)
    places: dict[Path, Path] = field(default_factory=dict)

    def written(self, place: Path) -> Path:
        """Return the path where a part of the JSON Schema was written, or else the nearest part around it."""
        if not self.places:
            return place
        parts = (place[:end] for end in range(len(place), -1, -1))
        return next(self.places[part] for part in parts if part in self.places)


def is_short(written: Any) -> bool:
    """Tell whether an output is in the short form. JSON Schema has ``type``, ``properties`` or the like at its top.

    ``{type: string, urgency: integer}`` is the short form: an answer is no text, and ``urgency`` is no keyword.
    """
    if not isinstance(written, Mapping) or not written:
        return False
    if any(isinstance(written.get(key), kind) for key, kind in _MARKS.items()):
        return False
    kinds = written.get("type")
    if isinstance(kinds, str):
        return kinds not in TYPES or (kinds != "object" and not set(written) <= _KEYWORDS)
    return not (isinstance(kinds, list) and kinds and all(kind in TYPES for kind in kinds))


def expand(written: Any) -> Expanded:
    """Return the JSON Schema of an output in the short form. An output in JSON Schema is given unchanged."""
    if not is_short(written):
        return Expanded(written)
    expanded = Expanded({}, places={(): ()})
    expanded.schema.update(_members(written, (), (), expanded))
    return expanded


def _members(written: Mapping[Any, Any], path: Path, at: Path, out: Expanded) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    for key, value in written.items():
        here = (*path, str(key))
        if key == WILDCARD:
            out.places[(*at, "additionalProperties")] = here
            rest = _value(None, value, here, (*at, "additionalProperties"), out)
            schema["additionalProperties"] = rest or True
            continue
        parts = _KEY.fullmatch(str(key).strip())
        if parts is None or not parts[1]:
            out.problems.append((f'"{key}" is no field: write name, name? or name(enum, description)', here))
            continue
        name, optional, kind, description = parts.groups()
        if name in schema["properties"]:
            out.problems.append((f'"{name}" is written twice', here))
        place = (*at, "properties", name)
        out.places[place] = here
        child = _value(kind, value, here, place, out)
        if description:
            child["description"] = description
        if optional is None:
            schema["required"].append(name)
        else:
            child = _nullable(child)
        schema["properties"][name] = child
    return schema


def _value(kind: str | None, value: Any, here: Path, at: Path, out: Expanded) -> dict[str, Any]:
    if kind == "enum":
        return _enum(value, here, out)
    if kind == "array":
        return {"type": "array", "items": _value(None, value, here, (*at, "items"), out)}
    if kind is not None and kind != "object":
        out.problems.append((f'unknown kind "{kind}"{did_you_mean(kind, KINDS)}; there are: {", ".join(KINDS)}', here))
        return {}
    if isinstance(value, Mapping) and value:
        return _members(value, here, at, out)
    if kind == "object":
        out.problems.append((f"an object is a mapping of its fields, not {value!r}", here))
    elif isinstance(value, str):
        return _scalar(value, here, out)
    elif value is None:
        out.problems.append(("a type is missing: write name: string", here))
    elif isinstance(value, list):
        out.problems.append(("a list of values is an enum: write name(enum): [a, b]", here))
    else:
        out.problems.append((f"a field is a type, as in name: string, what it is; not {value!r}", here))
    return {}


def _scalar(value: str, here: Path, out: Expanded) -> dict[str, Any]:
    kind, _, description = (part.strip() for part in value.partition(","))
    if kind not in SHORT_TYPES:
        near = did_you_mean(kind, SHORT_TYPES)
        out.problems.append((f'unknown type "{kind}"{near}; there are: {", ".join(SHORT_TYPES)}', here))
        return {}
    return {**SHORT_TYPES[kind], **({"description": description} if description else {})}


def _enum(value: Any, here: Path, out: Expanded) -> dict[str, Any]:
    if not isinstance(value, list) or not value or any(isinstance(one, list | Mapping) for one in value):
        out.problems.append((f"an enum is a list of its values, as in [a, b], not {value!r}", here))
        return {}
    kinds = {json_type(one) for one in value}
    return {**({"type": kinds.pop()} if len(kinds) == 1 else {}), "enum": list(value)}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an optional field, which may be missing or null."""
    if "enum" in schema and None not in schema["enum"]:
        schema = {**schema, "enum": [*schema["enum"], None]}
    if schema.get("type", "null") == "null":
        return schema
    return {**schema, "type": [schema["type"], "null"]}
