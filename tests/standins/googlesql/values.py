"""Types as text, and Python values as the engine's values and back.

int, float, bool, str, bytes, date, aware datetime (TIMESTAMP), naive datetime (DATETIME), Decimal
(NUMERIC, BIGNUMERIC), list (ARRAY) and dict (STRUCT; a tuple where its fields have no names of
their own). JSON comes back as the engine's text of it; text or any JSON value goes in.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from typing import Any

from tests.standins.googlesql.engine import pb

_EPOCH = dt.date(1970, 1, 1)
_SCALE = {"NUMERIC": 9, "BIGNUMERIC": 38}
_DATETIME_BITS = (("second", 6), ("minute", 6), ("hour", 5), ("day", 5), ("month", 4), ("year", 14))


def kind(type_: Any) -> str:
    """The name of the type without its parts: INT64, ARRAY, ..."""
    name = str(pb().type.TypeKind.Name(type_.type_kind)).removeprefix("TYPE_")
    return {"DOUBLE": "FLOAT64", "FLOAT": "FLOAT32"}.get(name, name)


def type_text(type_: Any) -> str:
    """The type as GoogleSQL writes it."""
    name = kind(type_)
    if name == "ARRAY":
        return f"ARRAY<{type_text(type_.array_type.element_type)}>"
    if name == "STRUCT":
        fields = type_.struct_type.field
        return "STRUCT<" + ", ".join(f"{f.field_name} {type_text(f.field_type)}".strip() for f in fields) + ">"
    return name


def _decimal_bytes(value: Any, scale: int) -> bytes:
    with localcontext() as context:
        context.prec = 100
        number = int((Decimal(value) * 10**scale).to_integral_exact())
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def _datetime_bits(value: dt.datetime) -> int:
    bits = shift = 0
    for name, width in _DATETIME_BITS:
        bits |= getattr(value, name) << shift
        shift += width
    return bits


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_PLAIN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "INT64": ("int64_value", int),
    "BOOL": ("bool_value", bool),
    "FLOAT64": ("double_value", float),
    "STRING": ("string_value", str),
    "BYTES": ("bytes_value", bytes),
    "JSON": ("json_value", _json_text),
    "DATE": ("date_value", lambda value: (value - _EPOCH).days),
    "NUMERIC": ("numeric_value", lambda value: _decimal_bytes(value, _SCALE["NUMERIC"])),
    "BIGNUMERIC": ("bignumeric_value", lambda value: _decimal_bytes(value, _SCALE["BIGNUMERIC"])),
}


def to_value(value: Any, type_: Any) -> Any:
    """A Python value as the engine's; None is NULL of any type."""
    made = pb().value.ValueProto()
    name = kind(type_)
    if value is None:
        return made
    if name == "ARRAY":
        made.array_value.SetInParent()
        element = type_.array_type.element_type
        made.array_value.element.extend(to_value(item, element) for item in value)
    elif name == "STRUCT":
        made.struct_value.SetInParent()
        fields = type_.struct_type.field
        parts = [value.get(f.field_name) for f in fields] if isinstance(value, Mapping) else list(value)
        if len(parts) != len(fields):
            raise ValueError(f"{len(parts)} values for {type_text(type_)}")
        made.struct_value.field.extend(to_value(v, f.field_type) for v, f in zip(parts, fields, strict=True))
    elif name == "TIMESTAMP":
        made.timestamp_value.FromDatetime(value)
    elif name == "DATETIME":
        made.datetime_value.bit_field_datetime_seconds = _datetime_bits(value)
        made.datetime_value.nanos = value.microsecond * 1000
    elif name in _PLAIN:
        field, convert = _PLAIN[name]
        setattr(made, field, convert(value))
    else:
        raise TypeError(f"no Python values for the type {name}")
    return made


def from_value(value: Any, type_: Any) -> Any:
    """The engine's value as a Python value."""
    name = kind(type_)
    if value.WhichOneof("value") is None:
        return None
    if name == "ARRAY":
        return [from_value(item, type_.array_type.element_type) for item in value.array_value.element]
    if name == "STRUCT":
        fields = type_.struct_type.field
        names = [field.field_name for field in fields]
        pairs = zip(value.struct_value.field, fields, strict=True)
        items = tuple(from_value(item, field.field_type) for item, field in pairs)
        return dict(zip(names, items, strict=True)) if len({*names, ""}) > len(names) else items
    if name == "DATE":
        return _EPOCH + dt.timedelta(value.date_value)
    if name == "TIMESTAMP":
        return value.timestamp_value.ToDatetime(dt.UTC)
    if name == "DATETIME":
        bits, parts = value.datetime_value.bit_field_datetime_seconds, {}
        for part, width in _DATETIME_BITS:
            parts[part] = bits & ((1 << width) - 1)
            bits >>= width
        return dt.datetime(**parts, microsecond=value.datetime_value.nanos // 1000)
    if name in _SCALE:
        number = int.from_bytes(getattr(value, _PLAIN[name][0]), "little", signed=True)
        with localcontext() as context:
            context.prec = 100
            return Decimal(number).scaleb(-_SCALE[name])
    return getattr(value, _PLAIN[name][0])
