"""JSON Schema turned into a maker of valid values, once; the mock model then draws from it.

Values are made to fit, so that hardly any is made in vain. What can't be made so (``not``, ``if``, ``oneOf``, counts
of properties that depend on each other) is made as well as may be and tried, where the caller gives a validator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sqlenrich.llm.mock.draw import Draw
from sqlenrich.llm.mock.merge import Schema, expand, listed, never, plain
from sqlenrich.llm.mock.nested import array, object_
from sqlenrich.llm.mock.number import number as number_maker
from sqlenrich.llm.mock.text import FORMATS, compiled, matching, pool, words

Maker: TypeAlias = Callable[[Draw], Any]
MakeValidator: TypeAlias = Callable[[Schema], Callable[[Any], bool]]
"""A schema to a test of values."""

_BY_KEYWORD = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "propertyNames",
               "minProperties", "maxProperties", "dependentRequired"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_KINDS = ("string", "integer", "boolean", "null", "array", "object", "number")
_TRIED = frozenset(
    {"not", "if", "allOf", "anyOf", "oneOf", "dependentSchemas", "contains", "uniqueItems", "patternProperties",
     "propertyNames", "minProperties", "maxProperties", "dependentRequired"}
)  # fmt: skip
_BESIDE_ENUM = {"type", "enum", "const", "description", "coerce", "title", "default", "$defs"}
_PROBES = 400
_TRIES = 40
_SPARES = 8


@dataclass(frozen=True)
class Context:
    """Where makers are made: the root that references point into, those followed, and the validator."""

    root: Schema
    validator: MakeValidator | None
    trail: tuple[str, ...] = ()

    def make(self, schema: Schema | bool) -> Maker:
        """Give a maker of values of a schema. Raises ValueError where it finds none."""
        return _maker(schema, self)

    def test(self, schema: Schema | bool) -> Callable[[Any], bool] | None:
        """Give a test of values of a schema, None where nobody validators."""
        if self.validator is None or not isinstance(schema, Mapping):
            return None
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        return self.validator(plain({**schema, **definitions}))


def maker(schema: Schema | bool, validator: MakeValidator | None = None) -> Maker:
    """Give a function that draws values valid under ``schema``.

    Raises ValueError for what has no (findable) value: a contradiction, a recursive or foreign ``$ref``.
    """
    return Context(schema if isinstance(schema, Mapping) else {}, validator).make(schema)


def _maker(schema: Schema | bool, context: Context) -> Maker:
    tried = isinstance(schema, Mapping) and (
        not _TRIED.isdisjoint(schema) or ("enum" in schema and not set(schema) <= _BESIDE_ENUM)
    )
    test = context.test(schema) if tried else None
    problems: list[ValueError] = []
    made: list[tuple[Maker, bool]] = []
    ways = expand(schema, context.root, context.trail)
    # An untyped schema is taken for one of the type that its keywords are about; if that can't be, of any other.
    for wide in (False, True):
        for one in [one for way in ways for one in _by_type(way, test, wide=wide)] if not made else ():
            try:
                made.append((_plain(one, context), one["type"] == "null"))
            except ValueError as error:
                problems.append(error)
    if not made:
        raise (
            problems[0]
            if problems
            else ValueError(f"the mock model finds no value for the schema {json.dumps(schema)[:200]}")
        )
    # A value is more telling than null: null is drawn less often than the rest.
    weighted = [one for one, null in made for _ in range(1 if null else 3)]

    def pick(draw: Draw) -> Any:
        return draw.pick(weighted)(draw)

    make = made[0][0] if len(made) == 1 else pick
    return make if test is None else _tried(make, test, schema)


def _tried(make: Maker, test: Callable[[Any], bool], schema: Schema | bool) -> Maker:
    """Give a maker that draws until a value passes, and falls back on values that did."""
    drawn = (make(Draw(f"try{number}".encode(), "an example text")) for number in range(_PROBES))
    spares: list[str] = []
    for value in drawn:
        if test(value):
            spares.append(json.dumps(value))
            if len(spares) == _SPARES:
                break
    if not spares:
        raise ValueError(f"the mock model finds no value for the schema {json.dumps(schema)[:200]}")

    def again(draw: Draw) -> Any:
        for _ in range(_TRIES):
            value = make(draw)
            if test(value):
                return value
        return json.loads(draw.pick(spares))

    return again


def _by_type(schema: dict[str, Any], test: Callable[[Any], bool] | None, *, wide: bool) -> list[dict[str, Any]]:
    """Give one schema for each type that ``schema`` allows; ``enum`` is a type of its own here.

    ``wide``: of each other type, too, where it names none.
    """
    types = listed(schema["type"]) if "type" in schema else []
    if "enum" in schema:
        values = [one for one in schema["enum"] if not types or any(_is(one, name) for name in types)]
        values = values if test is None else [one for one in values if test(one)]
        return [{"type": "enum", "enum": values}] if values else []
    if not types:
        types = [name for name, keys in _BY_KEYWORD.items() if any(key in schema for key in keys)][:1]
        if test is not None or wide:
            types += [name for name in _KINDS if name not in types]
        types = types or ["string"]
    return [{**schema, "type": name} for name in types]


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool) or name == "boolean":
        return isinstance(value, bool) and name == "boolean"
    kinds: dict[str, Any] = {"string": str, "array": list, "object": Mapping, "number": int | float}
    if name == "integer":
        return isinstance(value, int | float) and value == int(value)
    return value is None if name == "null" else isinstance(value, kinds.get(name, ()))


def _plain(schema: dict[str, Any], context: Context) -> Maker:
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
    inner = replace(context, trail=tuple(schema.get("_trail", context.trail)))
    if kind == "array":
        return array(schema, inner.make, tried=context.validator is not None)
    if kind == "object":
        names = schema.get("propertyNames", True)
        named = inner.test(names) if not never(names) else lambda _: False
        return object_(schema, inner.make, named)
    raise ValueError(f'the mock model knows no type "{kind}"')


def _string(schema: Schema) -> Maker:
    low, high = int(schema.get("minLength", 0)), schema.get("maxLength")
    high = None if high is None else int(high)
    if high is not None and high < low:
        raise ValueError(f"the mock model finds no text with minLength {low} and maxLength {high}")
    make = FORMATS.get(schema.get("format", ""))
    patterns = listed(schema.get("pattern", []))
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
