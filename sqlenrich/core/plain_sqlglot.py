"""Loads sqlglot's modules from their source, where sqlglotc has put compiled ones beside them.

No class of Python can inherit from a compiled one (mypyc), and the printer inherits from sqlglot's generator.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class SourceFinder(MetaPathFinder):
    """Finds the modules of one package by their source."""

    def __init__(self, package: str) -> None:
        self.beginning = f"{package}."

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module's source; None for another package, and where there is no source."""
        if not name.startswith(self.beginning):
            return None
        for folder in path or ():
            found = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if found is not None and found.loader is not None:
                return found
        return None


def prefer_source() -> None:
    """Let the modules of sqlglot that are not loaded yet come from their source."""
    if not any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, SourceFinder("sqlglot"))
