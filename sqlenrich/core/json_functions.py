"""The SQL functions of the answer checks that an engine provides: JSON read strictly, and an answer's text repaired.

Each function takes sqlglot nodes and gives one node. ``value`` is a parsed JSON value; a missing one is NULL, and a
JSON null is a value. The verdict in SQL is the verdict of :mod:`sqlenrich.schema.checks.evaluate` in Python, which is
the reference. Unless a docstring says otherwise, a NULL argument gives NULL and the function never fails a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlenrich.core.sql import Sql
from sqlenrich.core.text_functions import Unary

BEYOND_MICROSECONDS = r"([.][0-9]{6})[0-9]+"
"""A pattern for a second's decimals of which the first six, group 1, are kept: timestamps hold microseconds."""
GREATEST_DOUBLE = 1.7976931348623157e308
"""BigQuery reads a number beyond it as this double, the other engines as infinity."""
WIDEST_DECIMAL = "DECIMAL(38, 18)"
"""The widest decimals that every engine has: 20 digits before the point, 18 after it."""

ItemTest: TypeAlias = Callable[[Sql], Sql]
MemberTest: TypeAlias = Callable[[Sql, Sql], Sql]
"""From a member's name, a text, and its value."""


@dataclass(frozen=True, kw_only=True)
class JsonFunctions:
    """The functions of the answer checks. All are required but those that may be None."""

    # Parse

    parse: Unary
    """The value of a text that is one RFC 8259 document: no repeated names, no lone surrogates, no NaN, nothing after
    it, no more than MAX_DEPTH levels. NULL for any other text."""
    accepted: Unary
    """The value of a text for which ``parse`` is known not to be NULL."""
    let: Callable[[Sql, ItemTest], Sql]
    """``(value, body)``: what the body, a text, gives of a value that is computed once."""
    let_text: Callable[[Sql, ItemTest], Sql]
    """``(text, body)``: what the body, a text, gives of a text that is computed once."""

    # Read a value

    get: Callable[[Sql, str], Sql]
    """``(value, name)``: a member of an object by any name; NULL for a value that is not an object."""
    at: Callable[[Sql, int], Sql]
    """``(value, index)``: an element of an array from 0; NULL for a value that is not an array."""
    has_type: Callable[[Sql, tuple[str, ...]], Sql]
    """``(value, types)``: whether the value is of one of JSON Schema's types; ``integer`` holds for 1.0. NULL for a
    missing value; a test for NULL alone, a ``Not``, gives false."""
    string: Unary
    """A string's text, or the JSON text of a number or boolean; NULL for a JSON null."""
    number: Unary
    """A number, also one in a string, as a double; NULL for a JSON null and any other value."""
    bigint: Unary
    """An integer, also one in a string, as a bigint; NULL beyond 64 bits, for a JSON null and any other value."""
    number_text: Unary
    """A number as a text that equal numbers share: 1, 1.0 and 1e0 have one text."""
    too_wide: Unary
    """Whether a number's absolute value is not below :data:`GREATEST_DOUBLE`."""
    is_multiple: Callable[[Sql, int | float], Sql]
    """``(value, step)``: whether a number below 1e20 is a multiple, by its shortest decimal text."""

    # Arrays and objects. ``item``, ``key`` and ``member`` are names for the variables of a lambda.

    count: Unary
    """The number of an array's elements; NULL for another value."""
    name_count: Unary
    """The number of an object's members; NULL for another value."""
    has_other_names: Callable[[Sql, tuple[str, ...]], Sql]
    """``(value, names)``: whether an object has a member of another name; false or NULL for another value."""
    any_item: Callable[[Sql, str, ItemTest, int], Sql]
    """``(value, item, test, start)``: whether the test holds for an element at or after the position ``start``; false
    or NULL for a value that is not an array."""
    least_item: Callable[[Sql, str, ItemTest, int], Sql]
    """``(value, item, body, start)``: the least text, by code points, that the body gives for an element at or after
    the position ``start``. A NULL is skipped. NULL where no text is left and for a value that is not an array."""
    count_items: Callable[[Sql, str, ItemTest], Sql]
    """``(value, item, test)``: the number of elements for which the test holds; NULL for another value."""
    map_items: Callable[[Sql, str, ItemTest], Sql]
    """``(value, item, body)``: an array of the texts that the body gives, in order."""
    any_member: Callable[[Sql, str, str, MemberTest], Sql]
    """``(value, key, member, test)``: whether the test holds for a member; false or NULL for another value."""
    map_members: Callable[[Sql, str, str, MemberTest], Sql]
    """``(value, key, member, body)``: an array of the texts that the body gives, in an order by name alone."""
    join_texts: Unary
    """An array of texts with a comma before each or between them; NULL where one is NULL."""
    repeats: Unary
    """Whether two of an array's texts are equal or one is NULL."""

    # Texts

    length: Unary
    """The number of code points."""
    search: Callable[[Sql, str], Sql]
    """``(text, pattern)``: whether an ECMA-262 pattern matches anywhere."""
    is_date: Unary
    """Whether the first ten characters of a text, of the form ``YYYY-MM-DD``, are a date; false for NULL."""
    lower_ascii: Unary
    """The text with the letters A to Z in lower case."""
    first_word: Unary
    """The text before its first space."""
    trim: Unary
    """The text without blanks at its ends: :data:`~sqlenrich.core.text_functions.BLANK`."""
    blank: Unary
    """Whether a text is NULL or holds blanks alone."""

    # Repairs of an answer's text

    unfence: Unary
    """Of a trimmed text: the text inside the block where it is one Markdown code block, else the text."""
    without_prose: Unary
    """The text without what stands before and after its JSON object."""
    without_trailing_commas: Unary
    """The text without a comma before a closing bracket."""
    may_hold_null: Unary
    """Whether a text may hold a member whose value is null; no false negative."""
    without_nulls: Callable[[Sql, Sequence[str]], Sql]
    """``(text, names)``: a strict JSON text without the members whose value is null, but those of these names."""

    # What only some engines need

    long: tuple[str, ...] = ()
    """Which of ``parse``, ``bigint``, ``is_integer`` (``has_type`` for integers) and ``beyond_bigint`` are long enough
    to be functions of their own in a script."""
    slow_trim: bool = False
    """Whether ``trim`` walks through the whole text: it is then left out where a text begins and ends as an object."""
    unquoted: Unary | None = None
    """A number that a string holds, as a JSON number, other values as they are, where ``number`` and ``bigint`` do not
    read strings. Without it they do."""
    beyond_bigint: Callable[[Sql, Sql], Sql] | None = None
    """``(value, integer)``: whether a number is beyond 64 bits, where ``bigint``, which gave the integer, does not give
    NULL for all of them. Without it NULL from ``bigint`` decides."""
    members: Callable[[Sql, Sequence[str]], Sql] | None = None
    """``(value, names)``: the members of an object by these names, read at once, where each ``get`` would parse its
    text again. :attr:`get_member` reads one of them."""
    get_member: Callable[[Sql, str], Sql] | None = None
    """``(members, name)``: the member of this name, as ``get`` gives it."""
    read_together: Callable[[Mapping[str, Sql], str, Sql], dict[str, Sql]] | None = None
    """``(values, name, list)``: columns by name for values of one parsed text. The first column, called ``name``, reads
    all values at once; the others read ``list``, which refers to it. Without it each column reads its own value."""
