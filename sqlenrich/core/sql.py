"""The contract of an engine: tables of functions that build its SQL, and the facts that only it has.

An engine is one frozen :class:`Engine` at the bottom of its file. Everything here builds sqlglot nodes; the only
place that prints them is :func:`print_sql`, always in the dialect they were built for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal as PyDecimal
from string import ascii_lowercase, ascii_uppercase
from typing import TypeAlias

from sqlglot import exp

from sqlenrich.core.types import Type

Sql: TypeAlias = exp.Expr
BLANK = " \t\r\n"
"""The characters that are blank in a prompt's input and trimmed from an answer."""

Build = Callable[..., Sql]
Body = Callable[[Sql, Sql | None], Sql]
"""The body of a lambda: from the element and its position from 0 (None where it is not asked for)."""


def literal(value: str | int | float | bool | None) -> Sql:
    """Give a constant."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def double(value: float) -> Sql:
    """Give a constant that every engine reads as a double, not as a decimal."""
    written = repr(abs(value))
    number = exp.Literal.number(written if "e" in written else written + "E0")
    return exp.Neg(this=number) if math.copysign(1, value) < 0 else number


def plain_decimal(value: str, _: Type) -> Sql:
    """Give a constant that most engines read as a decimal."""
    number = exp.Literal.number(value.removeprefix("-"))
    return exp.Neg(this=number) if value.startswith("-") else number


def double_function(operator: type[exp.Binary]) -> Build:
    """Give a builder of an operation on two doubles."""
    return lambda a, b: operator(this=wrapped(a), expression=wrapped(b))


def double_divide(a: Sql, b: Sql) -> Sql:
    """Give a quotient of doubles; NULL for a divisor of 0, where Python raises."""
    divisor = b if isinstance(b, exp.Literal | exp.Neg) else func("NULLIF", b, double(0.0))
    return exp.Div(this=wrapped(a), expression=wrapped(divisor), typed=True, safe=False)


def half_even(value: Sql, digits: int, nearest: Build) -> Sql:
    """Give a double rounded to some decimals as Python does: by its exact value, half to even.

    ``nearest`` rounds to a whole double, half to even. A product with 10 to the ``digits`` is rounded itself, so a
    half that it shows may be none: Dekker's product gives what was cut off, and to which side to move. Exact where the
    product is below 2**50.
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


LAST_WORD = " [^ ]*$"
"""What Jinja's truncate drops: the last space and what follows it."""
EXACT = "DECIMAL(38, 18)"
"""The widest decimals that every engine has: 20 digits before the point, 18 after it."""
WIDEST = 1.7976931348623157e308
"""The greatest double: on BigQuery what is beyond becomes it, elsewhere infinite."""
MORE_DIGITS = r"([.][0-9]{6})[0-9]+"
"""The digits of a second beyond microseconds."""


def plain_number(value: int | float) -> str:
    """Give a number's shortest text without an exponent."""
    return f"{PyDecimal(repr(value)):f}"


TRAILING_ZEROS = "([.][0-9]*[1-9])0+$|([.]0)0+$"
"""Python prints no zeros at the end of a double, but one after the point."""


def func(name: str, *args: Sql, **named: Sql) -> Sql:
    """Give a function call, printed under exactly this name; ``named`` arguments as ``name => value``."""
    keywords = [exp.Kwarg(this=exp.var(key), expression=value) for key, value in named.items()]
    return exp.Anonymous(this=name, expressions=[*args, *keywords])


def named_func(name: str) -> Build:
    """Give a builder of calls to one function."""
    return lambda *args: func(name, *args)


def replace_table(table: exp.Table, select: Sql) -> list[Sql]:
    """Give the statement that makes a table afresh from a SELECT, where the engine has CREATE OR REPLACE TABLE."""
    return [exp.Create(this=table, kind="TABLE", expression=select, replace=True)]


def wrapped(value: Sql) -> Sql:
    """Give a value that can stand beside an operator."""
    return exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Case | exp.Neg) else value


def all_of(*tests: Sql) -> Sql:
    """Give the conjunction."""
    return exp.and_(*tests, copy=False)


def any_of(*tests: Sql) -> Sql:
    """Give the disjunction."""
    return exp.or_(*tests, copy=False)


def case(*arms: tuple[Sql, Sql], default: Sql | None = None) -> exp.Case:
    """Give a searched CASE."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in arms], default=default)


def is_blank(trimmed: Sql) -> Sql:
    """Give whether a trimmed text is empty or NULL."""
    return exp.EQ(this=exp.Coalesce(this=trimmed, expressions=[literal("")]), expression=literal(""))


def concat(*parts: Sql) -> Sql:
    """Give the joined text; NULL where a part is NULL."""
    result = parts[0]
    for part in parts[1:]:
        result = exp.DPipe(this=result, expression=part, safe=False)
    return result


def cast(value: Sql, to: str | exp.DataType, *, safe: bool = False) -> Sql:
    """Give a cast to a type written in the engine's own words; ``safe`` gives NULL where it can't be cast."""
    kind = exp.DataType.build(to, udt=True) if isinstance(to, str) else to
    return (exp.TryCast if safe else exp.Cast)(this=value, to=kind)


def lower_ascii(text: Sql) -> Sql:
    """Give a text with the letters A to Z in lower case: engines differ on others."""
    return func("TRANSLATE", text, literal(ascii_uppercase), literal(ascii_lowercase))


def as_spelt(text: Sql, values: Sequence[str]) -> Sql:
    """Give the one of these values that a text is in any case of its letters; NULL for none."""
    lower = lower_ascii(text)
    return case(*((exp.EQ(this=lower.copy(), expression=literal(v.lower())), literal(v)) for v in values))


def lambda_(name: str, body: Callable[[Sql], Sql]) -> exp.Lambda:
    """Give ``name -> body(name)``."""
    parameter = exp.to_identifier(name)
    return exp.Lambda(this=body(exp.column(name)), expressions=[parameter])
