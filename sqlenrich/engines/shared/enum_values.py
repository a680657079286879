"""Texts that are compared without regard to the case of the letters A to Z."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase

from sqlglot import exp

from sqlenrich.core.sql import Sql, case, func, literal


def lower_ascii(text: Sql) -> Sql:
    """Return a text with the letters A to Z in lower case. Engines map other letters in different ways."""
    return func("TRANSLATE", text, literal(ascii_uppercase), literal(ascii_lowercase))


def as_spelt(text: Sql, values: Sequence[str]) -> Sql:
    """Return the value that equals a text but for the case of the letters A to Z; NULL where none does."""
    lower = lower_ascii(text)
    return case(*((exp.EQ(this=lower.copy(), expression=literal(v.lower())), literal(v)) for v in values))
