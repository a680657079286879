"""One open DuckDB database: bounded memory, errors as one line, and the names of what it reads and writes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import duckdb

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.names import identifier
from sqlenrich.core.types import Type
from sqlenrich.engines.duckdb.engine import ENGINE
from sqlenrich.store.duckdb.types import portable_type
from sqlenrich.store.inputs import CUT_OFF
from sqlenrich.store.scratch import scratch_folder

T = TypeVar("T")
INPUT = "sqlenrich_input"
_LOCK = threading.Lock()
_OPEN: set[str] = set()
"""The databases open in this process. DuckDB itself refuses only other processes."""


@dataclass(frozen=True)
class Policy:
    """The memory and the threads of a run, and the rows that it handles at a time."""

    memory_mib: int = 320
    """The initial limit of DuckDB's memory. It doubles when a statement needs more."""
    memory_most_mib: int = 16_384
    threads: int = 4
    """Each thread needs memory, and more threads make no run faster, because the model is slower."""
    slice_rows: int = 1_250_000
    """The rows of one slice of ``checked``. Slices bound the memory of a run of many rows."""
    slices_most: int = 64
    """The most slices: each reads the hashes of all rows. Beyond ``slice_rows`` times these the slices are larger."""
    passes: int = 1
    """How often rows are read at first for their distinct values: a part of the values each time."""
    passes_most: int = 256
    """The most passes: beyond them there is more memory."""
    passes_mib: int = 640
    """The limit of memory beyond which there are more passes, before there is more memory: these read all rows."""
    page_rows: int = 4096
    """The pending requests read at a time."""
    row_group_rows: int = 8192
    """The rows of a row group. DuckDB works in parallel by groups: with its default of 122,880 one thread makes a
    table of 100,000 rows. Each commit writes to the last group, and a checkpoint compresses changed groups again. Both
    are cheaper with small groups."""
    compression: str | None = None
    """The compression of all columns; None: DuckDB chooses it for each."""


MAX_LINE = 2**24
"""The bytes of a line of a delimited file, and of an object of JSON: DuckDB's memory grows with it."""
TOO_LONG = f"longer than {MAX_LINE >> 20} MiB; shorten its texts, or write the file as Parquet"
CANT_BE_READ = " can't be read: "
OTHER_ENCODING = "or name its encoding, as in --encoding cp1252"


def name_parts(table: str) -> list[str]:
    """Return the parts of a table's name: ``raw.messages``, with dots inside quotes kept."""
    parts = re.findall(r'"(?:[^"]|"")*"|[^.]+', table)
    return [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]


def quote(name: str) -> str:
    """Return a name quoted for DuckDB."""
    return identifier(ENGINE, name).sql("duckdb")


def text(value: str) -> str:
    """Return a text literal."""
    return "'" + value.replace("'", "''") + "'"


def file_list(paths: Sequence[Path]) -> str:
    """Return the SQL of one file, or of a list of files."""
    names = [text(str(path)) for path in paths]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


