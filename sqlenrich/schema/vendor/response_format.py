"""The part of an output's JSON Schema that a vendor takes. The checks enforce the rest.

What is told is never stricter than what is checked: where a keyword is left out, what would be wrong without it goes,
too (``additionalProperties`` without ``patternProperties``, ``items`` without ``prefixItems``, a whole ``anyOf`` that
the vendor would read as more).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sqlenrich.core.engine import OutputSpec, ResponseFormat
from sqlenrich.schema.json_schema import json_schema
from sqlenrich.schema.keywords import OWN
from sqlenrich.schema.traversal import NEVER, Schema, at, children, walk
from sqlenrich.schema.vendor.dialects import DATABRICKS, GEMINI, OPENAI, SNOWFLAKE, XGRAMMAR, Dialect
from sqlenrich.schema.vendor.openai_strict import strict_part

__all__ = [
    "DATABRICKS", "GEMINI", "OPENAI", "SNOWFLAKE", "XGRAMMAR", "Dialect", "dialect_of", "json_schema_format",
    "strict_part", "vendor_part",
]  # fmt: skip

_PLAIN = ("multipleOf", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LENGTHS = ("minLength", "maxLength")
_HANDLED = {"type", "description", *OWN, "properties", "required", "additionalProperties", "items", "prefixItems"}
_OF_KIND = {
    "string": (*_LENGTHS, "pattern", "format"),
    "number": (*_NUMBERS, "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
               "minProperties", "maxProperties", "dependentRequired", "dependentSchemas"),
}  # fmt: skip
_WIDEST = 2**63


def vendor_part(schema: Schema, dialect: Dialect) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Give the largest part of a plain schema that a vendor takes, and what was left out: ``("summary.maxLength",)``.

    None, with the reasons, where it takes no part: the hint then stands in.
    """
    part = _Part(dialect)
    told = part.node(schema, "")
    if part.refused:
        return None, tuple(part.refused)
    left = list(dict.fromkeys(part.left))
    for place, node in _too_much(told, dialect):
        if node is told:
            return None, (f"{_count(told)} properties, of {dialect.most_properties} that are taken",)
        left = [one for one in left if not one.startswith((f"{place}.", f"{place}["))]
        left += [at(place, key) for key in node if key in ("properties", "items", "prefixItems", "anyOf")]
        for keyword in (*_OF_KIND["object"], *_OF_KIND["array"], "anyOf"):
            node.pop(keyword, None)
    return told, tuple(left)


def json_schema_format(output: OutputSpec, dialect: Dialect = XGRAMMAR) -> ResponseFormat:
    """Give OpenAI's ``response_format``: ``strict`` where every object is closed and wholly required.

    An optional property that may be null is told as a required one then; with the repair ``null_as_absent``, any.
    """
    part, left_out = vendor_part(output.schema, dialect)
    if part is None:
        return ResponseFormat(None, left_out)
    strict = strict_part(part, left_out=left_out, nullable="null_as_absent" in output.repairs)
    form: dict[str, Any] = {"name": output.name[:64], "schema": json_schema(part if strict is None else strict)}
    if strict is not None:
        form["strict"] = True
    return ResponseFormat({"type": "json_schema", "json_schema": form}, left_out)


def dialect_of(url: str) -> Dialect:
    """Give what the server at an URL takes: OpenAI's own refuse what vLLM and its kin need."""
    host = urlsplit(url).hostname or ""
    return OPENAI if host.endswith((".openai.com", ".openai.azure.com")) else XGRAMMAR


