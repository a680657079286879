"""What a run reads: the name of files or of a table, or a table in memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlenrich.core.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa


CUT_OFF = "it ends too early: copy it again"
"""What is wrong with a compressed file whose end is missing."""


@dataclass(frozen=True)
class EncodedFiles:
    """Files of text in another encoding than UTF-8."""

    path: str
    encoding: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class TableInMemory:
    """An Arrow table, or a stream of one that can be read once."""

    rows: pa.Table | pa.RecordBatchReader
    once: bool
    name: str = "the given table"
    unread: Mapping[str, str] = field(default_factory=dict)
    """The columns that no table of typed columns can hold, and why: they may be there if nothing reads them."""

    def __str__(self) -> str:
        return self.name


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_QUERIES = ("http", "postgres")
"""The kinds of URL whose part after ? may hold a secret."""
Input: TypeAlias = str | Path | EncodedFiles | TableInMemory | None


def input_of(given: Any, encoding: str | None = None) -> Input:
    """Return what a caller names as the input, or passes: a pandas or polars frame, a DuckDB relation, a list of dicts,
    an Arrow table or anything else that exports an Arrow stream. Raises ConfigError for what is no table."""
    if given is None or isinstance(given, EncodedFiles | TableInMemory):
        return given
    if isinstance(given, str | Path):
        return given if encoding is None else EncodedFiles(str(given), checked_encoding(encoding))
    if encoding is not None:
        raise ConfigError("encoding is that of files: a table in memory has none")
    import pyarrow as pa

    try:
        if isinstance(given, pa.Table):
            return TableInMemory(given, once=False)
        if isinstance(given, pa.RecordBatch):
            return TableInMemory(pa.Table.from_batches([given]), once=False)
        if isinstance(given, pa.RecordBatchReader):
            return TableInMemory(given, once=True)
        if isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
            return _of_columns(_of_rows(given))
        if (found := _of_library(given)) is not None:
            return found
        if hasattr(given, "__arrow_c_stream__"):
            return TableInMemory(pa.RecordBatchReader.from_stream(given), once=True)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"the given {type(given).__name__} is no table of typed columns: {reason}") from None
    raise ConfigError(
        f"input is a path, or a table as a pandas or polars frame, an Arrow table, a DuckDB relation or a list of "
        f"dicts, not {type(given).__name__}"
    )


def is_url(source: str) -> bool:
    """Tell whether an input is a URL."""
    return _URL.match(source) is not None


def input_name(given: Input) -> str:
    """Return an input's name for messages: of a URL without its query and password, which may be secrets."""
    name = "" if given is None else str(given)
    if not is_url(name):
        return name
    scheme, _, rest = name.partition("://")
    host, slash, path = rest.partition("/")
    shown = path.partition("?")[0] if scheme.startswith(_QUERIES) else path
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{shown}"


def checked_encoding(encoding: str) -> str:
    """Return the name of an encoding that Python knows. Raises ConfigError for any other."""
    import codecs

    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise ConfigError(f'no encoding "{encoding}"; examples: cp1252, latin-1, utf-16, shift_jis') from None


def check_names(source: str, names: Sequence[str]) -> None:
    """Refuse names of columns that are equal, or the same but for case. Raises ConfigError."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.get(name.lower())
        if other == name:
            raise ConfigError(f'{source}: the column "{name}" occurs twice; rename one')
        if other is not None:
            raise ConfigError(f'{source}: the columns "{other}" and "{name}" are the same but for case; rename one')
        seen[name.lower()] = name


def _of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as columns with the keys of all of them: a key that a row lacks is NULL."""
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    if not names:
        raise ConfigError("the given list has no rows: its columns are unknown")
    return {name: [row.get(name) for row in rows] for name in names}


def _of_columns(columns: Mapping[str, Any]) -> TableInMemory:
    """Return columns of values as a table. Those of mixed types are left out, with their reasons."""
    import pyarrow as pa

    found: dict[str, Any] = {}
    unread: dict[str, str] = {}
    for name, values in columns.items():
        try:
            found[name] = pa.Array.from_pandas(values) if hasattr(values, "to_numpy") else pa.array(values)
        except (pa.ArrowException, OverflowError) as error:
            unread[name] = str(error.args[0] if error.args else error).splitlines()[0]
    if not found:
        raise pa.ArrowTypeError(next(iter(unread.values())))
    return TableInMemory(pa.table(found), once=False, unread=unread)


def _of_library(frame: Any) -> TableInMemory | None:
    """Return a frame of pandas without its index, or of polars, as a table; None for anything else."""
    import pyarrow as pa

    module, kind = type(frame).__module__.partition(".")[0], type(frame).__name__
    if module == "pandas" and kind == "DataFrame":
        check_names("the given DataFrame", [str(name) for name in frame.columns])
        try:
            return TableInMemory(pa.Table.from_pandas(frame, preserve_index=False), once=False)
        except pa.ArrowException:
            return _of_columns({str(name): frame[name] for name in frame.columns})
    if module == "polars" and kind in ("DataFrame", "LazyFrame"):
        return TableInMemory((frame.collect() if kind == "LazyFrame" else frame).to_arrow(), once=False)
    return None
