"""The files of a DuckDB run: its database, and the CSV or Parquet files that it writes."""

from __future__ import annotations

import csv
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.types import Array, Struct
from sqlenrich.plan.plan import Plan

if TYPE_CHECKING:  # a path needs no driver
    from sqlenrich.runner.backends.duckdb.database import Database

DATABASE_SUFFIXES = (".duckdb", ".db")
FILE_SUFFIXES = (".csv", ".parquet")
_OURS = ({"_request_hash", "_fingerprint"}, {"_request_hash", "_error"})
"""Columns of NAME and of NAME_quarantine. Their presence shows that a run wrote the file."""


def database_path(output: Path) -> Path:
    """Give the database of an output: the output itself, or one in ``.sqlenrich/`` beside a CSV or Parquet file."""
    suffix = output.suffix.lower()
    if suffix in DATABASE_SUFFIXES:
        return output
    if suffix in FILE_SUFFIXES:
        return output.parent / ".sqlenrich" / f"{output.name}.duckdb"
    known = (*DATABASE_SUFFIXES, *FILE_SUFFIXES)
    raise ConfigError(f"{output}: unknown kind of output{did_you_mean(suffix, known)}; there are: {', '.join(known)}")


def files_of(output: Path) -> tuple[Path, ...]:
    """Give the files that a run writes besides its database: an output file, and the file of refused rows beside it."""
    return (output, quarantine_file(output)) if output.suffix.lower() in FILE_SUFFIXES else ()


def quarantine_file(output: Path) -> Path:
    """Give the file of refused rows beside an output file."""
    return output.with_name(f"{output.stem}_quarantine{output.suffix}")


def export(database: Database, plan: Plan, output: Path) -> None:
    """Write NAME to a CSV or Parquet file, and NAME_quarantine beside it. CSV has arrays and structs as JSON."""
    from sqlenrich.runner.backends.duckdb.database import quote, text

    parquet = output.suffix.lower() == ".parquet"
    form = f"{'FORMAT parquet' if parquet else 'FORMAT csv, HEADER'}, USE_TMP_FILE false"
    for name, path in (("enriched", output), ("quarantine", quarantine_file(output))):
        step = plan.step(name)
        nested = [quote(c) for c, kind in step.columns.items() if isinstance(kind, Array | Struct) and not parquet]
        replaced = f" REPLACE ({', '.join(f'to_json({c}) AS {c}' for c in nested)})" if nested else ""
        target = path.resolve()
        made = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            database.execute(f"COPY (SELECT *{replaced} FROM {step.relation}) TO {text(str(made))} ({form})")
            os.replace(made, target)  # atomic
        finally:
            made.unlink(missing_ok=True)


def check_replaceable(*files: Path) -> None:
    """Refuse to overwrite a file that no run wrote, unless it is empty. Raises ConfigError."""
    for path in files:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; give another --output")
        if path.is_file() and path.stat().st_size > 0:
            columns = set(_columns(path))
            if not any(ours <= columns for ours in _OURS):
                raise ConfigError(f"{path} was not written by sqlenrich: remove it, or give another --output")


def _columns(path: Path) -> list[str]:
    """Give the columns of a file; none where its content does not match its suffix."""
    if path.suffix.lower() == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_schema(path).names)
        except (pa.ArrowException, OSError):
            return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return next(csv.reader(file), [])
    except (UnicodeDecodeError, csv.Error):
        return []
