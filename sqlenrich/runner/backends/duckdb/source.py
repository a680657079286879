"""The source of a run, read in place: CSV, TSV, JSON lines, Parquet, a table or a query of DuckDB."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.types import BIGINT, STRING, Type
from sqlenrich.runner.backends.duckdb.database import Database, name_parts, problem, quote, text
from sqlenrich.runner.backends.duckdb.types import portable_type

SOURCE = "sqlenrich_source"
MAX_LINE = 2**24
_DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
"""The possible delimiters of a file: the first, unless exactly one other delimiter splits the header."""
_JSON_LINES = (".jsonl", ".ndjson")
_DATABASES = (".duckdb", ".db")
_FILES = (*_DELIMITERS, *_JSON_LINES, ".parquet", *_DATABASES)
# DuckDB guesses these types from texts in JSON, which stay texts here. Quoted parts are names of fields.
_GUESSED_TYPES = re.compile(
    r'("(?:[^"]|"")*")|(?:^|(?<=[^,] ))(?:TIMESTAMP WITH TIME ZONE|TIMESTAMP|DATE|TIME|UUID|JSON)\b'
)


def open_source(
    database: Database, source: str | None, table: str | None, query: str | None, *, number_rows: bool
) -> dict[str, Type]:
    """Create the view :data:`SOURCE` over the input; give its columns and their types.

    ``source`` is a CSV, TSV, JSON lines or Parquet file, a DuckDB database (with ``table`` or ``query``), or None:
    the output database itself. With ``number_rows`` the column ``_row`` counts from 1.
    Raises ConfigError for an input that is missing or unreadable.
    """
    place = database.roomy(lambda: relation(database, source, table, query))
    numbered = "row_number() OVER () AS _row, * " if number_rows else "* "
    try:
        described = database.reading(f"DESCRIBE {query if query is not None else f'SELECT * FROM {place}'}")
    except duckdb.Error as error:
        raise ConfigError(problem(error, f"{source or database.path} can't be read: ")) from None
    columns = {str(row[0]): str(row[1]) for row in described}
    check_names(str(source or database.path), list(columns))
    types = {name: portable_type(kind) for name, kind in columns.items()}
    casts = [f"CAST({quote(n)} AS VARCHAR) AS {quote(n)}" for n, kind in types.items() if kind is None]
    replace = f"REPLACE ({', '.join(casts)}) " if casts else ""
    database.reading(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS SELECT {numbered}{replace}FROM {place}")
    found: dict[str, Type] = {name: kind or STRING for name, kind in types.items()}
    return {"_row": BIGINT, **found} if number_rows else found


def relation(database: Database, source: str | None, table: str | None, query: str | None) -> str:
    if source is None:
        return stored(table, query)
    path = Path(source)
    if not path.is_file():
        raise ConfigError(f"{source}: {'a folder, not a file' if path.is_dir() else 'no such file'}")
    suffix = path.suffix.lower()
    if suffix not in _FILES:
        raise ConfigError(f"{source}: unknown kind of file; there are: {', '.join(_FILES)}")
    if path.stat().st_size == 0:
        raise ConfigError(f"{source} is empty: it has not even a header")
    if suffix in _DATABASES:
        if path.resolve() != database.path.resolve() and database.paths is None:
            database.attach(path)
        return stored(table, query)
    if suffix in _DELIMITERS:
        return delimited(path, choose_delimiter(path, _DELIMITERS[suffix]))
    if suffix in _JSON_LINES:
        return json_lines(database, path)
    return parquet_file(path)


def stored(table: str | None, query: str | None) -> str:
    if query is not None:
        return f"(\n{query}\n)"
    if table is None:
        raise ConfigError("which table? Write source: in the header, or give a file as --input")
    return ".".join(quote(part) for part in name_parts(table))


def choose_delimiter(path: Path, delimiters: str) -> str:
    """Give the delimiter of a file by its header. Raises ConfigError where the header is ambiguous."""
    first, others = delimiters[0], delimiters[1:]
    if not others:
        return first
    error: ConfigError | None = None
    try:
        header, _ = read_header(path, first)
    except ConfigError as problem:  # "a";"b" is no header with commas
        error, header = problem, []
    if re.fullmatch(r"sep=[,;|\t]?", header[0] if header else ""):
        raise ConfigError(f'{path}: line 1 is "sep=", which is no header; remove that line')
    # A quote inside a field shows another delimiter: a;"b, c".
    if error is None and len(header) > 1 and not any('"' in name for name in header):
        return first
    splitting = [other for other in others if _splits_header(path, other)]
    if len(splitting) == 1:
        return splitting[0]
    if error is not None:
        raise error
    if splitting and len(header) == 1:
        shown = " and ".join("tabs" if other == "\t" else other for other in splitting)
        raise ConfigError(f"{path}: is it separated by {shown}? The header has both; write it with commas")
    return first


def _splits_header(path: Path, delimiter: str) -> bool:
    try:
        header, _ = read_header(path, delimiter)
    except ConfigError:
        return False
    return len(header) > 1 and not any('"' in name for name in header)


def read_header(path: Path, delimiter: str) -> tuple[list[str], str]:
    """Give the fields of a file's header, and the header's last line unchanged. Raises ConfigError."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines: list[str] = []
            header = next(csv.reader(_recorded(file, lines), delimiter=delimiter, strict=True), [])
    except UnicodeDecodeError:
        raise ConfigError(f"{path} can't be read: it is not UTF-8 text; save it as UTF-8") from None
    except (csv.Error, OSError) as error:
        raise ConfigError(f"{path} can't be read: {error} (in the header)") from None
    if not header:
        raise ConfigError(f"{path}: line 1 is blank; it must be the header")
    return header, lines[-1]


