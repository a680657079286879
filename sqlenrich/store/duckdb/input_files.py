"""The files of an input: one, several by a pattern or a folder, at a URL, or standard input.

What DuckDB can't read in place (a URL, standard input, another encoding) is copied to a temporary folder first.
"""

from __future__ import annotations

import fnmatch
import glob
import gzip
import io
import os
import re
import shutil
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.store.inputs import CUT_OFF, input_name, is_url

if TYPE_CHECKING:
    from sqlenrich.store.duckdb.database import Database

STANDARD_INPUT = "-"
DELIMITED = (".csv", ".tsv")
JSON_LINES = (".jsonl", ".ndjson")
JSON = (*JSON_LINES, ".json")
PARQUET = (".parquet",)
DATABASES = (".duckdb", ".db")
KINDS = (*DELIMITED, *JSON, *PARQUET, *DATABASES)
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
"""The compression of a file of text, by its last suffix."""
_PATTERN = re.compile(r"[*?\[]")
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}
_FORMS = {
    ".parquet": re.compile(rb"PAR1"),
    ".json": re.compile(rb"\s*(?:\[\s*[{\]]|\{\s*\n)"),  # a header of CSV may begin with a bracket
    ".jsonl": re.compile(rb"\s*\{"),
}
"""How the content of standard input begins, by its kind."""
_DRIVERS = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "abfss": "adlfs", "az": "adlfs"}
"""The packages that fsspec needs besides for a kind of URL."""


@dataclass(frozen=True)
class InputFiles:
    """Files of one kind, in the order in which their rows are read."""

    name: str
    """The input as the caller wrote it."""
    paths: tuple[Path, ...]
    kind: str
    """The suffix: what the files hold."""
    compression: str | None = None
    shown: Mapping[Path, str] = field(default_factory=dict)
    """The names of copies, for messages."""

    def named(self, path: Path) -> str:
        """Return the name of a file for messages."""
        return self.shown.get(path, str(path))

    def opened(self, path: Path) -> BinaryIO:
        """Open a file to read its bytes."""
        return opened(path, self.compression)


def find_files(database: Database, source: str, encoding: str | None = None) -> InputFiles:
    """Find the files of an input, and copy those that DuckDB can't read in place.

    Raises ConfigError for what is missing or of an unknown kind, RunError for a URL that can't be read.
    """
    if source == STANDARD_INPUT:
        found = _of_paths(source, [_standard_input(database.scratch())], {})
    elif is_url(source):
        copies = _downloaded(source, database.scratch())
        found = _of_paths(source, list(copies), copies)
    else:
        found = _of_paths(source, list(local_files(source)), {})
    if found.compression == "zstd":  # DuckDB takes the missing rest of such a file for its end
        for path in found.paths:
            with unpacking(found.named(path)), found.opened(path) as file:
                while file.read(2**20):
                    pass
    if encoding not in (None, "utf-8"):
        found = _decoded(found, str(encoding), database.scratch())
    database.staged |= {str(path): name for path, name in found.shown.items()}
    return found


def among_files(path: Path, source: str) -> bool:
    """Tell whether a file, there or not, is one of a folder or a pattern."""
    written, given = os.path.abspath(path), os.path.abspath(source)
    if Path(source).is_dir():
        return Path(written).is_relative_to(given) and not _hidden(Path(written).relative_to(given))
    if not _PATTERN.search(source) or Path(source).exists():
        return False
    return any(fnmatch.fnmatch(written, pattern) for pattern in (given, given.replace("**/", "")))


def opened(path: Path, compression: str | None) -> BinaryIO:
    """Open a file, or a compressed one, to read its bytes."""
    if compression == "gzip":
        return gzip.open(path)  # type: ignore[return-value]
    if compression == "zstd":
        import pyarrow as pa

        return io.BufferedReader(_Raw(pa.input_stream(str(path), "zstd")))
    return path.open("rb")


class _Raw(io.RawIOBase):
    """A stream of Arrow as one of Python."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self.stream.read(len(buffer))
        buffer[: len(read)] = read
        return len(read)


def local_files(source: str) -> Iterator[Path]:
    """Find the files of a name, a folder or a pattern, in their order. Raises ConfigError where there are none."""
    path = Path(source)
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file() and not _hidden(one.relative_to(path)))
        if not files:
            raise ConfigError(f"{source}: the folder has no file")
        yield from files
    elif path.exists() or not _PATTERN.search(source):
        yield path
    else:
        names = sorted(name for name in glob.glob(source, recursive=True) if Path(name).is_file())
        if not names:
            raise ConfigError(f"{source}: no file fits the pattern")
        yield from map(Path, names)


def _hidden(path: Path) -> bool:
    """Tell whether a file of a folder is none of its data, such as _SUCCESS."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _of_paths(name: str, paths: list[Path], shown: Mapping[Path, str]) -> InputFiles:
    kinds: dict[tuple[str, str | None], Path] = {}
    for path in paths:
        if not path.is_file():
            raise ConfigError(f"{name}: no such file")
        first, compression = path.suffix.lower(), COMPRESSIONS.get(path.suffix.lower())
        kind = first if compression is None else Path(path.stem).suffix.lower()
        text = kind in (*DELIMITED, *JSON)
        if kind not in KINDS or (compression is not None and not text):
            known = f"{', '.join(KINDS)}; those of text also with {' or '.join(COMPRESSIONS)}"
            raise ConfigError(f"{shown.get(path, path)}: unknown kind of file; there are: {known}")
        if path.stat().st_size == 0:
            raise ConfigError(f"{shown.get(path, path)} is empty: it has not even a header")
        kinds.setdefault((kind, compression), path)
    if len(kinds) > 1 or (len(paths) > 1 and next(iter(kinds))[0] in DATABASES):
        two = " and ".join(shown.get(path, str(path)) for path in list(kinds.values())[:2])
        raise ConfigError(f"{name}: the files are not of one kind that can be read together: {two}")
    (kind, compression) = next(iter(kinds))
    return InputFiles(name, tuple(paths), kind, compression, dict(shown))


