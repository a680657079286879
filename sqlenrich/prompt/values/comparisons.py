"""Python's comparisons: a text never equals a number, None equals only None, NaN equals nothing."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Context
from decimal import Decimal as PyDecimal
from fractions import Fraction
from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Array, Decimal, Struct
from sqlenrich.prompt.ir.failures import fail_where, failure, immediate_failure, is_none
from sqlenrich.prompt.ir.nodes import FALSE, TRUE, Const, Expr, If, Op, none_possible
from sqlenrich.prompt.values.printing import may_be_blank
from sqlenrich.prompt.values.value import CompileError, ListValue, Static, Value, choose, describe, lift, negate

NUMERIC = (BIGINT, DOUBLE)
PYTHON_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}
EXACT = 2**53
"""Every integer up to this one is a double."""


def equal(a: Value, b: Value) -> Expr:
    """Return ``a == b`` of Python."""
    if isinstance(a, Static) and isinstance(b, Static):
        return TRUE if a.value == b.value else FALSE
    left, right = lift(a), lift(b)
    if isinstance(left, Const) and not isinstance(right, Const):
        left, right = right, left
    if may_be_blank(left) or may_be_blank(right):
        return unlike_blank(left, right)
    if right == Const(None):
        return is_none(left) if none_possible(left) else after_evaluating(left, FALSE)
    if isinstance(left, If):
        return choose(left.test, equal(left.then, right), equal(left.orelse, right))
    if number_beside_number(left, right):
        return compare("eq", left, right)
    if left.type != right.type:
        # True == 1 in Python; other types never compare equal.
        if left.type == BOOLEAN and isinstance(right, Const) and right.value in (0, 1) and right.type == BIGINT:
            return equal(left, Const(bool(right.value)))
        if {left.type, right.type} == {BOOLEAN, BIGINT}:
            raise CompileError("comparing a boolean with an integer; write the test out with if and else")
        kinds = (STRING, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP)
        numbers = (BIGINT, DOUBLE, BOOLEAN)
        if left.type in kinds and right.type in kinds and not (left.type in numbers and right.type in numbers):
            return unlike(left, right)
        raise CompileError(f"comparing {describe(left.type)} with {describe(right.type)}")
    if isinstance(left.type, Array | Struct):
        raise CompileError("comparing arrays or structs; compare their elements")
    return Op("eq", (left, right), BOOLEAN)


def unlike(left: Expr, right: Expr) -> Expr:
    """Return ``left == right`` for values of different types. They are equal only where both are None."""
    result: Expr = FALSE
    if none_possible(left) and none_possible(right):
        result = Op("and", (is_none(left), is_none(right)), BOOLEAN)
    return after_evaluating(left, after_evaluating(right, result))


def unlike_blank(left: Expr, right: Expr) -> Expr:
    """Return ``left == right`` where one may be blank, as an ``if`` without ``else`` is. Blank equals only blank."""
    if not may_be_blank(left):
        left, right = right, left
    if isinstance(left, If):
        return choose(left.test, equal(left.then, right), equal(left.orelse, right))
    if isinstance(right, If) and may_be_blank(right):
        return choose(right.test, equal(left, right.then), equal(left, right.orelse))
    return TRUE if left == right else after_evaluating(right, FALSE)


def after_evaluating(operand: Expr, result: Expr) -> Expr:
    """Return ``result``, failing where ``operand`` fails: Jinja evaluates the operand though it decides nothing."""
    return result if failure(operand) is None else If(is_none(operand), result, result)


def contained(item: Value, container: Value) -> Expr:
    """Return ``item in container``."""
    if isinstance(item, Static) and isinstance(container, Static):
        try:
            return TRUE if item.value in container.value else FALSE
        except TypeError as error:
            raise CompileError(f"this fails for every row: {error}") from None
    if isinstance(container, Static) and isinstance(container.value, Mapping):
        container = Static(list(container.value))
    if isinstance(container, Static) and isinstance(container.value, list | tuple | set | range):
        container = ListValue(tuple(Static(element) for element in container.value))
    if isinstance(container, ListValue):
        subject = lift(item)
        if not container.values:
            return fail_where(immediate_failure(subject), FALSE)
        simple = subject.type == STRING and not may_be_blank(subject)
        if all(isinstance(v, Static) and type(v.value) is str for v in container.values) and simple:
            return Op("in", (subject, *(lift(v) for v in container.values)), BOOLEAN)
        found: Expr = FALSE
        for element in reversed(container.values):
            found = choose(equal(subject, element), TRUE, found)
        return found
    left, right = lift(item), lift(container)
    if right.type == STRING and left.type == STRING:
        return Op("contains", (right, left), BOOLEAN)
    raise CompileError(f"looking for {describe(left.type)} in {describe(right.type)}; it must be text in text")


def number_beside_number(a: Expr, b: Expr) -> bool:
    """Tell whether two values are numbers that are not both integers."""
    return _is_number(a) and _is_number(b) and not a.type == b.type == BIGINT


def _is_number(value: Expr) -> bool:
    return value.type in NUMERIC or isinstance(value.type, Decimal)


def ordered(name: str, a: Expr, b: Expr) -> Expr:
    """Return ``a < b`` and the other orderings."""
    if number_beside_number(a, b):
        return compare(name, a, b)
    if a.type != b.type or a.type not in (STRING, BIGINT, DATE, TIMESTAMP):
        raise CompileError(
            f"ordering {describe(a.type)} and {describe(b.type)}; both must be text, or numbers, or dates"
        )
    return Op(name, (a, b), BOOLEAN)


def compare(name: str, a: Expr, b: Expr) -> Expr:
    """Compare numbers of different types, or two doubles. NaN compares as in Python."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(bool(PYTHON_COMPARISONS[name](a.value, b.value)))
    if isinstance(a, Const):
        return compare(_MIRRORED[name], b, a)
    if isinstance(b, Const) and isinstance(b.value, int | float) and a.type != DOUBLE:
        return _beside_constant(name, a, b.value)
    if isinstance(b, Const) and isinstance(b.value, int) and abs(b.value) > EXACT:
        raise CompileError(f"comparing a double with {b.value}, which no double equals")
    if a.type == DOUBLE and (b.type == DOUBLE or isinstance(b, Const)):
        b = Const(float(b.value)) if isinstance(b, Const) and isinstance(b.value, int) else b
        test: Expr = Op(name, (a, b), BOOLEAN)
        # For engines NaN is the greatest number and equals itself.
        greatest = {"lt": b, "lteq": b, "gt": a, "gteq": a}.get(name, None if isinstance(b, Const) else a)
        if greatest is None or isinstance(greatest, Const):
            return test
        number = Op("and", (test, negate(Op("is_nan", (greatest,), BOOLEAN))), BOOLEAN)
        return If(is_none(greatest), test, number) if name == "eq" and none_possible(greatest) else number
    if a.type == b.type and isinstance(a.type, Decimal):
        return Op(name, (a, b), BOOLEAN)
    raise CompileError(f"comparing {describe(a.type)} with {describe(b.type)}; cast one of them in the source query")


