"""ECMA-262 patterns: the subset that every engine supports is translated, the rest is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser as _re_parser  # type: ignore[attr-defined]
from typing import Any

FENCE_HEAD = r"^```[A-Za-z0-9_-]*[ \t]*\r?\n"
FENCE = r"(?s)" + FENCE_HEAD + r"(.*)```$"
"""Matches a trimmed text that is one Markdown code block; the group is the block's text."""
_CLASSES = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r" \t\n\r\f\v\x{a0}\x{feff}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}",
}
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_SPECIAL = set("\\^$.|?*+()[]{}/-")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_NAMED = re.compile(r"\\x\{([0-9a-f]+)\}")
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP_REPEAT = re.compile(r"\)(?:\{(\d+)(?:,(\d*))?\}|([*+]))")
MAX_TEXT_FOR_REPEATED_GROUP = 1000
"""The longest text, in characters, on which a pattern with one repeated group is tried.

Java's regular expressions recurse at each repeat, and its stack has room for a few thousand.
"""
MAX_SAFE_REPEATS = 100
"""A group that repeats at most this often is tried on a text of any length."""
MAX_REPEAT = 1000
"""The largest count that RE2, and so DuckDB and BigQuery, accepts."""


def portable(pattern: object, *, end: str = "$") -> str:
    """Translate a JSON Schema pattern. ``end`` is the engine's spelling of the very end of a text.

    Raises ValueError with one line for what differs between engines: look-around, back references, word boundaries,
    Unicode classes, lazy and possessive repeats, counts above 1,000.
    """
    if not isinstance(pattern, str):
        raise ValueError(f"pattern is a text, not {pattern!r}")
    out, position = [], 0
    while position < len(pattern):
        piece, position = _piece(pattern, position, end)
        out.append(piece)
    translated = "".join(out)
    if "\0" in translated:
        raise _refuse(pattern, "the character NUL")
    try:
        re.compile(translated.replace(end, "$") if end != "$" else translated)
    except re.error as error:
        raise ValueError(f'pattern "{pattern}" is not a regular expression: {error}') from None
    if _repeated(_re_parser.parse(translated.replace(end, "$"))) > MAX_REPEAT:
        raise _refuse(pattern, f"a repeat of repeats above {MAX_REPEAT}")
    return translated


def _repeated(parsed: Iterable[Any]) -> int:
    """Return the largest count of a part's repeats. The counts of nested repeats are multiplied."""
    most = 1
    for operator, argument in parsed:
        name = str(operator)
        if name == "MAX_REPEAT":
            low, high, inner = argument
            count = low if str(high) == "MAXREPEAT" else high
            most = max(most, max(int(count), 1) * _repeated(inner))
        elif name == "SUBPATTERN":
            most = max(most, _repeated(argument[3]))
        elif name == "BRANCH":
            most = max(most, *(_repeated(branch) for branch in argument[1]))
    return most


def longest_text(pattern: str) -> int | None:
    """Return the longest text, in characters, on which a pattern is tried, or None for any length."""
    bare = _ATOM.sub("x", portable(pattern))
    counts = [match[3] or (match[1] if match[2] is None else match[2]) for match in _GROUP_REPEAT.finditer(bare)]
    many = any(not count.isdecimal() or int(count) > MAX_SAFE_REPEATS for count in counts)
    return MAX_TEXT_FOR_REPEATED_GROUP // bare.count("(") if many else None


def _refuse(pattern: str, what: str) -> ValueError:
    return ValueError(f'pattern "{pattern}": {what} is not the same on all engines; write it without')


def _piece(pattern: str, position: int, end: str) -> tuple[str, int]:
    char = pattern[position]
    if char == "\\":
        return _escape(pattern, position, inside=False)
    if char == "[":
        return _set(pattern, position)
    if char == "(":
        if pattern.startswith("(?:", position):
            return "(?:", position + 3
        if pattern.startswith("(?", position):
            raise _refuse(pattern, "a group that starts with (?")
        return "(?:", position + 1
    if char == ".":
        return "[^\n\r\u2028\u2029]", position + 1
    if char == "$":
        return end, position + 1
    if char in "*+?{":
        return _repeat(pattern, position)
    if char in "]}":
        return "\\" + char, position + 1
    return char, position + 1


def _repeat(pattern: str, position: int) -> tuple[str, int]:
    char = pattern[position]
    if char == "{":
        match = _REPEAT.match(pattern, position)
        if match is None:
            raise _refuse(pattern, "a brace that is no count")
        if max(int(n) for n in (match[1], match[3] or "0")) > MAX_REPEAT:
            raise _refuse(pattern, f"a count above {MAX_REPEAT}")
        piece, after = match[0], match.end()
    else:
        piece, after = char, position + 1
    if after < len(pattern) and pattern[after] in "?+*":
        raise _refuse(pattern, "a lazy or possessive repeat")
    return piece, after


def _escape(pattern: str, position: int, *, inside: bool) -> tuple[str, int]:
    if position + 1 >= len(pattern):
        raise ValueError(f'pattern "{pattern}" ends in a backslash')
    char = pattern[position + 1]
    if char.lower() in _CLASSES:
        negated = char.isupper()
        body = _NAMED.sub(lambda m: chr(int(m[1], 16)), _CLASSES[char.lower()])
        if not inside:
            return f"[{'^' if negated else ''}{body}]", position + 2
        if negated:
            raise _refuse(pattern, f"\\{char} inside a set")
        return body, position + 2
    if char in _CONTROL and not pattern[position + 2 : position + 3].isdigit():
        return _CONTROL[char], position + 2
    if char in ("x", "u"):
        digits = 2 if char == "x" else 4
        code = pattern[position + 2 : position + 2 + digits]
        if len(code) == digits and all(c in "0123456789abcdefABCDEF" for c in code):
            literal = chr(int(code, 16))
            return ("\\" + literal if literal in _SPECIAL else literal), position + 2 + digits
    if char in _SPECIAL:
        return (char if char == "/" else "\\" + char), position + 2
    raise _refuse(pattern, f"\\{char}")


def _set(pattern: str, position: int) -> tuple[str, int]:
    out, position = ["["], position + 1
    if pattern.startswith("^", position):
        out, position = ["[^"], position + 1
    if pattern.startswith("]", position):
        raise _refuse(pattern, "an empty set")
    while position < len(pattern) and pattern[position] != "]":
        if pattern[position] == "\\":
            piece, position = _escape(pattern, position, inside=True)
        else:
            char = pattern[position]
            # Java reads a nested bracket and && as set operations.
            piece, position = ("\\" + char if char in "[&" else char), position + 1
        out.append(piece)
    if position >= len(pattern):
        raise ValueError(f'pattern "{pattern}": a set is not closed')
    return "".join([*out, "]"]), position + 1
