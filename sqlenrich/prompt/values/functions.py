"""Jinja's filters and Python's methods on values of the row: one table each, name to expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array, Decimal, Scalar, Struct
from sqlenrich.prompt.ir.failures import either, fail_where, failure, immediate_failure, is_none, out_of_range
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Concat,
    Const,
    Element,
    Expr,
    Fail,
    Field,
    If,
    Op,
    Switch,
    none_possible,
)
from sqlenrich.prompt.ir.traversal import columns_of
from sqlenrich.prompt.values import numbers
from sqlenrich.prompt.values.comparisons import equal, needing
from sqlenrich.prompt.values.printing import as_text, printable
from sqlenrich.prompt.values.value import CompileError, Static, Value, choose, describe, lift, negate, same_type, truth

# str.strip() without an argument: every character for which str.isspace() holds (Unicode 14 and later agree).
WHITESPACE = "".join(chr(c) for c in range(0x3001) if chr(c).isspace())


LONGEST = 1_000_000_000
"""No text is longer: a slice bound above it is the same, and fits the integers that engines count characters in."""


def to_str(value: Expr) -> Expr:
    """Give Python's ``str(value)``, in which None is the text "None": what Jinja's text filters start from."""
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
    """Give the words that refuse to print a value."""
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


def text_operation(name: str) -> Callable[[Expr], Expr]:
    """Give the function of one text that an engine has under ``name``."""
    return lambda text: Op(name, (text,), STRING)


def trimming(name: str) -> Callable[..., Expr]:
    """Give strip, lstrip or rstrip: of white space, or of the characters of a constant."""

    def strip(text: Expr, chars: Value = Static(None)) -> Expr:
        if not isinstance(chars, Static) or not isinstance(chars.value, str | None):
            raise CompileError("stripping characters that differ by row; write them as a constant")
        characters = WHITESPACE if chars.value is None else chars.value
        if not characters:
            return required_text(text)
        return Op(name, (text, Const(characters)), STRING)

    return strip


def replace(text: Expr, old: Value, new: Value, count: Value = Static(None)) -> Expr:
    """Give ``text.replace(old, new)``; Python finds an empty ``old`` of a row around all characters."""
    if not isinstance(count, Static) or count.value not in (None, -1):
        raise CompileError("replacing only the first occurrences; leave the count out")
    sought = to_str(lift(old))
    if sought == Const(""):
        raise CompileError("replacing an empty text; write the text to replace")
    by = to_str(lift(new))
    made = Op("replace", (text, sought, by), STRING)
    if isinstance(sought, Const):
        return made
    between = Op("interleaved", (text, by), STRING)
    return fail_where(failure(sought), choose(Op("eq", (sought, Const("")), BOOLEAN), between, made))


def replace_text(text: Expr, old: Value, new: Value, count: Value = Static(None)) -> Expr:
    """Give Python's own ``text.replace``, which takes texts only."""
    sought, by = lift(old), lift(new)
    if Const(None) in (sought, by) or sought.type != STRING or by.type != STRING:
        raise CompileError("replacing what is no text; write x|replace(a, b), which takes any value")
    return replace(text, required_text(sought), required_text(by), count)


def find(text: Expr, part: Value) -> Expr:
    """Give ``text.find(part)``: -1 where it is not there."""
    at = text_index(text, part)
    return choose(Op("contains", (text, lift(part)), BOOLEAN), at, Const(-1))


def truncate(
    text: Expr,
    length: Value = Static(255),
    kill: Value = Static(False),
    end: Value = Static("..."),
    leeway: Value = Static(5),
) -> Expr:
    """Give Jinja's ``truncate``: at a word's end, unless words may be cut."""
    values = [part.value if isinstance(part, Static) else None for part in (length, kill, end, leeway)]
    most, cut, dots, spare = values[0], values[1], values[2], 5 if values[3] is None else values[3]
    if type(most) is not int or type(spare) is not int or not isinstance(dots, str) or most < len(dots) or spare < 0:
        raise CompileError("truncate with arguments that differ by row, or shorter than its end")
    head = slice_text(text, Static(None), Static(most - len(dots)))
    short = Op("lteq", (Op("length", (text,), BIGINT), Const(most + spare)), BOOLEAN)
    return choose(short, text, Concat((head if cut else Op("cut_word", (head,), STRING), Const(dots))))


