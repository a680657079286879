"""Samplers of texts: words of the prompt, formats, and texts that match a pattern.

Patterns are sampled here because no library fits. ``rstr`` gives other texts in each process (it iterates over a set of
characters) and ignores lengths; ``exrex`` is under the AGPL. Both read patterns by the parser that is used here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlenrich.llm.mock.draw import Draw

POOL_SIZE = 48
"""Different texts that are kept of one schema."""
_TRIES = 1500
"""Texts that are drawn to find one that fits, before the schema counts as impossible."""
_parser: Any = importlib.import_module("re._parser")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PRINTABLE = [chr(code) for code in range(32, 127)]
_CLASSES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_NOT_DIGIT": _LETTERS,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": _LETTERS,
    "CATEGORY_WORD": _LETTERS + "0123456789",
    "CATEGORY_NOT_WORD": " -.",
}


def _day(draw: Draw) -> str:
    return (date(2020, 1, 1) + timedelta(days=draw.below(3653))).isoformat()


def _clock(draw: Draw) -> str:
    at = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=draw.below(86400))
    return f"{at:%H:%M:%S}Z"


def _hex(draw: Draw, digits: int) -> str:
    return f"{draw.below(16**digits):0{digits}x}"


def _name(draw: Draw) -> str:
    return "".join(draw.pick(_LETTERS) for _ in range(3 + draw.below(6)))


FORMATS: dict[str, Callable[[Draw], str]] = {
    "date": _day,
    "time": _clock,
    "date-time": lambda draw: f"{_day(draw)}T{_clock(draw)}",
    "email": lambda draw: f"{_name(draw)}@example.com",
    "uri": lambda draw: f"https://{_name(draw)}.example.com/{draw.below(10000)}",
    "uuid": lambda draw: f"{_hex(draw, 8)}-{_hex(draw, 4)}-4{_hex(draw, 3)}-8{_hex(draw, 3)}-{_hex(draw, 12)}",
}


def words(low: int, high: int | None) -> Callable[[Draw], str]:
    """Return a sampler of texts of ``low`` to ``high`` code points, in words from the end of the prompt."""

    def make(draw: Draw) -> str:
        known = draw.words()
        first = draw.below(len(known))
        text = " ".join(known[first : first + 2 + draw.below(6)])
        while len(text) < low:
            text = f"{text} {text}"
        # Without a maximum the text is cut near the minimum, because doubling may go far beyond it.
        limit = high if high is not None else max(low, 200)
        return text[:limit]

    return make


def text_pool(make: Callable[[Draw], str], fits: Callable[[str], bool], name: str) -> list[str]:
    """Return up to :data:`POOL_SIZE` different texts of ``make`` that fit. Raises ValueError where none is found."""
    found: dict[str, None] = {}
    for number in range(_TRIES):
        if len(found) >= POOL_SIZE or (found and number > 10 * POOL_SIZE):
            break
        text = make(Draw(f"{name}{number}".encode(), "an example text"))
        if text not in found and fits(text):
            found[text] = None
    if not found:
        raise ValueError(f"the mock model finds no text for {name}")
    return list(found)


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern. Raises ValueError where Python can't read it."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f'the mock model can\'t read the pattern "{pattern}": {error}') from None


def pattern_sampler(pattern: str, low: int, high: int | None) -> Callable[[Draw], str]:
    """Return a sampler of texts that probably match a pattern and have ``low`` to ``high`` code points.

    The pattern is in the portable subset of the schema's patterns. Raises ValueError where Python can't read it.
    """
    compiled(pattern)
    tree = _parser.parse(pattern)

    def make(draw: Draw) -> str:
        # Repeats are short, middling or long: one of these lengths fits the limits.
        spare = draw.pick((0, 2, 6, max(low, 8), max(low, (high or 0) // 2)))
        text = "".join(_spell(tree, draw, spare))
        while len(text) < low and "$" not in pattern and text:
            text += text
        return text if high is None or "$" in pattern or len(text) <= high else text[:high]

    return make


def _spell(tree: Any, draw: Draw, spare: int) -> Iterator[str]:
    """Return the characters of a text for a parsed pattern; a repeat has at most ``spare`` turns beyond its minimum.

    Anchors give no text: whether they are met is tested on the whole text.
    """
    for operator, value in tree:
        match str(operator):
            case "LITERAL":
                yield chr(value)
            case "NOT_LITERAL":
                yield next(letter for letter in (draw.pick(_LETTERS), "x", "0") if ord(letter) != value)
            case "ANY":
                yield draw.pick(_LETTERS)
            case "IN":
                yield _one_of(value, draw)
            case "BRANCH":
                yield from _spell(draw.pick(value[1]), draw, spare)
            case "SUBPATTERN":
                yield from _spell(value[-1], draw, spare)
            case "MAX_REPEAT":
                low, high, inner = value
                for _ in range(low + draw.below(min(int(high) - low, spare) + 1)):
                    yield from _spell(inner, draw, spare)


def _one_of(items: Any, draw: Draw) -> str:
    """Return a character of a set."""
    chosen: list[str] = []
    negated = False
    for kind, value in items:
        name = str(kind)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            chosen.append(chr(value))
        elif name == "RANGE":
            low, high = value
            chosen += [chr(code) for code in range(low, min(high, low + 255) + 1)]
        elif name == "CATEGORY":
            chosen += _CLASSES[str(value)]
    if negated:
        chosen = [letter for letter in _PRINTABLE if letter not in chosen] or ["\u00e9"]
    return draw.pick(chosen)
