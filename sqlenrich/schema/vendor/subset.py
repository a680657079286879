"""The largest part of an output's JSON Schema that a vendor accepts. The checks enforce the rest.

The part is never stricter than the checks. Where a keyword is left out, the keywords that would be wrong without it are
left out, too: ``additionalProperties`` without ``patternProperties``, ``items`` without ``prefixItems``, and a whole
``anyOf`` that the vendor would read as more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.json_types import common_types, json_type, type_within
from sqlenrich.schema.keywords import BY_TYPE, LENGTHS, NEVER, NUMBER_LIMITS, OWN, Schema, join_path, subschemas, walk
from sqlenrich.schema.vendor.dialects import Dialect

_COPIED = ("multipleOf", "minItems", "maxItems", "minProperties", "maxProperties")
"""Keywords that are accepted or left out by themselves."""
_HANDLED = {
    "type", "description", "enum", *OWN, *NUMBER_LIMITS, *LENGTHS, "pattern", "format", *_COPIED,
    "properties", "required", "additionalProperties", "items", "prefixItems",
}  # fmt: skip
"""Keywords that are accepted or left out, each by a rule below; any other is left out."""
_BIGINT_LIMIT = 2**63


def vendor_part(schema: Schema, dialect: Dialect) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return the largest part of a plain schema that a vendor takes, and what was left out: ``("summary.maxLength",)``.

    The part is None where the vendor takes no part, and the second value is the reasons: the hint is used instead.
    """
    subset = _Subset(dialect)
    part = subset.node(schema, "")
    if subset.refused:
        return None, tuple(subset.refused)
    left_out = list(dict.fromkeys(subset.left_out))
    while _too_large(part, dialect):
        parents = [(depth, path, node) for depth, path, node in walk(part) if node != NEVER and any(subschemas(node))]
        _, path, deepest = max(parents, key=lambda parent: parent[0])
        if deepest is part:
            return None, (f"{_property_count(part)} properties, of {dialect.max_properties} that are taken",)
        left_out = [one for one in left_out if not one.startswith((f"{path}.", f"{path}["))]
        left_out += [join_path(path, key) for key in deepest if key in ("properties", "items", "prefixItems", "anyOf")]
        for keyword in (*BY_TYPE["object"], *BY_TYPE["array"], "anyOf"):
            deepest.pop(keyword, None)
    return part, tuple(left_out)


