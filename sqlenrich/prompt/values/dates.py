"""Dates and timestamps of the row: their parts and their formatted texts."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP
from sqlenrich.prompt.ir.failures import fail_where, fails_or_none
from sqlenrich.prompt.ir.nodes import Concat, Const, Expr, Op, Switch
from sqlenrich.prompt.values.printing import as_text
from sqlenrich.prompt.values.value import CompileError, Static, Value, describe

PARTS = {"year": (1, 4), "month": (6, 2), "day": (9, 2), "hour": (12, 2), "minute": (15, 2), "second": (18, 2)}
"""The attributes of a date or a timestamp, each with its first character and its length in the printed text."""
OF_DATE = ("year", "month", "day")
_DIRECTIVES = {"%Y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute", "%S": "second"}
_UNPADDED = {"%-m": "month", "%-d": "day", "%-H": "hour", "%-M": "minute", "%-S": "second"}
_NAMES = {"%B": list(calendar.month_name), "%b": list(calendar.month_abbr)}
_FORMAT = re.compile(r"%-?.|[^%]+", re.S)


def part(value: Expr, name: str) -> Expr:
    """Return ``value.year`` and the other parts, as an integer."""
    if name not in PARTS or (value.type == DATE and name not in OF_DATE):
        known = PARTS if value.type == TIMESTAMP else OF_DATE
        raise CompileError(f'".{name}" of a {describe(value.type)}; there are: {", ".join(known)}')
    return Op(name, (value,), BIGINT)


def isoformat(value: Expr) -> Expr:
    """Return ``value.isoformat()``."""
    text = as_text(value)
    return text if value.type == DATE else Op("replace", (text, Const(" "), Const("T")), STRING)


def strftime(value: Expr, form: Value) -> Expr:
    """Return ``value.strftime(form)``. Fails before the year 1000, which platforms print differently."""
    if not isinstance(form, Static) or not isinstance(form.value, str):
        raise CompileError("strftime with a format that differs by row; write it as a constant")
    parts: list[Expr] = []
    for directive in _FORMAT.findall(form.value):
        if not directive.startswith("%"):
            parts.append(Const(directive))
        elif directive == "%%":
            parts.append(Const("%"))
        elif directive in _DIRECTIVES:
            name = _DIRECTIVES[directive]
            part(value, name)
            first, length = PARTS[name]
            parts.append(Op("substr", (as_text(value), Const(first), Const(length)), STRING))
        elif directive in _UNPADDED:
            parts.append(as_text(part(value, _UNPADDED[directive])))
        elif directive in _NAMES:
            arms = tuple((month, Const(_NAMES[directive][month])) for month in range(1, 13))
            parts.append(Switch(part(value, "month"), arms))
        else:
            known = ", ".join([*_DIRECTIVES, *_UNPADDED, *_NAMES])
            raise CompileError(f'"{directive}" in strftime; there are: {known}')
    if form.value.endswith("%") and not form.value.endswith("%%"):
        raise CompileError("a strftime format that ends with %")
    early = Op("lt", (part(value, "year"), Const(1000)), BOOLEAN)
    broken = fails_or_none(value)
    return fail_where(early if broken is None else Op("or", (broken, early), BOOLEAN), Concat(tuple(parts)))


METHODS: dict[str, Callable[..., Expr]] = {"isoformat": isoformat, "strftime": strftime}
"""Methods of dates and timestamps by name."""