_MIRRORED = {"lt": "gt", "lteq": "gteq", "gt": "lt", "gteq": "lteq", "eq": "eq"}


def _beside_constant(name: str, a: Expr, constant: int | float) -> Expr:
    """Compare an integer or a decimal with a constant exactly, as Python does: with the nearest one of its own type."""
    scale = a.type.scale if isinstance(a.type, Decimal) else 0
    greatest = 10**a.type.precision - 1 if isinstance(a.type, Decimal) else 2**63 - 1
    least = -greatest if isinstance(a.type, Decimal) else -(2**63)
    exact = Fraction(constant) * 10**scale
    if name == "eq" and (exact.denominator != 1 or not least <= exact <= greatest):
        return _never(a)
    bound = math.ceil(exact) if name in ("lt", "gteq") else math.floor(exact)
    if bound > greatest:
        name, bound = {"lt": "lteq", "gteq": "gt"}.get(name, name), greatest
    elif bound < least:
        name, bound = {"lteq": "lt", "gt": "gteq"}.get(name, name), least
    if not isinstance(a.type, Decimal):
        return Op(name, (a, Const(bound)), BOOLEAN)
    return Op(name, (a, constant_decimal(PyDecimal(bound).scaleb(-scale, _WIDE), a.type)), BOOLEAN)


_WIDE = Context(prec=80)


def constant_decimal(value: PyDecimal, kind: Decimal) -> Expr:
    """Return a constant of a decimal type."""
    return Op("decimal", (Const(f"{value.quantize(PyDecimal(1).scaleb(-kind.scale), context=_WIDE):f}"),), kind)


def _never(a: Expr) -> Expr:
    return If(is_none(a), FALSE, FALSE)
