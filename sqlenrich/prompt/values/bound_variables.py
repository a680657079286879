"""Fresh names for bound variables: the element and the position of an array inside a lambda."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from sqlenrich.core.types import BIGINT, Array, Type
from sqlenrich.prompt.ir.nodes import Expr, Var, none_inside
from sqlenrich.prompt.values.value import CompileError, describe


class VariableNames:
    """Makes names for bound variables. No column and no other name of the template starts with one."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._numbers: Iterator[int] = count(1)

    def fresh(self, array: Expr) -> tuple[Var, Var]:
        """Return new variables for an element of an array and for its position."""
        while True:
            number = next(self._numbers)
            item, at = f"x{number}", f"i{number}"
            if at not in self._taken and not any(name.startswith(item) for name in self._taken):
                return Var(item, item_type(array), none_inside(array)), Var(at, BIGINT)


def item_type(array: Expr) -> Type:
    """Return the type of an array's elements. Raises CompileError for another type."""
    if not isinstance(array.type, Array):
        raise CompileError(f"an array is needed, not {describe(array.type)}")
    return array.type.item
