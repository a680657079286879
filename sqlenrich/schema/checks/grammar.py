"""JSON's grammar as regular expressions, each in the spelling that an engine takes.

They are written once with possessive repeats, as Python and Java need them: what backtracks into a long text overflows
Java's stack. RE2 has none and needs none; Snowflake's POSIX patterns have no ``(?:`` either.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

Spelling: TypeAlias = Literal["possessive", "re2", "posix"]

MAX_DEPTH = 250
"""Objects and arrays in each other, the outermost counted: half of what BigQuery takes (500), which takes the least."""
MAX_NUMBER = 1000
"""Characters of a number: Jackson, and so Spark, reads no longer one."""

_SPACE = r"[ \t\r\n]*+"
_HEX = "[0-9A-Fa-f]"
# No half of a surrogate pair.
_UNIT = (
    rf"(?:[0-9A-Ca-cE-Fe-f]{_HEX}{{3}}|[Dd][0-7]{_HEX}{{2}}"
    rf"|[Dd][89ABab]{_HEX}{{2}}\\u[Dd][C-Fc-f]{_HEX}{{2}})"
)
_STRING = rf'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u{_UNIT}))*+"'
_NUMBER = r"-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+"
_NAME = f"{_STRING}{_SPACE}:{_SPACE}"
_PIECE = (
    rf"(?:{_NAME})?+(?:\[{_SPACE}(?!\])|\{{{_SPACE}{_NAME})*+"
    rf"(?:{_STRING}|{_NUMBER}|true|false|null|\[{_SPACE}\]|\{{{_SPACE}\}}){_SPACE}(?:[\]}}]{_SPACE})*+"
)
_DOCUMENT = f"{_SPACE}{_PIECE}(?:,{_SPACE}{_PIECE})*+"
_ANY_STRING = r'"(?:[^"\\]++|\\"|\\[^"])*+"?+'
_COMMA = rf"({_ANY_STRING}|[{{\[]{_SPACE},)|,({_SPACE}[}}\]])"
_NULL = rf'"[^"\\]*+"{_SPACE}:{_SPACE}null'

Kept: TypeAlias = tuple[str, tuple[int, ...]]
"""A pattern, and the groups that stay of what it matches."""


def _spelt(pattern: str, spelling: Spelling) -> str:
    if spelling == "possessive":
        return pattern
    pattern = pattern.replace("]++|", "]|").replace(r"(?!\])", "")
    pattern = re.sub(r"(?<=[*+?])\+", "", pattern)
    # As a character, not as \x1f: how Snowflake writes one inside a pattern is not documented.
    return pattern.replace("(?:", "(").replace(r"\x00-\x1f", "\x01-\x1f") if spelling == "posix" else pattern


def document(spelling: Spelling) -> str:
    """Give the pattern of a whole JSON text but for what no regular expression tells.

    It holds the tokens and which may follow which: no name without its value, no comma too many. It can't tell
    whether brackets match, and whether a member stands in an object and an element in an array.
    """
    return _spelt(_DOCUMENT, spelling)


def any_string(spelling: Spelling) -> str:
    """Give the pattern of a string in any text, sound or not; one that isn't closed goes to the end."""
    return _spelt(_ANY_STRING, spelling)


def not_brackets(spelling: Spelling) -> str:
    """Give the pattern of what is dropped to keep the brackets outside strings."""
    return _spelt(rf'{_ANY_STRING}|[^"\[\]{{}}]++', spelling)


MANY_DIGITS = "[0-9]{250}"
"""Found in each number of more than MAX_NUMBER characters."""
LONG_NUMBER = "([-+.0-9eE]{250}){4}[-+.0-9eE]"
"""A number of more than MAX_NUMBER characters, in a text without strings."""


def _kept(pattern: str, spelling: Spelling) -> Kept:
    """Give a pattern as an engine takes it, and the numbers of its groups: without ``(?:`` each bracket is one."""
    opened = [match[0] for match in _OPENED.finditer(pattern) if match[0][0] == "("]
    if spelling != "posix":
        opened = [bracket for bracket in opened if bracket == "("]
    return _spelt(pattern, spelling), tuple(place for place, bracket in enumerate(opened, 1) if bracket == "(")


_OPENED = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\((?:\?:)?")


def prose(spelling: Spelling) -> Kept:
    """Give the pattern of a text around what goes from its first bracket to its last, both braces, and what stays."""
    any_character = r"(?:.|\n)" if spelling == "posix" else r"[\s\S]"
    return _kept(rf"^[^{{}}\[\]]*+(\{{{any_character}*\}})[^{{}}\[\]]*+$", spelling)


def trailing_comma(spelling: Spelling) -> Kept:
    """Give the pattern of a comma before a closing bracket, strings swallowed, and what stays."""
    return _kept(_COMMA, spelling)


def null_member(spelling: Spelling) -> str:
    """Give the pattern of a colon with a null: cheap, and found wherever a member is null."""
    return _spelt(f":{_SPACE}null", spelling)


def null_members(spelling: Spelling, keep: Collection[str] = ()) -> tuple[Kept, Kept]:
    """Give what removes the null members of a sound JSON text, one after the other.

    First the members behind a comma, then those that stand first, which no null one follows any more. ``keep`` are
    names that stay; so does a name spelt with a backslash, which might be one of them.
    """
    stays = rf'"(?:{"|".join(map(_plain, keep))})"{_SPACE}:{_SPACE}null'
    behind = rf"({_ANY_STRING}{f'|,{_SPACE}{stays}' if keep else ''})|,{_SPACE}{_NULL}"
    comma = f"(?:{_SPACE},)?+"  # swallowed in both, lest an engine that prefers the longer match takes the second
    brace = rf"\{{{_SPACE}"
    first = rf"({_ANY_STRING}{f'|{brace}{stays}{comma}' if keep else ''})|(\{{){_SPACE}{_NULL}{comma}"
    return _kept(behind, spelling), _kept(first, spelling)


def _plain(name: str) -> str:
    return "".join(char if char.isalnum() or char in "_-" else re.escape(char) for char in name)
