"""The text of a value: as Jinja prints it, and as ``str`` gives it."""

from __future__ import annotations

from sqlenrich.core.types import DOUBLE, STRING, Array, Decimal, Scalar, Struct
from sqlenrich.prompt.ir.failures import fail_where, failure, immediate_failure, is_none
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, Fail, If, Op, Switch, none_possible
from sqlenrich.prompt.ir.traversal import columns_of
from sqlenrich.prompt.values.value import CompileError, choose, describe


def printed(expr: Expr) -> Expr:
    """Return the text that Jinja prints for a value of a printable type. Its SQL is NULL only where it fails."""
    if isinstance(expr, Const):
        return Const("" if expr.value is None else str(expr.value))
    if isinstance(expr, Fail) and expr.blank:
        return Const("")
    if isinstance(expr, If):
        return If(expr.test, printed(expr.then), printed(expr.orelse))
    if isinstance(expr, Switch):
        return Switch(expr.subject, tuple((key, printed(value)) for key, value in expr.arms))
    if none_possible(expr):
        text = as_text(expr)
        return If(is_none(expr), Const(""), text) if expr.type == DOUBLE else Op("printed", (expr,), STRING)
    return as_text(expr)


def to_str(value: Expr) -> Expr:
    """Return Python's ``str(value)``, to which Jinja's text filters convert their value. None is the text "None"."""
    if isinstance(value, Const):
        return Const(str(value.value))
    if isinstance(value, Fail) and value.blank:
        return Const("")
    if isinstance(value, If):
        return choose(value.test, to_str(value.then), to_str(value.orelse))
    if not printable(value):
        raise CompileError(unprintable(value))
    return choose(is_none(value), Const("None"), as_text(value)) if none_possible(value) else as_text(value)


def unprintable(value: Expr) -> str:
    """Return the error message for a value that can't be printed."""
    names = ", ".join(dict.fromkeys(columns_of(value)))
    match value.type:
        case Array():
            instead = "join it, or loop over it"
        case Struct():
            instead = "print its fields"
        case Decimal():
            instead = "round it to 6 decimals or fewer"
        case _:
            instead = "round it, as in |round(2), or format it, as in '%.2f'|format(x)"
    return f"printing {describe(value.type)} ({names}) is not the same on all engines; {instead}"


def required_text(text: Expr) -> Expr:
    """Return a text that fails where it is None or undefined, as a method of None does."""
    if none_possible(text):
        return Op("substr", (text, Const(1)), STRING)
    broken = failure(text)
    return text if broken == immediate_failure(text) else fail_where(broken, text)  # undefined


def materialized(text: Expr) -> Expr:
    """Return the text of a block or a macro, which fails where printing it failed, even if it is not used."""
    return text if failure(text) is None else Op("written", (text,), STRING)


def as_text(expr: Expr) -> Expr:
    """Return the text of a value that is not None."""
    if isinstance(expr, Const):
        return Const(str(expr.value))
    if isinstance(expr, Op) and expr.name == "round":
        return _text_of_rounded(*expr.args)
    if expr.type == DOUBLE:
        return Op("text_double", (expr, Const(decimals(expr))), STRING)
    return expr if expr.type == STRING else Op("text", (expr,), STRING)


def _text_of_rounded(number: Expr, digits: Expr) -> Expr:
    """Return the text of a rounded double: a fixed number of decimals without trailing zeros."""
    text = Op("fixed", (number, digits), STRING)
    if digits == Const(0):
        return Concat((text, Const(".0")))
    return text if digits == Const(1) else Op("strip_zeros", (text,), STRING)


MAX_PRINTED_DECIMALS = 4
"""The most decimals of a printed double: Python prints one below 0.0001 with an exponent."""
MAX_PRINTED_SCALE = 6
"""The largest scale of a printed decimal: Python prints small ones of a larger scale with an exponent."""


def printable(expr: Expr) -> bool:
    """Tell whether every engine prints a value as Python does."""
    match expr.type:
        case Scalar("double"):
            return decimals(expr) is not None
        case Scalar():
            return True
        case Decimal(_, scale):
            return scale <= MAX_PRINTED_SCALE
    return False


def decimals(expr: Expr) -> int | None:
    """Return the most decimals of a double's text. None: unknown, or too many to print."""
    match expr:
        case Const(float() as value) if abs(value) < 1e15:
            materialized = repr(value)
            return None if "e" in materialized else len(materialized.partition(".")[2].rstrip("0"))
        case Op("round", (_, Const(int() as digits)), _) if digits <= MAX_PRINTED_DECIMALS:
            return digits
        case Op(("floor" | "ceil" | "double" | "exact_double"), _, _):
            return 0
        case Op("double_abs", (inner,), _):
            return decimals(inner)
        case Op(("double_add" | "double_subtract" | "double_multiply"), (a, b), _) if decimals(a) == decimals(b) == 0:
            return 0
        case Op("double_divide", (a, Const(float() as divisor)), _) if decimals(a) == 0:
            return next((n for n in range(MAX_PRINTED_DECIMALS + 1) if divisor and 10**n % divisor == 0), None)
        case If(_, then, orelse):
            arms = decimals(then), decimals(orelse)
            return None if arms[0] is None or arms[1] is None else max(arms[0], arms[1])
    return None


def may_be_blank(expr: Expr) -> bool:
    """Tell whether a value can be blank, the value of an ``if`` without ``else``."""
    if isinstance(expr, If):
        return may_be_blank(expr.then) or may_be_blank(expr.orelse)
    return isinstance(expr, Fail) and expr.blank
