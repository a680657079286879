"""How a prompt is laid out: which columns it prints, and how much constant text stands before and behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..types import STRING, Array, Type
from .ir import Column, Const, Element, Expr, Fail, FlatMap, If, Join, Map, Op, Pick, Sort, Unique, Where, children

_SHOWN = ("printed", "text", "written", "picked")
"""Operations that print what they are given as it is."""


class Layout(NamedTuple):
    """The constant text of a prompt, as ``size`` counts it, around the first value of the row that it prints."""

    before: int
    value: Expr | None = None
    """None where the prompt prints no value of the row."""
    behind: int = 0


def layout(expr: Expr, size: Callable[[str], int] = len) -> Layout:
    """Give the layout of a text. A branch counts with its shortest constant text, a loop with one turn."""
    match expr:
        case Const(value):
            return Layout(size(str(value)))
        case Fail():
            return Layout(0)
        case Join(parts):
            before, found, behind = 0, None, 0
            for part in parts:
                one = layout(part, size)
                if found is None:
                    before, found, behind = before + one.before, one.value, one.behind
                else:
                    behind += one.before + one.behind
            return Layout(before, found, behind)
        case If(_, then, orelse):
            return _shortest([layout(arm, size) for arm in (then, orelse) if not isinstance(arm, Fail)])
        case Pick(_, arms):
            return _shortest([layout(arm, size) for _, arm in arms])
        case Op(name, (If() | Pick() | Join() as inner,), _) if name in _SHOWN:
            return layout(inner, size)
        case Op("array_join", (Map(_, _, _, body), Const("")), _):
            turn = layout(body, size)
            # The number of turns is the row's own: what the first one begins with is no constant of all rows.
            return Layout(0, turn.value or expr, turn.before + turn.behind)
    return Layout(0, expr)


def _shortest(arms: list[Layout]) -> Layout:
    values = [arm.value for arm in arms if arm.value is not None]
    if not values:  # each of them is a constant: a few prompts begin alike instead of all
        return Layout(min((arm.before for arm in arms), default=0))
    whole = [arm.behind if arm.value is not None else arm.before for arm in arms]
    return Layout(min(arm.before for arm in arms), values[0], min(whole))


def printed_columns(expr: Expr) -> Iterator[tuple[str, Type]]:
    """Give the columns whose text a text is made of, with their types: not those that only decide what is printed."""
    match expr:
        case Column(name, kind):
            yield name, kind
            return
        case If() | Pick():
            inner = children(expr)[1:]
        case Where(array, _, _) | Sort(array, _, _, _) | Unique(array, _, _) | Element(array, _, _, _):
            inner = (array,)
        case Map(_, _, _, body) | FlatMap(_, _, _, body):
            inner = (body, expr.array)
        case _:
            inner = children(expr)
    shown = isinstance(expr, Op) and expr.name in _SHOWN
    for part in inner:
        if shown or part.type == STRING or isinstance(part.type, Array):
            yield from printed_columns(part)
