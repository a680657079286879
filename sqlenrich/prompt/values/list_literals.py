"""List and tuple literals of a template."""

from __future__ import annotations

from collections.abc import Iterable

from sqlenrich.prompt.ir.failures import any_of, fail_where, immediate_failure
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.values.value import GENERATOR, CompileError, Dynamic, ListValue, Static, Value, is_generator, lift


def elements(value: Value) -> list[Value]:
    """Return the values of a list literal."""
    if not isinstance(value, Static | ListValue):
        raise CompileError("a list is needed")
    return list(value.values) if isinstance(value, ListValue) else [Static(item) for item in value.value]


def list_value(values: list[Value], as_tuple: bool) -> Value:
    """Return a list or a tuple of some values: static where all of them are."""
    if any(map(is_generator, values)):
        raise CompileError(f"keeping {GENERATOR}")
    if all(isinstance(value, Static) for value in values):
        known = [value.value for value in values if isinstance(value, Static)]
        return Static(tuple(known) if as_tuple else known)
    return ListValue(tuple(values), as_tuple)


def fail_beside(value: Value, others: Iterable[Value]) -> Value:
    """Return a value of a literal, failing where another one fails: Jinja evaluates all values of a literal."""
    broken: Expr | None = None
    for other in others:
        if other is not value and isinstance(other, Dynamic):
            broken = any_of(broken, immediate_failure(other))
    return value if broken is None else fail_where(broken, lift(value))
