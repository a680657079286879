"""Types and values as BigQuery's REST interface writes them.

https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/tables#TableFieldSchema and
https://docs.cloud.google.com/bigquery/docs/reference/rest/v2/tabledata/list; read 2026-11-22.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

from tests.standins.googlesql.catalog import Columns
from tests.standins.googlesql.values import kind

_NAMES = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}
_SQL_NAMES = {rest: sql for sql, rest in _NAMES.items()}
BYTES_BILLED = 10 * 1024 * 1024
"""What each job is billed here: BigQuery's least for a table."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def fields(columns: Columns) -> list[dict[str, Any]]:
    """The schema of a table. Columns without a name are ``f0_``, ``f1_`` and so on."""
    unnamed = (f"f{number}_" for number in count())
    return [_field(name or next(unnamed), type_) for name, type_ in columns]


def _field(name: str, type_: Any) -> dict[str, Any]:
    of = kind(type_)
    if of == "ARRAY":
        return _field(name, type_.array_type.element_type) | {"mode": "REPEATED"}
    made: dict[str, Any] = {"name": name, "type": _NAMES.get(of, of), "mode": "NULLABLE"}
    if of == "STRUCT":
        made["fields"] = [_field(part.field_name, part.field_type) for part in type_.struct_type.field]
    return made


def definitions(schema: Sequence[Mapping[str, Any]]) -> str:
    """The columns of a schema as CREATE TABLE holds them."""
    return ", ".join(f"`{field['name']}` {_definition(field)}" for field in schema)


def _definition(field: Mapping[str, Any]) -> str:
    name = str(field["type"])
    written = f"STRUCT<{definitions(field['fields'])}>" if name in ("RECORD", "STRUCT") else _SQL_NAMES.get(name, name)
    return f"ARRAY<{written}>" if field.get("mode") == "REPEATED" else written


def rows(table_rows: Sequence[Sequence[Any]], columns: Columns) -> list[dict[str, Any]]:
    """Rows of Python values as a page of results."""
    return [
        {"f": [{"v": _cell(value, type_)} for value, (_, type_) in zip(row, columns, strict=True)]}
        for row in table_rows
    ]


_CELLS: dict[str, Callable[[Any], str]] = {
    "BOOL": lambda value: "true" if value else "false",
    "BYTES": lambda value: base64.b64encode(value).decode(),
    "TIMESTAMP": lambda value: str((value - _EPOCH) // _MICROSECOND),
    "DATETIME": lambda value: str(value.isoformat()),
    "DATE": lambda value: str(value.isoformat()),
    "FLOAT64": lambda value: {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(value), repr(value)),
    "NUMERIC": lambda value: format(value, "f"),
    "BIGNUMERIC": lambda value: format(value, "f"),
}


def _cell(value: Any, type_: Any) -> Any:
    of = kind(type_)
    if of == "ARRAY":  # a NULL array is stored as an empty one
        return [{"v": _cell(item, type_.array_type.element_type)} for item in value or ()]
    if value is None:
        return None
    if of == "STRUCT":
        parts = list(value.values()) if isinstance(value, dict) else value
        inside = zip(parts, type_.struct_type.field, strict=True)
        return {"f": [{"v": _cell(part, field.field_type)} for part, field in inside]}
    return _CELLS.get(of, str)(value)


_READ: dict[str, Callable[[Any], Any]] = {
    "BOOL": lambda value: value if isinstance(value, bool) else str(value).lower() == "true",
    "BYTES": base64.b64decode,
    "TIMESTAMP": dt.datetime.fromisoformat,
    "DATETIME": dt.datetime.fromisoformat,
    "DATE": dt.date.fromisoformat,
    "NUMERIC": Decimal,
    "BIGNUMERIC": Decimal,
}


def read(value: Any, type_: Any) -> Any:
    """A value of insertAll as a Python value."""
    of = kind(type_)
    if value is None:
        return [] if of == "ARRAY" else None
    if of == "ARRAY":
        return [read(item, type_.array_type.element_type) for item in value]
    if of == "STRUCT":
        return {part.field_name: read(value.get(part.field_name), part.field_type) for part in type_.struct_type.field}
    return _READ.get(of, lambda plain: plain)(value)
