"""The reference of the checks: an answer and any JSON Schema to a reason code, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlenrich.core.errors import SpecError
from sqlenrich.core.json import compact_json
from sqlenrich.schema.checks.build import build_checks
from sqlenrich.schema.checks.evaluate import evaluate_checks
from sqlenrich.schema.normalise import normalise


def check_response(schema: Any, text: str | None, assert_format: bool = False) -> str | None:
    """Return the reason code of an answer that is refused, or None for one that is accepted.

    ``text`` is the answer, without repairs. ``schema`` is any JSON Schema of an object; ``assert_format`` checks its
    formats. Raises :class:`~sqlenrich.SpecError` for a schema that can't be checked.
    """
    plain, problems = normalise(schema, "schema", columns=False, assert_format=assert_format)
    if problems:
        raise SpecError("schema", [str(problem) for problem in problems])
    failure = evaluate_checks(build_checks(plain), text)
    return None if failure is None else failure[0]


def value_test(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    """Return the test of a value against a plain schema: the checks of an answer that holds it."""
    checks = build_checks({"type": ["object"], "properties": {"v": schema}, "required": ["v"]})
    return lambda value: evaluate_checks(checks, compact_json({"v": value})) is None