class _Part:
    """One walk over a plain schema."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.left: list[str] = []
        self.refused: list[str] = []

    def takes(self, keyword: str) -> bool:
        return keyword in self.dialect.keywords

    def leave(self, place: str, *keywords: str) -> None:
        self.left += [at(place, keyword) for keyword in keywords]

    def node(self, schema: Schema, place: str) -> dict[str, Any]:
        if "oneOf" in schema and "anyOf" not in schema and self.takes("anyOf"):
            self.leave(place, "oneOf")
            schema = {**_without(schema, ("oneOf",)), "anyOf": schema["oneOf"]}
        kinds = _kinds(schema)
        schema = _relevant(schema, kinds)
        values = [kind for kind in kinds or () if kind != "null"]
        if self.dialect.one_type and len(values) > 1 and "anyOf" not in schema:
            if not self.takes("anyOf"):
                self.leave(place, *(key for key in schema if key not in ("description", *OWN)))
                return {key: schema[key] for key in ("description",) if key in schema}
            schema = {
                "anyOf": [{**_without(_relevant(schema, [kind]), ("description",)), "type": [kind]} for kind in values],
                **({"type": kinds} if kinds and "null" in kinds else {}),
                **({"description": schema["description"]} if "description" in schema else {}),
            }
        told = {"description": schema["description"]} if "description" in schema else {}
        if "anyOf" in schema:
            branches = self.branches(schema, place)
            if branches is not None:
                return {**told, "anyOf": branches}
            self.leave(place, "anyOf")
            schema = _without(schema, ("anyOf",))
        if kinds is None:  # a vendor would take a keyword of one type for that type
            self.leave(place, *(key for key in schema if key not in ("description", *OWN)))
            return self.whole(told, place)
        told["type"] = kinds
        self.enum(schema, told, place)
        self.scalars(schema, told, place)
        if "array" in kinds:
            self.array(schema, told, place)
        if "object" in kinds:
            self.members(schema, told, place)
        handled = {*told, *_HANDLED, *_NUMBERS, *_LENGTHS, *_PLAIN, "pattern", "format", "enum"}
        self.leave(place, *(key for key in schema if key not in handled))
        return self.whole(told, place)

    def whole(self, told: dict[str, Any], place: str) -> dict[str, Any]:
        """Give the type first, and note what a vendor that wants all said does not take at all."""
        told = {key: told[key] for key in ("type", *told) if key in told}
        for limits in _contradictions(told):
            self.leave(place, *limits)
            told = _without(told, limits)
        if not self.dialect.typed:
            return told
        kinds = told.get("type", ())
        for lacks, what in (
            ("type" not in told, "a value of any type"),
            ("object" in kinds and not told.get("properties"), "an object without named properties"),
            ("array" in kinds and "items" not in told, "an array without items"),
            (list(kinds) == ["null"], "only null"),
        ):
            if lacks:
                self.refused.append(f"{place or 'the output'}: {what}")
        return told

    def branches(self, schema: Schema, place: str) -> list[dict[str, Any]] | None:
        """Give the branches of an ``anyOf``; None where it can't be told: vendors ignore what stands beside it."""
        if not self.takes("anyOf") or not place or set(schema) - {"anyOf", "type", "description", *OWN}:
            return None
        outer = schema.get("type")
        told = []
        before, refused = len(self.left), len(self.refused)
        for number, branch in enumerate(schema["anyOf"]):
            if outer is not None:
                inner = branch.get("type", outer)
                both = [kind for kind in inner if _fits(kind, outer)]
                both += [kind for kind in outer if _fits(kind, inner) and kind not in both]
                if not both:
                    continue
                branch = {**branch, "type": both}
            told.append(self.node(branch, f"{place}.anyOf[{number}]"))
        if self.dialect.typed and outer is not None and "null" in outer and told:
            told.append({"type": ["null"]})
        bare = any("type" not in one and "anyOf" not in one for one in told)
        if bare or not told or (self.dialect.typed and self._beyond_null(refused)):
            del self.left[before:], self.refused[refused:]
            return None
        return told

    def _beyond_null(self, start: int) -> bool:
        """Tell whether a branch is refused; that it is only null is no reason: it is told as nullable."""
        self.refused[start:] = [reason for reason in self.refused[start:] if not reason.endswith(": only null")]
        return len(self.refused) > start

    def enum(self, schema: Schema, told: dict[str, Any], place: str) -> None:
        if "enum" not in schema:
            return
        fitting = [value for value in schema["enum"] if _fits(_kind(value), told["type"])]
        allowed = {*self.dialect.enum_of, "null"}
        if self.takes("enum") and fitting and all(_kind(value) in allowed for value in fitting):
            told["enum"] = fitting
        else:
            self.leave(place, "enum")

    def scalars(self, schema: Schema, told: dict[str, Any], place: str) -> None:
        kinds = told["type"]
        for keyword in (*_NUMBERS, *_PLAIN):
            if keyword not in schema:
                continue
            value = schema[keyword]
            if keyword in _NUMBERS and "integer" in kinds:
                value = _whole(keyword, value)
            if self.takes(keyword) and value is not None:
                told[keyword] = value
            else:
                self.leave(place, keyword)
        if "pattern" in schema:
            if self.takes("pattern") and _told_whole(schema["pattern"]):
                told["pattern"] = schema["pattern"]
            else:
                self.leave(place, "pattern")
        if "format" in schema:
            if self.takes("format") and schema["format"] in self.dialect.formats and "pattern" not in told:
                told["format"] = schema["format"]
            else:
                self.leave(place, "format")
        for keyword in _LENGTHS:
            if keyword in schema:
                if self.takes(keyword) and not (self.dialect.apart and told.keys() & {"pattern", "format"}):
                    told[keyword] = schema[keyword]
                else:
                    self.leave(place, keyword)

    def array(self, schema: Schema, told: dict[str, Any], place: str) -> None:
        first, rest = schema.get("prefixItems", ())[: schema.get("maxItems")], schema.get("items", {})
        if first and self.takes("prefixItems"):
            told["prefixItems"] = [self.node(one, f"{place}[{number}]") for number, one in enumerate(first)]
            told["items"] = dict(NEVER) if rest == NEVER else self.node(rest, f"{place}[]")
            return
        if first:
            self.leave(place, "prefixItems")
            most = schema.get("maxItems", len(first) if rest == NEVER else math.inf)
            if rest == NEVER and self.takes("maxItems"):
                told["maxItems"] = min(most, len(first))
            # Any item is as one of the first or as the rest: weaker, and true.
            choices = [*first, *([] if most <= len(first) or rest == NEVER else [rest])]
            distinct = [one for number, one in enumerate(choices) if one not in choices[:number]]
            rest = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
            if len(distinct) > 1 and not self.takes("anyOf"):
                rest = {}
        if rest == NEVER:
            self.leave(place, "items")
            rest = {}
        if rest and (items := self.node(rest, f"{place}[]")):
            told["items"] = items

    def members(self, schema: Schema, told: dict[str, Any], place: str) -> None:
        properties = schema.get("properties", {})
        named = self.dialect.property_name
        if named is not None and not all(named.fullmatch(name) for name in properties):
            self.leave(place, *(key for key in ("properties", "required", "additionalProperties") if key in schema))
            return
        rest = schema.get("additionalProperties", True)
        closed = rest is False or rest == NEVER
        hidden = bool(schema.get("patternProperties"))
        if properties:
            told["properties"] = {
                name: self.node(child, at(place, name))
                for name, child in properties.items()
                if not (closed and child == NEVER)
            }
        names = told.get("properties", {})
        required = schema.get("required", [])
        told_names = [name for name in required if name in names]
        self.leave(place, *(f"required.{name}" for name in required if name not in names))
        if told_names:
            told["required"] = told_names
        if rest is True or rest == {}:
            return
        if self.takes("additionalProperties") and not hidden and closed:
            told["additionalProperties"] = False
        elif self.takes("additionalProperties") and not hidden and self.dialect.typed_rest:
            told["additionalProperties"] = self.node(rest, at(place, "*"))
        elif not (closed and self.dialect.typed):  # it writes named properties alone anyway
            self.leave(place, "additionalProperties")


