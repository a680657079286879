"""Snowflake's functions: what each does, in one line, from memory of its documentation, and that.

An argument's type stands as it is coerced; a function whose argument is NULL gives NULL, unless it says otherwise.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from functools import lru_cache
from typing import Any

from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    DATE,
    EXACT,
    FLOAT,
    JSON_NULL,
    NUMBER,
    OBJECT,
    TIMESTAMP,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    SqlType,
    castable,
    coercible,
    common,
    convert,
    equal,
    kind,
    order,
    parse_number,
    round_float,
    to_scale,
    to_text,
    typeof,
)

Evaluate = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Node:
    """A typed expression and how a row gives its value; ``constant`` where it is a literal."""

    type: SqlType
    value: Evaluate
    constant: Any = None


@dataclass(frozen=True)
class Function:
    """A function of values: the types of its arguments, of which some may be left out, and of its result."""

    run: Callable[..., Any]
    arguments: tuple[SqlType, ...]
    required: int
    returns: SqlType
    nulls: bool


FUNCTIONS: dict[str, Function] = {}
"""By name: functions whose types don't depend on the arguments'."""

TYPED: dict[str, Callable[[str, list[Node]], Node]] = {}
"""By name: functions whose result has the type of their arguments."""

ANY = SqlType("ANY")
EXACT_VARIANT = SqlType("VARIANT!")
"""An argument that is not coerced to VARIANT: an explicit cast is asked for."""


def function(
    *arguments: SqlType, returns: SqlType, optional: int = 0, nulls: bool = False, names: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its own name and others."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        made = Function(run, arguments, len(arguments) - optional, returns, nulls)
        for name in (run.__name__.strip("_"), *names.split()):
            FUNCTIONS[name.upper()] = made
        return run

    return register


def typed(names: str) -> Callable[[Callable[[str, list[Node]], Node]], Callable[[str, list[Node]], Node]]:
    """Register a function that sees its arguments' types."""

    def register(build: Callable[[str, list[Node]], Node]) -> Callable[[str, list[Node]], Node]:
        TYPED.update(dict.fromkeys(names.split(), build))
        return build

    return register


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
    """POSIX ERE with Perl's backslash classes; a dot is no newline without ``s``, ``$`` the very end without ``m``."""
    unknown = re.search(r"\(\?|\[\[:|[*+?}][*+?]|\\[1-9]", re.sub(r"\\\\", "", written))
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


@function(VARCHAR, VARCHAR, NUMBER, NUMBER, NUMBER, VARCHAR, returns=NUMBER, optional=4)
def regexp_instr(
    text: str, written: str, start: int = 1, occurrence: int = 1, option: int = 0, parameters: str = "c"
) -> int:
    """The place from 1 of an occurrence, or 0; with option 1 the place behind it."""
    for number, found in enumerate(pattern(written, parameters).finditer(text, start - 1), 1):
        if number == occurrence:
            return (found.end() if option else found.start()) + 1
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
        return re.sub(r"\\(\d)", lambda group: found[int(group[1])] or "", by)

    return pattern(written, parameters).sub(replacement, text, count=occurrence)


@function(VARCHAR, VARCHAR, NUMBER, NUMBER, VARCHAR, NUMBER, returns=VARCHAR, optional=4)
def regexp_substr(
    text: str, written: str, start: int = 1, occurrence: int = 1, parameters: str = "c", group: int | None = None
) -> str | None:
    """The substring that matches, NULL if none does; a group with ``e``."""
    for number, found in enumerate(pattern(written, parameters).finditer(text, start - 1), 1):
        if number == occurrence:
            return found[group or (1 if "e" in parameters and found.re.groups else 0)]
    return None


@function(VARCHAR, VARCHAR, returns=NUMBER)
def regexp_count(text: str, written: str) -> int:
    """The number of times that a pattern occurs."""
    return sum(1 for _ in pattern(written).finditer(text))


# Numbers --------------------------------------------------------------------------------------------------------------


@typed("ABS")
def absolute(name: str, arguments: list[Node]) -> Node:
    """Returns the absolute value of a numeric expression, of the same type."""
    (number,) = _numeric(name, arguments)
    return strict(number.type, abs, number)


@typed("SIGN")
def sign(name: str, arguments: list[Node]) -> Node:
    """-1, 0 or 1."""
    return strict(NUMBER, lambda x: (x > 0) - (x < 0), *_numeric(name, arguments))


