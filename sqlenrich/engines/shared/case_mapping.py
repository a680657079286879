"""Where an engine's upper and lower case differ from Python's: guards that make such a row NULL, so BAD_PROMPT.

Engines follow other versions of Unicode than Python, and warehouses change theirs without notice: a letter whose case
is younger than the oldest version in use (13, in Java 17) has no mapping that all agree on.
"""

from __future__ import annotations

import re

from sqlenrich.core.sql import Build, Sql, any_of, case, func, literal

NEW_CASE = (
    r"[ƛɤ\x{1c89}\x{1c8a}\x{2c2f}\x{2c5f}\x{a7c0}\x{a7c1}\x{a7cb}-\x{a7dc}"
    r"\x{10570}-\x{105bc}\x{10d50}-\x{10d85}\x{16ea0}-\x{16ed3}]"
)
"""Letters that have a case, or a new partner, since Unicode 14 or later; up to Unicode 17."""

NEW_BESIDE_SIGMA = r"[ʕ\x{897}\x{ece}\x{1acf}-\x{1aff}\x{a7f1}\x{10d40}-\x{1cfff}\x{1df00}-\x{1efff}]"
"""Letters and marks that decide whether a sigma ends a word in one version of Unicode and not in another."""

EXPANDING = (
    r"[\x{149}\x{1f0}\x{390}\x{3b0}\x{587}\x{1e96}-\x{1e9a}\x{1f50}\x{1f52}\x{1f54}\x{1f56}\x{1f80}-\x{1faf}"
    r"\x{1fb2}-\x{1fb4}\x{1fb6}\x{1fb7}\x{1fbc}\x{1fc2}-\x{1fc4}\x{1fc6}\x{1fc7}\x{1fcc}\x{1fd2}\x{1fd3}\x{1fd6}"
    r"\x{1fd7}\x{1fe2}-\x{1fe4}\x{1fe6}\x{1fe7}\x{1ff2}-\x{1ff4}\x{1ff6}\x{1ff7}\x{1ffc}\x{fb00}-\x{fb06}"
    r"\x{fb13}-\x{fb17}]"
)
"""Characters beside ß that become several in upper case."""

_LETTER = "A-Za-zΆΈ-ΊΌΎ-ΡΣ-ώ"
FINAL_SIGMA = f"Σ([^{_LETTER}]|$)"
"""A capital sigma that may end a word, where it becomes ς."""

ODD_SIGMA = f"[^{_LETTER}\\s]Σ|Σ[^{_LETTER}\\s]"
"""A capital sigma beside more than a plain letter or white space: rules differ on whether the word ends there."""


def joined(*classes: str) -> str:
    """Give one class of characters for several."""
    return "[" + "".join(part[1:-1] for part in classes) + "]"


def plain(pattern: str) -> str:
    """Give a pattern with its characters themselves, for an engine that knows no ``\\x{...}``."""
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), pattern)


def guarded(matches: Build, text: Sql, mapped: Sql, *patterns: str) -> Sql:
    """Give the mapped text, NULL where the text holds a pattern."""
    tests = [matches(text.copy(), literal(pattern)) for pattern in patterns]
    return case((any_of(*tests), literal(None)), default=mapped)


def upper(matches: Build) -> Build:
    """Give ``UPPER`` of an engine with the full mappings of Unicode."""
    return lambda text: guarded(matches, text, func("UPPER", text), NEW_CASE)


def lower(matches: Build, contains: Build) -> Build:
    """Give ``LOWER`` of an engine with the full mappings of Unicode, final sigma included."""

    def build(text: Sql) -> Sql:
        sigma = contains(text.copy(), literal("Σ")).and_(matches(text.copy(), literal(NEW_BESIDE_SIGMA)))
        test = any_of(matches(text.copy(), literal(NEW_CASE)), sigma)
        return case((test, literal(None)), default=func("LOWER", text))

    return build