def _standard_input(folder: Path) -> Path:
    """Copy standard input to a file whose suffix tells what it holds."""
    if sys.stdin is None or sys.stdin.isatty():
        raise ConfigError("--input - reads standard input, which is a terminal here: pipe rows into it")
    path = folder / "standard-input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    start = _start(path)
    if (suffix := next((one for magic, one in _MAGIC.items() if start.startswith(magic)), None)) is not None:
        plain = folder / "standard-input-plain"
        with unpacking("standard input"), opened(path, COMPRESSIONS[suffix]) as packed, plain.open("wb") as file:
            shutil.copyfileobj(packed, file)
        path = plain
        start = _start(path)
    if not start:
        raise ConfigError("standard input is empty: it has not even a header")
    kind = next((kind for kind, form in _FORMS.items() if form.match(start)), ".csv")
    return path.rename(folder / f"standard-input{kind}")


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


@contextmanager
def unpacking(name: str) -> Iterator[None]:
    """Raise RunError, with a file's name, where its compressed content is damaged or ends too early."""
    try:
        yield
    except EOFError:
        raise RunError(f"{name} can't be read: {CUT_OFF}") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise RunError(f"{name} can't be read: {error}") from None
    except OSError as error:  # of Zstandard: Arrow's, which has no number
        if error.errno is not None:
            raise
        told = CUT_OFF if "runcated" in str(error) else error
        raise RunError(f"{name} can't be read: {told}") from None


def _downloaded(url: str, folder: Path) -> dict[Path, str]:
    """Copy the files at a URL; give the name of each copy."""
    scheme, shown = url.partition(":")[0].lower(), input_name(url)
    needed = " ".join(dict.fromkeys(("fsspec", _DRIVERS.get(scheme, "aiohttp" if scheme.startswith("http") else ""))))
    try:
        import fsspec

        system, root = fsspec.core.url_to_fs(url)
        if _PATTERN.search(url) and not scheme.startswith("http"):
            names = sorted(system.glob(root))
        elif not scheme.startswith("http") and system.isdir(root):
            inside = [str(name) for name in system.find(root)]
            names = sorted(name for name in inside if not _hidden(Path(name.removeprefix(str(root)).lstrip("/"))))
        else:
            names = [root]
        copies: dict[Path, str] = {}
        for number, name in enumerate(map(str, names)):
            file = name.rpartition("?")[0] or name if scheme.startswith("http") else name
            copy = folder / str(number) / Path(file).name
            copy.parent.mkdir()
            system.get_file(name, str(copy))
            copies[copy] = input_name(name if is_url(name) else f"{scheme}://{name.lstrip('/')}")
    except ImportError as error:
        raise ConfigError(f"{shown} needs packages: pip install {needed.strip()} ({error})") from None
    except FileNotFoundError:
        raise ConfigError(f"{shown}: no such file") from None
    except ValueError as error:
        raise ConfigError(f"{shown}: {str(error).replace(url, shown)}") from None
    except Exception as error:  # each file system has errors of its own
        reason = (str(error).splitlines() or [""])[0].replace(url, shown)
        raise RunError(f"{shown} can't be read: {type(error).__name__}: {reason}") from None
    if not copies:
        raise ConfigError(f"{shown}: no file fits the pattern")
    return copies


def _decoded(files: InputFiles, encoding: str, folder: Path) -> InputFiles:
    """Copy files of text as UTF-8. Raises ConfigError for a file that is not in this encoding."""
    if files.kind not in (*DELIMITED, *JSON):
        raise ConfigError(f"{files.name}: encoding is that of files of text, not of {files.kind}")
    copies: dict[Path, str] = {}
    for number, path in enumerate(files.paths):
        copy = folder / f"decoded-{number}{files.kind}"
        try:
            with (
                unpacking(files.named(path)),
                io.TextIOWrapper(files.opened(path), encoding=encoding, newline="") as source,
                copy.open("w", encoding="utf-8", newline="") as target,
            ):
                shutil.copyfileobj(source, target)
        except UnicodeError:
            raise ConfigError(f"{files.named(path)} is not in the encoding {encoding}") from None
        copies[copy] = files.named(path)
    return InputFiles(files.name, tuple(copies), files.kind, None, copies)
