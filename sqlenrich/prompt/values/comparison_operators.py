"""Comparisons of any two values of a template, by the operator's name."""

from __future__ import annotations

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.values import arrays
from sqlenrich.prompt.values.bound_variables import VariableNames
from sqlenrich.prompt.values.comparisons import PYTHON_COMPARISONS, contained, equal, ordered
from sqlenrich.prompt.values.value import CompileError, Dynamic, Generator, Static, Value, lift, negate


def comparison(variables: VariableNames, name: str, left: Value, right: Value) -> Expr:
    """Return ``left == right`` and the other comparisons by name."""
    if name in ("eq", "ne") and Static([]) in (left, right):
        array = left if right == Static([]) else right
        if isinstance(array, Dynamic) and isinstance(array.type, Array):
            if not arrays.is_python_list(array):
                raise CompileError("comparing a range with a list, which it never equals; write |list after it")
            empty = arrays.equals_empty(array)
            return empty if name == "eq" else negate(empty)
    if isinstance(right, Generator):
        right = right.array
    if name in ("in", "notin") and isinstance(right, Dynamic) and isinstance(right.type, Array):
        inside = arrays.contains(variables, right, left)
        return inside if name == "in" else negate(inside)
    if name in ("eq", "ne"):
        return equal(left, right) if name == "eq" else negate(equal(left, right))
    if name in ("in", "notin"):
        found = contained(left, right)
        return found if name == "in" else negate(found)
    if isinstance(left, Static) and isinstance(right, Static):
        try:
            return Const(PYTHON_COMPARISONS[name](left.value, right.value))
        except TypeError as error:
            raise CompileError(f"this fails for every row: {error}") from None
    return ordered(name, lift(left), lift(right))
