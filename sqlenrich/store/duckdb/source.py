"""The source of a run: files of CSV, TSV, JSON or Parquet, a table or a query of DuckDB, a table in memory."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.types import BIGINT, STRING, Type
from sqlenrich.store.duckdb.database import (
    MAX_LINE,
    OTHER_ENCODING,
    TOO_LONG,
    Database,
    file_list,
    name_parts,
    problem,
    quote,
    text,
)
from sqlenrich.store.duckdb.input_databases import database_url, open_database
from sqlenrich.store.duckdb.input_files import DATABASES, JSON, InputFiles, find_files
from sqlenrich.store.duckdb.json_files import json_files
from sqlenrich.store.duckdb.types import portable_type
from sqlenrich.store.inputs import CUT_OFF, EncodedFiles, Input, TableInMemory, check_names, input_name

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "sqlenrich_source"
ROWS = "sqlenrich_rows"
"""The name under which DuckDB finds a table in memory."""
BUFFER = 2 * MAX_LINE
_TABLE = re.compile(rf"(.+(?:{'|'.join(map(re.escape, DATABASES))}))#(.+)", re.IGNORECASE)
"""A table of a database: FILE.duckdb#TABLE."""
_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
"""The possible delimiters of a file: the first, unless exactly one other delimiter splits the header."""


