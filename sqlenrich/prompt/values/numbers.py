"""Numbers of the row: arithmetic, rounding and formats as Python does them.

Engines print a ``double`` differently. Only one with a known number of decimals is printed: the result of ``round``, a
whole number, or a whole number divided by a constant such as 5. :func:`~.printing.decimals` gives that number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal as PyDecimal

from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, Decimal
from sqlenrich.prompt.ir.failures import fail_where, is_none, none_condition
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, If, Op, none_possible
from sqlenrich.prompt.values.comparisons import EXACT, NUMERIC, constant_decimal
from sqlenrich.prompt.values.value import CompileError, Static, Value, choose, describe, lift, truth


def add(a: Expr, b: Expr) -> Expr:
    """Return ``a + b`` of two numbers or two texts. Fails for an integer beyond 64 bits."""
    if a.type == b.type == STRING:
        return Concat((a, b))
    return _arithmetic("add", "adding {} and {}", a, b)


def subtract(a: Expr, b: Expr) -> Expr:
    """Return ``a - b``."""
    return _arithmetic("subtract", "subtracting {1} from {0}", a, b)


def multiply(a: Expr, b: Expr) -> Expr:
    """Return ``a * b`` of numbers."""
    return _arithmetic("multiply", "multiplying {} by {}", a, b)


def _arithmetic(name: str, words: str, a: Expr, b: Expr) -> Expr:
    if a.type == b.type == BIGINT:
        return Op(f"try_{name}", (a, b), BIGINT)
    if {a.type, b.type} == {BIGINT, DOUBLE} or a.type == b.type == DOUBLE:
        return Op(f"double_{name}", (as_double(a), as_double(b)), DOUBLE)
    raise CompileError(words.format(describe(a.type), describe(b.type)))


def divide(a: Expr, b: Expr) -> Expr:
    """Return ``a / b``, a double. Fails for a divisor of 0 and for an integer that is no double."""
    if a.type not in NUMERIC or b.type not in NUMERIC:
        raise CompileError(f"dividing {describe(a.type)} by {describe(b.type)}")
    if isinstance(b, Const) and not b.value:
        raise CompileError("this fails for every row: division by zero")
    return Op("double_divide", (_exact(a), _exact(b)), DOUBLE)


def _exact(number: Expr) -> Expr:
    if number.type == BIGINT and not isinstance(number, Const):
        return Op("exact_double", (number,), DOUBLE)
    return as_double(number)


def whole_division(name: str) -> Callable[[Expr, Expr], Expr]:
    """Return ``a // b`` or ``a % b`` of integers, for a constant ``b``."""

    def divided(a: Expr, b: Expr) -> Expr:
        if a.type != BIGINT or b.type != BIGINT:
            raise CompileError(f'"{name}" of {describe(a.type)} and {describe(b.type)}; both must be integers')
        if not isinstance(b, Const) or not isinstance(b.value, int):
            raise CompileError(f'"{name}" by a value of the row; write the divisor as a constant')
        if b.value in (0, -1) or abs(b.value) > EXACT:
            raise CompileError(f'"{name}" by {b.value}')
        return Op("modulo" if name == "%" else "floor_divide", (a, b), BIGINT)

    return divided


def as_double(number: Expr) -> Expr:
    """Return a number as a double."""
    if isinstance(number, Const) and isinstance(number.value, int | float):
        if isinstance(number.value, int) and abs(number.value) > EXACT:
            raise CompileError(f"the constant {number.value}: no double equals it")
        return Const(float(number.value))
    return number if number.type == DOUBLE else Op("double", (number,), DOUBLE)


def negative(number: Expr) -> Expr:
    """Return ``-number``."""
    if number.type == DOUBLE:
        return Op("double_multiply", (number, Const(-1.0)), DOUBLE)
    if number.type != BIGINT:
        raise CompileError(f"the negative of {describe(number.type)}")
    return Op("try_negative", (number,), BIGINT)


def absolute(number: Expr) -> Expr:
    """Return ``abs(number)``. Fails for the least integer, whose negative needs over 64 bits."""
    if number.type == DOUBLE:
        return Op("double_abs", (number,), DOUBLE)
    if number.type != BIGINT:
        raise CompileError(f"the absolute value of {describe(number.type)}; cast it in the source query")
    return If(Op("lt", (number, Const(0)), BOOLEAN), negative(number), number)


MAX_DIGITS = 28
"""The most digits that Python's decimals round to."""

# Rounding and conversions ---------------------------------------------------------------------------------------------


def rounded(value: Expr, precision: Value = Static(0), method: Value = Static("common")) -> Expr:
    """Return Jinja's ``round``: the nearest value, half to even, as in Python."""
    if not isinstance(precision, Static) or type(precision.value) is not int or not isinstance(method, Static):
        raise CompileError("round with arguments that differ by row")
    digits = precision.value
    if digits < 0 or digits > 9:
        raise CompileError("round to other than 0 to 9 decimals")
    if method.value not in ("common", "ceil", "floor"):
        raise CompileError('this fails for every row: the method of round is "common", "ceil" or "floor"')
    if method.value != "common":
        if digits or value.type not in NUMERIC:
            raise CompileError(f"round to {digits} decimals with {method.value}; round to 0")
        if value.type == BIGINT:
            return as_double(value)
        # Python's own floor and ceil give an integer, which has no negative zero.
        return Op("double_add", (Op(str(method.value), (value,), DOUBLE), Const(0.0)), DOUBLE)
    if value.type == BIGINT:
        return fail_where(none_condition(value), value)
    if isinstance(value.type, Decimal):
        if digits >= value.type.scale:
            raise CompileError(f"round of {describe(value.type)} to {digits} decimals: it has fewer")
        whole = min(38, value.type.precision - value.type.scale + 1 + digits)
        made = Op("round_decimal", (value, Const(digits)), Decimal(max(whole, digits + 1), digits))
        if whole <= MAX_DIGITS:
            return made
        # Rounding to more digits than Python's decimals have fails.
        limit = PyDecimal(f"{10 ** (MAX_DIGITS + 1) - 5}E{-digits - 1}")
        above = Op("gteq", (value, constant_decimal(limit, value.type)), BOOLEAN)
        below = Op("lteq", (value, constant_decimal(limit.copy_negate(), value.type)), BOOLEAN)
        return fail_where(Op("or", (above, below), BOOLEAN), made)  # Spark's ABS has 34 digits
    if value.type != DOUBLE:
        raise CompileError(f"round of {describe(value.type)}")
    return Op("round", (value, Const(digits)), DOUBLE)


