"""A disk that is full after some bytes."""

from __future__ import annotations

import errno
import os

import pytest


def fill_disk(monkeypatch: pytest.MonkeyPatch, room: int, call: str) -> None:
    """Let the disk take so many bytes more; or let it say at the end that it has not."""
    write, left = os.pwrite, [room]

    def pwrite(file: int, data: memoryview, place: int) -> int:
        if call == "pwrite" and left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = write(file, data[: max(left[0], 1)], place)
        left[0] -= written
        return written

    def fdatasync(_: int) -> None:
        if call == "fdatasync" and left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