@typed("ROUND")
def rounded(name: str, arguments: list[Node]) -> Node:
    """Halves away from zero; ``'HALF_TO_EVEN'`` for a fixed-point number alone; a scale that is no constant fails."""
    number, places, mode = _rounding(arguments, name, most=3)
    even = mode == "HALF_TO_EVEN"
    if number.type.name == "FLOAT":
        if mode is not None:
            raise SnowflakeError("ROUND: a rounding mode is for fixed-point numbers alone")
        return strict(FLOAT, lambda x: round_float(x, places, ROUND_HALF_UP), number)
    scale = max(0, min(places, number.type.scale))
    return strict(SqlType("NUMBER", scale), lambda x: to_scale(to_scale(x, places, even=even), scale), number)


@typed("TRUNC TRUNCATE")
def truncated(name: str, arguments: list[Node]) -> Node:
    """Rounds toward zero."""
    return _toward(name, arguments, ROUND_DOWN)


@typed("FLOOR")
def floor(name: str, arguments: list[Node]) -> Node:
    """The nearest equal or smaller number of that scale."""
    return _toward(name, arguments, ROUND_FLOOR)


@typed("CEIL CEILING")
def ceil(name: str, arguments: list[Node]) -> Node:
    """The nearest equal or larger number of that scale."""
    return _toward(name, arguments, ROUND_CEILING)


def _toward(name: str, arguments: list[Node], toward: str) -> Node:
    number, places, _ = _rounding(arguments, name, most=2)
    if number.type.name == "FLOAT":
        return strict(FLOAT, lambda x: round_float(x, places, toward), number)
    scale = max(0, min(places, number.type.scale))

    def cut(x: Any) -> Any:
        with localcontext(EXACT):
            return to_scale(Decimal(x).quantize(Decimal(1).scaleb(-places), toward), scale)

    return strict(SqlType("NUMBER", scale), cut, number)


def _rounding(arguments: list[Node], name: str, most: int) -> tuple[Node, int, str | None]:
    if not 1 <= len(arguments) <= most:
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    (number,) = _numeric(name, arguments[:1])
    for argument in arguments[1:]:
        if argument.constant is None:
            raise SnowflakeError(f"{name}: only constant scales and modes are known here")
    places = int(arguments[1].constant) if len(arguments) > 1 else 0
    return number, places, str(arguments[2].constant) if len(arguments) > 2 else None


def _numeric(name: str, arguments: list[Node]) -> list[Node]:
    for argument in arguments:
        if argument.type.name not in ("NUMBER", "FLOAT"):
            raise SnowflakeError(f"{name}: {argument.type} is no number; cast it")
    return arguments


@typed("MOD")
def mod(name: str, arguments: list[Node]) -> Node:
    """The remainder, with the sign of the first argument; division by zero fails."""
    a, b = _numeric(name, arguments)
    made = common([a.type, b.type], name)

    def remainder(x: Any, y: Any) -> Any:
        if y == 0:
            raise SnowflakeError("Division by zero")
        return math.fmod(x, y) if made == FLOAT else to_scale(Decimal(x) % Decimal(y), made.scale)

    return strict(made, remainder, a, b)


@typed("TO_NUMBER TO_DECIMAL TO_NUMERIC TRY_TO_NUMBER TRY_TO_DECIMAL TRY_TO_NUMERIC")
def to_number(name: str, arguments: list[Node]) -> Node:
    """A text as NUMBER(precision, scale), by default (38, 0), rounded; TRY gives NULL, and takes only texts."""
    value, *shape = arguments
    if any(not isinstance(node.constant, int) for node in shape) or len(shape) > 2:
        raise SnowflakeError(f"{name}: only constant precisions and scales are known here")
    precision, scale = ([node.constant for node in shape] + [38, 0][len(shape) :])[:2]
    made = SqlType("NUMBER", scale, precision)
    if not name.startswith("TRY_"):
        return coerced(value, made, name, cast=True)
    if value.type.name not in ("VARCHAR", "NULL"):
        raise SnowflakeError(f"{name}: a text is needed, not {value.type}")

    def parsed(text: str) -> Any:
        number = parse_number(text, scale)
        return number if number is not None and abs(number) < Decimal(10) ** (precision - scale) else None

    return strict(made, parsed, value)


