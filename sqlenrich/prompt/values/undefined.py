"""Undefined values: the test for them, and the ``default`` filter."""

from __future__ import annotations

from sqlenrich.core.types import BOOLEAN
from sqlenrich.prompt.ir.failures import (
    any_of,
    fail_where,
    failure,
    immediate_failure,
    is_none,
    out_of_range,
)
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Const,
    Element,
    Expr,
    Fail,
    Field,
    If,
    Op,
    Switch,
    none_possible,
)
from sqlenrich.prompt.values.value import CompileError, Static, Value, choose, describe, lift, negate, same_type, truth


def default(value: Expr, fallback: Value = Static(""), boolean: Value = Static(False)) -> Expr:
    """Return Jinja's ``default`` filter. A column is always defined: for NULL only ``default(x, true)`` gives ``x``."""
    if not isinstance(boolean, Static):
        raise CompileError("default with a second argument that differs by row")
    instead = lift(fallback)
    absent = undefined(value)
    if (boolean.value or absent != FALSE) and not same_type(value, instead):
        raise CompileError(
            f"a default that is {describe(instead.type)} of a value that is {describe(value.type)}; "
            "make both text with |string"
        )
    given = choose(truth(value), value, instead) if boolean.value else value
    return fail_where(immediate_failure(instead), given if absent == FALSE else choose(absent, instead, given))


def undefined(value: Expr) -> Expr:
    """Return the test whether a value is undefined in Jinja: a field of a missing struct, an index out of range."""
    if isinstance(value, Fail):
        return FALSE if value.error else TRUE
    if isinstance(value, If):
        return choose(value.test, undefined(value.then), undefined(value.orelse))
    if isinstance(value, Element):
        if value.inside:
            return FALSE
        absent = None if value.strict or not none_possible(value.array) else is_none(value.array)
        nowhere = is_none(value.index) if none_possible(value.index) else None
        found = any_of(any_of(absent, nowhere), out_of_range(value.array, value.index)) or FALSE
        return found if nowhere is None else fail_where(failure(value.array), found)
    if isinstance(value, Switch):
        return negate(Op("in", (value.subject, *(Const(key) for key, _ in value.arms)), BOOLEAN))
    if isinstance(value, Op) and value.name == "character":
        raise CompileError("testing whether a text has a character at an index; compare its length instead")
    return is_none(value.base) if isinstance(value, Field) and none_possible(value.base) else FALSE
