"""Converts BigQuery's types to portable types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, TIMESTAMP, Array, Decimal, Struct, Type

_SCALARS: Mapping[str, Type] = {
    "STRING": STRING,
    "INTEGER": BIGINT,
    "INT64": BIGINT,
    "FLOAT": DOUBLE,
    "FLOAT64": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "DATE": DATE,
    "TIMESTAMP": INSTANT,
    "DATETIME": TIMESTAMP,
}
_DECIMALS = {"NUMERIC": Decimal(38, 9), "BIGNUMERIC": Decimal(76, 38)}


def portable_type(field: Any) -> Type | None:
    """Return the portable type of a column, None for one that is read as text. ``field`` is Google's SchemaField."""
    item = _item_type(field)
    return Array(item) if item is not None and field.mode == "REPEATED" else item


def _item_type(field: Any) -> Type | None:
    kind = str(field.field_type).upper()
    if kind in ("RECORD", "STRUCT"):
        parts = tuple((part.name, portable_type(part)) for part in field.fields)
        known = tuple((name, part) for name, part in parts if part is not None)
        return Struct(known) if len(known) == len(parts) else None
    if kind in _DECIMALS:
        return Decimal(field.precision, field.scale or 0) if field.precision else _DECIMALS[kind]
    return _SCALARS.get(kind)
