"""What the calls of several engines share."""

from __future__ import annotations

from sqlglot import exp

from sqlenrich.core.engine import ModelCall
from sqlenrich.core.sql import Sql, concat, literal


def request_text(call: ModelCall) -> Sql:
    """Give the text that is sent: the prompt, and the hint after it."""
    prompt: Sql = exp.column("prompt")
    return prompt if call.hint is None else concat(prompt, literal("\n\n" + call.hint))


def select_carried(pending: Sql, call: ModelCall, value: Sql, name: str) -> exp.Select:
    """Give a SELECT of the carried columns and of one value for each pending row."""
    carried = map(exp.column, call.carried)
    return exp.select(*carried, exp.alias_(value, name, copy=False), copy=False).from_(pending, copy=False)


def answers(pending: Sql, call: ModelCall, answer: Sql) -> Sql:
    """Give the relation with the carried columns and ``answer``.

    The call stands once, in a subquery: each copy of its text would be a call of its own.
    """
    asked = select_carried(pending, call, answer, "answer").subquery(copy=False)
    return exp.alias_(asked, "asked", table=True, copy=False)


def or_false(test: Sql) -> Sql:
    """Give a test with false for NULL."""
    return exp.Coalesce(this=test, expressions=[literal(False)])
