"""The values of a row as drivers give them, read as one value for every engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from typing import Any

from sqlenrich.core.json import compact_json
from sqlenrich.core.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    JSON,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Scalar,
    Struct,
    Type,
    uncoerced,
)


def read_value(value: Any, kind: Type, *, exact: bool = False) -> Any:
    """Return a driver's value as a value of JSON: dates and timestamps as ISO texts, a JSON text parsed.

    A decimal becomes a number of JSON; with ``exact`` it stays one.

    Drivers give an array as a list, as an array of numpy, or as JSON text; a whole number also as a decimal; a struct
    as a mapping, as a row, or as JSON text; a timestamp with a zone or without one.
    """
    if value is None:
        return None
    kind = uncoerced(kind)
    match kind:
        case Array(item):
            items = json.loads(value) if isinstance(value, str) else value
            return [read_value(one, item, exact=exact) for one in items]
        case Struct(fields):
            found = json.loads(value) if isinstance(value, str) else value
            found = found if isinstance(found, Mapping) else found.asDict()
            return {name: read_value(found.get(name), of, exact=exact) for name, of in fields}
        case Decimal():
            number = Number(str(value))
            if exact:
                return number
            return int(number) if number == number.to_integral_value() else float(number)
        case Scalar():
            return _READERS[kind](value) if kind in _READERS else value
    return value


def utc_moment(value: object) -> datetime:
    """Return a time as a driver gives it, in UTC without a time zone."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _moment(value: object) -> str:
    return utc_moment(value).isoformat()


def _day(value: Any) -> str:
    return (value if isinstance(value, date) else date.fromisoformat(str(value))).isoformat()


_READERS: Mapping[Scalar, Callable[[Any], Any]] = {
    STRING: str,
    BIGINT: int,
    DOUBLE: float,
    BOOLEAN: bool,
    DATE: _day,
    TIMESTAMP: _moment,
    JSON: lambda value: json.loads(value) if isinstance(value, str) else value,
}


def shown_value(value: Any) -> Any:
    """Return a value of any type, as a driver gives it, as a value of JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Number):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): shown_value(one) for name, one in value.items()}
    if hasattr(value, "asDict"):
        return shown_value(value.asDict())
    if hasattr(value, "__iter__") and not isinstance(value, bytes):
        return [shown_value(one) for one in value]
    return str(value)


def text_of(value: Any) -> str:
    """Return a value of JSON as a text: a text as it is, all else as JSON."""
    return value if isinstance(value, str) else compact_json(value)
