"""A JSON Schema as written to the plain form that the rest reads: references inlined, nullable as a type list."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import did_you_mean

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
ANNOTATIONS = ("description", "title", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly")
NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
CHECKED = (
    "type", "enum", "const", *NUMBER_LIMITS, *COUNTS, "pattern",
    "items", "properties", "required", "additionalProperties",
)  # fmt: skip
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a schema, and where: ``output.properties.label``."""

    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.message} @ {self.place}"


def normalise(schema: Any, place: str = "output") -> tuple[dict[str, Any], list[Problem]]:
    """Give the plain form of a schema and all its problems.

    The plain form has the keywords of :data:`CHECKED` and ``description``; ``type`` is always a list.
    """
    problems: list[Problem] = []
    plain = _Normaliser(schema, problems).node(schema, place, ())
    if not problems and plain.get("type") != ["object"]:
        problems.append(Problem('the answer is one JSON object: write "type: object" and its properties', place))
    if not problems and not plain.get("properties"):
        problems.append(Problem("the output has no properties, so no columns", place))
    return plain, problems


class _Normaliser:
    def __init__(self, root: Any, problems: list[Problem]) -> None:
        self.root, self.problems = root, problems

    def report(self, message: str, place: str) -> None:
        self.problems.append(Problem(message, place))

    def node(self, schema: Any, place: str, seen: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            self.report(f"a schema is a mapping, not {schema!r}", place)
            return {}
        schema, seen = self.resolve(dict(schema), place, seen)
        schema = self.nullable(schema, place, seen)
        known = {*CHECKED, *ANNOTATIONS, "$defs", "definitions", "$schema", "$id"}
        for keyword in schema:
            if keyword not in known:
                self.report(f'the keyword "{keyword}"{did_you_mean(keyword, CHECKED)} is not supported', place)
        plain: dict[str, Any] = {"type": self.types(schema, place)}
        if isinstance(schema.get("description"), str):
            plain["description"] = schema["description"]
        self.values(schema, plain, place)
        self.limits(schema, plain, place)
        if "items" in schema:
            plain["items"] = self.node(schema["items"], f"{place}.items", seen)
        if "properties" in schema or "required" in schema or "additionalProperties" in schema:
            self.members(schema, plain, place, seen)
        return plain

    def resolve(
        self, schema: dict[str, Any], place: str, seen: tuple[str, ...]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        while isinstance(reference := schema.pop("$ref", None), str):
            target: Any = self.root
            if reference in seen:
                self.report(f'"{reference}" refers to itself; a column has a fixed depth', place)
                return {}, seen
            for part in reference.lstrip("#").split("/")[1:] if reference.startswith("#") else [None]:
                name = part.replace("~1", "/").replace("~0", "~") if part is not None else None
                target = target.get(name) if isinstance(target, Mapping) else None
            if not isinstance(target, Mapping):
                self.report(f'"{reference}" points to nothing in this schema', place)
                return {}, seen
            schema = {**target, **schema}
            seen = (*seen, reference)
        return schema, seen

    def nullable(self, schema: dict[str, Any], place: str, seen: tuple[str, ...]) -> dict[str, Any]:
        """``anyOf: [X, {type: "null"}]``, as Pydantic writes an optional value, is X with null in its types."""
        choices = schema.get("anyOf")
        null = {"type": "null"}
        if not isinstance(choices, list) or len(choices) != 2 or null not in choices:
            return schema
        other, _ = self.resolve(dict(next(c for c in choices if c != null)), place, seen)
        types = other.get("type")
        if types is None and "enum" not in other:
            return schema
        listed = types if isinstance(types, list) else [types]
        merged = {**other, **{k: v for k, v in schema.items() if k != "anyOf"}}
        if types is not None:
            merged["type"] = [*listed, "null"]
        if "enum" in merged and None not in merged["enum"]:
            merged["enum"] = [*merged["enum"], None]
        return merged

    def types(self, schema: Mapping[str, Any], place: str) -> list[str]:
        written = schema.get("type")
        if written is None:
            values = schema.get("enum", [schema["const"]] if "const" in schema else [])
            kinds = list(dict.fromkeys(json_kind(value) for value in values)) if isinstance(values, list) else []
            if not kinds:
                kinds = ["object"] if "properties" in schema else ["array"] if "items" in schema else []
            if not kinds:
                self.report("a type is missing: a column needs one", place)
            return kinds
        kinds = [written] if isinstance(written, str) else list(written) if isinstance(written, list) else []
        for kind in kinds:
            if kind not in TYPES:
                self.report(f'unknown type "{kind}"{did_you_mean(str(kind), TYPES)}', place)
        if not kinds:
            self.report(f"type {written!r} is neither a name nor a list of names", place)
        columns = {"number" if kind == "integer" else kind for kind in kinds if kind != "null"}
        if len(columns) > 1:
            self.report(f"a column has one type (and null), not {' and '.join(sorted(columns))}", place)
        if kinds == ["null"]:
            self.report("a value that is always null is no column", place)
        return kinds

    def values(self, schema: Mapping[str, Any], plain: dict[str, Any], place: str) -> None:
        allowed = schema.get("enum")
        if "const" in schema:
            allowed = [schema["const"]]
        if allowed is None:
            return
        if not isinstance(allowed, list) or not allowed:
            self.report("enum is a list with at least one value", place)
            return
        if any(isinstance(value, list | dict) for value in allowed):
            self.report("enum and const hold texts, numbers, booleans or null", place)
            return
        kinds = {"number" if (kind := json_kind(value)) == "integer" else kind for value in allowed} - {"null"}
        if len(kinds) > 1:
            self.report(f"an enum holds values of one type (and null), not {' and '.join(sorted(kinds))}", place)
        fitting = [value for value in allowed if _fits(value, plain["type"])]
        if not fitting:
            self.report(f"can't be met: no value of the enum is of type {' or '.join(plain['type'])}", place)
        plain["enum"] = allowed

    def limits(self, schema: Mapping[str, Any], plain: dict[str, Any], place: str) -> None:
        for keyword in NUMBER_LIMITS:
            if keyword in schema:
                if isinstance(schema[keyword], bool) or not isinstance(schema[keyword], int | float):
                    self.report(f"{keyword} is a number, not {schema[keyword]!r}", place)
                    continue
                plain[keyword] = schema[keyword]
        for keyword in COUNTS:
            if keyword in schema:
                if isinstance(schema[keyword], bool) or not isinstance(schema[keyword], int) or schema[keyword] < 0:
                    self.report(f"{keyword} is an integer of at least 0, not {schema[keyword]!r}", place)
                    continue
                plain[keyword] = schema[keyword]
        for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
            if low in plain and high in plain and plain[low] > plain[high]:
                self.report(f"can't be met: {low} {plain[low]} is above {high} {plain[high]}", place)
        if "pattern" in schema:
            from .pattern import portable

            try:
                portable(schema["pattern"])
            except ValueError as error:
                self.report(str(error), place)
            else:
                plain["pattern"] = schema["pattern"]

    def members(self, schema: Mapping[str, Any], plain: dict[str, Any], place: str, seen: tuple[str, ...]) -> None:
        properties = schema.get("properties", {})
        if not isinstance(properties, Mapping):
            self.report("properties is a mapping of names to schemas", place)
            return
        plain["properties"] = {}
        for name, child in properties.items():
            if not NAME.fullmatch(str(name)):
                self.report(
                    f'the property name "{name}" is no column name: letters, digits, _ and -, at most 64', place
                )
            plain["properties"][str(name)] = self.node(child, f"{place}.properties.{name}", seen)
        lower: dict[str, str] = {}
        for name in plain["properties"]:
            if (other := lower.setdefault(name.lower(), name)) != name:
                self.report(f'"{other}" and "{name}" are equal but for case; SQL columns are not', place)
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            self.report("required is a list of property names", place)
            required = []
        for name in required:
            if name not in plain["properties"]:
                self.report(
                    f'required "{name}"{did_you_mean(name, plain["properties"])} is not among the properties', place
                )
        plain["required"] = list(dict.fromkeys(required))
        extra = schema.get("additionalProperties", True)
        if not isinstance(extra, bool):
            self.report("additionalProperties is true or false", place)
        plain["additionalProperties"] = extra


def json_kind(value: object) -> str:
    """Give the JSON Schema type of a value, "integer" for whole numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and (value.is_integer() or math.isinf(value))):
        # Python reads 1e400 as infinite; written so it can only be a whole number.
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _fits(value: object, types: list[str]) -> bool:
    kind = json_kind(value)
    return kind in types or (kind == "integer" and "number" in types)
