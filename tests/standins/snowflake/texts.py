"""Texts and regular expressions.

https://docs.snowflake.com/en/sql-reference/functions-string, from memory, and .../functions-regexp, read again.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Any

from tests.standins.snowflake.nodes import Node, coerced, function, typed
from tests.standins.snowflake.values import ARRAY, BOOLEAN, NUMBER, VARCHAR, SnowflakeError

# Texts ----------------------------------------------------------------------------------------------------------------


@function(VARCHAR, returns=VARCHAR)
def upper(text: str) -> str:
    """Returns the input string with all characters converted to uppercase."""
    return text.upper()


@function(VARCHAR, returns=VARCHAR)
def lower(text: str) -> str:
    """Returns the input string with all characters converted to lowercase."""
    return text.lower()


@function(VARCHAR, VARCHAR, returns=VARCHAR, optional=1)
def trim(text: str, characters: str = " ") -> str:
    """Removes leading and trailing characters; by default blank spaces alone."""
    return text.strip(characters) if characters else text


@function(VARCHAR, VARCHAR, returns=VARCHAR, optional=1)
def ltrim(text: str, characters: str = " ") -> str:
    """Removes leading characters; by default blank spaces alone."""
    return text.lstrip(characters) if characters else text


@function(VARCHAR, VARCHAR, returns=VARCHAR, optional=1)
def rtrim(text: str, characters: str = " ") -> str:
    """Removes trailing characters; by default blank spaces alone."""
    return text.rstrip(characters) if characters else text


@function(VARCHAR, VARCHAR, VARCHAR, returns=VARCHAR, optional=1)
def replace(text: str, pattern: str, replacement: str = "") -> str:
    """Removes all occurrences of a substring, and optionally replaces them with another one."""
    if not pattern:
        raise SnowflakeError("REPLACE: an empty pattern is not documented")
    return text.replace(pattern, replacement)


@function(VARCHAR, VARCHAR, VARCHAR, returns=VARCHAR)
def translate(text: str, characters: str, by: str) -> str:
    """Replaces each character of the second argument with that in the same place of the third, or with nothing."""
    return text.translate({ord(c): by[place] if place < len(by) else None for place, c in enumerate(characters)})


@function(VARCHAR, returns=NUMBER, names="LEN")
def length(text: str) -> int:
    """The number of UTF-8 characters, not of bytes."""
    return len(text)


@function(VARCHAR, returns=NUMBER)
def octet_length(text: str) -> int:
    """The length of a string in bytes; of a VARCHAR in UTF-8."""
    return len(text.encode())


@function(VARCHAR, NUMBER, NUMBER, returns=VARCHAR, optional=1, names="SUBSTRING")
def substr(text: str, start: int, count: int | None = None) -> str:
    """From 1; a negative start counts from the end, a negative length gives an empty text; out of range too."""
    if start == 0:
        raise SnowflakeError("SUBSTR: the start 0 is not documented")
    first = start - 1 if start > 0 else len(text) + start
    if first < 0:
        raise SnowflakeError("SUBSTR: a start before the text is not documented")
    return text[first:] if count is None else text[first : first + max(count, 0)]


@function(VARCHAR, NUMBER, returns=VARCHAR)
def left(text: str, count: int) -> str:
    """The leftmost characters; an empty text for a length that is not positive."""
    return text[: max(count, 0)]


@function(VARCHAR, NUMBER, returns=VARCHAR)
def right(text: str, count: int) -> str:
    """The rightmost characters; an empty text for a length that is not positive."""
    return text[max(len(text) - count, 0) :] if count > 0 else ""


@function(VARCHAR, NUMBER, VARCHAR, returns=VARCHAR, optional=1)
def lpad(text: str, count: int, padding: str = " ") -> str:
    """Left-pads a string from another, or truncates it on the right, to a length."""
    return (padding * count)[: max(count - len(text), 0)] + text[: max(count, 0)]


@function(VARCHAR, NUMBER, VARCHAR, returns=VARCHAR, optional=1)
def rpad(text: str, count: int, padding: str = " ") -> str:
    """Right-pads a string with another, or truncates it, to a length."""
    return text[: max(count, 0)] + (padding * count)[: max(count - len(text), 0)]


@function(VARCHAR, NUMBER, returns=VARCHAR)
def repeat(text: str, count: int) -> str:
    """Repeats a string; an empty text for 0 and less."""
    return text * max(count, 0)


@function(VARCHAR, returns=VARCHAR)
def reverse(text: str) -> str:
    """Reverses the order of characters."""
    return text[::-1]


@function(NUMBER, returns=VARCHAR, names="CHAR")
def _chr(code: int) -> str:
    """Converts a Unicode code point into its character."""
    return chr(code)


@function(VARCHAR, returns=NUMBER)
def unicode(text: str) -> int:
    """The code point of the first character; 0 for an empty text."""
    return ord(text[0]) if text else 0


@function(VARCHAR, VARCHAR, returns=BOOLEAN)
def contains(text: str, part: str) -> bool:
    """Returns TRUE if the first expression contains the second one; both are texts."""
    return part in text


@function(VARCHAR, VARCHAR, returns=BOOLEAN)
def startswith(text: str, part: str) -> bool:
    """Returns TRUE if the first expression starts with the second one."""
    return text.startswith(part)


@function(VARCHAR, VARCHAR, returns=BOOLEAN)
def endswith(text: str, part: str) -> bool:
    """Returns TRUE if the first expression ends with the second one."""
    return text.endswith(part)


@function(VARCHAR, VARCHAR, NUMBER, returns=NUMBER, optional=1, names="CHARINDEX")
def position(part: str, text: str, start: int = 1) -> int:
    """Searches the first argument in the second one: its place from 1, 0 if it is not found."""
    return text.find(part, start - 1) + 1


@function(VARCHAR, VARCHAR, returns=ARRAY)
def split(text: str, separator: str) -> list[str]:
    """Splits at a separator; an empty separator gives an array of the text alone."""
    return text.split(separator) if separator else [text]


@function(VARCHAR, VARCHAR, NUMBER, returns=VARCHAR)
def split_part(text: str, separator: str, number: int) -> str:
    """The part of a number from 1, 0 taken as 1, from the end if negative; an empty text if there is none."""
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number if number < 0 else 0
    return parts[place] if 0 <= place < len(parts) else ""


@function(VARCHAR, NUMBER, returns=VARCHAR, optional=1, names="SHA2_HEX")
def sha2(text: str, size: int = 256) -> str:
    """The digest in lower-case hexadecimal digits; 224, 256, 384 or 512 bits."""
    return hashlib.new(f"sha{size}", text.encode()).hexdigest()


@function(VARCHAR, returns=NUMBER)
def hash_(text: str) -> int:
    """A signed number of 64 bits, always the same for a text; which one is not told."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


