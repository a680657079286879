"""Files and folders made durable."""

from __future__ import annotations

import os
from pathlib import Path


def fsync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