def _startswith(name: str) -> Callable[..., Expr]:
    def test(text: Expr, affix: Value) -> Expr:
        if isinstance(affix, Static) and isinstance(affix.value, tuple):
            found: Expr = FALSE
            for one in affix.value:
                found = choose(test(text, Static(one)), TRUE, found)
            return found
        other = lift(affix)
        if other.type != STRING:
            raise CompileError(f"{name} of {describe(other.type)}; it must be text")
        return Op(name, (text, other), BOOLEAN)

    return test


def split(text: Expr, separator: Value = Static(None), most: Value = Static(-1)) -> Expr:
    """Give ``text.split(separator)`` for a constant separator."""
    if separator == Static(None):
        raise CompileError("splitting at white space with other arguments")
    if not isinstance(separator, Static) or not isinstance(separator.value, str) or not separator.value:
        raise CompileError("splitting at white space or at a text that differs by row; give a constant separator")
    if most != Static(-1):
        raise CompileError("split with a limit; slice the parts instead")
    return Op("split", (required_text(text), Const(separator.value)), Array(STRING))


def text_index(text: Expr, part: Value) -> Expr:
    """Give ``text.index(part)`` for a constant part; fails where it is not there."""
    if not isinstance(part, Static) or not isinstance(part.value, str) or not part.value:
        raise CompileError("index of a text that differs by row, or of an empty one; write it as a constant")
    return Op("text_index", (text, Const(part.value)), BIGINT)


def length(value: Expr) -> Expr:
    """Give ``len(value)``: characters of a text."""
    if value.type != STRING:
        raise CompileError(f"the length of {describe(value.type)}; only text has a length here")
    return Op("length", (value,), BIGINT)


def default(value: Expr, fallback: Value = Static(""), boolean: Value = Static(False)) -> Expr:
    """Give Jinja's ``default`` filter. A column is always defined, so only ``default(x, true)`` can matter."""
    if not isinstance(boolean, Static):
        raise CompileError("default with a second argument that differs by row")
    instead = lift(fallback)
    absent = undefined(value)
    if (boolean.value or absent != FALSE) and not same_type(value, instead):
        raise CompileError(
            f"a default that is {describe(instead.type)} of a value that is {describe(value.type)}; "
            "make both text with |string"
        )
    given = choose(truth(value), value, instead) if boolean.value else value
    return fail_where(immediate_failure(instead), given if absent == FALSE else choose(absent, instead, given))


def undefined(value: Expr) -> Expr:
    """Give the test whether Jinja calls a value undefined: a missing struct's field, an index out of range."""
    if isinstance(value, Fail):
        return FALSE if value.error else TRUE
    if isinstance(value, If):
        return choose(value.test, undefined(value.then), undefined(value.orelse))
    if isinstance(value, Element):
        if value.inside:
            return FALSE
        absent = None if value.strict or not none_possible(value.array) else is_none(value.array)
        nowhere = is_none(value.index) if none_possible(value.index) else None
        found = either(either(absent, nowhere), out_of_range(value.array, value.index)) or FALSE
        return found if nowhere is None else fail_where(failure(value.array), found)
    if isinstance(value, Switch):
        return negate(Op("in", (value.subject, *(Const(key) for key, _ in value.arms)), BOOLEAN))
    if isinstance(value, Op) and value.name == "character":
        raise CompileError("asking whether a text has a character at a place; compare its length instead")
    return is_none(value.base) if isinstance(value, Field) and none_possible(value.base) else FALSE


def required_text(text: Expr) -> Expr:
    """Give a text as it is; what is None fails, as a method or a slice of None does."""
    if none_possible(text):
        return Op("substr", (text, Const(1)), STRING)
    broken = failure(text)
    return text if broken == immediate_failure(text) else fail_where(broken, text)  # what is undefined fails too