# Sizes --------------------------------------------------------------------------------------------------------------


def _too_much(told: dict[str, Any], dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the deepest place again and again, while the schema is too large; the caller thins it out."""
    while (dialect.most_properties is not None and _count(told) > dialect.most_properties) or (
        dialect.most_depth is not None and _depth(json_schema(told)) > dialect.most_depth
    ):
        parents = [(depth, place, node) for depth, place, node in walk(told) if list(children(node, ""))]
        _, place, node = max(parents, key=lambda parent: parent[0])
        yield place, node


def _count(schema: Schema) -> int:
    return sum(len(node.get("properties", ())) for _, _, node in walk(schema))


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(one) for one in inner), default=0) if isinstance(value, dict | list) else 0


# Parts of a schema --------------------------------------------------------------------------------------------------


def _without(schema: Schema, keywords: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keywords}


def _kinds(schema: Schema) -> list[str] | None:
    """Give the types that a plain schema's values may be of, None for any."""
    kinds = schema.get("type")
    if "enum" in schema:
        of_values = list(dict.fromkeys(_kind(value) for value in schema["enum"]))
        both = [kind for kind in kinds or () if any(_fits(kind, [one]) or _fits(one, [kind]) for one in of_values)]
        kinds = of_values if kinds is None else both or kinds
    return None if kinds is None else [kind for kind in kinds if not (kind == "integer" and "number" in kinds)]


def _fits(kind: str, kinds: list[str]) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _relevant(schema: Schema, kinds: list[str] | None) -> Schema:
    """Give a schema without what says nothing of values of these types."""
    if kinds is None:
        return schema
    named = {"number" if kind == "integer" else kind for kind in kinds}
    return _without(schema, tuple(key for kind, keys in _OF_KIND.items() if kind not in named for key in keys))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = ((bool, "boolean"), (int, "integer"), (str, "string"), (list, "array"), (dict, "object"))
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return next(name for kind, name in names if isinstance(value, kind))


def _whole(keyword: str, limit: float) -> int | None:
    """Give a limit of integers as an integer; None where 64 bits don't hold it, which vendors refuse."""
    up = keyword in ("minimum", "exclusiveMaximum")
    whole = math.ceil(limit) if up else math.floor(limit)
    return whole if -_WIDEST <= whole < _WIDEST else None


def _contradictions(told: Schema) -> Iterator[tuple[str, ...]]:
    """Give the limits that no value is within, which vendors refuse: another branch may hold."""
    names, first = told.get("properties", ()), told.get("prefixItems", ())
    fixed = {
        "maxProperties": len(names) if told.get("additionalProperties") is False else math.inf,
        "maxItems": len(first) if told.get("items") == NEVER else math.inf,
    }
    for low, high in (("minItems", "maxItems"), ("minLength", "maxLength"), ("minProperties", "maxProperties")):
        if told.get(low, 0) > min(told.get(high, math.inf), fixed.get(high, math.inf)):
            yield tuple(key for key in (low, high) if key in told)
    if any(key in told for key in _NUMBERS) and _empty(told):
        yield tuple(key for key in _NUMBERS if key in told)


def _empty(told: Schema) -> bool:
    step = 1 if "number" not in told["type"] else 0
    low = max(told.get("minimum", -math.inf), told.get("exclusiveMinimum", -math.inf) + step)
    high = min(told.get("maximum", math.inf), told.get("exclusiveMaximum", math.inf) - step)
    open_end = not step and low in (told.get("exclusiveMinimum"), told.get("exclusiveMaximum"))
    return low > high or (open_end and low == high)


def _told_whole(pattern: str) -> bool:
    """Tell whether a pattern holds the whole text from ``^`` to ``$``: vendors match no other way."""
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
