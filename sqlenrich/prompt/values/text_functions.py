"""Functions of text: what Jinja's filters and Python's methods give for a text of the row."""

from __future__ import annotations

from collections.abc import Callable

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import (
    fail_where,
    failure,
)
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Concat,
    Const,
    Expr,
    Op,
)
from sqlenrich.prompt.values.printing import required_text, to_str
from sqlenrich.prompt.values.slices import slice_text
from sqlenrich.prompt.values.value import CompileError, Static, Value, choose, describe, lift

WHITESPACE = "".join(chr(c) for c in range(0x3001) if chr(c).isspace())


def text_operation(name: str) -> Callable[[Expr], Expr]:
    """Return an operation with one text as its argument."""
    return lambda text: Op(name, (text,), STRING)


def trimming(name: str) -> Callable[..., Expr]:
    """Return strip, lstrip or rstrip: of white space, or of the characters of a constant."""

    def strip(text: Expr, chars: Value = Static(None)) -> Expr:
        if not isinstance(chars, Static) or not isinstance(chars.value, str | None):
            raise CompileError("stripping characters that differ by row; write them as a constant")
        characters = WHITESPACE if chars.value is None else chars.value
        if not characters:
            return required_text(text)
        return Op(name, (text, Const(characters)), STRING)

    return strip


def replace(text: Expr, old: Value, new: Value, count: Value = Static(None)) -> Expr:
    """Return ``text.replace(old, new)``. For rows where ``old`` is empty, ``new`` goes around all characters."""
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
    """Return Python's own ``text.replace``, which takes texts only."""
    sought, by = lift(old), lift(new)
    if Const(None) in (sought, by) or sought.type != STRING or by.type != STRING:
        raise CompileError("replacing a value that is not text; write x|replace(a, b), which takes any value")
    return replace(text, required_text(sought), required_text(by), count)


def find(text: Expr, part: Value) -> Expr:
    """Return ``text.find(part)``, -1 where it is not found."""
    at = text_index(text, part)
    return choose(Op("contains", (text, lift(part)), BOOLEAN), at, Const(-1))


def truncate(
    text: Expr,
    length: Value = Static(255),
    kill: Value = Static(False),
    end: Value = Static("..."),
    leeway: Value = Static(5),
) -> Expr:
    """Return Jinja's ``truncate``: at the end of a word, or with ``kill`` anywhere."""
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
    """Return ``text.split(separator)`` for a constant separator."""
    if separator == Static(None):
        raise CompileError("splitting at white space with other arguments")
    if not isinstance(separator, Static) or not isinstance(separator.value, str) or not separator.value:
        raise CompileError("splitting at white space or at a text that differs by row; give a constant separator")
    if most != Static(-1):
        raise CompileError("split with a limit; slice the parts instead")
    return Op("split", (required_text(text), Const(separator.value)), Array(STRING))


def text_index(text: Expr, part: Value) -> Expr:
    """Return ``text.index(part)`` for a constant part. Fails where it is not found."""
    if not isinstance(part, Static) or not isinstance(part.value, str) or not part.value:
        raise CompileError("index of a text that differs by row, or of an empty one; write it as a constant")
    return Op("text_index", (text, Const(part.value)), BIGINT)


def length(value: Expr) -> Expr:
    """Return ``len(text)`` in characters."""
    if value.type != STRING:
        raise CompileError(f"the length of {describe(value.type)}; only text and arrays have a length")
    return Op("length", (value,), BIGINT)
