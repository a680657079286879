"""The reference of a verdict: any JSON Schema and one answer to a reason code."""

from __future__ import annotations

from typing import Any

from sqlenrich.core.errors import SpecError
from sqlenrich.schema.checks.build import build_tests
from sqlenrich.schema.checks.evaluate import judge
from sqlenrich.schema.normalise import normalise


def check_response(schema: Any, text: str | None, assert_format: bool = False) -> str | None:
    """Judge one answer as it is: None where it is accepted, else its reason code.

    ``schema`` is any JSON Schema whose value is an object; ``assert_format`` checks its formats. Raises
    :class:`~sqlenrich.SpecError` for a schema that can't be checked.
    """
    plain, problems = normalise(schema, "schema", columns=False, assert_format=assert_format)
    if problems:
        raise SpecError("schema", [str(problem) for problem in problems])
    verdict = judge(build_tests(plain), text)
    return None if verdict is None else verdict[0]