@function(VARCHAR, returns=FLOAT)
def try_to_double(text: str) -> float | None:
    """A text as FLOAT, NULL if it is no number."""
    try:
        return float(convert(text, VARCHAR, FLOAT))
    except SnowflakeError:
        return None


# Conversions ----------------------------------------------------------------------------------------------------------

_FORMAT = {
    "YYYY": "{0.year:04}", "MM": "{0.month:02}", "DD": "{0.day:02}", "HH24": "{0.hour:02}", "MI": "{0.minute:02}",
    "SS": "{0.second:02}", "FF6": "{0.microsecond:06}",
}  # fmt: skip


@typed("TO_CHAR TO_VARCHAR")
def to_varchar(name: str, arguments: list[Node]) -> Node:
    """A value as text; a date or timestamp in a format of YYYY, MM, DD, HH24, MI, SS and FF."""
    value, *form = arguments
    if not form:
        return coerced(value, VARCHAR, name, cast=True)
    if value.type.name not in ("DATE", "TIMESTAMP_NTZ") or not isinstance(form[0].constant, str):
        raise SnowflakeError(f"{name}: only constant formats of dates are known here")
    written = form[0].constant
    if re.sub("|".join(_FORMAT), "", written).strip("-:. /T"):
        raise SnowflakeError(f"{name}: the format {written!r} is not known here")
    layout = re.sub("|".join(_FORMAT), lambda found: _FORMAT[found[0]], written)
    whole = value.type.name == "TIMESTAMP_NTZ"
    return strict(VARCHAR, lambda x: layout.format(x if whole else dt.datetime(x.year, x.month, x.day)), value)


@function(VARCHAR, returns=DATE)
def to_date(text: str) -> dt.date:
    """A text as DATE."""
    made: dt.date = convert(text, VARCHAR, DATE)
    return made


@function(VARCHAR, returns=DATE)
def try_to_date(text: str) -> Any:
    """A text as DATE, NULL if it is none."""
    return _tried(text, DATE)


@function(VARCHAR, returns=TIMESTAMP)
def try_to_timestamp_ntz(text: str) -> Any:
    """A text as TIMESTAMP_NTZ, NULL if it is none."""
    return _tried(text, TIMESTAMP)


@function(VARCHAR, returns=BOOLEAN)
def try_to_boolean(text: str) -> Any:
    """A text as BOOLEAN, NULL if it is none."""
    return _tried(text, BOOLEAN)


def _tried(text: str, target: SqlType) -> Any:
    try:
        return convert(text, VARCHAR, target)
    except SnowflakeError:
        return None


@typed("TO_VARIANT")
def to_variant(name: str, arguments: list[Node]) -> Node:
    """Converts any value to a VARIANT value; NULL stays SQL NULL."""
    (value,) = arguments
    return Node(VARIANT, value.value)


@typed("TO_ARRAY")
def to_array(name: str, arguments: list[Node]) -> Node:
    """An array stays, NULL stays, another value becomes its only element."""
    (value,) = arguments
    return Node(ARRAY, lambda row: convert(value.value(row), value.type, ARRAY))


@function(ANY, returns=VARCHAR)
def to_json(value: Any) -> str:
    """A VARIANT as JSON text."""
    return to_text(value) if not isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Conditions -----------------------------------------------------------------------------------------------------------


@typed("COALESCE NVL IFNULL")
def coalesce(name: str, arguments: list[Node]) -> Node:
    """The first value that is not NULL; a JSON null is none."""
    if len(arguments) < 2 or (name != "COALESCE" and len(arguments) != 2):
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    made = common([argument.type for argument in arguments], name)
    parts = [coerced(argument, made, name).value for argument in arguments]

    def value(row: dict[str, Any]) -> Any:
        for part in parts:
            if (found := part(row)) is not None:
                return found
        return None

    return Node(made, value)


@typed("NULLIF")
def nullif(name: str, arguments: list[Node]) -> Node:
    """NULL if both are equal, else the first."""
    a, b = arguments
    made = common([a.type, b.type], name)
    first, second = coerced(a, made, name).value, coerced(b, made, name).value

    def value(row: dict[str, Any]) -> Any:
        found = first(row)
        return None if found is not None and same(found, second(row), made) else found

    return Node(made, value)


