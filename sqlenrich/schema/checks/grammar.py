"""JSON's grammar as regular expressions, in the spelling of each engine.

They are written with possessive repeats for Python and Java, because backtracking into a long text overflows Java's
stack. RE2 has no possessive repeats and needs none. Snowflake's POSIX patterns also have no ``(?:``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

Spelling: TypeAlias = Literal["possessive", "re2", "posix"]

MAX_DEPTH = 250
"""Objects and arrays inside each other, the outermost counted: half of 500, BigQuery's limit, which is the lowest."""
MAX_NUMBER = 1000
"""Characters of a number: the limit of Jackson, and so of Spark."""

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
_VALUE = rf"{_STRING}|{_NUMBER}|true|false|null|\[{_SPACE}\]|\{{{_SPACE}\}}"
_CLOSING = rf"{_SPACE}(?:[\]}}]{_SPACE})*+"
_PIECE = rf"(?:{_NAME})?+(?:\[{_SPACE}(?!\])|\{{{_SPACE}{_NAME})*+(?:{_VALUE}){_CLOSING}"
_DOCUMENT = f"{_SPACE}{_PIECE}(?:,{_SPACE}{_PIECE})*+"
_ANY_STRING = r'"(?:[^"\\]++|\\"|\\[^"])*+"?+'
_COMMA = rf"({_ANY_STRING}|[{{\[]{_SPACE},)|,({_SPACE}[}}\]])"
_NULL = rf'"[^"\\]*+"{_SPACE}:{_SPACE}null'

Kept: TypeAlias = tuple[str, tuple[int, ...]]
"""A pattern, and the numbers of the groups that replace its match."""


def _spelt(pattern: str, spelling: Spelling) -> str:
    if spelling == "possessive":
        return pattern
    pattern = pattern.replace("]++|", "]|").replace(r"(?!\])", "")
    pattern = re.sub(r"(?<=[*+?])\+", "", pattern)
    # Written as the character: Snowflake documents no escape for it inside a pattern.
    return pattern.replace("(?:", "(").replace(r"\x00-\x1f", "\x01-\x1f") if spelling == "posix" else pattern


def document(spelling: Spelling) -> str:
    """Return the pattern of a whole JSON text, as far as a regular expression can describe it.

    It tests the tokens and their order: no name without its value, no extra comma. It can't test whether brackets
    match, and whether members are in objects and elements in arrays.
    """
    return _spelt(_DOCUMENT, spelling)


_NOTES = {
    _STRING[: _STRING.index("|u(")]: "a string",
    _STRING[_STRING.index("|u(") : _STRING.index("|[Dd][89")]: "\\u and a character",
    _STRING[_STRING.index("|[Dd][89") :]: "\\u and a pair of surrogates",
    _NUMBER: "a number",
    _CLOSING: "what it closes",
}
"""The parts of the grammar that a reader can tell apart."""


def document_parts(pattern: str, spelling: Spelling) -> list[tuple[str, str]]:
    """Return the parts of a pattern that holds :func:`document`, each with a note or an empty text."""
    notes = {_spelt(part, spelling): note for part, note in _NOTES.items()}
    found = re.split(f"({'|'.join(map(re.escape, notes))})", pattern)
    return [(part, notes.get(part, "")) for part in found if part]


def any_string(spelling: Spelling) -> str:
    """Return the pattern of a string in any text, valid or not. A string that is not closed goes to the end."""
    return _spelt(_ANY_STRING, spelling)


def not_brackets(spelling: Spelling) -> str:
    """Return the pattern of everything but the brackets outside strings."""
    return _spelt(rf'{_ANY_STRING}|[^"\[\]{{}}]++', spelling)


MANY_DIGITS = "[0-9]{250}"
"""Matches in each number of more than MAX_NUMBER characters: a cheap first test."""
LONG_NUMBER = "([-+.0-9eE]{250}){4}[-+.0-9eE]"
"""Matches a number of more than MAX_NUMBER characters, in a text without its strings."""


def _kept(pattern: str, spelling: Spelling) -> Kept:
    """Return a pattern in an engine's spelling, and the numbers of its groups: in POSIX each bracket is a group."""
    opened = [match[0] for match in _OPENED.finditer(pattern) if match[0][0] == "("]
    if spelling != "posix":
        opened = [bracket for bracket in opened if bracket == "("]
    return _spelt(pattern, spelling), tuple(place for place, bracket in enumerate(opened, 1) if bracket == "(")


_OPENED = re.compile(r"\\.|\[(?:\\.|[^\]])*\]|\((?:\?:)?")


def prose(spelling: Spelling) -> Kept:
    """Return the pattern of a text around one object, from its first bracket to its last; the object stays."""
    any_character = r"(?:.|\n)" if spelling == "posix" else r"[\s\S]"
    return _kept(rf"^[^{{}}\[\]]*+(\{{{any_character}*\}})[^{{}}\[\]]*+$", spelling)


def trailing_comma(spelling: Spelling) -> Kept:
    """Return the pattern of a comma before a closing bracket, and the groups that stay. It also matches strings."""
    return _kept(_COMMA, spelling)


def null_member(spelling: Spelling) -> str:
    """Return the pattern of a colon and a null: a cheap first test for null members."""
    return _spelt(f":{_SPACE}null", spelling)


def null_members(spelling: Spelling, keep: Collection[str] = ()) -> tuple[Kept, Kept]:
    """Return the two patterns that remove the null members of a valid JSON text, one after the other.

    The first removes members after a comma; the second removes first members, which no null member follows then.
    ``keep`` are names whose members stay. A name written with a backslash stays, too, because it may be one of them.
    """
    stays = rf'"(?:{"|".join(map(_plain, keep))})"{_SPACE}:{_SPACE}null'
    behind = rf"({_ANY_STRING}{f'|,{_SPACE}{stays}' if keep else ''})|,{_SPACE}{_NULL}"
    comma = f"(?:{_SPACE},)?+"  # in both branches, because some engines prefer the longer match
    brace = rf"\{{{_SPACE}"
    first = rf"({_ANY_STRING}{f'|{brace}{stays}{comma}' if keep else ''})|(\{{){_SPACE}{_NULL}{comma}"
    return _kept(behind, spelling), _kept(first, spelling)


def _plain(name: str) -> str:
    return "".join(char if char.isalnum() or char in "_-" else re.escape(char) for char in name)
