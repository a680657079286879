"""The table of another database as an input: SQLite and PostgreSQL, through their ADBC drivers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote as percent
from urllib.parse import unquote, urlsplit

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.store.duckdb.database import name_parts, quote
from sqlenrich.store.inputs import TableInMemory, input_name

SQLITE = b"SQLite format 3\x00"
"""How a file of SQLite begins."""
TYPED_ROWS = 1 << 20
"""The rows from which SQLite's driver takes a column's type: SQLite itself has one for each value."""


@dataclass(frozen=True)
class Driver:
    """An ADBC driver: its module, and the options of a statement."""

    module: str
    options: Mapping[str, str] = field(default_factory=dict)


_SQLITE = Driver("adbc_driver_sqlite", {"adbc.sqlite.query.batch_rows": str(TYPED_ROWS)})
_POSTGRESQL = Driver("adbc_driver_postgresql")
DRIVERS = {"sqlite": _SQLITE, "postgresql": _POSTGRESQL, "postgres": _POSTGRESQL}
"""The driver of each kind of URL."""


def database_url(source: str) -> str | None:
    """Return the URL of an input that is another database's; None for any other input."""
    if source.partition("://")[0].lower() in DRIVERS:
        return source
    path = Path(source)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return f"sqlite:///{percent(str(path.resolve()))}" if file.read(len(SQLITE)) == SQLITE else None


@contextmanager
def open_database(url: str, table: str | None, query: str | None) -> Iterator[TableInMemory]:
    """Open a stream of the table that a URL names after #, else of the header's table or query.

    ``sqlite:///file.db#messages``, ``postgresql://user@host/database#raw.messages``. Raises ConfigError without
    a table or a driver, RunError where the database refuses.
    """
    plain, _, named = url.partition("#")
    scheme, shown = plain.partition(":")[0].lower(), input_name(plain)
    if named:
        table, query = unquote(named), None
    if query is None and table is None:
        raise ConfigError(f"{shown}: which table? Write source: in the header, or {shown}#TABLE")
    statement = query or f"SELECT * FROM {'.'.join(quote(part) for part in name_parts(str(table)))}"
    driver = DRIVERS[scheme]
    try:
        dbapi: Any = import_module(f"{driver.module}.dbapi")
    except ImportError:
        raise ConfigError(f"{shown} needs packages: pip install 'sqlenrich[databases]'") from None
    address = f"file:{percent(_file(plain))}?mode=ro" if driver is _SQLITE else plain
    try:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            if driver.options:
                cursor.adbc_statement.set_options(**driver.options)
            cursor.execute(statement)
            yield TableInMemory(cursor.fetch_record_batch(), once=True, name=shown)
    except ConfigError as error:  # DuckDB read the stream, and tells what the driver said
        raise RunError(_reason(str(error), plain)) from None
    except Exception as error:  # an error of the driver, or one of Arrow while it reads
        raise RunError(f"{shown} can't be read: {_reason(str(error), plain)}") from None


def _file(url: str) -> str:
    """Return the file of ``sqlite:///relative.db`` or ``sqlite:////absolute.db``. Raises ConfigError without one."""
    path = Path(unquote(url.partition(":///")[2]))
    if not path.is_file():
        raise ConfigError(f"{input_name(url)}: no such file")
    return str(path.resolve())


def _reason(text: str, url: str) -> str:
    """Return a driver's message in one line, without the password of the URL."""
    password = urlsplit(url).password or ""
    for secret in {password, unquote(password)} - {""}:
        text = text.replace(secret, "***")
    line = " ".join(text.split())
    found = re.search(r"(?:ERROR|FATAL): +(.+?)(?: LINE \d+:|$|\. Query:)", line)
    return found[1] if found else re.sub(r"^(?:[A-Z_]+: )?\[\w+\] ", "", line)
