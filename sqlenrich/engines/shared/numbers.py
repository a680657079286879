"""Numbers as Python computes them, on engines that round, divide or print otherwise."""

from __future__ import annotations

from decimal import Decimal as PyDecimal

from sqlglot import exp

from sqlenrich.core.sql import Sql, case, double, func, wrapped
from sqlenrich.core.text_functions import Binary, Unary
from sqlenrich.core.types import Decimal


def plain_decimal(value: str, _: Decimal) -> Sql:
    """Return a decimal constant for an engine that reads ``1.10`` as a decimal."""
    number = exp.Literal.number(value.removeprefix("-"))
    return exp.Neg(this=number) if value.startswith("-") else number


def double_function(operator: type[exp.Binary]) -> Binary:
    """Return a builder of an operation on two doubles."""
    return lambda a, b: operator(this=wrapped(a), expression=wrapped(b))


def double_divide(a: Sql, b: Sql) -> Sql:
    """Return a quotient of doubles; NULL for a divisor of 0, where Python raises."""
    divisor = b if isinstance(b, exp.Literal | exp.Neg) else func("NULLIF", b, double(0.0))
    return exp.Div(this=wrapped(a), expression=wrapped(divisor), typed=True, safe=False)


def half_even(value: Sql, digits: int, nearest: Unary) -> Sql:
    """Return a double rounded to some decimals as Python does: by its exact value, half to even.

    ``nearest`` rounds to a whole double, half to even. The product with 10 ** ``digits`` is itself rounded, so it may
    show a half that the exact product has not. Dekker's product gives the error, whose sign decides such a half. Exact
    where the product is below 2**50.
    """
    if digits == 0:
        return nearest(value)
    power = double(float(10**digits))
    big = exp.Mul(this=double(134217729.0), expression=wrapped(value))
    high = exp.paren(exp.Sub(this=big, expression=exp.paren(exp.Sub(this=big.copy(), expression=wrapped(value)))))
    low = exp.paren(exp.Sub(this=wrapped(value), expression=high.copy()))
    product = exp.Mul(this=wrapped(value), expression=power)
    cut_off = exp.Add(
        this=exp.paren(exp.Sub(this=exp.Mul(this=high, expression=power.copy()), expression=product.copy())),
        expression=exp.Mul(this=low, expression=power.copy()),
    )
    apart = exp.Sub(this=product.copy(), expression=nearest(product.copy()))
    half = exp.EQ(this=func("ABS", apart), expression=double(0.5))
    moved = exp.Add(this=product.copy(), expression=exp.Mul(this=func("SIGN", cut_off), expression=double(0.25)))
    whole = case((half, nearest(moved)), default=nearest(product.copy()))
    return exp.Div(this=exp.paren(whole), expression=power.copy(), typed=True, safe=False)


def plain_number(value: int | float) -> str:
    """Return a number's shortest text without an exponent."""
    return f"{PyDecimal(repr(value)):f}"
