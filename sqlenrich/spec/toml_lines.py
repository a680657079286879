"""The lines of a TOML file's settings, for messages: the parser of the standard library tells none."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence

_HEADER = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(#.*)?$")
_QUOTES = re.compile(r"\"{3}|'{3}")
_KEY = re.compile(r"""\s*(?P<name>(?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class TomlLines:
    """The line of each table and key of a text that parses as TOML."""

    def __init__(self, text: str) -> None:
        self._lines: dict[tuple[str, ...], int] = {}
        table: tuple[str, ...] = ()
        inside = False  # of a text of several lines
        for number, line in enumerate(text.splitlines(), start=1):
            within, inside = inside, inside ^ bool(len(_QUOTES.findall(line)) % 2)
            if within:
                continue
            if (match := _HEADER.match(line)) is not None:
                table = _path(match["name"])
                self._add(table, number)
            elif (match := _KEY.match(line)) is not None:
                self._add((*table, *_path(match["name"])), number)

    def _add(self, path: Sequence[str], number: int) -> None:
        for length in range(1, len(path) + 1):
            self._lines.setdefault(tuple(path[:length]), number)

    def line(self, place: str) -> int | None:
        """Return the line of a place such as ``endpoints.local.url``, else of its nearest parent; None for no such."""
        written = {".".join(path): line for path, line in self._lines.items()}
        while place:
            if place in written:
                return written[place]
            place = place.rpartition(".")[0]
        return None

    def told(self, problems: Iterable[str]) -> list[str]:
        """Return problems that end in ``@ place`` with the line of the place, in the order of the lines."""
        lines = [(self.line(problem.rpartition(" @ ")[2]), problem) for problem in problems]
        found = sorted(lines, key=lambda each: each[0] or 0)
        return [problem if line is None else f"line {line}: {problem}" for line, problem in found]


def _path(written: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    path: list[str] = []
    try:
        node: object = tomllib.loads(f"{written} = 0")
    except tomllib.TOMLDecodeError:  # a line of a text that looks like a key
        return ()
    while isinstance(node, dict):
        ((name, node),) = node.items()
        path.append(name)
    return tuple(path)
