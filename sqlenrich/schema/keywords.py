"""The keywords of JSON Schema that the plain form has, and the kinds of JSON values."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

OWN = ("coerce", "column")
"""Keywords of ours: how a column reads a value. No model is told."""
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
SCALARS = ("string", "number", "integer", "boolean")
ANNOTATIONS = (
    "description", "title", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
)  # fmt: skip
NUMBER_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties",
)  # fmt: skip
CHECKED = (
    "type", "enum", "const", *NUMBER_LIMITS, "multipleOf", *COUNTS, "pattern", "format",
    "items", "prefixItems", "contains", "uniqueItems",
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
    "dependentRequired", "dependentSchemas", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", *OWN,
)  # fmt: skip
"""What the checks hold."""
FORMATS = ("date", "date-time", "time", "email", "uuid", "uri")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a schema, and where: ``output.properties.label``."""

    message: str
    place: str

    def __str__(self) -> str:
        return f"{self.message} @ {self.place}"


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
    return "object" if isinstance(value, Mapping) else "array"


def kinds_of(value: object) -> set[str]:
    """Give the types that a value has: a whole number is both an integer and a number."""
    kind = json_kind(value)
    return {kind, "number"} if kind == "integer" else {kind}


def finite(value: object) -> bool:
    """Tell whether a double holds each number of a value."""
    if isinstance(value, int | float):
        return abs(value) <= sys.float_info.max
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return all(map(finite, inner))


def decimals(value: int | float) -> int:
    """Give how many digits after the point the shortest text of a number has."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
