"""A plain schema compiled once into a sampler, from which the mock model draws valid values.

A sampler builds values that meet the schema. Some keywords can't be met by construction (``not``, ``if``, ``oneOf``,
counts of properties that depend on each other): their values are drawn and tested until one passes, where the caller
gives a validator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlenrich.llm.mock.alternatives import Schema, alternatives, as_list, never
from sqlenrich.llm.mock.containers import Sampler, array_sampler, object_sampler
from sqlenrich.llm.mock.draw import Draw
from sqlenrich.llm.mock.number import number_sampler
from sqlenrich.llm.mock.text import FORMATS, compiled, pattern_sampler, text_pool, words

MakeValidator: TypeAlias = Callable[[Schema], Callable[[Any], bool]]
"""Gives the test of a schema's values."""

_BY_KEYWORD = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
               "minProperties", "maxProperties", "dependentRequired"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_KINDS = ("string", "integer", "boolean", "null", "array", "object", "number")
_TESTED = frozenset(
    {"not", "if", "allOf", "anyOf", "oneOf", "dependentSchemas", "contains", "uniqueItems", "patternProperties",
     "propertyNames", "minProperties", "maxProperties", "dependentRequired"}
)  # fmt: skip
"""Keywords for which a sampler may draw a value that is not valid."""
_BESIDE_ENUM = {"type", "enum", "description", "coerce"}
"""Keywords that don't limit the values of an enum."""
_PROBES = 400
"""Values that are drawn to find some that are valid, before the schema counts as impossible."""
_TRIES = 40
"""Values that are drawn for one answer, before a spare is used."""
_SPARES = 8
"""Valid values that are kept."""


@dataclass(frozen=True)
class _Samplers:
    """Makes the samplers of schemas, with the validator that they use."""

    validator: MakeValidator | None

    def make(self, schema: Schema) -> Sampler:
        """Return the sampler of a schema. Raises ValueError where it finds no value."""
        tested = not _TESTED.isdisjoint(schema) or ("enum" in schema and not set(schema) <= _BESIDE_ENUM)
        test = self.validator(schema) if tested and self.validator is not None else None
        problems: list[ValueError] = []
        made: list[tuple[Sampler, bool]] = []
        # A schema without a type is read as one of the type that its keywords are about, else as one of any type.
        for any_type in (False, True):
            typed = [one for way in alternatives(schema) for one in _by_type(way, test, any_type=any_type)]
            for one in typed if not made else ():
                try:
                    made.append((self.of_type(one), one["type"] == "null"))
                except ValueError as error:
                    problems.append(error)
        if not made:
            raise problems[0] if problems else _no_value(schema)
        # A value is more useful than null, so null is drawn less often.
        weighted = [one for one, null in made for _ in range(1 if null else 3)]

        def pick(draw: Draw) -> Any:
            return draw.pick(weighted)(draw)

        sampler = made[0][0] if len(made) == 1 else pick
        return sampler if test is None else _tested(sampler, test, schema)

    def of_type(self, schema: Schema) -> Sampler:
        """Return the sampler of a schema with one type and without combining keywords; ``enum`` is a type here."""
        kind = schema["type"]
        match kind:
            case "enum":
                values = schema["enum"]
                return lambda draw: draw.pick(values)
            case "null":
                return lambda _: None
            case "boolean":
                return lambda draw: draw.below(2) == 1
            case "integer" | "number":
                return number_sampler(schema, whole=kind == "integer")
            case "string":
                return _text_sampler(schema)
            case "array":
                return array_sampler(schema, self.make, tested=self.validator is not None)
        names = schema.get("propertyNames", {})
        if never(names):
            return object_sampler(schema, self.make, lambda _: False)
        valid_name = self.validator(names) if names and self.validator is not None else None
        return object_sampler(schema, self.make, valid_name)


def sampler(schema: Schema, validator: MakeValidator | None = None) -> Sampler:
    """Return a function that draws values that are valid under a plain schema.

    Raises ValueError for a schema without a value, or for which none is found.
    """
    return _Samplers(validator).make(schema)


def _no_value(schema: Schema) -> ValueError:
    return ValueError(f"the mock model finds no value for the schema {json.dumps(schema)[:200]}")


def _tested(make: Sampler, test: Callable[[Any], bool], schema: Schema) -> Sampler:
    """Return a sampler that draws until a value passes the test, or else gives an earlier value that passed."""
    drawn = (make(Draw(f"try{number}".encode(), "an example text")) for number in range(_PROBES))
    spares: list[str] = []
    for value in drawn:
        if test(value):
            spares.append(json.dumps(value))
            if len(spares) == _SPARES:
                break
    if not spares:
        raise _no_value(schema)

    def again(draw: Draw) -> Any:
        for _ in range(_TRIES):
            value = make(draw)
            if test(value):
                return value
        return json.loads(draw.pick(spares))

    return again


def _by_type(schema: Schema, test: Callable[[Any], bool] | None, *, any_type: bool) -> list[dict[str, Any]]:
    """Return one schema for each type that ``schema`` allows; an enum has the type ``enum``.

    ``any_type``: a schema that names no type allows every type, not only the one that its keywords are about.
    """
    types = list(schema.get("type", ()))
    if "enum" in schema:
        values = [one for one in schema["enum"] if not types or any(_is(one, name) for name in types)]
        values = values if test is None else [one for one in values if test(one)]
        return [{"type": "enum", "enum": values}] if values else []
    if not types:
        types = [name for name, keys in _BY_KEYWORD.items() if any(key in schema for key in keys)][:1]
        if test is not None or any_type:
            types += [name for name in _KINDS if name not in types]
        types = types or ["string"]
    return [{**schema, "type": name} for name in types]


def _is(value: Any, name: str) -> bool:
    """Tell whether a value has a JSON type; a whole number is an integer and a number."""
    if isinstance(value, bool) or name == "boolean":
        return isinstance(value, bool) and name == "boolean"
    kinds: dict[str, Any] = {"string": str, "array": list, "object": Mapping, "number": int | float}
    if name == "integer":
        return isinstance(value, int | float) and value == int(value)
    return value is None if name == "null" else isinstance(value, kinds.get(name, ()))


def _text_sampler(schema: Schema) -> Sampler:
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    high = None if high is None else int(high)
    if high is not None and high < low:
        raise ValueError(f"the mock model finds no text with minLength {low} and maxLength {high}")
    make = FORMATS.get(schema.get("format", ""))
    patterns = as_list(schema.get("pattern", []))
    if make is None and not patterns:
        return words(low, high)
    limited = "minLength" in schema or "maxLength" in schema
    if make is not None and not patterns and not limited:
        return make
    tests = [compiled(pattern) for pattern in patterns]

    def fits(text: str) -> bool:
        in_length = len(text) >= low and (high is None or len(text) <= high)
        return in_length and all(test.search(text) for test in tests)

    makers = [make] if make is not None else [pattern_sampler(pattern, low, high) for pattern in patterns]
    name = " ".join(f"{key} {schema[key]}" for key in _BY_KEYWORD["string"] if key in schema)
    texts = text_pool(lambda draw: draw.pick(makers)(draw), fits, name)
    return lambda draw: draw.pick(texts)