def _soft(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda value, *args: function(to_str(value), *args)


FILTERS: dict[str, Callable[..., Expr]] = {
    "abs": numbers.absolute,
    "capitalize": _soft(text_operation("capitalize")),
    "default": default,
    "d": default,
    "float": numbers.floating,
    "int": numbers.integer,
    "length": length,
    "count": length,
    "lower": _soft(text_operation("lower")),
    "replace": _soft(replace),
    "round": numbers.rounded,
    "string": to_str,
    "trim": _soft(trimming("trim")),
    "truncate": truncate,
    "upper": _soft(text_operation("upper")),
}
"""Filters by name; each takes the value and the filter's arguments. ``None`` is printed as "None", as Jinja does."""

METHODS: dict[str, Callable[..., Expr]] = {
    "capitalize": text_operation("capitalize"),
    "endswith": _startswith("endswith"),
    "find": find,
    "index": text_index,
    "lower": text_operation("lower"),
    "lstrip": trimming("ltrim"),
    "replace": replace_text,
    "rstrip": trimming("rtrim"),
    "split": split,
    "startswith": _startswith("startswith"),
    "strip": trimming("trim"),
    "upper": text_operation("upper"),
}
"""Methods of text by name. A method of None fails for the row."""

GLOBALS = ("range", "dict", "zip")
"""Jinja's global functions that always give the same: not lipsum, cycler, joiner, namespace."""

MUTATING_METHODS = frozenset(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
"""Methods that change a list or a mapping in place: at compile time they would, whatever the row."""


def divisible(value: Expr, by: Value) -> Expr:
    """Give the test ``value is divisibleby(by)``."""
    return equal(numbers.whole_division("%")(value, lift(by)), Static(0))


def of_type(*names: str) -> Callable[[Expr], Expr]:
    """Give the test whether a value is of some types: by its column's type, and None is of none."""

    def test(value: Expr) -> Expr:
        kind = value.type.name if isinstance(value.type, Scalar) else type(value.type).__name__.lower()
        if kind not in names:
            return needing(value, FALSE)
        return choose(undefined(value), FALSE, negate(is_none(value)) if none_possible(value) else TRUE)

    return test


TESTS: dict[str, Callable[..., Expr]] = {
    "boolean": of_type("boolean"),
    "float": of_type("double"),
    "integer": of_type("bigint"),
    "mapping": of_type("struct"),
    "number": of_type("bigint", "double", "decimal", "boolean"),
    "string": of_type("string"),
    "divisibleby": divisible,
    "even": lambda value: divisible(value, Static(2)),
    "odd": lambda value: equal(numbers.whole_division("%")(value, Const(2)), Static(1)),
    "defined": lambda value: negate(undefined(value)),
    "undefined": undefined,
    "none": lambda value: choose(undefined(value), FALSE, equal(value, Static(None))),
}
"""Tests by name, beside the comparisons, which :mod:`.compile` knows."""

TEST_COMPARISONS = {
    "eq": "eq", "equalto": "eq", "==": "eq", "ne": "ne", "!=": "ne", "lt": "lt", "lessthan": "lt", "<": "lt",
    "le": "lteq", "<=": "lteq", "gt": "gt", "greaterthan": "gt", ">": "gt", "ge": "gteq", ">=": "gteq", "in": "in",
}  # fmt: skip
INSTEAD = {
    "random": "a prompt must be the same on each run",
    "tojson": "build the JSON in the source query",
    "pprint": "print the fields one by one",
}
"""What to write instead of a filter that is not compiled."""


def clamp_position(position: Expr) -> Expr:
    """Give a position; a constant beyond every text and array as one that an engine can still count from."""
    if isinstance(position, Const) and type(position.value) is int:
        return Const(max(-LONGEST, min(position.value, LONGEST)))
    return position


def slice_bound(bound: Value, length: Expr, absent: Expr) -> Expr | None:
    """Give a bound of a slice as a position from 0; None for no bound, ``absent`` where it is None for the row."""
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
    """Give ``text[start:stop]`` in characters; either end may be absent, negative, or differ by row."""
    length = Op("length", (text,), BIGINT)
    first, last = slice_bound(start, length, Const(0)), slice_bound(stop, length, Const(LONGEST))
    if first is None or first == Const(0):
        return required_text(text) if last is None else Op("substr", (text, Const(1), last), STRING)
    begin = _bounded("add", first, Const(1))
    if last is None:
        return Op("substr", (text, begin), STRING)
    return Op("substr", (text, begin, Op("greatest", (_bounded("subtract", last, first), Const(0)), BIGINT)), STRING)


def character(text: Expr, at: Expr) -> Expr:
    """Give ``text[at]``; fails beyond either end, and where the index is None."""
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
    """Give a sum or a difference of positions in a text: far from 64 bits."""
    if isinstance(a, Const) and isinstance(b, Const):
        return Const(_python(a) + _python(b) if name == "add" else _python(a) - _python(b))
    return Op(name, (a, b), BIGINT)


def _python(constant: Const) -> Any:
    return constant.value
