"""What a stand-in does on command: its settings, and the fault of each request."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

LOST = ("reply", "late", "cut", "twice")
"""What becomes of one submission of a statement that asks: its reply is lost, it starts ``LATE_S`` after its connection
was lost, its reply ends in the middle, a proxy sends it twice."""
ASKED = "asked"
"""A statement that fails after it has asked."""
LATE_S = 0.7
Denied = Mapping[str, Sequence[str]]
"""The first words of the statements that a role may not run, by the name of their table in lower case."""
_WRITES = re.compile(
    r"(?is)\s*(?:/\*.*?\*/\s*)*(INSERT(?: OVERWRITE)?(?: INTO)?|UPDATE|DELETE FROM|ALTER TABLE"
    r"|DROP TABLE(?: IF EXISTS)?|CREATE OR REPLACE (?:TRANSIENT )?TABLE)\s+([\w.`\"]+)"
)


def denied_table(sql: str, denied: Denied) -> str:
    """The name of the table that a statement may not write; else an empty text."""
    if not denied or (found := _WRITES.match(sql)) is None:
        return ""
    words = {found[1].split()[0].upper()} | ({"DELETE"} if "OVERWRITE" in found[1].upper() else set())
    name = re.sub(r"[`\"]", "", found[2]).rpartition(".")[2].lower()
    return name if words & set(denied.get(name, ())) else ""


class Once:
    """Faults that meet one statement that asks each, in order."""

    def __init__(self) -> None:
        self._left: list[str] = []
        self._lock = threading.Lock()

    def set(self, kinds: Sequence[str]) -> None:
        """Let these come next."""
        if unknown := set(kinds) - {*LOST, ASKED}:
            raise ValueError(f"unknown: {', '.join(unknown)}")
        with self._lock:
            self._left = list(kinds)

    def take(self, *kinds: str) -> str:
        """The next fault where it is one of these, which it is no longer then; else an empty text."""
        with self._lock:
            return self._left.pop(0) if self._left and self._left[0] in kinds else ""


class Control:
    """The settings of a server, ``fail`` among them: each fault and the share of the requests that it meets."""

    def __init__(self, settings: Mapping[str, Any], faults: Sequence[str]) -> None:
        self._defaults, self._faults = dict(settings), frozenset(faults)
        self.settings = dict(settings)
        self._random = random.Random(0)
        self._lock = threading.Lock()
        self._resets = 0

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    def set(self, changes: Mapping[str, Any]) -> None:
        """Change settings. Raises ValueError for an unknown one."""
        if unknown := [*(changes.keys() - self.settings), *(changes.get("fail", {}).keys() - self._faults)]:
            raise ValueError(f"unknown: {', '.join(unknown)}")
        self.settings |= changes

    def clear(self) -> None:
        """Set all as it was at first."""
        self.settings = dict(self._defaults)

    def fault(self, *kinds: str) -> str | None:
        """The fault of this request, one of ``kinds``."""
        with self._lock:
            point = self._random.random()
            for kind in kinds:
                point -= self.settings["fail"].get(kind, 0.0)
                if point < 0:
                    return kind
        return None

    def reset_comes_late(self) -> bool:
        """Whether a reset comes after the work: the first one, the third and so on."""
        with self._lock:
            self._resets += 1
            return self._resets % 2 == 1
