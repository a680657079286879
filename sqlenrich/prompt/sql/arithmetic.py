"""Python's arithmetic in SQL, where the engines' own differs or is not exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from sqlenrich.core.sql import Sql, case, double, func, literal, wrapped
from sqlenrich.core.text_functions import TextFunctions, text_function
from sqlenrich.core.types import Type
from sqlenrich.prompt.ir.nodes import Const, Expr, Op
from sqlenrich.prompt.values.comparisons import EXACT

Print: TypeAlias = Callable[[Expr], Sql]

_DIGITS = r"^[ \t\r\n]*[+-]?[0-9]{1,18}[ \t\r\n]*$"
_DECIMAL = r"^[ \t\r\n]*[+-]?[0-9]{1,9}\.[0-9]{0,5}[ \t\r\n]*$"  # few digits: no double rounds across an integer
_PLAIN = r"^[ \t\r\n]*[+-]?[0-9]{1,15}(\.[0-9]{0,15})?[ \t\r\n]*$"
_NOT_FINITE = r"^[\x00-\x20]*([nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?)[\x00-\x20]*$"
_NO_NUMBER = r"^[\x00-\x2a\x2c\x2f\x3a-\x5e\x60-\x7f]*$"  # ASCII without digits, sign, point or underscore


def arithmetic(op: Op, text: TextFunctions, value: Print) -> Sql | None:
    """Return the SQL of an operation on numbers, None for another one. ``value`` prints what it is about.

    ``text`` is the engine's table; operations on numbers that are the same in Python and on engines stand there alone.
    """
    args = op.args
    match op.name:
        case "int":
            return _integer(text, value, args[0], args[1])
        case "float":
            return _floating(text, value, args[0], args[1])
        case "decimal":
            return text_function(text, "decimal")(args[0].value if isinstance(args[0], Const) else None, op.type)
        case "exact_double":
            number = value(args[0])
            inside = exp.Between(this=number, low=literal(-EXACT), high=literal(EXACT))
            return case((inside, text.double(number.copy())))
        case "round" | "fixed" | "text_double" | "round_decimal" as name:
            return _decimals(text, value, name, args[0], args[1], op.type)
        case "floor" | "ceil" as name:
            small = exp.LT(this=text.double_abs(value(args[0])), expression=double(1e15))
            return case((small, text_function(text, name)(value(args[0]))))
        case "floor_divide":
            return _floor_divide(text, value, args[0], args[1])
        case "modulo":
            return _modulo(value, args[0], args[1])
        case "add":
            return exp.Add(this=wrapped(value(args[0])), expression=wrapped(value(args[1])))
        case "subtract":
            return exp.Sub(this=wrapped(value(args[0])), expression=wrapped(value(args[1])))
    return None


def _integer(text: TextFunctions, value: Print, written: Expr, fallback: Expr) -> Sql:
    """Jinja's ``int`` of a text: an integer, a truncated decimal, the fallback for no number, else NULL."""
    read = value(written)
    point = text.text_index(read.copy(), literal("."))
    whole_part = text.substr(read.copy(), literal(1), point)
    return case(
        (text.matches(read, literal(_DIGITS)), text.bigint(read.copy())),
        (text.matches(read.copy(), literal(_DECIMAL)), text.bigint(whole_part)),
        (text.matches(read.copy(), literal(_NO_NUMBER)), value(fallback)),
    )


def _floating(text: TextFunctions, value: Print, written: Expr, fallback: Expr) -> Sql:
    """Jinja's ``float`` of a text: a plain number, the fallback for no number, else NULL."""
    read = value(written)
    return case(
        (text.matches(read, literal(_PLAIN)), text.double_of_text(read.copy())),
        (text.matches(read.copy(), literal(_NOT_FINITE)), exp.Null()),
        (text.matches(read.copy(), literal(_NO_NUMBER)), value(fallback)),
    )


def _decimals(text: TextFunctions, value: Print, name: str, number: Expr, digits: Expr, kind: Type) -> Sql:
    """Rounding and printing of a double. NULL where the double does not hold all digits of the text."""
    places = _constant(digits)
    if name == "round_decimal":
        return text_function(text, name)(value(number), places, number.type, kind)
    made = text_function(text, name)(value(number), places)
    bound = double(float(10 ** (15 - places)))
    return case((exp.LT(this=text.double_abs(value(number)), expression=bound), made))


def _modulo(value: Print, number: Expr, divisor: Expr) -> Sql:
    """Python's remainder has the sign of the divisor."""
    inner = func("MOD", value(number), value(divisor))
    return func("MOD", exp.Add(this=inner, expression=wrapped(value(divisor))), value(divisor))


def _floor_divide(text: TextFunctions, value: Print, number: Expr, divisor: Expr) -> Sql:
    """Python rounds a quotient down, engines round it towards zero."""
    left = value(number)
    below = exp.EQ(this=func("MOD", left.copy(), value(divisor)), expression=literal(0))
    negative = exp.LT(this=left.copy(), expression=literal(0))
    opposite = negative if _constant(divisor) > 0 else exp.GT(this=left.copy(), expression=literal(0))
    quotient = text.divide_whole(left, value(divisor))
    one_less = exp.Sub(this=quotient, expression=literal(1))
    return case((exp.And(this=opposite, expression=exp.Not(this=below)), one_less), default=quotient.copy())


def _constant(number: Expr) -> int:
    return number.value if isinstance(number, Const) and isinstance(number.value, int) else 0