def integer(value: Expr, default: Value = Static(0), base: Value = Static(10)) -> Expr:
    """Return Jinja's ``int``: the default where the value is no number."""
    if base != Static(10):
        raise CompileError("int with a base other than 10")
    fallback = lift(default)
    if value.type == BIGINT:
        return choose(is_none(value), fallback, value) if none_possible(value) else value
    if fallback.type != BIGINT or none_possible(fallback):
        raise CompileError("int with a default that is not an integer")
    if value.type == BOOLEAN:
        number = choose(truth(value), Const(1), Const(0))
    elif value.type == STRING:
        number = Op("int", (value, fallback), BIGINT)
    elif value.type == DOUBLE or isinstance(value.type, Decimal):
        number = Op("truncated", (value,), BIGINT)
    else:
        raise CompileError(f"int of {describe(value.type)}; cast it in the source query")
    return choose(is_none(value), fallback, number) if none_possible(value) else number


def floating(value: Expr, default: Value = Static(0.0)) -> Expr:
    """Return Jinja's ``float``: the default where the value is no number."""
    fallback = as_double(lift(default))
    if none_possible(fallback):
        raise CompileError("float with a default that is None")
    if value.type in NUMERIC:
        number = as_double(value)
    elif value.type == STRING:
        number = Op("float", (value, fallback), DOUBLE)
    else:
        raise CompileError(f"float of {describe(value.type)}; cast it in the source query")
    return choose(is_none(value), fallback, number) if none_possible(value) else number


# Formats -------------------------------------------------------------------------------------------------------------

_PERCENT = re.compile(
    r"%(?:(?P<name>\(\w*\))?(?P<flags>[-#0 +]*)(?P<width>\d*)(?:\.(?P<digits>\d+))?(?P<kind>.))?", re.S
)
_BRACES = re.compile(r"\{\{|\}\}|\{(?P<name>\w*)(?::(?P<spec>[^{}]*))?\}|(?P<bad>[{}])")
_SPEC = re.compile(r"(?:0?(?:\.(?P<digits>\d+))?(?P<kind>[df]))?")


def percent(template: str, values: list[Value], to_str: Callable[[Expr], Expr]) -> list[Expr]:
    """Return the parts of Python's ``template % values``: ``%s``, ``%d``, ``%.2f`` and ``%%``."""
    parts: list[Expr] = []
    left = list(values)
    at = 0
    for match in _PERCENT.finditer(template):
        parts.append(Const(template[at : match.start()]))
        at = match.end()
        kind = match["kind"]
        if kind == "%" and match[0] == "%%":
            parts.append(Const("%"))
            continue
        if (
            kind is None
            or match["name"]
            or match["flags"].strip("0")
            or match["width"].strip("01")
            or kind not in "sdf"
        ):
            raise CompileError(f'the format "{match[0]}"; write %s, %d or %.2f')
        if not left:
            raise CompileError("this fails for every row: not enough values for the format")
        parts.append(_formatted(lift(left.pop(0)), match["kind"], match["digits"], match[0], to_str))
    if left:
        raise CompileError("this fails for every row: not all values are used by the format")
    return [*parts, Const(template[at:])]


def braces(template: str, values: list[Value], names: dict[str, Value], to_str: Callable[[Expr], Expr]) -> list[Expr]:
    """Return the parts of Python's ``template.format(...)``: ``{}``, ``{0}``, ``{name}`` and ``{:.2f}``."""
    parts: list[Expr] = []
    at = place = 0
    for match in _BRACES.finditer(template):
        parts.append(Const(template[at : match.start()]))
        at = match.end()
        if match[0] in ("{{", "}}"):
            parts.append(Const(match[0][0]))
            continue
        spec = _SPEC.fullmatch(match["spec"] or "")
        if match["bad"] or spec is None:
            raise CompileError(f'the format "{match[0]}"; write {{}}, {{0}}, {{name}} or {{:.2f}}')
        name = match["name"]
        if not name:
            name, place = str(place), place + 1
        if name.isdigit() and int(name) < len(values):
            value = values[int(name)]
        elif name in names:
            value = names[name]
        else:
            raise CompileError(f'this fails for every row: the format has no value for "{match[0]}"')
        parts.append(_formatted(lift(value), spec["kind"] or "s", spec["digits"], match[0], to_str))
    return [*parts, Const(template[at:])]


def _formatted(value: Expr, kind: str, digits: str | None, written: str, to_str: Callable[[Expr], Expr]) -> Expr:
    if kind == "s" and digits is None:
        return to_str(value)
    if kind == "d" and digits is None and value.type == BIGINT:
        return Op("text", (value,), STRING)
    if kind == "f" and value.type in NUMERIC:
        places = int(digits) if digits is not None else 6
        if places > 9:
            raise CompileError(f'the format "{written}": at most 9 decimals')
        return Op("fixed", (as_double(value), Const(places)), STRING)
    raise CompileError(f'the format "{written}" of {describe(value.type)}')
