"""The verdict in Python: the reference that every engine's SQL equals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..engines.base import BLANK
from ..errors import SpecError
from .normalise import json_kind, normalise
from .pattern import portable
from .tests import (
    BIGINT_LIMIT,
    All,
    AnyItem,
    Compare,
    Doc,
    Get,
    Is,
    Item,
    Lacks,
    Length,
    NoMatch,
    NoneOf,
    OtherNames,
    Ref,
    Test,
    TooWide,
    Verdicts,
    build_tests,
)
from .text import MISSING as _MISSING
from .text import parse_json, repair

__all__ = ["check_response", "judge", "parse_json", "repair"]
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def check_response(schema: Any, text: str | None) -> str | None:
    """Judge one answer as it is: None where it is accepted, else its reason code.

    ``schema`` is a JSON Schema whose value is an object. Raises :class:`~sqlenrich.SpecError` for a schema that
    can't be checked.
    """
    plain, problems = normalise(schema)
    if problems:
        raise SpecError("schema", [str(problem) for problem in problems])
    verdict = judge(build_tests(plain), text)
    return None if verdict is None else verdict[0]


def judge(verdicts: Verdicts, text: str | None) -> tuple[str, str] | None:
    """Give the code and the detail of a refused answer, or None."""
    if text is None or not text.strip(BLANK):
        return "NO_RESPONSE", "the model gave no text"
    doc = parse_json(text)
    if doc is _MISSING:
        return "BAD_JSON", "the text is not one JSON document"
    if not isinstance(doc, dict):
        return "NOT_OBJECT", "the JSON document is not an object"
    for verdict in verdicts:
        if _holds(verdict.violated, doc, ()):
            return verdict.code, verdict.detail
    return None


def _resolve(ref: Ref, doc: Any, items: Sequence[Any]) -> Any:
    match ref:
        case Doc():
            return doc
        case Item(depth):
            return items[depth]
        case Get(base, name):
            value = _resolve(base, doc, items)
            return value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING


def _of_kind(value: Any, kinds: tuple[str, ...]) -> bool:
    kind = json_kind(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _holds(test: Test, doc: Any, items: tuple[Any, ...]) -> bool:
    match test:
        case All(tests):
            return all(_holds(one, doc, items) for one in tests)
    value = _resolve(test.ref, doc, items)
    if value is _MISSING:
        return False
    if isinstance(test, Is):
        return _of_kind(value, test.kinds) is not test.negated
    if value is None:
        return False
    match test:
        case Compare(_, op, limit, _):
            return _OPERATORS[op](value, limit)
        case TooWide():
            return not -BIGINT_LIMIT <= value < BIGINT_LIMIT
        case Length(_, _, op, count):
            return _OPERATORS[op](len(value), count)
        case NoneOf(_, _, values):
            return bool(value not in values)
        case NoMatch(_, pattern):
            return re.search(portable(pattern, end=r"\Z"), value) is None
        case Lacks(_, name):
            return bool(name not in value)
        case OtherNames(_, names):
            return any(name not in names for name in value)
        case AnyItem(_, _, inner):
            return any(_holds(inner, doc, (*items, item)) for item in value)
