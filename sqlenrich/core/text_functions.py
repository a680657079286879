"""The SQL functions of prompts that an engine provides: texts, numbers, dates and arrays.

Each function takes sqlglot nodes and gives one node. Its name is the name of the operation in the prompt's expression
tree (:data:`sqlenrich.prompt.ir.nodes.OPERATIONS`). The value in SQL is the value that Python computes for the same
operation in Jinja. Unless a docstring says otherwise, a NULL argument gives NULL and the function never fails a query.
"Fails" means NULL: the row then gets no prompt.

A function may use an argument several times. It copies the argument for each use but the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sqlenrich.core.sql import Build, Sql
from sqlenrich.core.types import Decimal, Type

BLANK = " \t\r\n"
"""The characters that are blank in a prompt's input and that are trimmed from an answer."""
LAST_WORD = " [^ ]*$"
"""A pattern for the last space of a text and what follows it."""
TRAILING_ZEROS = "([.][0-9]*[1-9])0+$|([.]0)0+$"
"""A pattern for the zeros at the end of a number; groups 1 and 2 hold what Python prints instead."""
_TIME_OF_DAY = "([01][0-9]|2[0-3]):[0-5][0-9]"
LOCAL_TIME = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([T ]{_TIME_OF_DAY}(:[0-5][0-9]([.][0-9]+)?)?)?$"
"""A pattern for a text that is a date or a time without an offset."""
_OFFSET = "(Z|UTC|[+-](0[0-9]|1[0-3])(:?[0-5][0-9])?|[+-]14(:?00)?)"
INSTANT = f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME_OF_DAY}:[0-5][0-9]([.][0-9]+)? ?{_OFFSET}$"
"""A pattern for a text that is a time with its offset from UTC."""

Unary: TypeAlias = Callable[[Sql], Sql]
Binary: TypeAlias = Callable[[Sql, Sql], Sql]
Ternary: TypeAlias = Callable[[Sql, Sql, Sql], Sql]
Body: TypeAlias = Callable[[Sql, Sql | None], Sql]
"""The body of a lambda: from the element and its position from 0 (None where the position is not asked for)."""


class Substring(Protocol):
    """``(text, start)`` or ``(text, start, length)``."""

    def __call__(self, text: Sql, start: Sql, length: Sql = ..., /) -> Sql: ...


class Slice(Protocol):
    """``(array, start)`` or ``(array, start, stop)``."""

    def __call__(self, array: Sql, start: Sql, stop: Sql = ..., /) -> Sql: ...


class Variadic(Protocol):
    """Any number of values."""

    def __call__(self, *values: Sql) -> Sql: ...


