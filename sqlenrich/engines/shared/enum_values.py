"""Texts that are compared without regard to the case of the letters A to Z."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

from sqlglot import exp

from sqlenrich.core.sql import Sql, case, func, literal


def lower_ascii(text: Sql) -> Sql:
    """Give a text with the letters A to Z in lower case: engines differ on others."""
    return func("TRANSLATE", text, literal(ascii_uppercase), literal(ascii_lowercase))


def as_spelt(text: Sql, values: Sequence[str]) -> Sql:
    """Give the one of these values that a text is in any case of its letters; NULL for none."""
    lower = lower_ascii(text)
    return case(*((exp.EQ(this=lower.copy(), expression=literal(v.lower())), literal(v)) for v in values))
