"""Temporary folders that are also removed when a signal ends the process at once."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

_FOLDERS: set[str] = set()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Return a temporary folder that is removed at the end of the context."""
    with TemporaryDirectory(prefix="sqlenrich-") as name:
        _FOLDERS.add(name)
        try:
            yield Path(name)
        finally:
            _FOLDERS.discard(name)


class KeptFolder:
    """A temporary folder that is there as long as this object."""

    def __init__(self) -> None:
        name = mkdtemp(prefix="sqlenrich-")
        self.path = Path(name)
        _FOLDERS.add(name)
        weakref.finalize(self, _remove, name)


def _remove(name: str) -> None:
    shutil.rmtree(name, ignore_errors=True)
    _FOLDERS.discard(name)


def remove_all() -> None:
    """Remove all temporary folders. Call it where the process ends without leaving its contexts."""
    for name in tuple(_FOLDERS):
        shutil.rmtree(name, ignore_errors=True)
