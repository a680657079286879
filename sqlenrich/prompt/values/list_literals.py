"""List and tuple literals of a template."""

from __future__ import annotations

from collections.abc import Iterable

from sqlenrich.prompt.ir.failures import at_once, either, requiring
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.values.values import ONCE, Dynamic, Items, Known, Refusal, Value, lift, only_once


def elements(value: Value) -> list[Value]:
    """Give the values of a list literal."""
    if not isinstance(value, Known | Items):
        raise Refusal("a list is needed")
    return list(value.values) if isinstance(value, Items) else [Known(item) for item in value.value]


def list_of(values: list[Value], as_tuple: bool) -> Value:
    """Give values as a list or a tuple, known where all of them are."""
    if any(map(only_once, values)):
        raise Refusal(f"keeping {ONCE}")
    if all(isinstance(value, Known) for value in values):
        known = [value.value for value in values if isinstance(value, Known)]
        return Known(tuple(known) if as_tuple else known)
    return Items(tuple(values), as_tuple)


def beside(value: Value, others: Iterable[Value]) -> Value:
    """Give a value of a list or a mapping, failing where another value fails: Jinja computes all of them."""
    broken: Expr | None = None
    for other in others:
        if other is not value and isinstance(other, Dynamic):
            broken = either(broken, at_once(other))
    return value if broken is None else requiring(broken, lift(value))
