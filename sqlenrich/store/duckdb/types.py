"""Converts DuckDB's types to portable types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, INSTANT, STRING, TIMESTAMP, Array, Decimal, Struct, Type

_SCALARS: Mapping[str, Type] = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), BIGINT
    ),
    "HUGEINT": BIGINT,
    "VARCHAR": STRING,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "DOUBLE": DOUBLE,
    "FLOAT": DOUBLE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": INSTANT,
    "TIMESTAMP_S": TIMESTAMP,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
}


def portable_type(written: str) -> Type | None:
    """Return the portable type of a DuckDB type, None for a type that is read as text."""
    written = written.strip()
    if written in _SCALARS:
        return _SCALARS[written]
    if match := re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", written):
        return Decimal(int(match[1]), int(match[2]))
    if written.endswith("[]"):
        item = portable_type(written[:-2])
        return None if item is None else Array(item)
    if written.startswith("STRUCT(") and written.endswith(")"):
        fields: list[tuple[str, Type]] = []
        for part in _split(written[7:-1]):
            match = re.fullmatch(r'("(?:[^"]|"")*"|\S+) (.+)', part.strip(), re.DOTALL)
            kind = portable_type(match[2]) if match else None
            if match is None or kind is None:
                return None
            name = match[1]
            fields.append((name[1:-1].replace('""', '"') if name.startswith('"') else name, kind))
        return Struct(tuple(fields))
    return None


def _split(fields: str) -> Iterator[str]:
    depth, start, quoted = 0, 0, False
    for position, char in enumerate(fields):
        quoted ^= char == '"'
        depth += 0 if quoted else (char == "(") - (char == ")")
        if char == "," and depth == 0 and not quoted:
            yield fields[start:position]
            start = position + 1
    yield fields[start:]
