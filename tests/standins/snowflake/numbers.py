"""Numbers, dates, conversions and conditions.

https://docs.snowflake.com/en/sql-reference/functions-numeric, .../functions-conversion and .../functions-conditional,
from memory.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

from tests.standins.snowflake.nodes import Node, coerced, function, same, strict, typed
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    DATE,
    EXACT,
    FLOAT,
    NUMBER,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TIMESTAMP_TZ,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    SqlType,
    common,
    convert,
    order,
    parse_number,
    read_as,
    round_float,
    to_scale,
)


@typed("YEAR")
def year(name: str, arguments: list[Node]) -> Node:
    """https://docs.snowflake.com/en/sql-reference/functions/year, from memory: of a date or a time, as a NUMBER."""
    (moment,) = arguments
    if moment.type not in (DATE, TIMESTAMP):
        raise SnowflakeError(f"{name}: {moment.type} is no date")
    return strict(NUMBER, lambda value: Decimal(value.year), moment)


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


@typed("POWER POW")
def power(name: str, arguments: list[Node]) -> Node:
    """A FLOAT, whatever the numbers are."""
    return strict(FLOAT, lambda x, y: float(x) ** float(y), *_numeric(name, arguments))


@typed("SQRT")
def root(name: str, arguments: list[Node]) -> Node:
    """A FLOAT."""
    return strict(FLOAT, lambda x: math.sqrt(float(x)), *_numeric(name, arguments))


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
    """A text as NUMBER(precision, scale), by default (38, 0), rounded; TRY gives NULL, and takes only texts.

    Of the formats that of hexadecimal digits is known: an X for each.
    """
    value, *shape = arguments
    if name == "TO_NUMBER" and len(shape) == 1 and set(str(shape[0].constant)) == {"X"}:
        digits = len(str(shape[0].constant))
        return strict(NUMBER, lambda text: hexadecimal(text, digits), coerced(value, VARCHAR, name))
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


def hexadecimal(text: str, digits: int) -> Decimal:
    """The number of at most so many hexadecimal digits, of either case."""
    if not re.fullmatch(f"[0-9A-Fa-f]{{1,{digits}}}", text):
        raise SnowflakeError(f"Can't parse '{text}' as number with format '{'X' * digits}'")
    return Decimal(int(text, 16))


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


@function(VARCHAR, VARCHAR, returns=DATE, optional=1)
def try_to_date(text: str, form: str = "YYYY-MM-DD") -> Any:
    """A text as DATE, NULL if it is none; whether a digit may be missing is open."""
    if form != "YYYY-MM-DD":
        raise SnowflakeError(f"TRY_TO_DATE: the format {form!r} is not known here")
    short = re.fullmatch(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", text) if read_as().loose else None
    return _tried("-".join(part.zfill(2) for part in short.groups()) if short else text, DATE)


@function(VARCHAR, returns=TIMESTAMP)
def try_to_timestamp_ntz(text: str) -> Any:
    """A text as TIMESTAMP_NTZ, NULL if it is none."""
    return _tried(text, TIMESTAMP)


@function(VARCHAR, returns=TIMESTAMP_TZ)
def try_to_timestamp_tz(text: str) -> dt.datetime | None:
    """An ISO 8601 text with its offset as TIMESTAMP_TZ, NULL if it is none; a session's zone is not known here."""
    found = re.fullmatch(r"([0-9-]{10})[T ]([0-9:]{8})(\.[0-9]+)?(Z|[+-][0-9]{2}:?[0-9]{2})?", text)
    if found is None:
        return None
    date, time, fraction, offset = found.groups("")
    if not offset or len(fraction) > 7:
        raise SnowflakeError(f"TRY_TO_TIMESTAMP_TZ: {text!r}: an offset and microseconds at most are known here")
    try:
        return dt.datetime.fromisoformat(f"{date}T{time}{fraction}{offset}")
    except ValueError:
        return None


@typed("CONVERT_TIMEZONE")
def convert_timezone(name: str, arguments: list[Node]) -> Node:
    """A TIMESTAMP_TZ in a zone, the same moment; of a time without a zone it is that of the session's zone."""
    zone, value = arguments
    if not isinstance(zone.constant, str) or value.type not in (TIMESTAMP, TIMESTAMP_TZ, TIMESTAMP_LTZ):
        raise SnowflakeError(f"{name}: a constant zone and a time are needed")
    moment = coerced(value, TIMESTAMP_TZ, name)
    return strict(TIMESTAMP_TZ, lambda found: found.astimezone(ZoneInfo(str(zone.constant))), moment)


@function(VARCHAR, VARCHAR, returns=TIMESTAMP)
def to_timestamp_ntz(text: str, form: str) -> dt.datetime:
    """A text in a format; what the format does not say fails."""
    if form != "YYYY-MM-DD HH24:MI:SS":
        raise SnowflakeError(f"TO_TIMESTAMP_NTZ: the format {form!r} is not known here")
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}", text):
        raise SnowflakeError(f"Can't parse '{text}' as timestamp with format '{form}'")
    return dt.datetime.fromisoformat(text)


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