@typed("IFF")
def iff(name: str, arguments: list[Node]) -> Node:
    """One of two values by a condition; NULL counts as false."""
    test, then, other = arguments
    made = common([then.type, other.type], name)
    test, then, other = coerced(test, BOOLEAN, name), coerced(then, made, name), coerced(other, made, name)
    return Node(made, lambda row: then.value(row) if test.value(row) else other.value(row))


@typed("EQUAL_NULL")
def equal_null(name: str, arguments: list[Node]) -> Node:
    """Whether both are equal, NULL taken as a value; a JSON null is another one."""
    a, b = arguments
    made = common([a.type, b.type], name)
    first, second = coerced(a, made, name).value, coerced(b, made, name).value
    return Node(BOOLEAN, lambda row: same(first(row), second(row), made))


def same(a: Any, b: Any, made: SqlType) -> bool:
    """Whether two values of one type are equal; two NULLs are."""
    if a is None or b is None:
        return a is b
    return equal(a, b) if made.name in ("VARIANT", "ARRAY", "OBJECT") else bool(order(a) == order(b))


@typed("GREATEST LEAST")
def extreme(name: str, arguments: list[Node]) -> Node:
    """The largest or smallest value; NULL if any is NULL."""
    made = common([argument.type for argument in arguments], name)
    if made.name in ("VARIANT", "ARRAY", "OBJECT"):
        raise SnowflakeError(f"{name}: values of the type {made} are not known here")
    pick: Callable[..., Any] = max if name == "GREATEST" else min
    return strict(
        made, lambda *values: pick(values, key=order), *(coerced(argument, made, name) for argument in arguments)
    )


# Arrays and objects ---------------------------------------------------------------------------------------------------


@typed("ARRAY_CONSTRUCT")
def array_construct(name: str, arguments: list[Node]) -> Node:
    """An array of the arguments; NULL becomes undefined, a JSON null stays."""
    return Node(ARRAY, lambda row: [argument.value(row) for argument in arguments])


@typed("GET")
def get(name: str, arguments: list[Node]) -> Node:
    """An element from 0, or a field, whose case counts; NULL outside of the bounds, or where there is none."""
    value, key = arguments
    if value.type.name not in ("ARRAY", "OBJECT", "VARIANT") or key.type.name not in ("NUMBER", "VARCHAR", "NULL"):
        raise SnowflakeError(f"GET: no element {key.type} of {value.type}")
    if (value.type.name, key.type.name) in (("ARRAY", "VARCHAR"), ("OBJECT", "NUMBER")):
        raise SnowflakeError(f"GET: no element {key.type} of {value.type}")

    def found(container: Any, at: Any) -> Any:
        if isinstance(container, dict) and isinstance(at, str):
            return container.get(at)
        if isinstance(container, list) and isinstance(at, int):
            return container[at] if 0 <= at < len(container) else None
        return None

    return strict(VARIANT, found, value, key)


@function(EXACT_VARIANT, VARCHAR, returns=VARIANT)
def get_path(value: Any, path: str) -> Any:
    """Fields and elements by a path such as ``a.b[0]``; NULL where there is none."""
    for name, place in re.findall(r"([A-Za-z_][\w$]*)|\[(\d+)\]", path):
        if name and isinstance(value, dict):
            value = value.get(name)
        elif place and isinstance(value, list) and int(place) < len(value):
            value = value[int(place)]
        else:
            return None
    return value


@function(ARRAY, returns=NUMBER)
def array_size(array: list[Any]) -> int:
    """The number of elements, those that are undefined too."""
    return len(array)


@function(ARRAY, NUMBER, NUMBER, returns=ARRAY)
def array_slice(array: list[Any], start: int, stop: int) -> list[Any]:
    """From one position to before another, from 0; negative positions count from the end; empty outside."""
    return array[start:stop]


@function(NUMBER, NUMBER, NUMBER, returns=ARRAY, optional=1)
def array_generate_range(start: int, stop: int, step: int = 1) -> list[int]:
    """From start to before stop; empty if they are equal or the step leads away."""
    if step == 0:
        raise SnowflakeError("ARRAY_GENERATE_RANGE: the step is 0")
    return list(range(start, stop, step))


@function(ARRAY, VARCHAR, returns=VARCHAR)
def array_to_string(array: list[Any], separator: str) -> str:
    """All elements as texts with a separator between them; a NULL is an empty text."""
    return separator.join("" if item is None or item is JSON_NULL else to_text(item) for item in array)


