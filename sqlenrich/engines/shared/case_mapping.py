"""Upper and lower case as in Python: NULL for a text whose mapping may differ on an engine.

Engines and Python follow different versions of Unicode, and warehouses change theirs without notice. The oldest version
in use is 13 (Java 17): a letter whose case mapping is younger gives NULL.
"""

from __future__ import annotations

import re

from sqlenrich.core.sql import Build, Sql, any_of, case, func, literal

NEW_CASE = (
    r"[ƛɤ\x{1c89}\x{1c8a}\x{2c2f}\x{2c5f}\x{a7c0}\x{a7c1}\x{a7cb}-\x{a7dc}"
    r"\x{10570}-\x{105bc}\x{10d50}-\x{10d85}\x{16ea0}-\x{16ed3}]"
)
"""Letters whose case mapping is new or changed in Unicode 14 to 17."""

NEW_BESIDE_SIGMA = r"[ʕ\x{897}\x{ece}\x{1acf}-\x{1aff}\x{a7f1}\x{10d40}-\x{1cfff}\x{1df00}-\x{1efff}]"
"""Letters and marks for which versions of Unicode differ on whether a sigma beside them ends a word."""

EXPANDING = (
    r"[\x{149}\x{1f0}\x{390}\x{3b0}\x{587}\x{1e96}-\x{1e9a}\x{1f50}\x{1f52}\x{1f54}\x{1f56}\x{1f80}-\x{1faf}"
    r"\x{1fb2}-\x{1fb4}\x{1fb6}\x{1fb7}\x{1fbc}\x{1fc2}-\x{1fc4}\x{1fc6}\x{1fc7}\x{1fcc}\x{1fd2}\x{1fd3}\x{1fd6}"
    r"\x{1fd7}\x{1fe2}-\x{1fe4}\x{1fe6}\x{1fe7}\x{1ff2}-\x{1ff4}\x{1ff6}\x{1ff7}\x{1ffc}\x{fb00}-\x{fb06}"
    r"\x{fb13}-\x{fb17}]"
)
"""Characters, apart from ß, that become several in upper case."""

_LETTER = "A-Za-zΆΈ-ΊΌΎ-ΡΣ-ώ"
FINAL_SIGMA = f"Σ([^{_LETTER}]|$)"
"""A capital sigma that may end a word, where it becomes ς."""

ODD_SIGMA = f"[^{_LETTER}\\s]Σ|Σ[^{_LETTER}\\s]"
"""A capital sigma beside a character that is neither a plain letter nor white space: rules differ on whether the
word ends there."""


def joined(*classes: str) -> str:
    """Return the union of character classes."""
    return "[" + "".join(part[1:-1] for part in classes) + "]"


def plain(pattern: str) -> str:
    """Return a pattern with ``\\x{...}`` replaced by the characters, for an engine that has no such escape."""
    return re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), pattern)


def guarded(matches: Build, text: Sql, mapped: Sql, *patterns: str) -> Sql:
    """Return the mapped text, NULL where the text holds a pattern."""
    tests = [matches(text.copy(), literal(pattern)) for pattern in patterns]
    return case((any_of(*tests), literal(None)), default=mapped)


def upper(matches: Build) -> Build:
    """Return ``UPPER`` of an engine with the full mappings of Unicode."""
    return lambda text: guarded(matches, text, func("UPPER", text), NEW_CASE)


def lower(matches: Build, contains: Build) -> Build:
    """Return ``LOWER`` of an engine with the full mappings of Unicode, final sigma included."""

    def build(text: Sql) -> Sql:
        sigma = contains(text.copy(), literal("Σ")).and_(matches(text.copy(), literal(NEW_BESIDE_SIGMA)))
        test = any_of(matches(text.copy(), literal(NEW_CASE)), sigma)
        return case((test, literal(None)), default=func("LOWER", text))

    return build