class _Subset:
    """Builds the part of one plain schema."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.left_out: list[str] = []
        self.refused: list[str] = []

    def takes(self, keyword: str) -> bool:
        return keyword in self.dialect.keywords

    def leave_out(self, path: str, *keywords: str) -> None:
        self.left_out += [join_path(path, keyword) for keyword in keywords]

    def node(self, schema: Schema, path: str) -> dict[str, Any]:
        """Return the part of one schema."""
        if "oneOf" in schema and "anyOf" not in schema and self.takes("anyOf"):
            self.leave_out(path, "oneOf")
            schema = {**_without(schema, ("oneOf",)), "anyOf": schema["oneOf"]}
        kinds = _types(schema)
        schema = _relevant(schema, kinds)
        values = [kind for kind in kinds or () if kind != "null"]
        if self.dialect.one_type and len(values) > 1 and "anyOf" not in schema:
            if not self.takes("anyOf"):
                self.leave_out(path, *(key for key in schema if key not in ("description", *OWN)))
                return {key: schema[key] for key in ("description",) if key in schema}
            schema = {
                "anyOf": [{**_without(_relevant(schema, [kind]), ("description",)), "type": [kind]} for kind in values],
                **({"type": kinds} if kinds and "null" in kinds else {}),
                **({"description": schema["description"]} if "description" in schema else {}),
            }
        part = {"description": schema["description"]} if "description" in schema else {}
        if "anyOf" in schema:
            branches = self.branches(schema, path)
            if branches is not None:
                return {**part, "anyOf": branches}
            self.leave_out(path, "anyOf")
            schema = _without(schema, ("anyOf",))
        if kinds is None:  # a vendor would read a keyword of one type as that type
            self.leave_out(path, *(key for key in schema if key not in ("description", *OWN)))
            return self.finished(part, path)
        part["type"] = kinds
        self.enum(schema, part, path)
        self.scalars(schema, part, path)
        if "array" in kinds:
            self.array(schema, part, path)
        if "object" in kinds:
            self.members(schema, part, path)
        handled = {*part, *_HANDLED}
        self.leave_out(path, *(key for key in schema if key not in handled))
        return self.finished(part, path)

    def finished(self, part: dict[str, Any], path: str) -> dict[str, Any]:
        """Return a part with its type first; note what keeps a vendor that requires types from taking it."""
        part = {key: part[key] for key in ("type", *part) if key in part}
        for limits in _contradictions(part):
            self.leave_out(path, *limits)
            part = _without(part, limits)
        if not self.dialect.typed:
            return part
        kinds = part.get("type", ())
        for lacks, what in (
            ("type" not in part, "a value of any type"),
            ("object" in kinds and not part.get("properties"), "an object without named properties"),
            ("array" in kinds and "items" not in part, "an array without items"),
            (list(kinds) == ["null"], "only null"),
        ):
            if lacks:
                self.refused.append(f"{path or 'the output'}: {what}")
        return part

    def branches(self, schema: Schema, path: str) -> list[dict[str, Any]] | None:
        """Return the branches of an ``anyOf``, or None: vendors ignore the keywords beside an ``anyOf``."""
        if not self.takes("anyOf") or not path or set(schema) - {"anyOf", "type", "description", *OWN}:
            return None
        outer = schema.get("type")
        branches: list[dict[str, Any]] = []
        before, refused = len(self.left_out), len(self.refused)
        for number, branch in enumerate(schema["anyOf"]):
            if outer is not None:
                both = common_types(branch.get("type", outer), outer)
                if not both:
                    continue
                branch = {**branch, "type": both}
            branches.append(self.node(branch, f"{path}.anyOf[{number}]"))
        if self.dialect.typed and outer is not None and "null" in outer and branches:
            branches.append({"type": ["null"]})
        bare = any("type" not in one and "anyOf" not in one for one in branches)
        if bare or not branches or (self.dialect.typed and self.refused_beyond_null(refused)):
            del self.left_out[before:], self.refused[refused:]
            return None
        return branches

    def refused_beyond_null(self, start: int) -> bool:
        """Tell whether a branch is refused. Only null is no reason: null is in the type of the others."""
        self.refused[start:] = [reason for reason in self.refused[start:] if not reason.endswith(": only null")]
        return len(self.refused) > start

    def enum(self, schema: Schema, part: dict[str, Any], path: str) -> None:
        if "enum" not in schema:
            return
        fitting = [value for value in schema["enum"] if type_within(json_type(value), part["type"])]
        allowed = {*self.dialect.enum_of, "null"}
        if self.takes("enum") and fitting and all(json_type(value) in allowed for value in fitting):
            part["enum"] = fitting
        else:
            self.leave_out(path, "enum")

    def scalars(self, schema: Schema, part: dict[str, Any], path: str) -> None:
        kinds = part["type"]
        for keyword in (*NUMBER_LIMITS, *_COPIED):
            if keyword not in schema:
                continue
            value = schema[keyword]
            if keyword in NUMBER_LIMITS and "integer" in kinds:
                value = _integer_limit(keyword, value)
            if self.takes(keyword) and value is not None:
                part[keyword] = value
            else:
                self.leave_out(path, keyword)
        if "pattern" in schema:
            if self.takes("pattern") and _matches_whole(schema["pattern"]):
                part["pattern"] = schema["pattern"]
            else:
                self.leave_out(path, "pattern")
        if "format" in schema:
            if self.takes("format") and schema["format"] in self.dialect.formats and "pattern" not in part:
                part["format"] = schema["format"]
            else:
                self.leave_out(path, "format")
        for keyword in LENGTHS:
            if keyword in schema:
                if self.takes(keyword) and not (self.dialect.length_alone and part.keys() & {"pattern", "format"}):
                    part[keyword] = schema[keyword]
                else:
                    self.leave_out(path, keyword)

    def array(self, schema: Schema, part: dict[str, Any], path: str) -> None:
        first, rest = schema.get("prefixItems", ())[: schema.get("maxItems")], schema.get("items", {})
        if first and self.takes("prefixItems"):
            part["prefixItems"] = [self.node(one, f"{path}[{number}]") for number, one in enumerate(first)]
            part["items"] = dict(NEVER) if rest == NEVER else self.node(rest, f"{path}[]")
            return
        if first:
            self.leave_out(path, "prefixItems")
            most = schema.get("maxItems", len(first) if rest == NEVER else math.inf)
            if rest == NEVER and self.takes("maxItems"):
                part["maxItems"] = min(most, len(first))
            # Each item fits one of the first or the rest: a weaker rule, which forbids no valid answer.
            choices = [*first, *([] if most <= len(first) or rest == NEVER else [rest])]
            distinct = [one for number, one in enumerate(choices) if one not in choices[:number]]
            rest = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
            if len(distinct) > 1 and not self.takes("anyOf"):
                rest = {}
        if rest == NEVER:
            self.leave_out(path, "items")
            rest = {}
        if rest and (items := self.node(rest, f"{path}[]")):
            part["items"] = items

    def members(self, schema: Schema, part: dict[str, Any], path: str) -> None:
        properties = schema.get("properties", {})
        name_pattern = self.dialect.property_name
        if name_pattern is not None and not all(name_pattern.fullmatch(name) for name in properties):
            self.leave_out(path, *(key for key in ("properties", "required", "additionalProperties") if key in schema))
            return
        rest = schema.get("additionalProperties", True)
        closed = rest is False or rest == NEVER
        by_pattern = bool(schema.get("patternProperties"))
        if properties:
            part["properties"] = {
                name: self.node(child, join_path(path, name))
                for name, child in properties.items()
                if not (closed and child == NEVER)
            }
        names = part.get("properties", {})
        required = schema.get("required", [])
        names_left = [name for name in required if name in names]
        self.leave_out(path, *(f"required.{name}" for name in required if name not in names))
        if names_left:
            part["required"] = names_left
        if self.dialect.closed:
            others = not closed and rest is not True and rest != {}
            if by_pattern or others or not names:
                what = "an object with other names than those of its properties"
                self.refused.append(f"{path or 'the output'}: {what}")
            part["additionalProperties"] = False
            return
        if rest is True or rest == {}:
            return
        if self.takes("additionalProperties") and not by_pattern and closed:
            part["additionalProperties"] = False
        elif self.takes("additionalProperties") and not by_pattern and self.dialect.schema_of_others:
            part["additionalProperties"] = self.node(rest, join_path(path, "*"))
        elif not (closed and self.dialect.typed):  # it writes named properties only
            self.leave_out(path, "additionalProperties")


def _too_large(part: Schema, dialect: Dialect) -> bool:
    too_many = dialect.max_properties is not None and _property_count(part) > dialect.max_properties
    return too_many or (dialect.max_json_depth is not None and _json_depth(json_schema(part)) > dialect.max_json_depth)


def _property_count(schema: Schema) -> int:
    return sum(len(node.get("properties", ())) for _, _, node in walk(schema))


def _json_depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_json_depth(one) for one in inner), default=0) if isinstance(value, dict | list) else 0


def _without(schema: Schema, keywords: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keywords}


def _types(schema: Schema) -> list[str] | None:
    """Return the types that a plain schema allows, None for any."""
    kinds = schema.get("type")
    if "enum" in schema:
        of_values = list(dict.fromkeys(json_type(value) for value in schema["enum"]))
        both = [kind for kind in kinds or () if common_types([kind], of_values)]
        kinds = of_values if kinds is None else both or kinds
    return None if kinds is None else [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]


def _relevant(schema: Schema, kinds: list[str] | None) -> Schema:
    """Return a schema without the keywords that test values of other types."""
    if kinds is None:
        return schema
    named = {"number" if kind == "integer" else kind for kind in kinds}
    return _without(schema, tuple(key for kind, keys in BY_TYPE.items() if kind not in named for key in keys))


def _integer_limit(keyword: str, limit: float) -> int | None:
    """Return a limit of integers as an integer; None beyond 64 bits, which vendors refuse."""
    up = keyword in ("minimum", "exclusiveMaximum")
    whole = math.ceil(limit) if up else math.floor(limit)
    return whole if -_BIGINT_LIMIT <= whole < _BIGINT_LIMIT else None


def _contradictions(part: Schema) -> Iterator[tuple[str, ...]]:
    """Return the keywords of limits that no value can meet, which vendors refuse even in one branch."""
    names, first = part.get("properties", ()), part.get("prefixItems", ())
    fixed = {
        "maxProperties": len(names) if part.get("additionalProperties") is False else math.inf,
        "maxItems": len(first) if part.get("items") == NEVER else math.inf,
    }
    for low, high in (("minItems", "maxItems"), ("minLength", "maxLength"), ("minProperties", "maxProperties")):
        if part.get(low, 0) > min(part.get(high, math.inf), fixed.get(high, math.inf)):
            yield tuple(key for key in (low, high) if key in part)
    if any(key in part for key in NUMBER_LIMITS) and _empty_range(part):
        yield tuple(key for key in NUMBER_LIMITS if key in part)


def _empty_range(part: Schema) -> bool:
    step = 1 if "number" not in part["type"] else 0
    low = max(part.get("minimum", -math.inf), part.get("exclusiveMinimum", -math.inf) + step)
    high = min(part.get("maximum", math.inf), part.get("exclusiveMaximum", math.inf) - step)
    open_end = not step and low in (part.get("exclusiveMinimum"), part.get("exclusiveMaximum"))
    return low > high or (open_end and low == high)


def _matches_whole(pattern: str) -> bool:
    """Tell whether a pattern describes the whole text, from ``^`` to ``$``: vendors match the whole text."""
    if not (pattern.startswith("^") and pattern.endswith("$")) or pattern.endswith("\\$"):
        return False
    depth, index, inner = 0, 0, pattern[1:-1]
    bracket = False
    while index < len(inner):
        char = inner[index]
        if char == "\\":
            if inner[index + 1 : index + 2] in ("b", "B", "p", "P"):
                return False
            index += 1
        elif bracket:
            bracket = char != "]"
        elif char == "[":
            bracket = True
        elif char in "()":
            if inner.startswith(("(?=", "(?!", "(?<"), index):
                return False
            depth += 1 if char == "(" else -1
        elif char in "^$" or (char == "|" and depth == 0):
            return False
        index += 1
    return True