@function(EXACT_VARIANT, ARRAY, returns=BOOLEAN, nulls=True)
def array_contains(value: Any, array: list[Any] | None) -> bool | None:
    """TRUE also for NULL where an element is undefined; NULL for NULL where none is."""
    if array is None:
        return None
    if any(item is None if value is None else item is not None and equal(item, value) for item in array):
        return True
    return None if value is None else False


@function(EXACT_VARIANT, ARRAY, returns=NUMBER)
def array_position(value: Any, array: list[Any]) -> int | None:
    """The place from 0 of the first element that is equal, NULL if none is."""
    return next((place for place, item in enumerate(array) if item is not None and equal(item, value)), None)


@function(ARRAY, ARRAY, returns=ARRAY)
def array_cat(a: list[Any], b: list[Any]) -> list[Any]:
    """Both arrays, one behind the other."""
    return [*a, *b]


@function(ARRAY, ANY, returns=ARRAY, nulls=True)
def array_append(array: list[Any] | None, value: Any) -> list[Any] | None:
    """The array with one more element; NULL as an element is undefined."""
    return None if array is None else [*array, value]


@function(ARRAY, ANY, returns=ARRAY, nulls=True)
def array_prepend(array: list[Any] | None, value: Any) -> list[Any] | None:
    """The array with one more element at its start."""
    return None if array is None else [value, *array]


@function(ARRAY, returns=ARRAY)
def array_compact(array: list[Any]) -> list[Any]:
    """Without missing and null values."""
    return [item for item in array if item is not None and item is not JSON_NULL]


@function(ARRAY, returns=ARRAY)
def array_flatten(array: list[Any]) -> list[Any] | None:
    """An array of arrays as one; NULL for an element that is undefined, an error for one that is no array."""
    if any(item is None for item in array):
        return None
    if not all(isinstance(item, list) for item in array):
        raise SnowflakeError("ARRAY_FLATTEN: not a nested array")
    return [part for item in array for part in item]


@function(ARRAY, returns=ARRAY)
def array_reverse(array: list[Any]) -> list[Any]:
    """The elements in reverse order."""
    return array[::-1]


@function(ARRAY, BOOLEAN, BOOLEAN, returns=ARRAY, optional=2)
def array_sort(array: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    """By value; NULLs last if ascending, else first; elements of several types are not known here."""
    values = [item for item in array if item is not None]
    if len({kind(item) for item in values}) > 1 or any(isinstance(item, list | dict) for item in values):
        raise SnowflakeError("ARRAY_SORT: only texts, or numbers, or booleans alone are known here")
    if values and values[0] is not JSON_NULL:
        values.sort(reverse=not ascending)
    missing = [None] * (len(array) - len(values))
    return missing + values if (not ascending if nulls_first is None else nulls_first) else values + missing


def _distinct(array: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in array:
        if not any((item is None and other is None) or equal(item, other) for other in kept):
            kept.append(item)
    return kept


@function(ARRAY, returns=ARRAY)
def array_distinct(array: list[Any]) -> list[Any]:
    """Each value once, in no particular order: here backwards, so that nothing may rely on one."""
    return _distinct(array)[::-1]


@function(ARRAY, ARRAY, returns=ARRAY)
def array_except(array: list[Any], other: list[Any]) -> list[Any]:
    """Multiset difference, in no particular order: here backwards."""
    left_over = list(other)
    kept = []
    for item in array:
        found = next((place for place, value in enumerate(left_over) if equal(item, value)), None)
        if found is None:
            kept.append(item)
        else:
            del left_over[found]
    return kept[::-1]


@function(ARRAY, ARRAY, returns=BOOLEAN)
def arrays_overlap(a: list[Any], b: list[Any]) -> bool:
    """Whether two arrays have an element in common."""
    return any(equal(x, y) for x in a for y in b)


@function(ARRAY, returns=VARIANT)
def array_max(array: list[Any]) -> Any:
    """The largest element that is not NULL; NULL if there is none."""
    values = array_sort([item for item in array if item is not None and item is not JSON_NULL])
    return values[-1] if values else None


@function(ARRAY, returns=VARIANT)
def array_min(array: list[Any]) -> Any:
    """The smallest element that is not NULL; NULL if there is none."""
    values = array_sort([item for item in array if item is not None and item is not JSON_NULL])
    return values[0] if values else None


@function(OBJECT, returns=ARRAY)
def object_keys(value: dict[str, Any]) -> list[str]:
    """The names at the top level, in no particular order: here backwards."""
    return list(value)[::-1]


# JSON -----------------------------------------------------------------------------------------------------------------


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > len({name for name, _ in pairs}):
        raise ValueError("duplicate name")
    return dict(pairs)


def _nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: _nulls(item) for name, item in value.items()}
    return JSON_NULL if value is None else value


@function(VARCHAR, returns=VARIANT)
def try_parse_json(text: str) -> Any:
    """A VARIANT, NULL for an empty text or one that is no JSON; a name twice is none; commas may trail."""
    text = re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[]}])', lambda found: found[1] or "", text, flags=re.DOTALL)

    def number(written: str) -> float | Decimal:
        return float(written) if "e" in written.lower() else Decimal(written)

    try:
        value = _nulls(json.loads(text, object_pairs_hook=_once, parse_float=number))
        json.dumps(value, ensure_ascii=False, default=str).encode()  # half a surrogate pair is no text
    except (ValueError, RecursionError):
        return None
    return value


