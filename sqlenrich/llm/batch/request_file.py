"""The files of a batch's requests, before they are sent: written to a disk, for they do not fit the memory."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sqlenrich.llm.batch.errors import BatchError, OverLimitsError
from sqlenrich.llm.batch.vendor import BatchLimits, BatchRequest

BUFFER_BYTES = 1 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def write_lines(file: IO[bytes], lines: Iterable[bytes], limits: BatchLimits, shown: str) -> int:
    """Write lines and return their number. Raises OverLimitsError for more than a batch holds, BatchError for none."""
    requests = size = 0
    for line in lines:
        requests, size = requests + 1, size + len(line)
        if requests > limits.requests or size > limits.bytes:
            most = f"{limits.requests:,} requests and {limits.bytes:,} bytes"
            raise OverLimitsError(f"{shown}: a batch holds at most {most}; nothing was sent")
        file.write(line)
    if not requests:
        raise BatchError(f"{shown}: a batch without requests; nothing was sent")
    return requests


def request_line(request: BatchRequest, page: str) -> bytes:
    """Return the line of a request in a file that OpenAI, and who copies it, takes."""
    head = f'{{"custom_id":"{request.custom_id}","method":"POST","url":"{page}","body":'
    return head.encode() + request.body + b"}\n"


@contextmanager
def saying_where(folder: str) -> Iterator[None]:
    """Raise BatchError for a failure of the disk."""
    try:
        yield
    except OSError as error:
        todo = "make room there, or name another folder in TMPDIR" if error.errno in _NO_ROOM else "look at it"
        raise BatchError(f"{error.filename or folder}: {error.strerror or error}; {todo}") from None


@contextmanager
def temporary_file(lines: Iterable[bytes], limits: BatchLimits, shown: str) -> Iterator[IO[bytes]]:
    """A file with some lines, open at its beginning, that nobody else can read. It is gone afterwards."""
    with tempfile.TemporaryFile(buffering=BUFFER_BYTES) as file:
        with saying_where(tempfile.gettempdir()):
            write_lines(file, lines, limits, shown)
            file.seek(0)
        yield file


def write_file(path: Path, lines: Iterable[bytes], limits: BatchLimits, shown: str) -> int:
    """Write a file durably and return the number of its lines. Nothing is left of one that can't be written."""
    try:
        with saying_where(str(path.parent)), path.open("wb", buffering=BUFFER_BYTES) as file:
            requests = write_lines(file, lines, limits, shown)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    return requests
