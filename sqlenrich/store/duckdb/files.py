"""The files of a DuckDB run: its database, and the files that it writes."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.types import Array, Struct
from sqlenrich.plan.plan import Plan
from sqlenrich.store.scratch import scratch_folder

if TYPE_CHECKING:  # a path needs no driver
    from sqlenrich.store.duckdb.database import Database

DATABASE_SUFFIXES = (".duckdb", ".db")
FILE_SUFFIXES = (".csv", ".parquet", ".jsonl", ".ndjson")
STANDARD_OUTPUT = "-"
MOST_LINE = 2**24
_OURS = ({"_request_hash", "_fingerprint"}, {"_request_hash", "_error"})
"""Columns of NAME and of NAME_quarantine. Their presence shows that a run wrote the file."""
_FORMATS = {
    ".csv": "FORMAT csv, HEADER",
    ".parquet": "FORMAT parquet",
    ".jsonl": "FORMAT json",
    ".ndjson": "FORMAT json",
}


@dataclass(frozen=True)
class Outputs:
    """What a run writes: its database, and files beside it. ``-`` among them is standard output."""

    database: Path
    files: tuple[Path, ...]
    names: tuple[str, ...]
    """The outputs as the caller wrote them."""

    @property
    def written(self) -> tuple[Path, ...]:
        """The files that a run writes, and those of refused rows beside them."""
        named = (path for path in self.files if str(path) != STANDARD_OUTPUT)
        return tuple(each for path in named for each in (path, quarantine_file(path)))

    def __str__(self) -> str:
        return ", ".join(self.names)


def outputs_of(output: str | Path | Sequence[str | Path]) -> Outputs:
    """Return the outputs of a run. Raises ConfigError for an unknown kind, and for two databases."""
    given = [output] if isinstance(output, str | Path) else list(output)
    if not given:
        raise ConfigError("where to? Give --output out.duckdb (or .csv, .parquet, .jsonl, -), or --target")
    databases = list(dict.fromkeys(Path(one) for one in given if Path(one).suffix.lower() in DATABASE_SUFFIXES))
    if len(databases) > 1:
        raise ConfigError(f"{databases[0]} and {databases[1]}: a run has one database; give the other outputs as files")
    files = tuple(dict.fromkeys(Path(one) for one in given if Path(one) not in databases))
    database = database_path(databases[0] if databases else files[0])
    for file in files:
        database_path(file)
    return Outputs(database, files, tuple(map(str, given)))


def database_path(output: Path) -> Path:
    """Return the database of an output: the output itself, or one in ``.sqlenrich/`` beside a file."""
    suffix = output.suffix.lower()
    if suffix in DATABASE_SUFFIXES:
        return output
    if suffix in FILE_SUFFIXES:
        return output.parent / ".sqlenrich" / f"{output.name}.duckdb"
    if str(output) == STANDARD_OUTPUT:
        return Path(".sqlenrich") / "stdout.duckdb"
    known = (*DATABASE_SUFFIXES, *FILE_SUFFIXES)
    raise ConfigError(f"{output}: unknown kind of output{did_you_mean(suffix, known)}; there are: {', '.join(known)}")


def quarantine_file(output: Path) -> Path:
    """Return the file of refused rows beside an output file."""
    return output.with_name(f"{output.stem}_quarantine{output.suffix}")


def export(database: Database, plan: Plan, output: Path) -> None:
    """Write NAME to a file, and NAME_quarantine beside it; to standard output NAME alone, as JSON lines."""
    if str(output) == STANDARD_OUTPUT:
        print_rows(database.execute, f"SELECT * FROM {plan.step('enriched').relation}")
        return
    for name, path in (("enriched", output), ("quarantine", quarantine_file(output))):
        step = plan.step(name)
        nested = [column for column, kind in step.columns.items() if isinstance(kind, Array | Struct)]
        write_rows(database.execute, f"SELECT * FROM {step.relation}", path, nested)


def write_rows(execute: Callable[[str], None], query: str, path: Path, nested: Sequence[str] = ()) -> None:
    """Write the rows of a query to a file, as a whole or not at all. In CSV the ``nested`` columns are JSON."""
    from sqlenrich.store.duckdb.database import quote, text

    target = path.resolve()
    made = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    if nested and path.suffix.lower() == ".csv":
        query = f"SELECT * REPLACE ({', '.join(f'to_json({quote(c)}) AS {quote(c)}' for c in nested)}) FROM ({query})"
    form = f"{_FORMATS[path.suffix.lower()]}, USE_TMP_FILE false"
    try:
        execute(f"COPY ({query}) TO {text(str(made))} ({form})")
        os.replace(made, target)  # atomic
    finally:
        made.unlink(missing_ok=True)


def print_rows(execute: Callable[[str], None], query: str) -> None:
    """Write the rows of a query to standard output, as JSON lines."""
    with scratch_folder() as folder:
        path = folder / "rows.jsonl"
        write_rows(execute, query, path)
        binary = getattr(sys.stdout, "buffer", None)
        if binary is None:  # a replacement of standard output
            sys.stdout.write(path.read_text(encoding="utf-8"))
        else:  # JSON is UTF-8, whatever the console's encoding is
            sys.stdout.flush()
            with path.open("rb") as file:
                shutil.copyfileobj(file, binary)
    sys.stdout.flush()


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
    """Return the columns of a file; none where its content does not match its suffix."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return _keys(path)
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


def _keys(path: Path) -> list[str]:
    """Return the names in the first line of JSON lines."""
    try:
        with path.open(encoding="utf-8") as file:
            first = json.loads(file.readline(MOST_LINE))
    except ValueError:
        return []
    return list(first) if isinstance(first, dict) else []