@function(VARCHAR, returns=VARIANT)
def parse_json(text: str) -> Any:
    """A VARIANT; an error for a text that is no JSON."""
    value = try_parse_json(text)
    if value is None and text.strip():
        raise SnowflakeError(f"Error parsing JSON: {text[:100]}")
    return value


@function(EXACT_VARIANT, returns=VARCHAR)
def _typeof(value: Any) -> str:
    """The type of what a VARIANT holds: OBJECT, ARRAY, VARCHAR, INTEGER, DECIMAL, DOUBLE, BOOLEAN, NULL_VALUE."""
    return typeof(value)


def _as(name: str, python: type, made: SqlType) -> None:
    FUNCTIONS[name] = Function(
        lambda value: value if isinstance(value, python) else None, (EXACT_VARIANT,), 1, made, False
    )


_as("AS_ARRAY", list, ARRAY)
_as("AS_OBJECT", dict, OBJECT)
_as("AS_BOOLEAN", bool, BOOLEAN)
_as("AS_VARCHAR", str, VARCHAR)
_as("AS_CHAR", str, VARCHAR)


@function(EXACT_VARIANT, returns=BOOLEAN)
def is_null_value(value: Any) -> bool:
    """TRUE for a JSON null, NULL for SQL's NULL."""
    return value is JSON_NULL


# Nodes ----------------------------------------------------------------------------------------------------------------


def strict(made: SqlType, run: Callable[..., Any], *arguments: Node) -> Node:
    """A call whose result is NULL as soon as an argument is."""
    values = [argument.value for argument in arguments]

    def value(row: dict[str, Any]) -> Any:
        given = []
        for each in values:
            found = each(row)
            if found is None:
                return None
            given.append(found)
        return run(*given)

    return Node(made, value)


def coerced(node: Node, target: SqlType, what: str, *, cast: bool = False) -> Node:
    """A value where another type is asked for."""
    if not (castable if cast else coercible)(node.type, target):
        raise SnowflakeError(f"{what}: {node.type} is not {'cast' if cast else 'coerced'} to {target}")
    if node.type == target:
        return node
    source, given = node.type, node.value
    return Node(target, lambda row: convert(given(row), source, target), node.constant)


def call(name: str, arguments: list[Node]) -> Node:
    """A call of a function by its name."""
    if name in TYPED:
        try:
            return TYPED[name](name, arguments)
        except ValueError as error:
            raise SnowflakeError(f"{name}: {len(arguments)} arguments ({error})") from None
    known = FUNCTIONS.get(name)
    if known is None:
        raise SnowflakeError(f"Unknown function {name}")
    if not known.required <= len(arguments) <= len(known.arguments):
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    given = []
    for argument, target in zip(arguments, known.arguments, strict=False):
        if target is EXACT_VARIANT and argument.type.name not in ("VARIANT", "NULL"):
            raise SnowflakeError(f"{name}: a VARIANT is needed, not {argument.type}")
        plain = argument.type if target in (ANY, EXACT_VARIANT) else target
        given.append(coerced(argument, plain, name))
    if known.nulls:
        return Node(known.returns, lambda row: known.run(*(argument.value(row) for argument in given)))
    return strict(known.returns, known.run, *given)


__all__ = ["FUNCTIONS", "TYPED", "Node", "call", "coerced", "same", "strict"]