@typed("CONCAT")
def concat(name: str, arguments: list[Node]) -> Node:
    """Joins texts; NULL if any is NULL."""
    parts = [coerced(argument, VARCHAR, name) for argument in arguments]

    def value(row: dict[str, Any]) -> str | None:
        texts = [part.value(row) for part in parts]
        return None if None in texts else "".join(texts)

    return Node(VARCHAR, value)


# Patterns -------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=500)
def pattern(written: str, parameters: str = "c") -> re.Pattern[str]:
    """POSIX ERE and eight backslash sequences; a dot is no newline without ``s``, ``$`` the very end without ``m``."""
    plain = r"\\[^0-9A-Za-z]|\\[dDsSwWbB]|\\x[0-9a-f]{2}|\[\^?\]?(?:\\[^0-9A-Za-z]|[^]\\])*\]"
    unknown = re.search(r"\(\?|\[\[:|[*+?}][*+?]|\\[0-9A-Za-z]", re.sub(plain, "x", written))
    if unknown:
        raise SnowflakeError(f"the pattern {written!r}: {unknown[0]!r} is not supported")
    if set(parameters) - set("cimse"):
        raise SnowflakeError(f"unknown parameters of a regular expression: {parameters!r}")
    ends = re.sub(r"(\\.|\[\^?\]?[^]]*\])|\$", lambda m: m[1] or r"\Z", written, flags=re.DOTALL)
    flags = re.ASCII
    for letter, flag in (("i", re.IGNORECASE), ("s", re.DOTALL), ("m", re.MULTILINE)):
        flags |= flag if letter in parameters else re.RegexFlag(0)
    try:
        return re.compile(written if "m" in parameters else ends, flags)
    except re.error as error:
        raise SnowflakeError(f"Invalid regular expression {written!r}: {error}") from None


