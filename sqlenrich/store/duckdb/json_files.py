"""Reads files of JSON: an object a line, an array of objects, or objects one after another."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.store.duckdb.database import MAX_LINE, TOO_LONG, Database, file_list, problem, text
from sqlenrich.store.duckdb.input_files import JSON_LINES, InputFiles, unpacking
from sqlenrich.store.inputs import check_names

# DuckDB guesses these types from texts in JSON, which stay texts here. Quoted parts are names of fields.
_GUESSED_TYPES = re.compile(
    r'("(?:[^"]|"")*")|(?:^|(?<=[^,] ))(?:TIMESTAMP WITH TIME ZONE|TIMESTAMP|DATE|TIME|UUID|JSON)\b'
)
_MOST_SCANNED = 2**28
"""The bytes of a file that is not of lines up to which its error is searched for: it is loaded as a whole."""
_FORMS = {"newline_delimited": "an object a line", "array": "an array", "unstructured": "objects over several lines"}


def json_files(database: Database, files: InputFiles) -> str:
    """Return the SQL that reads JSON with the types of JSON: a text that looks like a date stays a text.

    Raises ConfigError for what is no JSON, with its line, and for files without rows.
    """
    forms = {path: _form(files, path) for path in files.paths}
    if len({*forms.values()}) > 1:
        one, other = (
            next(path for path, form in forms.items() if form == kind) for kind in list({*forms.values()})[:2]
        )
        told = " and ".join(f"{files.named(path)} is {_FORMS[forms[path]]}" for path in sorted((one, other)))
        raise ConfigError(f"{files.name}: the files are not of one form: {told}; write them alike")
    form = forms[files.paths[0]]
    packed = f", compression = {text(files.compression)}" if files.compression else ""
    given = f"{file_list(files.paths)}, format = {text(form)}, maximum_object_size = {MAX_LINE}{packed}"
    together = ", union_by_name = true" if len(files.paths) > 1 else ""
    objects = f"read_json_objects({given})"
    try:
        described = database.db.execute(
            f"DESCRIBE SELECT * FROM read_json({given}, sample_size = -1{together})"
        ).fetchall()
        if [row[:2] for row in described] == [("json", "JSON")]:  # of what is no object, or of a field json
            _check_objects(database, files, objects, form)
        keys = database.db.execute(f"SELECT DISTINCT unnest(json_keys(json)) FROM {objects} ORDER BY ALL").fetchall()
    except duckdb.OutOfMemoryException:
        raise
    except duckdb.Error as error:
        place = f"{files.name} can't be read: "
        raise ConfigError(_where(files, form) or problem(error, place, database.staged)) from None
    check_names(files.name, [str(key) for (key,) in keys])
    types = {str(row[0]): _GUESSED_TYPES.sub(lambda m: m[1] or "VARCHAR", str(row[1])) for row in described}
    columns = ", ".join(f"{text(name)}: {text(kind)}" for name, kind in types.items())
    return f"read_json({given}, columns = {{{columns}}})"


def _form(files: InputFiles, path: Path) -> str:
    """Return DuckDB's name of a file's form."""
    try:
        with files.opened(path) as file:
            start = file.read(4096).lstrip()
    except (OSError, EOFError):  # told when the file is read as a whole
        start = b""
    if start.startswith(b"["):
        return "array"
    return "newline_delimited" if files.kind in JSON_LINES else "unstructured"


def _check_objects(database: Database, files: InputFiles, objects: str, form: str) -> None:
    rows, others = database.db.execute(
        f"SELECT COUNT(*), COUNT(*) FILTER (WHERE json_type(json) <> 'OBJECT') FROM {objects}"
    ).fetchall()[0]
    if others:
        what = "a line" if form == "newline_delimited" else "a value"
        raise ConfigError(_where(files, form) or f"{files.name} can't be read: {what} is not a JSON object")
    if not rows:
        raise ConfigError(f"{files.name} has no rows: its columns are unknown")


def _where(files: InputFiles, form: str) -> str | None:
    """Return what is wrong and where, as DuckDB's own number of a line is one too high; None if Python finds nothing.

    DuckDB counts the lines before the error of the part of a file that a thread reads.
    """
    for path in files.paths:
        with unpacking(files.named(path)):
            found = _line(files, path) if form == "newline_delimited" else _position(files, path)
        if found is not None:
            return found
    return None


def _line(files: InputFiles, path: Path) -> str | None:
    """Return the first line that is no JSON object."""
    with files.opened(path) as file:
        for number, line in enumerate(file, 1):
            where = f"{files.named(path)}, line {number}: "
            if not line.strip():
                continue
            if len(line) > 2 * MAX_LINE:
                return f"{where}{TOO_LONG}"
            try:
                if not isinstance(json.loads(line.rstrip()), dict):
                    return f"{where}a line is not a JSON object"
            except ValueError as error:
                return f"{where}Malformed JSON: {_told(error)}"
    return None


def _position(files: InputFiles, path: Path) -> str | None:
    """Return the first place of a file at which its text is no JSON, or is no object."""
    with files.opened(path) as file:
        written = file.read(_MOST_SCANNED)
    if len(written) == _MOST_SCANNED:
        return None
    decoder, at, values = json.JSONDecoder(), 0, list[object]()
    try:
        content = written.decode("utf-8-sig").strip()
        while at < len(content):
            value, end = decoder.raw_decode(content, at)
            values += value if isinstance(value, list) else [value]
            at = end + len(content[end:]) - len(content[end:].lstrip())
    except ValueError as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        return f"{files.named(path)}{line}: Malformed JSON: {_told(error)}"
    other = next((number for number, value in enumerate(values, 1) if not isinstance(value, dict)), None)
    return None if other is None else f"{files.named(path)}: value {other} is not a JSON object"


def _told(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.colno}"
    return "it is not UTF-8 text"
