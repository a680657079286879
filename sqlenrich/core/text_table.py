"""Text in a terminal: its width in columns, cut, padded and aligned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from unicodedata import combining, east_asian_width


def width_of(text: str) -> int:
    """Return the width of a text in columns of a terminal."""
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def padded(text: str, width: int) -> str:
    """Return a text cut or padded with spaces to exactly ``width`` columns."""
    text = cut(text, width)
    return text + " " * (width - width_of(text))


def cut(text: str, width: int) -> str:
    """Return a text cut to at most ``width`` columns, with an ellipsis where it was longer."""
    if width_of(text) <= width:
        return text
    kept, taken = [], 1
    for char in text:
        taken += width_of(char)
        if taken > width:
            break
        kept.append(char)
    return "".join(kept).rstrip() + "…"


def table(lines: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Return the lines of a table: the first column aligned left and cut where a line is too long, the others right."""
    wide = [max(map(width_of, column)) for column in zip(*lines, strict=True)]
    wide[0] = min(wide[0], max(12, width - sum(wide[1:]) - 2 * (len(wide) - 1)))
    for first, *rest in lines:
        cells = (" " * (size - width_of(cell)) + cell for size, cell in zip(wide[1:], rest, strict=True))
        yield "  ".join((padded(first, wide[0]), *cells))


def flat(text: str) -> str:
    """Return a text as one line without control characters."""
    return "".join(char if char.isprintable() else "·" for char in " ".join(text.split()))


def shown(value: str | None, width: int) -> str:
    """Return a text as one line of at most ``width`` columns."""
    return cut(flat("NULL" if value is None else value), width)


def from_difference(a: str, b: str, width: int) -> tuple[str, str]:
    """Return two texts cut to ``width``, starting shortly before their first difference if it would be cut off."""
    first = next(i for i, pair in enumerate(zip_longest(a, b)) if pair[0] != pair[1]) if a != b else 0
    start = max(0, first - 12) if first > width * 2 // 3 else 0
    return tuple(cut(("…" if start else "") + text[start:], width) for text in (a, b))  # type: ignore[return-value]
