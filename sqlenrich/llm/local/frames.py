"""The messages between a run and the process of a local model: a length and that many bytes."""

from __future__ import annotations

import struct
from typing import IO

_LENGTH = struct.Struct(">Q")


def write_frame(file: IO[bytes], data: bytes) -> None:
    """Write one message. Raises OSError where the other end is gone."""
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def read_frame(file: IO[bytes]) -> bytes | None:
    """Return the next message; None where the other end is gone."""
    head = file.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = file.read(length)
    return data if len(data) == length else None
