"""The results of a run as tables in memory: Arrow, pandas, polars."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.store.scratch import KeptFolder

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ResultTables:
    """Where the accepted and the refused rows of a run are: tables of a DuckDB database."""

    database: Path
    enriched: str
    quarantine: str
    folder: KeptFolder | None = None
    """The folder of a temporary database. It is there as long as this object is."""

    def read(self, table: str, *, rows: int | None = None) -> pa.Table:
        """Return a table, or its first rows, as they are now. Raises RunError if the database can't be read."""
        import duckdb

        if not self.database.is_file():
            raise RunError(f"{self.database} is gone: the results were there")
        try:
            with duckdb.connect(str(self.database), read_only=True) as db:
                db.execute("SET TimeZone = 'UTC'")  # else an instant's Arrow type has the zone of this machine
                limit = "" if rows is None else f" LIMIT {rows}"
                found: pa.Table = db.sql(f"SELECT * FROM {table}{limit}").to_arrow_table()
        except duckdb.Error as error:
            raise RunError(f"{self.database} can't be read: {str(error).splitlines()[0]}") from None
        return found


def to_pandas(table: pa.Table) -> Any:
    """Return a table as a pandas frame. Raises ConfigError without pandas."""
    try:
        return table.to_pandas()
    except ImportError:
        raise ConfigError("df() needs pandas: pip install pandas; table() gives Arrow without it") from None


def to_polars(table: pa.Table) -> Any:
    """Return a table as a polars frame. Raises ConfigError without polars."""
    try:
        import polars
    except ImportError:
        raise ConfigError("pl() needs polars: pip install polars; table() gives Arrow without it") from None
    return polars.from_arrow(table)
