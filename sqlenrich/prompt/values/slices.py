"""Slices and single characters of text; positions in text and arrays."""

from __future__ import annotations

from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING
from sqlenrich.prompt.ir.failures import (
    is_none,
)
from sqlenrich.prompt.ir.nodes import (
    Const,
    Expr,
    Fail,
    If,
    Op,
    none_possible,
)
from sqlenrich.prompt.values.printing import required_text
from sqlenrich.prompt.values.value import CompileError, Static, Value, choose, describe, lift

LONGEST = 1_000_000_000
"""A position beyond all texts and arrays. Larger slice bounds become this one, which fits the engines' integers."""


def clamp_position(position: Expr) -> Expr:
    """Return a position, of a constant at most :data:`LONGEST` from 0."""
    if isinstance(position, Const) and type(position.value) is int:
        return Const(max(-LONGEST, min(position.value, LONGEST)))
    return position


def slice_bound(bound: Value, length: Expr, absent: Expr) -> Expr | None:
    """Return a bound of a slice as a position from 0: None for no bound, ``absent`` for rows where it is None."""
    expr = clamp_position(lift(bound))
    if expr == Const(None):
        return None
    if expr.type != BIGINT:
        raise CompileError(f"a slice bound that is {describe(expr.type)}; it must be an integer")
    from_end = Op("greatest", (Op("add", (length, expr), BIGINT), Const(0)), BIGINT)
    if isinstance(expr, Const) and isinstance(expr.value, int):
        return from_end if expr.value < 0 else expr
    inside = If(Op("lt", (expr, Const(LONGEST)), BOOLEAN), expr, Const(LONGEST))
    at = If(Op("lt", (expr, Const(0)), BOOLEAN), from_end, inside)
    return If(is_none(expr), absent, at) if none_possible(expr) else at


def slice_text(text: Expr, start: Value, stop: Value) -> Expr:
    """Return ``text[start:stop]`` in characters. Each end may be absent, negative, or differ by row."""
    length = Op("length", (text,), BIGINT)
    first, last = slice_bound(start, length, Const(0)), slice_bound(stop, length, Const(LONGEST))
    if first is None or first == Const(0):
        return required_text(text) if last is None else Op("substr", (text, Const(1), last), STRING)
    begin = _bounded("add", first, Const(1))
    if last is None:
        return Op("substr", (text, begin), STRING)
    return Op("substr", (text, begin, Op("greatest", (_bounded("subtract", last, first), Const(0)), BIGINT)), STRING)


def character(text: Expr, at: Expr) -> Expr:
    """Return ``text[at]``. Fails out of range and where the index is None."""
    found = Op("character", (slice_text(text, at, Static(None)),), STRING)
    if isinstance(at, Const) and isinstance(at.value, int):
        if at.value >= 0:
            return found
        return choose(Op("lt", (Op("length", (text,), BIGINT), Const(-at.value)), BOOLEAN), Fail(), found)
    length = Op("length", (text,), BIGINT)
    before = Op("lt", (at, Op("subtract", (Const(0), length), BIGINT)), BOOLEAN)  # the sum may need over 64 bits
    inside = choose(before, Fail(), found)
    return choose(is_none(at), Fail(), inside) if none_possible(at) else inside


def _bounded(name: str, a: Expr, b: Expr) -> Expr:
    """Return a sum or a difference of positions, which can't overflow."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_python(a) + _python(b) if name == "add" else _python(a) - _python(b))
    return Op(name, (a, b), BIGINT)


def _python(constant: Const) -> Any:
    return constant.value
