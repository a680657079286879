"""Spark's types as portable types, and the schema of answers."""

from __future__ import annotations

from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, TIMESTAMP, Array, Decimal, Struct, Type

_SCALARS = {
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType"), BIGINT),
    **dict.fromkeys(("FloatType", "DoubleType"), DOUBLE),
    **dict.fromkeys(("StringType", "VarcharType", "CharType"), STRING),
    "TimestampType": INSTANT,
    "TimestampNTZType": TIMESTAMP,
    "BooleanType": BOOLEAN,
    "DateType": DATE,
}


def portable_type(kind: Any) -> Type | None:
    """Return the portable type of a Spark type, None for one that has none."""
    name = type(kind).__name__
    if name == "DecimalType":
        return Decimal(kind.precision, kind.scale)
    if name == "ArrayType":
        item = portable_type(kind.elementType)
        return None if item is None else Array(item)
    if name == "StructType":
        fields = [(field.name, portable_type(field.dataType)) for field in kind.fields]
        known = [(label, of) for label, of in fields if of is not None]
        return Struct(tuple(known)) if known and len(known) == len(fields) else None
    return _SCALARS.get(name)