def open_source(
    database: Database, source: Input, table: str | None, query: str | None, *, number_rows: bool
) -> dict[str, Type]:
    """Create the view :data:`SOURCE` over the input; give its columns and their types.

    ``source`` is the name of files, a DuckDB database (``FILE.duckdb#TABLE``, or with ``table`` or ``query``), a table
    in memory, or None: the output database itself. With ``number_rows`` the column ``_row`` counts from 1.
    Raises ConfigError for an input that is missing or unreadable.
    """
    name = input_name(source) or str(database.path)
    place, own = relation(database, source, table, query)
    numbered = "row_number() OVER () AS _row, * " if number_rows else "* "
    try:
        described = database.reading(f"DESCRIBE {query if own and query is not None else f'SELECT * FROM {place}'}")
    except duckdb.Error as error:
        raise ConfigError(problem(error, f"{name} can't be read: ", database.staged)) from None
    columns = {str(row[0]): str(row[1]) for row in described}
    check_names(name, list(columns))
    types = {name: portable_type(kind) for name, kind in columns.items()}
    casts = [f"CAST({quote(n)} AS VARCHAR) AS {quote(n)}" for n, kind in types.items() if kind is None]
    replace = f"REPLACE ({', '.join(casts)}) " if casts else ""
    database.reading(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT {numbered}{replace}FROM {place}")
    found: dict[str, Type] = {name: kind or STRING for name, kind in types.items()}
    return {"_row": BIGINT, **found} if number_rows else found


def relation(database: Database, source: Input, table: str | None, query: str | None) -> tuple[str, bool]:
    """Return the SQL of the input's relation, and whether the header's table or query is read."""
    if source is None:
        return stored(table, query), True
    if isinstance(source, TableInMemory):
        return in_memory(database, source), False
    if isinstance(source, str | Path) and (url := database_url(str(source))) is not None:
        with open_database(url, table, query) as stream:
            return in_memory(database, stream), False
    if isinstance(source, str | Path) and (named := _TABLE.fullmatch(str(source))) and Path(named[1]).is_file():
        source, table, query = named[1], named[2], None
    encoding = source.encoding if isinstance(source, EncodedFiles) else None
    files = find_files(database, str(source), encoding)
    if files.kind in DATABASES:
        (path,) = files.paths
        if path.resolve() != database.path.resolve() and database.paths is None:
            database.attach(path)
        if table is None and query is None:
            name = input_name(source)
            raise ConfigError(f"{name}: which table? Write source: in the header, or give {name}#TABLE")
        return stored(table, query), True
    if files.kind in _DELIMITERS:
        return delimited(files), False
    if files.kind in JSON:
        return database.roomy(lambda: json_files(database, files)), False
    return parquet_files(files), False


def in_memory(database: Database, source: TableInMemory) -> str:
    """Return the SQL that reads a table in memory. One that can be read once is copied to the disk."""
    check_names(str(source), list(source.rows.schema.names))
    rows = readable(database, source)
    try:
        if source.once:
            sqlenrich_stream = rows  # noqa: F841 (DuckDB finds it by its name)
            database.db.execute(f"CREATE OR REPLACE TEMP TABLE {ROWS} AS SELECT * FROM sqlenrich_stream")
        else:
            database.db.register(ROWS, rows)
    except duckdb.Error as error:
        raise ConfigError(problem(error, f"{source} can't be read: ")) from None
    return ROWS


def readable(database: Database, source: TableInMemory) -> pa.Table | pa.RecordBatchReader:
    """Return a table with the columns of types that DuckDB lacks as texts: 256-bit decimals, half floats, unions."""
    import pyarrow as pa

    foreign = [field.name for field in source.rows.schema if not _known(database, field)]
    if not foreign:
        return source.rows

    def converted(part: Any) -> Any:
        for name in foreign:
            place = part.schema.get_field_index(name)
            column = part.column(place)
            try:
                texts = column.cast(pa.string())
            except pa.ArrowException:
                texts = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
            part = part.set_column(place, name, texts)
        return part

    if isinstance(source.rows, pa.Table):
        return converted(source.rows)
    schema = pa.schema([each.with_type(pa.string()) if each.name in foreign else each for each in source.rows.schema])
    return pa.RecordBatchReader.from_batches(schema, (converted(batch) for batch in source.rows))


def _known(database: Database, field: pa.Field) -> bool:
    """Tell whether DuckDB can read a column."""
    import pyarrow as pa

    if not pa.types.is_nested(field.type) and not pa.types.is_decimal256(field.type) and field.type != pa.float16():
        return True
    try:
        database.db.from_arrow(pa.schema([field]).empty_table()).fetchall()
    except (duckdb.Error, pa.ArrowException):
        return False
    return True


def stored(table: str | None, query: str | None) -> str:
    if query is not None:
        return f"(\n{query}\n)"
    if table is None:
        raise ConfigError("which table? Write source: in the header, or give a file as --input")
    return ".".join(quote(part) for part in name_parts(table))


def choose_delimiter(files: InputFiles, path: Path) -> str:
    """Return the delimiter of a file by its header. Raises ConfigError where the header is ambiguous."""
    first, others = _DELIMITERS[files.kind][0], _DELIMITERS[files.kind][1:]
    if not others:
        return first
    error: ConfigError | None = None
    try:
        header, _ = read_header(files, path, first)
    except ConfigError as problem:  # "a";"b" is no header with commas
        error, header = problem, []
    if re.fullmatch(r"sep=[,;|\t]?", header[0] if header else ""):
        raise ConfigError(f'{files.named(path)}: line 1 is "sep=", which is no header; remove that line')
    # A quote inside a field shows another delimiter: a;"b, c".
    if error is None and len(header) > 1 and not any('"' in name for name in header):
        return first
    splitting = [other for other in others if _splits_header(files, path, other)]
    if len(splitting) == 1:
        return splitting[0]
    if error is not None:
        raise error
    if splitting and len(header) == 1:
        shown = " and ".join("tabs" if other == "\t" else other for other in splitting)
        raise ConfigError(f"{files.named(path)}: is it separated by {shown}? The header has both; write it with commas")
    return first


def _splits_header(files: InputFiles, path: Path, delimiter: str) -> bool:
    try:
        header, _ = read_header(files, path, delimiter)
    except ConfigError:
        return False
    return len(header) > 1 and not any('"' in name for name in header)


def read_header(files: InputFiles, path: Path, delimiter: str) -> tuple[list[str], str]:
    """Return the fields of a file's header, and the header's last line unchanged. Raises ConfigError."""
    name = files.named(path)
    try:
        with TextIOWrapper(files.opened(path), encoding="utf-8-sig", newline="") as file:
            lines: list[str] = []
            header = next(csv.reader(_recorded(file, lines), delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError:
        raise ConfigError(f"{name} can't be read: it is not UTF-8 text; save it as UTF-8, {OTHER_ENCODING}") from None
    except EOFError as error:
        raise RunError(f"{name} can't be read: {CUT_OFF}") from error
    except (csv.Error, OSError) as error:
        raise ConfigError(f"{name} can't be read: {error} (in the header)") from None
    if not header:
        raise ConfigError(f"{name}: line 1 is blank; it must be the header")
    return header, lines[-1]


def delimited(files: InputFiles) -> str:
    """Return the SQL that reads every field as text, without DuckDB's sniffer.

    The sniffer takes lines that start with # for comments, skips some headers, and renames columns. Several files
    must have one header; those in a row that are written alike are read together.
    """
    parts: list[tuple[str, list[Path]]] = []
    first: list[str] = []
    for path in files.paths:
        check_last_line(files, path)
        delimiter = choose_delimiter(files, path)
        header, last = read_header(files, path, delimiter)
        names = [name or f"column{index}" for index, name in enumerate(header)]
        check_names(files.named(path), names)
        first = first or names
        if names != first:
            raise ConfigError(
                f"{files.named(path)}: its columns are {', '.join(names)}; those of {files.named(files.paths[0])} "
                f"are {', '.join(first)}"
            )
        end = re.search(r"\r?\n?$", last)
        written = end[0].replace("\r", "\\r").replace("\n", "\\n") if end else ""
        new_line = f"new_line = {text(written)}, " if written else ""
        form = f"{new_line}delim = {text(delimiter)}"
        if not parts or parts[-1][0] != form:
            parts.append((form, []))
        parts[-1][1].append(path)
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in first)
    packed = f", compression = {text(files.compression)}" if files.compression else ""
    read = [
        f"read_csv({file_list(paths)}, auto_detect = false, header = true, columns = {{{columns}}}, {form}, "
        f"quote = '\"', escape = '\"', max_line_size = {MAX_LINE}, buffer_size = {BUFFER}{packed})"
        for form, paths in parts
    ]
    return read[0] if len(read) == 1 else f"({' UNION ALL '.join(f'SELECT * FROM {part}' for part in read)})"


def check_last_line(files: InputFiles, path: Path) -> None:
    """Refuse a file whose last line is longer than DuckDB's buffer: it would leave out such a line without an error."""
    if files.compression is not None or path.stat().st_size <= BUFFER:
        return
    with path.open("rb") as file:
        file.seek(-BUFFER, 2)
        if b"\n" not in file.read().rstrip(b"\r\n"):
            raise ConfigError(f"{files.named(path)}: the last line is {TOO_LONG}")


def parquet_files(files: InputFiles) -> str:
    """Return the SQL that reads Parquet. The names are checked here: DuckDB renames those equal but for case."""
    from pyarrow import ArrowException, parquet

    first: list[str] = []
    for path in files.paths:
        try:
            names = list(parquet.read_schema(path).names)
        except (ArrowException, OSError) as error:
            raise ConfigError(f"{files.named(path)} can't be read: {str(error).splitlines()[0]}") from None
        check_names(files.named(path), names)
        first = first or names
        if sorted(names) != sorted(first):
            raise ConfigError(
                f"{files.named(path)}: its columns are {', '.join(names)}; those of {files.named(files.paths[0])} "
                f"are {', '.join(first)}"
            )
    together = ", union_by_name = true" if len(files.paths) > 1 else ""
    return f"read_parquet({file_list(files.paths)}{together})"


def _recorded(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line