@dataclass(frozen=True, kw_only=True)
class TextFunctions:
    """The functions of prompts. All are required but those that may be None."""

    # Texts

    upper: Unary
    """Python's ``str.upper``; NULL for a text with a character whose case the engine maps otherwise."""
    lower: Unary
    """Python's ``str.lower``; NULL for a text with a character whose case the engine maps otherwise."""
    trim: Binary
    """``(text, characters)``: the text without these characters at both ends."""
    ltrim: Binary
    """``(text, characters)``: the text without these characters at its start."""
    rtrim: Binary
    """``(text, characters)``: the text without these characters at its end."""
    replace: Ternary
    """``(text, old, new)``: each occurrence of a text that is not empty, from left to right."""
    translate: Ternary
    """``(text, characters, others)``: each character by the one at its position in a text of equal length."""
    cut_word: Unary
    """The text without its last space and what follows it; a text without a space as it is."""
    length: Unary
    """The number of code points."""
    bytes: Unary
    """The number of bytes in UTF-8."""
    substr: Substring
    """``(text, start, length)`` in code points: ``start`` counts from 1; without ``length`` up to the end."""
    contains: Binary
    """``(text, part)``: whether the part occurs; always for an empty one."""
    startswith: Binary
    """``(text, part)``: whether the text starts with the part."""
    endswith: Binary
    """``(text, part)``: whether the text ends with the part."""
    matches: Binary
    """``(text, pattern)``: whether a regular expression, a constant, matches anywhere in the text."""
    split: Binary
    """``(text, separator)``: the parts between occurrences of a constant that is not empty; never an empty array."""
    text_index: Binary
    """``(text, part)``: the first position of the part from 0; NULL where it does not occur."""

    # Values as texts, as Python prints them

    text_bigint: Unary
    """A bigint as text."""
    text_double: Callable[[Sql, int], Sql]
    """A double below 10**15 rounded to ``digits`` decimals, without zeros at its end but one after the point."""
    text_decimal: Callable[[Sql, Decimal], Sql]
    """A decimal of this type as text, with all digits of its scale."""
    text_date: Unary
    """A date as ``YYYY-MM-DD``."""
    text_timestamp: Unary
    """A timestamp as ``YYYY-MM-DD HH:MM:SS``, with six decimals of the second where they are not all zero."""
    fixed: Callable[[Sql, int], Sql]
    """A double with this number of decimals, rounded half to even by its exact value, ``-0.0`` with its sign."""
    strip_zeros: Unary
    """A number's text without zeros at its end but one after the point."""

    # Integers of 64 bits

    bigint: Unary
    """An integer from a text, blanks around it allowed; NULL for another text and beyond 64 bits."""
    try_add: Binary
    """The sum; NULL beyond 64 bits."""
    try_subtract: Binary
    """The difference; NULL beyond 64 bits."""
    try_multiply: Binary
    """The product; NULL beyond 64 bits."""
    try_negative: Unary
    """The negative; NULL beyond 64 bits."""
    divide_whole: Binary
    """The quotient without its decimals, cut towards zero, for a constant divisor that is neither 0 nor -1."""
    greatest: Binary
    """The greater of two numbers; NULL where one is NULL."""
    least: Binary
    """The lesser of two numbers; NULL where one is NULL."""
    truncated: Unary
    """A double's or a decimal's integer part; NULL beyond 64 bits and for what is not finite."""

    # Doubles

    double: Unary
    """A bigint or a decimal as a double."""
    double_of_text: Unary
    """A double from a text that matches a plain number of at most 15 digits on each side of the point."""
    double_add: Binary
    """The sum; what is not finite may be NULL."""
    double_subtract: Binary
    """The difference; what is not finite may be NULL."""
    double_multiply: Binary
    """The product; what is not finite may be NULL."""
    double_divide: Binary
    """The quotient; NULL for a divisor of 0, where Python raises."""
    double_abs: Unary
    """The absolute value."""
    is_nan: Unary
    """Whether a double is NaN."""
    floor: Unary
    """The greatest whole double that is not above a double below 10**15."""
    ceil: Unary
    """The least whole double that is not below a double below 10**15."""
    round: Callable[[Sql, int], Sql]
    """A double rounded to ``digits`` decimals as Python does: by its exact value, half to even."""

    # Decimals

    decimal: Callable[[str, Decimal], Sql]
    """A constant, written as text, of this type."""
    round_decimal: Callable[[Sql, int, Decimal, Decimal], Sql]
    """``(value, digits, before, after)``: rounded half to even; ``before`` and ``after`` are its types."""

    # Timestamps. In a prompt each one is a local time: it has no time zone, and none of these functions reads that of
    # the session. ``zone`` is a constant, the name of a time zone.

    at_zone: Binary
    """``(instant, zone)``: the local time of an instant."""
    local_time: Binary
    """``(value, zone)``: the local time of a value that is an instant or a local time: scripts do not know which. A
    text with an offset fails the query, since a cast would drop it."""
    no_timestamps: Callable[[Sequence[Sql], str], Sql]
    """``(values, problem)``: true where none of these values, which may have any type, is a timestamp; else the query
    fails with the problem."""
    time_of_text: Binary
    """``(text, zone)``: the local time of a text that matches ``LOCAL_TIME``, or ``INSTANT`` with its offset; NULL for
    any other text. Digits after microseconds are dropped."""
    constant_time: Callable[[str], Sql]
    """The local time that a text such as ``2026-01-31 09:05:07.000001`` writes."""
    date_of_time: Unary
    """The date of a local time."""

    # Parts of dates and timestamps, as bigint

    year: Unary
    """The year."""
    month: Unary
    """The month from 1."""
    day: Unary
    """The day of the month from 1."""
    hour: Unary
    """The hour of a timestamp."""
    minute: Unary
    """The minute of a timestamp."""
    second: Unary
    """The whole second of a timestamp."""

    # Arrays. Positions count from 0. ``item`` and ``position`` are names for the variables of a lambda, ``kind`` is the
    # type of an element. An element may be NULL.

    array: Variadic
    """An array of these values; without values an empty array, which fits beside an array of any type."""
    size: Unary
    """The number of elements as bigint."""
    element: Callable[[Sql, Sql, Type], Sql]
    """``(array, index, kind)``: an element; a negative index counts from the end; NULL beyond either end."""
    struct: Callable[[Mapping[str, Sql]], Sql]
    """A struct of these fields."""
    field: Callable[[Sql, str, Type], Sql]
    """``(struct, name, kind)``: a field of a struct."""
    array_index: Binary
    """``(array, value)``: the first position of a value; NULL where it does not occur."""
    array_slice: Slice
    """``(array, start, stop)``: elements from ``start`` to before ``stop``, both at least 0; without ``stop`` to the
    end; an empty array where there are none."""
    array_concat: Binary
    """The elements of one array and then of the other."""
    array_join: Binary
    """``(texts, separator)``: one text of an array without NULL; the separator is a constant."""
    sequence: Unary
    """The positions 0 to ``count`` - 1; an empty array for a count below 1."""
    sum: Unary
    """The sum of an array of bigint without NULL, 0 for an empty one; NULL beyond 64 bits."""
    map: Callable[[Sql, str, str | None, Body, Type], Sql]
    """``(array, item, position, body, kind)``: what the body gives for each element, in order."""
    flat_map: Callable[[Sql, str, str | None, Body, Type], Sql]
    """``(array, item, position, body, kind)``: the arrays that the body gives, as one array, in order."""
    where: Callable[[Sql, str, Body, Type], Sql]
    """``(array, item, test, kind)``: the elements for which the test is true, not NULL, in order."""
    exists: Callable[[Sql, str, str | None, Body, Type], Sql]
    """``(array, item, position, test, kind)``: whether the test is true for an element; never NULL for an array."""
    unique: Callable[[Sql, str, Body, Type], Sql]
    """``(array, item, key, kind)``: the first element of each key, in order; no key is NULL."""
    sort: Callable[[Sql, str, Body, Type, bool], Sql] | None = None
    """``(array, item, key, kind, descending)``: elements by key, equal keys in their order, as Python sorts; no key is
    NULL. Texts are compared by code point. Without it each element is put at its rank, by ``where`` and ``size``."""
    boxed: Unary | None = None
    """An array as an element of another array, where an array holds no arrays. Without it the array itself."""
    unboxed: Unary | None = None
    """The array that ``boxed`` was given. Without it the element itself."""


def text_function(functions: TextFunctions, operation: str) -> Build:
    """Return the function of an operation by its name."""
    function: Build = getattr(functions, operation)
    return function
