"""The types of JSON values, as JSON Schema names them."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
SCALAR_TYPES = ("string", "number", "integer", "boolean")


def json_type(value: object) -> str:
    """Return the JSON Schema type of a value, "integer" for whole numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and (value.is_integer() or math.isinf(value))):
        # Python reads 1e400 as infinite; a number written so can only be a whole number.
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def json_types(value: object) -> set[str]:
    """Return all types that a value has: a whole number is both an integer and a number."""
    name = json_type(value)
    return {name, "number"} if name == "integer" else {name}


def type_within(name: str, names: Collection[str]) -> bool:
    """Tell whether each value of one type has one of several types: an integer is a number."""
    return name in names or (name == "integer" and "number" in names)


def common_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return the types of the values that two lists of types both allow, in the order of the first."""
    both = [name for name in first if type_within(name, second)] + [name for name in second if type_within(name, first)]
    return list(dict.fromkeys(both))


def fits_double(value: object) -> bool:
    """Tell whether a double can hold each number in a value."""
    if isinstance(value, int | float):
        return abs(value) <= sys.float_info.max
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return all(map(fits_double, inner))


def decimal_places(value: int | float) -> int:
    """Return how many digits the shortest text of a number has after the point."""
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(0, -int(exponent))
