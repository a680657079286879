"""What a column demands of the schema of its values, in its plain form: each problem in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlenrich.core.types import Decimal, parse_type, type_json
from sqlenrich.schema.columns import properties_of
from sqlenrich.schema.keywords import NAME, OWN, SCALARS

EXACT_DIGITS = 15
"""So many digits of a decimal survive being read as a double."""


def demands(plain: Mapping[str, Any], *, top: bool) -> Iterator[str]:
    """Give what keeps a schema from being that of a column, or of the answer with all of them (``top``)."""
    if plain.get("type") == ["null"]:
        yield "a value that is always null is no column"
    if "type" not in plain:
        kind = "object" if "properties" in plain and not top else "array" if "items" in plain else None
        if kind is not None:
            yield f'a type is missing: write "type: {kind}"'
    lower: dict[str, str] = {}
    for name in properties_of(plain):
        if not NAME.fullmatch(name) and name in plain.get("properties", {}):  # else it is told where it stands
            yield f'the property name "{name}" is no column name: letters, digits, _ and -, at most 64'
        if (other := lower.setdefault(name.lower(), name)) != name:
            yield f'"{other}" and "{name}" are equal but for case; SQL columns are not'


def misplaced(schema: Mapping[str, Any]) -> Iterator[str]:
    """Give what a schema says about a column that is not its own: that is read by its own schema alone."""
    for keyword in OWN:
        if schema.get(keyword):
            yield (
                f"{keyword} says how a column is read: write it beside the type of a property or of an array's "
                "items, not in a part (anyOf, $ref with more beside it, ...)"
            )


def coerce_problem(plain: Mapping[str, Any]) -> str | None:
    """Give why the values of a schema can't be read from their texts, if so."""
    kinds = [kind for kind in plain.get("type", []) if kind != "null"]
    texts = [value for value in plain.get("enum", []) if isinstance(value, str)]
    lower = {value.lower() for value in texts}
    if len(kinds) != 1 or kinds[0] not in SCALARS or (kinds == ["string"] and not texts):
        return "coerce is for a number, an integer, a boolean, or a text with an enum"
    if len(lower) != len(set(texts)) or not all(value.isascii() for value in texts):
        return "coerce reads an enum in any case: its values are ASCII and differ by more than case"
    return None


def exact_type(written: object, plain: Mapping[str, Any]) -> Any:
    """Give the decimal that ``column`` asks for, as files write it. Raises ValueError where the values don't fit it."""
    kinds = set(plain.get("type", ())) - {"null"}
    try:
        kind = parse_type(written)
    except ValueError as error:
        raise ValueError(f"column: {error}") from None
    if not isinstance(kind, Decimal):
        raise ValueError(f"column is a decimal(p,s), for exact numbers, not {written!r}")
    if kinds not in ({"string"}, {"number"}, {"integer"}):
        raise ValueError("column is for a number, an integer, or a text that holds a number")
    if kinds != {"string"} and kind.precision > EXACT_DIGITS:
        raise ValueError(
            f"a JSON number has {EXACT_DIGITS} digits on every engine: for {type_json(kind)} write type: string"
        )
    return type_json(kind)
