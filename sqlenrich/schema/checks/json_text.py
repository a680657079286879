"""The text of an answer in Python: the strict JSON parser, and the repairs."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection
from typing import Any

from sqlenrich.core.text_functions import BLANK
from sqlenrich.schema.checks.grammar import (
    LONG_NUMBER,
    MANY_DIGITS,
    MAX_DEPTH,
    any_string,
    document,
    not_brackets,
    null_member,
    null_members,
    prose,
    trailing_comma,
)
from sqlenrich.schema.checks.patterns import FENCE
from sqlenrich.schema.checks.repairs import REASONING

MISSING = object()
"""Marks a value that is missing."""
_DOCUMENT = re.compile(document("possessive"))
_ANY_STRING = re.compile(any_string("possessive"))
_NOT_BRACKETS = re.compile(not_brackets("possessive"))
_PROSE = re.compile(prose("possessive")[0].removesuffix("$") + r"\Z")
_FENCE = re.compile(FENCE.removesuffix("$") + r"\Z")
_MANY_DIGITS, _LONG_NUMBER = re.compile(MANY_DIGITS), re.compile(LONG_NUMBER)
_TRAILING_COMMA, _COMMA_GROUPS = re.compile(trailing_comma("possessive")[0]), trailing_comma("possessive")[1]
_NULL_MEMBER = re.compile(null_member("possessive"))


def parse_json(text: str) -> Any:
    """Return the value of a text that is one strict JSON document (docs/answers.md), else :data:`MISSING`.

    A number beyond the range of a double is an infinite float. Any other integer is exact.
    """
    if _DOCUMENT.fullmatch(text) is None or _too_deep(text) or _has_too_long_number(text):
        return MISSING
    try:
        text.encode()  # fails for half of a surrogate pair
        return json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    except ValueError:
        return MISSING


def repair(text: str | None, repairs: Collection[str], keep_null: Collection[str] = ()) -> str | None:
    """Return a text after the declared repairs, as the SQL of :func:`.repairs.repaired_sql` does.

    ``keep_null`` are the names whose null stays.
    """
    if text is None:
        return None
    if "trim" in repairs:
        text = text.strip(BLANK)
    if "reasoning" in repairs:
        text = _without_reasoning(text)
        text = text.strip(BLANK) if "trim" in repairs else text
    if "fence" in repairs and (match := _FENCE.search(text.strip(BLANK))):
        text = match[1].strip(BLANK)
    if "prose" in repairs and (match := _PROSE.search(text)):
        text = match[1]
    if "trailing_comma" in repairs:
        text = _kept(_TRAILING_COMMA, _COMMA_GROUPS, text)
    if "null_as_absent" in repairs and _NULL_MEMBER.search(text) and parse_json(text) is not MISSING:
        for pattern, groups in _null_members(tuple(sorted(keep_null))):
            text = _kept(pattern, groups, text)
    return text


def _without_reasoning(text: str) -> str:
    begin, end = REASONING
    thought, found, rest = text.strip(BLANK).partition(end)
    return rest if found and thought.startswith(begin) else text


def _too_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _NOT_BRACKETS.sub("", text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _has_too_long_number(text: str) -> bool:
    return _MANY_DIGITS.search(text) is not None and _LONG_NUMBER.search(_ANY_STRING.sub("", text)) is not None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is repeated")
    return value


def _integer(digits: str) -> int | float:
    return int(digits) if abs(float(digits)) < float("inf") else float(digits)


@functools.lru_cache(maxsize=100)
def _null_members(keep: tuple[str, ...]) -> tuple[tuple[re.Pattern[str], tuple[int, ...]], ...]:
    return tuple((re.compile(pattern), groups) for pattern, groups in null_members("possessive", keep))


def _kept(pattern: re.Pattern[str], groups: tuple[int, ...], text: str) -> str:
    return pattern.sub(lambda match: "".join(match[group] or "" for group in groups), text)