def delimited(path: Path, delimiter: str) -> str:
    """Give the SQL that reads every field as text, without DuckDB's sniffer.

    The sniffer takes lines that start with # for comments, skips some headers, and renames columns.
    """
    header, last = read_header(path, delimiter)
    names = [name or f"column{index}" for index, name in enumerate(header)]
    check_names(str(path), names)
    columns = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    end = re.search(r"\r?\n?$", last)
    written = end[0].replace("\r", "\\r").replace("\n", "\\n") if end else ""
    new_line = f"new_line = {text(written)}, " if written else ""
    return (
        f"read_csv({text(str(path))}, auto_detect = false, header = true, columns = {{{columns}}}, "
        f"{new_line}delim = {text(delimiter)}, quote = '\"', escape = '\"', "
        f"max_line_size = {MAX_LINE}, buffer_size = {2 * MAX_LINE})"
    )


def json_lines(database: Database, path: Path) -> str:
    """Give the SQL that reads JSON lines with the types of JSON: a text that looks like a date stays a text."""
    given = f"{text(str(path))}, maximum_object_size = {MAX_LINE}"
    try:
        described = database.db.execute(f"DESCRIBE SELECT * FROM read_ndjson({given}, sample_size = -1)").fetchall()
        if [row[:2] for row in described] == [("json", "JSON")]:
            raise ConfigError(f"{path} can't be read: a line is not a JSON object")
        keys = database.db.execute(
            f"SELECT DISTINCT unnest(json_keys(json)) FROM read_ndjson_objects({given}) ORDER BY ALL"
        ).fetchall()
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        raise ConfigError(problem(error, f"{path} can't be read: ")) from None
    check_names(str(path), [str(key) for (key,) in keys])
    types = {str(row[0]): _GUESSED_TYPES.sub(lambda m: m[1] or "VARCHAR", str(row[1])) for row in described}
    columns = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in types.items())
    return f"read_ndjson({given}, columns = {{{columns}}})"


def parquet_file(path: Path) -> str:
    """Give the SQL that reads a Parquet file. The names are checked here: DuckDB renames those equal but for case."""
    from pyarrow import ArrowException, parquet

    try:
        names = list(parquet.read_schema(path).names)
    except (ArrowException, OSError) as error:
        raise ConfigError(f"{path} can't be read: {str(error).splitlines()[0]}") from None
    check_names(str(path), names)
    return f"read_parquet({text(str(path))})"


def check_names(source: str, names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other == name:
            raise ConfigError(f'{source}: the column "{name}" occurs twice; rename one')
        if other is not None:
            raise ConfigError(f'{source}: the columns "{other}" and "{name}" are the same but for case; rename one')
        seen[name.lower()] = name


def _recorded(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line
