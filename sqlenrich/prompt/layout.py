"""The layout of a prompt: the columns that it prints, and the size of the constant text before and after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlenrich.core.types import STRING, Array, Type
from sqlenrich.prompt.ir.nodes import (
    Column,
    Concat,
    Const,
    Element,
    Expr,
    Fail,
    FlatMap,
    If,
    Map,
    Op,
    Sort,
    Switch,
    Unique,
    Where,
)
from sqlenrich.prompt.ir.traversal import children, columns_of

_SHOWN = ("printed", "text", "materialized", "picked")
"""Operations that print their argument as it is."""


class Layout(NamedTuple):
    """The constant text of a prompt, as ``size`` counts it, around the first value of the row that it prints."""

    before: int
    value: Expr | None = None
    """None where the prompt prints no value of the row."""
    behind: int = 0
    column: str = ""
    """The first column of the value."""

    @property
    def constant(self) -> int:
        """All of the constant text."""
        return self.before + self.behind


def layout(expr: Expr, size: Callable[[str], int] = len) -> Layout:
    """Return the layout of a text. A branch counts with its shortest constant text, a loop with one iteration."""
    match expr:
        case Const(value):
            return Layout(size(str(value)))
        case Fail():
            return Layout(0)
        case Concat(parts):
            found = Layout(0)
            for one in (layout(part, size) for part in parts):
                if found.value is None:
                    found = one._replace(before=found.before + one.before)
                else:
                    found = found._replace(behind=found.behind + one.constant)
            return found
        case If(_, then, orelse):
            return _shortest([layout(arm, size) for arm in (then, orelse) if not isinstance(arm, Fail)])
        case Switch(_, arms):
            return _shortest([layout(arm, size) for _, arm in arms])
        case Op(name, (If() | Switch() | Concat() as inner,), _) if name in _SHOWN:
            return layout(inner, size)
        case Op("array_join", (Map(_, _, _, body), Const("")), _):
            # A row may have no element, so no constant of the body stands in every prompt.
            turn = layout(body, size)
            return Layout(0, turn.value or expr, turn.constant, next(columns_of(expr), ""))
    return Layout(0, expr, 0, next(columns_of(expr), ""))


def _shortest(arms: list[Layout]) -> Layout:
    valued = [arm for arm in arms if arm.value is not None]
    before = min((arm.before for arm in arms), default=0)
    if not valued:  # only some rows share the text that an arm begins with
        return Layout(before)
    behind = min(arm.before if arm.value is None else arm.behind for arm in arms)
    return valued[0]._replace(before=before, behind=behind)


def printed_columns(expr: Expr) -> Iterator[tuple[str, Type]]:
    """Return the columns that a text prints, with their types. A column that is only tested is left out."""
    match expr:
        case Column(name, kind):
            yield name, kind
            return
        case If() | Switch():
            inner = children(expr)[1:]
        case Where(array, _, _) | Sort(array, _, _, _) | Unique(array, _, _) | Element(array, _, _, _):
            inner = (array,)
        case Map(_, _, _, body) | FlatMap(_, _, _, body):
            inner = (body, expr.array)
        case _:
            inner = children(expr)
    shown = isinstance(expr, Op) and expr.name in _SHOWN
    for part in inner:
        if part.type == STRING or isinstance(part.type, Array) or (shown and isinstance(part, Column)):
            yield from printed_columns(part)