class Database:
    """One open database. Use as a context manager; only the thread that opened it may use it."""

    db: duckdb.DuckDBPyConnection

    def __init__(self, path: Path, policy: Policy | None = None) -> None:
        self.path, self.policy = path, policy or Policy()
        self.memory_mib = self.policy.memory_mib
        self.paths: tuple[str, str] | None = None
        self.in_transaction = False
        self._key = str(path.resolve())
        self._made = False
        self._stack = ExitStack()
        self._folder: Path | None = None
        self.staged: dict[str, str] = {}
        """The names of input files that were copied, by their copies."""

    @property
    def place(self) -> str:
        """The file, for messages."""
        return str(self.path)

    def __enter__(self) -> Self:
        """Open or make the database. Raises RunError where another process has it open, naming the process."""
        path = self.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{path} can't be made: {error.strerror}: {error.filename}") from None
        with _LOCK:
            if self._key in _OPEN:
                raise RunError(f"{path} is in use by another run of this process ({os.getpid()}); wait for it")
            _OPEN.add(self._key)
        self.memory_mib, self.paths, self.in_transaction = self.policy.memory_mib, None, False
        self._made = not path.exists()
        try:
            self.db = _open(path, self.policy)
        except duckdb.Error as error:
            _OPEN.discard(self._key)
            raise cannot_open(path, error) from None
        self.db.execute("SET preserve_insertion_order = true")
        # Else a file's times and what a source query compares would be those of the machine's time zone.
        self.db.execute("SET TimeZone = 'UTC'")
        # It goes to stdout, which is for data. In a notebook without ipywidgets it is off, and may not be set.
        if self.one("SELECT current_setting('enable_progress_bar')"):
            self.db.execute("SET enable_progress_bar = false")
        spill = Path(f"{path}.tmp")
        _clear(spill)
        self.db.execute(f"SET temp_directory = {text(str(spill))}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        empty = error is not None and self._made and self._has_no_table()
        self.db.close()
        self._stack.close()
        self._folder, self.staged = None, {}
        if empty:
            self.path.unlink(missing_ok=True)
        _OPEN.discard(self._key)
        if isinstance(error, duckdb.OutOfMemoryException):
            raise RunError(f"{self.path}: not enough memory; cut long texts in a source query, or run it in parts")
        if isinstance(error, duckdb.Error):
            raise RunError(problem(error, f"{self.path}: ")) from None

    def _has_no_table(self) -> bool:
        with suppress(duckdb.Error):
            return not self.one(f"SELECT COUNT(*) FROM duckdb_tables() WHERE database_name = {text(self.catalog())}")
        return False

    def scratch(self) -> Path:
        """Return a temporary folder that is there until the database is closed."""
        if self._folder is None:
            self._folder = self._stack.enter_context(scratch_folder())
        return self._folder

    def execute(self, sql: str) -> None:
        """Run a statement."""
        self.db.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a query and give its rows; outside a transaction with more memory where that is needed."""

        def read() -> list[tuple[Any, ...]]:
            return self.db.execute(sql).fetchall()

        return read() if self.in_transaction else self.roomy(read)

    def columns(self, relation: str) -> dict[str, Type | None] | None:
        """Return a relation's columns and types; None if it does not exist."""
        try:
            found = self.db.execute(f"DESCRIBE {relation}").fetchall()
        except duckdb.CatalogException:
            return None
        return {str(row[0]): portable_type(str(row[1])) for row in found}

    def is_view(self, name: str) -> bool:
        """Tell whether a name of the output database is that of a view."""
        named = f"view_name = {text(name)} AND database_name = {text(self.catalog())} AND schema_name = 'main'"
        return bool(self.one(f"SELECT COUNT(*) FROM duckdb_views() WHERE {named}"))

    def begin(self) -> None:
        """Begin a transaction."""
        self.db.execute("BEGIN")
        self.in_transaction = True

    def commit(self) -> None:
        """Commit the transaction; outside of one each statement is committed already."""
        if self.in_transaction:
            self.in_transaction = False
            self.db.execute("COMMIT")

    def one(self, sql: str) -> Any:
        """Run a query and give the first value of its first row."""
        row = self.db.execute(sql).fetchone()
        return row[0] if row is not None else None

    def roomy(self, work: Callable[[], T]) -> T:
        """Do repeatable work; on lack of memory roll back, double the limit and repeat it.

        Most runs stay within the first limit. Runs of very long rows, or of millions of rows, need more.
        """
        while True:
            try:
                return work()
            except duckdb.OutOfMemoryException:
                with suppress(duckdb.TransactionException):
                    self.db.execute("ROLLBACK")
                self.in_transaction = False
                if self.memory_mib >= self.policy.memory_most_mib:
                    raise
                self.memory_mib *= 2
                self.db.execute(f"SET memory_limit = '{self.memory_mib}MiB'")

    def in_passes(self, work: Callable[[int], T]) -> T:
        """Do repeatable work that goes through its rows so many times, and handles a part of them each time.

        Distinct values need the memory of all of them. On lack of memory there is more of it up to ``passes_mib``, then
        there are four times as many passes, and where these are enough, there is more memory.
        """

        def repeated() -> T:
            passes = self.policy.passes
            while True:
                try:
                    return work(passes)
                except duckdb.OutOfMemoryException:
                    if self.memory_mib < self.policy.passes_mib or passes >= self.policy.passes_most:
                        raise
                    passes *= 4

        return work(self.policy.passes) if self.in_transaction else self.roomy(repeated)

    def attach(self, path: Path) -> None:
        """Attach the input's database. A table name in the source resolves there first."""
        try:
            self.db.execute(f"ATTACH {text(str(path))} AS {INPUT} (READ_ONLY)")
        except duckdb.Error as error:
            raise cannot_open(path, error) from None
        own = f"{quote(self.catalog())}.main"
        self.paths = (f"{INPUT}.main,{own}", f"{own},{INPUT}.main")
        self.db.execute(f"SET search_path = {text(self.paths[1])}")

    def reading(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement that reads the source. A table name resolves in the input's database first."""
        if self.paths is None:
            return self.roomy(lambda: self.db.execute(sql).fetchall())
        self.db.execute(f"SET search_path = {text(self.paths[0])}")
        try:
            return self.roomy(lambda: self.db.execute(sql).fetchall())
        finally:
            self.db.execute(f"SET search_path = {text(self.paths[1])}")

    def comment(self, table: str) -> str | None:
        """Return what is told of a table of the database itself; None for nothing, and for no table."""
        where = f"database_name = current_database() AND schema_name = 'main' AND table_name = {text(table)}"
        found = self.db.execute(f"SELECT comment FROM duckdb_tables() WHERE {where}").fetchall()
        return None if not found or found[0][0] is None else str(found[0][0])

    def catalog(self) -> str:
        return str(self.one("SELECT current_database()"))


def _open(path: Path, policy: Policy) -> duckdb.DuckDBPyConnection:
    """Open or create a database by ATTACH, the only statement with an option for the size of row groups."""
    threads = min(policy.threads, os.cpu_count() or 1)
    db = duckdb.connect(config={"memory_limit": f"{policy.memory_mib}MiB", "threads": threads})
    try:
        # The connection's own database has this name already.
        named = f" AS {quote('memory_db')}" if path.name.split(".")[0].lower() == "memory" else ""
        db.execute(f"ATTACH {text(str(path))}{named} (ROW_GROUP_SIZE {policy.row_group_rows})")
        name = db.execute("SELECT database_name FROM duckdb_databases() WHERE path IS NOT NULL").fetchall()[0][0]
        db.execute(f"USE {quote(name)}.main")
        if policy.compression is not None:
            db.execute(f"SET force_compression = {text(policy.compression)}")
    except duckdb.Error:
        db.close()
        raise
    return db


def _clear(spill: Path) -> None:
    """Remove the spill files of a killed process. DuckDB removes them only when it spills again."""
    with suppress(OSError):
        for file in spill.glob("duckdb_temp_*"):
            file.unlink()
        spill.rmdir()


def problem(error: Exception, place: str, staged: Mapping[str, str] | None = None) -> str:
    """Return a database's error message as one line. An error in a delimited file is given with its file and line.

    ``staged`` has the names of files that were copied.
    """
    message = str(error).strip()
    for copy, name in (staged or {}).items():
        message = message.replace(copy, name)
    if cut := re.search(r"Unexpected end of GZIP stream: (.*)", message):
        return f"{cut[1]}{CANT_BE_READ}{CUT_OFF}"
    file = re.search(r"^  file = (.*)$", message, re.MULTILINE)
    if any(sign in message for sign in _NO_ROOM):  # DuckDB's hint is an option of its own
        where = f"{file[1]}: " if file else re.sub(f"{CANT_BE_READ}$", ": ", place)
        return f"{where}a line of the input is {TOO_LONG}"
    if file is None:
        candidates = re.search(r"^Candidate bindings: (.*)$", message, re.MULTILINE)
        return f"{place}{reason(message)}{f' There are: {candidates[1]}' if candidates else ''}"
    line = re.search(r"CSV Error on Line: (\d+)", message)
    where = f"{file[1]}, line {line[1]}" if line else file[1]
    if fields := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message):
        return f"{where}: {fields[2]} fields where the header has {fields[1]}"
    for sign, meaning in _CSV_PROBLEMS.items():
        if sign in message:
            return f"{where}: {meaning}"
    return f"{where}: {reason(message)}"


_NO_ROOM = ("maximum_object_size", "does not support a full read")
"""The signs of a line that is longer than the buffer."""
_CSV_PROBLEMS = {
    "Maximum line size": TOO_LONG,
    "unterminated quote": "a quote is not closed",
    "Invalid unicode": f"not UTF-8 text; save the file as UTF-8, {OTHER_ENCODING}",
    "invalid state": "it is no plain CSV: an unquoted field contains a quote, or the lines end in different "
    "ways (\\n and \\r\\n); write the file again",
}


def reason(error: Exception | str) -> str:
    """Return the first line of a database's error message, without its class."""
    return re.sub(r"^\w[\w ]* Error: ", "", str(error).strip().splitlines()[0].strip())


_OF_INPUT = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.ConversionException,
    duckdb.InvalidInputException,
    duckdb.ParserException,
)
"""The errors that what the caller gave causes: running again does not help."""


def failure(error: duckdb.Error, place: str, staged: Mapping[str, str] | None = None) -> ConfigError | RunError:
    """Return the error of a statement that reads the source: ConfigError where the source is at fault."""
    return (ConfigError if isinstance(error, _OF_INPUT) else RunError)(problem(error, place, staged))


def cannot_open(path: Path, error: Exception) -> ConfigError | RunError:
    """Return the error of a database that can't be opened: ConfigError where the file is none."""
    if match := re.search(r"PID (\d+)", str(error)):
        return RunError(f"{path} is in use by the process {match[1]}; wait for it, or end it, then run again")
    if "different configuration" in str(error) or "Unique file handle" in str(error):
        return RunError(f"{path} is open in this process: close your own connection to it first")
    kind = ConfigError if "not a valid DuckDB" in str(error) else RunError
    return kind(f"{path} can't be opened: {reason(error)}")