def _whole(found: re.Match[str]) -> re.Match[str]:
    """A match of which the end counts: POSIX takes the longest, Perl the first, so they must be one.

    Long texts are not looked at, nor patterns that ask for what stands behind a match.
    """
    written, text = found.re, found.string
    if len(text) <= 500 and not re.search(r"\\[ZbB]", written.pattern):
        for end in range(len(text), found.end(), -1):
            if written.fullmatch(text, found.start(), end):
                raise SnowflakeError(
                    f"the pattern {written.pattern!r} matches {text[found.start() : end]!r} in two ways"
                )
    return found


@function(VARCHAR, VARCHAR, NUMBER, NUMBER, NUMBER, VARCHAR, returns=NUMBER, optional=4)
def regexp_instr(
    text: str, written: str, start: int = 1, occurrence: int = 1, option: int = 0, parameters: str = "c"
) -> int:
    """The place from 1 of an occurrence, or 0; with option 1 the place behind it."""
    for number, found in enumerate(pattern(written, parameters).finditer(text, start - 1), 1):
        if number == occurrence:
            return (_whole(found).end() if option else found.start()) + 1
    return 0


@function(VARCHAR, VARCHAR, VARCHAR, returns=BOOLEAN, optional=1, names="RLIKE")
def regexp_like(text: str, written: str, parameters: str = "c") -> bool:
    """Whether the whole text matches: the pattern is anchored at both ends."""
    return pattern(written, parameters).fullmatch(text) is not None


@function(VARCHAR, VARCHAR, VARCHAR, NUMBER, NUMBER, VARCHAR, returns=VARCHAR, optional=4)
def regexp_replace(
    text: str, written: str, by: str = "", start: int = 1, occurrence: int = 0, parameters: str = "c"
) -> str:
    r"""Replaces all occurrences, or one; ``\\1`` in the replacement is a group."""
    if start != 1 or occurrence not in (0, 1):
        raise SnowflakeError("REGEXP_REPLACE: only from the start, all occurrences or the first")

    def replacement(found: re.Match[str]) -> str:
        return re.sub(r"\\(\d)", lambda group: found[int(group[1])] or "", by) if _whole(found) else ""

    return pattern(written, parameters).sub(replacement, text, count=occurrence)


@function(VARCHAR, VARCHAR, NUMBER, NUMBER, VARCHAR, NUMBER, returns=VARCHAR, optional=4)
def regexp_substr(
    text: str, written: str, start: int = 1, occurrence: int = 1, parameters: str = "c", group: int | None = None
) -> str | None:
    """The substring that matches, NULL if none does; a group with ``e``."""
    for number, found in enumerate(pattern(written, parameters).finditer(text, start - 1), 1):
        if number == occurrence:
            return _whole(found)[group or (1 if "e" in parameters and found.re.groups else 0)]
    return None


@function(VARCHAR, VARCHAR, returns=NUMBER)
def regexp_count(text: str, written: str) -> int:
    """The number of times that a pattern occurs."""
    return sum(1 for _ in pattern(written).finditer(text))
