"""The portable column types, the same on every engine.

Written in files as ``"string" | "bigint" | "double" | "decimal(p,s)" | "boolean" | "date" | "timestamp" |
{"array": T} | {"struct": {name: T}}``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlenrich.core.errors import did_you_mean


@dataclass(frozen=True, slots=True)
class Scalar:
    """A plain type: ``string``, ``bigint``, ``double``, ``boolean``, ``date`` or ``timestamp``."""

    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Array:
    """An ordered list of one type."""

    item: Type


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields in order."""

    fields: tuple[tuple[str, Type], ...]

    def field(self, name: str) -> Type | None:
        """Return the type of a field, or None where there is no such field."""
        return dict(self.fields).get(name)


@dataclass(frozen=True, slots=True)
class Coerced:
    """A column whose JSON value may also be a text: a number or boolean in quotes, or one of ``values`` in any case."""

    type: Type
    values: tuple[str, ...] = ()


Type: TypeAlias = Scalar | Decimal | Array | Struct | Coerced

STRING, BIGINT, DOUBLE, BOOLEAN = Scalar("string"), Scalar("bigint"), Scalar("double"), Scalar("boolean")
DATE, TIMESTAMP = Scalar("date"), Scalar("timestamp")
INSTANT = Scalar("timestamp with time zone")
"""The type of a source's column that holds instants; no file can name it. Prompts read it as ``timestamp``."""
JSON = Scalar("json")
"""Any JSON value, read as its JSON text and stored as a ``string``."""
SCALARS = {t.name: t for t in (STRING, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP)}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def parse_type(written: object) -> Type:
    """Return the type that a file or a caller wrote. Raises ValueError with one line for an unknown type."""
    if isinstance(written, Scalar | Decimal | Array | Struct):
        return written
    if isinstance(written, str):
        if written in SCALARS:
            return SCALARS[written]
        if match := _DECIMAL.fullmatch(written):
            precision, scale = int(match[1]), int(match[2])
            if 1 <= precision <= 38 and scale <= precision:
                return Decimal(precision, scale)
            raise ValueError(f'"{written}" is out of range: precision 1 to 38, scale at most the precision')
        raise ValueError(f'unknown type "{written}"{did_you_mean(written, SCALARS)}')
    if isinstance(written, Mapping) and len(written) == 1:
        kind, inner = next(iter(written.items()))
        if kind == "array":
            return Array(parse_type(inner))
        if kind == "struct" and isinstance(inner, Mapping) and inner:
            return Struct(tuple((str(name), parse_type(field)) for name, field in inner.items()))
    raise ValueError(f"unknown type {written!r}: write a name, {{array: T}} or {{struct: {{name: T}}}}")


def uncoerced(value: Type) -> Type:
    """Return a type without the coercions around it."""
    return uncoerced(value.type) if isinstance(value, Coerced) else value


def stored(value: Type) -> Type:
    """Return the type of a column in a table, for the type by which its values are read."""
    match value:
        case Coerced(kind):
            return stored(kind)
        case Array(item):
            return Array(stored(item))
        case Struct(fields):
            return Struct(tuple((name, stored(field)) for name, field in fields))
    return STRING if value == JSON else value


def without_zones(value: Type) -> Type:
    """Return a source's type as prompts read it: an instant is a timestamp in the enrichment's time zone."""
    match value:
        case Array(item):
            return Array(without_zones(item))
        case Struct(fields):
            return Struct(tuple((name, without_zones(field)) for name, field in fields))
    return TIMESTAMP if value == INSTANT else value


def type_json(value: Type) -> object:
    """Return a type as it is written in files: the inverse of :func:`parse_type`."""
    if isinstance(value, Scalar):
        return value.name
    if isinstance(value, Decimal):
        return f"decimal({value.precision},{value.scale})"
    if isinstance(value, Array):
        return {"array": type_json(value.item)}
    if isinstance(value, Coerced):
        return type_json(value.type)
    return {"struct": {name: type_json(field) for name, field in value.fields}}
