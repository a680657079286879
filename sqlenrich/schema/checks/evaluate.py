"""The checks evaluated in Python: the reference that every engine's SQL must equal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Context, Decimal
from typing import Any

from sqlenrich.core.text_functions import BLANK
from sqlenrich.schema.checks.ir import (
    BIGINT_LIMIT,
    All,
    AnyItem,
    AnyMember,
    AnyOf,
    At,
    Checks,
    Compare,
    CountItems,
    Doc,
    Fixed,
    Get,
    Is,
    Item,
    Lacks,
    Length,
    Name,
    NoDate,
    NoMatch,
    NoneOf,
    NoneOfFolded,
    Not,
    NotMultiple,
    NotOne,
    OtherNames,
    Present,
    Ref,
    Repeats,
    Test,
    TooWide,
    Unquoted,
)
from sqlenrich.schema.checks.json_text import MISSING, parse_json
from sqlenrich.schema.checks.patterns import portable
from sqlenrich.schema.json_types import json_types

_DIGITS = Context(prec=60)
"""Below 10**20 and in steps of at least 10**-18 a quotient has 38 digits."""
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def evaluate_checks(checks: Checks, text: str | None) -> tuple[str, str] | None:
    """Return the reason code and the detail of an answer that is refused, or None for one that is accepted."""
    if text is None or not text.strip(BLANK):
        return "NO_RESPONSE", "the model gave no text"
    doc = parse_json(text)
    if doc is MISSING:
        return "BAD_JSON", "the text is not one JSON document"
    if not isinstance(doc, dict):
        return "NOT_OBJECT", "the JSON document is not an object"
    answer = _Answer(doc)
    for check in checks:
        if answer.holds(check.violated, ()):
            return check.code, check.detail
    return None


Loops = tuple[tuple[Any, str | None], ...]
"""The current value and member name of each loop, by depth."""


class _Answer:
    """A parsed answer, on which tests are evaluated."""

    def __init__(self, doc: Any) -> None:
        self.doc = doc

    def value(self, ref: Ref, loops: Loops) -> Any:
        match ref:
            case Doc():
                return self.doc
            case Item(depth):
                return loops[depth][0]
            case Name(depth):
                return loops[depth][1]
            case Unquoted(base):
                return self.value(base, loops)
            case Get(base, name):
                value = self.value(base, loops)
                return value.get(name, MISSING) if isinstance(value, Mapping) else MISSING
            case At(base, index):
                value = self.value(base, loops)
                return value[index] if isinstance(value, list) and index < len(value) else MISSING

    def holds(self, test: Test, loops: Loops) -> bool:
        match test:
            case Fixed(holds):
                return holds
            case All(tests):
                return all(self.holds(one, loops) for one in tests)
            case AnyOf(tests):
                return any(self.holds(one, loops) for one in tests)
            case Not(inner):
                return not self.holds(inner, loops)
            case NotOne(tests):
                return sum(not self.holds(one, loops) for one in tests) != 1
        value = self.value(test.ref, loops)
        if value is MISSING:
            return False
        match test:
            case Present():
                return True
            case Is(_, kinds, negated):
                return bool(json_types(value) & set(kinds)) is not negated
            case Lacks(_, name):
                return isinstance(value, dict) and name not in value
            case AnyItem(_, _, inner, start):
                return any(self.holds(inner, (*loops, (item, None))) for item in _items(value)[start:])
            case AnyMember(_, _, inner):
                return any(self.holds(inner, (*loops, (item, name))) for name, item in _members(value))
            case OtherNames(_, names):
                return any(name not in names for name, _ in _members(value))
            case CountItems(_, _, inner, op, count):
                found = sum(not self.holds(inner, (*loops, (item, None))) for item in _items(value))
                return isinstance(value, list) and _OPERATORS[op](found, count)
            case Repeats(_, _, levels):
                texts = [_canonical(item, levels) for item in _items(value)]
                return None in texts or len(set(texts)) < len(texts)
            case Length(_, what, op, count):
                kind = {"text": str, "items": list, "names": dict}[what]
                return isinstance(value, kind) and _OPERATORS[op](len(value), count)
        return value is not None and _scalar(test, value)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _members(value: Any) -> Iterable[tuple[str, Any]]:
    return value.items() if isinstance(value, dict) else ()


def _scalar(test: Test, value: Any) -> bool:
    """Evaluate a test of a number or a text. A text may hold a number where the schema coerces it."""
    match test:
        case Compare(_, op, limit, integer):
            return _OPERATORS[op](*((_number(value), limit) if integer else (_double(value), float(limit))))
        case TooWide(_, integer):
            number = _number(value)
            return not -BIGINT_LIMIT <= number < BIGINT_LIMIT if integer else abs(_double(value)) >= sys.float_info.max
        case NotMultiple(_, step, integer):
            return not _multiple(_number(value) if integer else _double(value), step)
        case NoneOf(_, kind, values):
            if kind in ("string", "boolean"):
                return not any(value is one or (value == one and kind == "string") for one in values)
            read = _number if kind == "integer" else _double
            return read(value) not in [read(one) for one in values]
        case NoneOfFolded(_, values):
            text = json.dumps(value) if isinstance(value, bool) else value
            return isinstance(text, str) and _lower(text) not in values
        case NoMatch(_, pattern):
            return isinstance(value, str) and re.search(portable(pattern, end=r"\Z"), value) is None
        case NoDate():
            try:
                date.fromisoformat(value[:10])
            except ValueError:
                return True
            return False
    raise TypeError(test)


def _lower(text: str) -> str:
    """Return a text with ASCII letters in lower case: engines differ on other letters."""
    return "".join(chr(ord(char) + 32) if "A" <= char <= "Z" else char for char in text)


def _number(value: Any) -> Any:
    return Decimal(value) if isinstance(value, str) else value


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("-inf" if value < 0 else "inf")


def _multiple(value: Any, step: int | float) -> bool:
    """Tell whether a number is a multiple, in exact decimals as every engine has them: below 10**20."""
    if not abs(value) < 10**20:
        return False
    # The digits of a float are its shortest text that reads back as the same float.
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    return _DIGITS.remainder(exact, Decimal(repr(step))) == 0


def _canonical(value: Any, levels: int) -> str | None:
    """Return a text that is the same for equal values only; None for a value that nests deeper than ``levels``."""
    match value:
        case dict() | list() if not levels:
            return None
        case dict():
            parts = [(f"{len(name)}:{name}", _canonical(part, levels - 1)) for name, part in sorted(value.items())]
            return None if any(text is None for _, text in parts) else f"{{{''.join(a + str(b) for a, b in parts)}}}"
        case list():
            texts = [_canonical(part, levels - 1) for part in value]
            return None if None in texts else f"[{','.join(map(str, texts))}]"
        case str():
            return f"{len(value)}:{value}"
        case bool() | None:
            return json.dumps(value)
    number = _double(value)
    whole = isinstance(value, int) or number.is_integer()
    return f"{int(value)}" if whole and -BIGINT_LIMIT <= int(value) < BIGINT_LIMIT else repr(number)
