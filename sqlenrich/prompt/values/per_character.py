"""Functions of text that map each character: title case, and a text between all characters."""

from __future__ import annotations

from collections.abc import Callable

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, fails_or_none
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, If, Map, Op
from sqlenrich.prompt.ir.traversal import columns_of, variables_of
from sqlenrich.prompt.values.bound_variables import VariableNames
from sqlenrich.prompt.values.text_functions import WHITESPACE

ODD_TITLE = (
    "[ªºßİĸŉΣ\u0180-\u02ff\u037a\u0390\u03b0\u03d0-\u03ff\u0560\u0587\u0588\u10a0-\u10ff\u1c80-\u1cbf\u1d00-\u1dbf"
    "\u1e96-\u1e9f\u1f00-\u1fff\u2070-\u209f\u2100-\u214f\u2c00-\u2dff\ua640-\uabff\ufb00-\ufb17"
    "\U00010400-\U0001efff\U0001f130-\U0001f189]"
)
"""Letters whose title case engines may not know: it is not the upper case, or the letter is recent."""
WORD_STARTS = WHITESPACE + "-({[<"
"""The characters after which Jinja's ``title`` writes a capital."""


def interleaved(text: Expr, between: Expr) -> Expr:
    """Return a text with another text before, between and after its characters."""
    characters = Op("sequence", (Op("length", (text,), BIGINT),), Array(BIGINT))
    taken = {*columns_of(text), *columns_of(between), *(v.name for v in variables_of(Concat((text, between))))}
    at, place = VariableNames(taken).fresh(characters)
    one = Op("substr", (text, Op("add", (at, Const(1)), BIGINT), Const(1)), STRING)
    return Concat((between, Op("array_join", (Map(characters, at, place, Concat((one, between))), Const("")), STRING)))


def titled(variables: VariableNames, text: Expr, capital: Callable[[Expr], Expr], odd: str) -> Expr:
    """Return a text in title case: a capital first, and where ``capital`` holds for the character before."""
    characters = Op("sequence", (Op("length", (text,), BIGINT),), Array(BIGINT))
    at, place = variables.fresh(characters)
    one = Op("substr", (text, Op("add", (at, Const(1)), BIGINT), Const(1)), STRING)
    before = Op("substr", (text, at, Const(1)), STRING)
    starts = Op("or", (Op("eq", (at, Const(0)), BOOLEAN), capital(before)), BOOLEAN)
    letters = Map(characters, at, place, If(starts, Op("upper", (one,), STRING), Op("lower", (one,), STRING)))
    made = Op("array_join", (letters, Const("")), STRING)
    return fail_where(any_of(fails_or_none(text), Op("matches", (text, Const(odd)), BOOLEAN)), made)


def title(variables: VariableNames, text: Expr) -> Expr:
    """Return Jinja's ``title``: a capital after white space or one of ``-({[<``. Fails for a capital sigma."""
    starts = lambda before: Op("contains", (Const(WORD_STARTS), before), BOOLEAN)  # noqa: E731
    return titled(variables, text, starts, "Σ")


def python_title(variables: VariableNames, text: Expr) -> Expr:
    """Return ``text.title()``: a capital after a character without case. Fails for the letters of :data:`ODD_TITLE`."""

    def uncased(before: Expr) -> Expr:
        return Op("eq", (Op("upper", (before,), STRING), Op("lower", (before,), STRING)), BOOLEAN)

    return titled(variables, text, uncased, ODD_TITLE)
