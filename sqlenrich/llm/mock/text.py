"""Texts for the mock model: words of the prompt, well-formed formats, and texts that match a pattern."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlenrich.llm.mock.draw import Draw

POOL = 48
_TRIES = 1500
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


def _host(draw: Draw) -> str:
    return f"{_name(draw)}.example.com"


def _name(draw: Draw) -> str:
    return "".join(draw.pick(_LETTERS) for _ in range(3 + draw.below(6)))


FORMATS: dict[str, Callable[[Draw], str]] = {
    "date": _day,
    "time": _clock,
    "date-time": lambda draw: f"{_day(draw)}T{_clock(draw)}",
    "duration": lambda draw: f"P{1 + draw.below(30)}D",
    "email": lambda draw: f"{_name(draw)}@example.com",
    "hostname": _host,
    "ipv4": lambda draw: ".".join(str(draw.below(256)) for _ in range(4)),
    "ipv6": lambda draw: ":".join(_hex(draw, 4) for _ in range(8)),
    "uri": lambda draw: f"https://{_host(draw)}/{draw.below(10000)}",
    "uri-reference": lambda draw: f"/{_name(draw)}/{draw.below(10000)}",
    "iri": lambda draw: f"https://{_host(draw)}/{draw.below(10000)}",
    "idn-email": lambda draw: f"{_name(draw)}@example.com",
    "idn-hostname": _host,
    "json-pointer": lambda draw: f"/{_name(draw)}/{draw.below(10)}",
    "regex": lambda draw: f"^{_name(draw)}$",
    "uuid": lambda draw: f"{_hex(draw, 8)}-{_hex(draw, 4)}-4{_hex(draw, 3)}-8{_hex(draw, 3)}-{_hex(draw, 12)}",
}


def words(low: int, high: int | None) -> Callable[[Draw], str]:
    """Give a maker of texts of ``low`` to ``high`` code points, in words that the prompt ends with."""

    def make(draw: Draw) -> str:
        known = draw.words()
        first = draw.below(len(known))
        text = " ".join(known[first : first + 2 + draw.below(6)])
        while len(text) < low:
            text = f"{text} {text}"
        # Where only a least length is asked for, the text is cut so that a huge one is not doubled beyond it.
        limit = high if high is not None else max(low, 200)
        return text[:limit]

    return make


def pool(make: Callable[[Draw], str], fits: Callable[[str], bool], name: str) -> list[str]:
    """Give up to 48 different texts of ``make`` that fit. Raises ValueError where none is found."""
    found: dict[str, None] = {}
    for number in range(_TRIES):
        if len(found) >= POOL or (found and number > 10 * POOL):
            break
        text = make(Draw(f"{name}{number}".encode(), "an example text"))
        if text not in found and fits(text):
            found[text] = None
    if not found:
        raise ValueError(f"the mock model finds no text for {name}")
    return list(found)


def compiled(pattern: str) -> re.Pattern[str]:
    """Give the compiled pattern. Raises ValueError where Python can't read it."""
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f'the mock model can\'t read the pattern "{pattern}": {error}') from None


def matching(pattern: str, low: int, high: int | None) -> Callable[[Draw], str]:
    """Give a maker of texts that probably match ``pattern`` and probably are of the right length.

    Raises ValueError where Python can't read the pattern.
    """
    compiled(pattern)
    tree = _parser.parse(pattern)

    def make(draw: Draw) -> str:
        # Short, middling and long repeats in turn: one of them reaches the lengths asked for.
        spare = draw.pick((0, 2, 6, max(low, 8), max(low, (high or 0) // 2)))
        text = "".join(_spell(tree, draw, spare, {}))
        while len(text) < low and "$" not in pattern and text:
            text += text
        return text if high is None or "$" in pattern or len(text) <= high else text[:high]

    return make


def _spell(tree: Any, draw: Draw, spare: int, groups: dict[int, str]) -> Iterator[str]:
    for kind, value in tree:
        name = str(kind)
        if name == "LITERAL":
            yield chr(value)
        elif name == "NOT_LITERAL":
            yield next(letter for letter in (draw.pick(_LETTERS), "x", "0") if ord(letter) != value)
        elif name == "ANY":
            yield draw.pick(_LETTERS)
        elif name == "IN":
            yield _one_of(value, draw)
        elif name == "BRANCH":
            yield from _spell(draw.pick(value[1]), draw, spare, groups)
        elif name == "SUBPATTERN":
            text = "".join(_spell(value[-1], draw, spare, groups))
            if value[0] is not None:
                groups[value[0]] = text
            yield text
        elif name == "GROUPREF":
            yield groups.get(value, "")
        elif name == "ATOMIC_GROUP":
            yield from _spell(value, draw, spare, groups)
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, inner = value
            for _ in range(low + draw.below(min(int(high) - low, spare) + 1)):
                yield from _spell(inner, draw, spare, groups)
        # Anchors and look-arounds give no text; whether they hold is seen when the whole text is tested.


def _one_of(items: Any, draw: Draw) -> str:
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
