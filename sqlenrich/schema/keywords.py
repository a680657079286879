"""The JSON Schema keywords that sqlenrich reads, the schemas inside a schema, and what a reference points to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

Schema: TypeAlias = Mapping[str, Any]
NEVER: dict[str, Any] = {"not": {}}
"""The plain schema that no value meets."""

NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
LENGTHS = ("minLength", "maxLength")
BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "string": (*LENGTHS, "pattern", "format"),
    "number": (*NUMBER_LIMITS, "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
        "minProperties", "maxProperties", "dependentRequired", "dependentSchemas",
    ),
}  # fmt: skip
"""The keywords that test values of one type only; those of ``number`` test integers too."""
COUNTS = (
    *LENGTHS, "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties",
)  # fmt: skip
OWN = ("coerce", "column")
"""Keywords of sqlenrich: how a column reads a value. They are never sent to a model."""
CHECKED = (
    "type", "enum", "const", *(key for keys in BY_TYPE.values() for key in keys),
    "allOf", "anyOf", "oneOf", "not", "if", "then", "else", *OWN,
)  # fmt: skip
"""The keywords that the checks enforce."""
ANNOTATIONS = (
    "description", "title", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
)  # fmt: skip
"""The keywords that are accepted and check nothing."""
CORE = ("$schema", "$id", "$ref", "$defs", "definitions")
"""The keywords that identify schemas and refer to them."""
FORMATS = ("date", "date-time", "time", "email", "uuid", "uri")
"""The values of ``format`` that the checks enforce."""

SUBSCHEMAS: Mapping[str, Literal["schema", "list", "mapping"]] = {
    "properties": "mapping",
    "prefixItems": "list",
    "items": "schema",
    "additionalProperties": "schema",
    "anyOf": "list",
    "allOf": "list",
    "oneOf": "list",
    "not": "schema",
    "if": "schema",
    "then": "schema",
    "else": "schema",
    "contains": "schema",
    "propertyNames": "schema",
    "patternProperties": "mapping",
    "dependentSchemas": "mapping",
}
"""The keywords whose value holds schemas, and in which form."""
_STEPS = {"properties": "", "prefixItems": "", "items": "[]", "additionalProperties": "*"}
"""How a path names a keyword; any other keyword is named as it is."""


def join_path(path: str, step: str) -> str:
    """Return the path of a value inside another: ``customer.name``, ``items[]``."""
    return f"{path}.{step}" if path and not step.startswith("[") else path + step


def subschemas(schema: Schema, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return each schema directly inside one, and its path: ``items[].price``, ``x.anyOf[1]``.

    ``schema`` is in any form. A boolean is not given, and neither is a value that is no schema.
    """
    for keyword, form in SUBSCHEMAS.items():
        value, step = schema.get(keyword), _STEPS.get(keyword, keyword)
        found: Iterable[tuple[str, Any]] = ()
        if form == "schema":
            found = ((step, value),)
        elif form == "list" and isinstance(value, list):
            found = ((f"{step}[{number}]", child) for number, child in enumerate(value))
        elif form == "mapping" and isinstance(value, Mapping):
            found = ((join_path(step, str(name)), child) for name, child in value.items())
        for inner, child in found:
            if isinstance(child, Mapping):
                yield join_path(path, inner), child  # type: ignore[misc]


def walk(schema: Schema, path: str = "", depth: int = 0) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Return each schema inside one, itself first: its depth, its path and the schema."""
    yield depth, path, schema  # type: ignore[misc]
    for inner, child in subschemas(schema, path):
        yield from walk(child, inner, depth + 1)


def map_subschemas(keyword: str, value: Any, change: Callable[[Schema], Any]) -> Any:
    """Return the value of a keyword with ``change`` applied to each schema in it; a boolean stays."""
    match SUBSCHEMAS.get(keyword):
        case "schema":
            return value if isinstance(value, bool) else change(value)
        case "list":
            return [change(child) for child in value]
        case "mapping":
            return {name: change(child) for name, child in value.items()}
    return value


def resolve(root: Any, reference: str) -> tuple[Any] | None:
    """Return what a reference such as ``#/$defs/a~1b`` points to, in a tuple; None for nothing in this document.

    The fragment is a JSON pointer (RFC 6901).
    """
    if not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return None
    target = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and name.isascii() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return (target,)
