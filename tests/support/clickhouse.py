"""ClickHouse itself, embedded: one session for each process, which is all that chdb allows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

ARROW = "output_format_arrow_string_as_string = 1, output_format_arrow_fixed_string_as_fixed_byte_array = 1"


@cache
def session() -> Any:
    """The session of this process, over a folder of its own."""
    from chdb.session import Session

    return Session()


def execute(sql: str) -> None:
    """Run one statement."""
    session().query(sql)


def rows(sql: str) -> list[tuple[Any, ...]]:
    """Run one query and return its rows as Python's values."""
    import pyarrow as pa

    execute(f"SET {ARROW}")
    found = session().query(sql, "ArrowStream").bytes()
    if not found:
        return []
    table = pa.ipc.open_stream(found).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def columns_of(sql: str) -> dict[str, str]:
    """The names and types of a query's columns, in ClickHouse's words."""
    return {name: kind for name, kind, *_ in rows(f"DESCRIBE ({sql})")}


def fill(table: str, columns: Mapping[str, str], values: Sequence[Sequence[object]]) -> None:
    """Make a table afresh; its columns have types in ClickHouse's words."""
    listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
    execute(f"CREATE OR REPLACE TABLE {table} ({listed}) ENGINE = Memory")
    if values:
        lines = (json.dumps([_plain(value) for value in row]) for row in values)
        execute(f"INSERT INTO {table} FORMAT JSONCompactEachRow\n" + "\n".join(lines))


def quoted(name: str) -> str:
    """A name as ClickHouse quotes it, written here apart from the package."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _plain(value: object) -> object:
    if isinstance(value, date | datetime | Decimal):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
