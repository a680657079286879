"""Folders for a while, which go away also where a signal ends the process at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_FOLDERS: set[str] = set()


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that is removed at the end."""
    with TemporaryDirectory(prefix="sqlenrich-") as name:
        _FOLDERS.add(name)
        try:
            yield Path(name)
        finally:
            _FOLDERS.discard(name)


def remove_all() -> None:
    """Remove all of them: nothing is unwound any more."""
    for name in tuple(_FOLDERS):
        shutil.rmtree(name, ignore_errors=True)
