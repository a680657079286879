"""Types, values and conversions.

SQL NULL is None. A VARIANT, and an element of an ARRAY or OBJECT, is a Python value of its own type: text, bool, int,
Decimal, float, date, list, dict, :data:`JSON_NULL`, or None, which Snowflake prints as ``undefined`` in an array.

https://docs.snowflake.com/en/sql-reference/data-type-conversion and .../data-types-semistructured.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any, Final, Literal


class SnowflakeError(Exception):
    """What Snowflake refuses, or what this stand-in does not know."""


class JsonNull:
    """The null of JSON inside a VARIANT, which is not SQL's NULL."""

    def __repr__(self) -> str:
        return "null"


JSON_NULL: Final = JsonNull()


@dataclass(frozen=True)
class Reading:
    """How to take what the documentation leaves open of JSON; a query that is right gives the same under each.

    ``loose``: every text is JSON that isn't said to be none. ``whole``: a decimal loses its trailing zeros, and is an
    integer without decimals. ``doubles``: the text of a DOUBLE in a VARIANT, as its display is documented, the
    shortest, or an error where it is not certain. ``behind_utc_h`` is the session's time zone: by default that of
    Snowflake, America/Los_Angeles, in winter.
    """

    loose: bool = False
    whole: bool = False
    doubles: Literal["certain", "shortest", "display"] = "certain"
    behind_utc_h: int = 8


PLAIN: Final = Reading()
READINGS: Final = {
    "strict": Reading(doubles="shortest"),
    "loose": Reading(loose=True, whole=True, doubles="display"),
}
_READING: ContextVar[Reading] = ContextVar("reading", default=PLAIN)


def read_as() -> Reading:
    """The reading of this query."""
    return _READING.get()


@contextmanager
def reading(chosen: Reading) -> Iterator[None]:
    """Choose the reading of a query."""
    token = _READING.set(chosen)
    try:
        yield
    finally:
        _READING.reset(token)


@dataclass(frozen=True)
class SqlType:
    """A type; ``scale`` counts for NUMBER alone."""

    name: str
    scale: int = 0
    precision: int = 38

    def __str__(self) -> str:
        return f"NUMBER({self.precision}, {self.scale})" if self.name == "NUMBER" else self.name


NULL, VARCHAR, NUMBER, FLOAT, BOOLEAN, DATE, TIMESTAMP, VARIANT, ARRAY, OBJECT = (
    SqlType(name)
    for name in ("NULL", "VARCHAR", "NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_NTZ", "VARIANT", "ARRAY", "OBJECT")
)
TIMESTAMP_TZ, TIMESTAMP_LTZ = SqlType("TIMESTAMP_TZ"), SqlType("TIMESTAMP_LTZ")
VECTOR = SqlType("VECTOR")
"""Of FLOAT. It has no coercion, and the only type that it is cast to is ARRAY."""

_COERCED = {
    "NULL": {"VARCHAR", "NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_NTZ", "VARIANT", "ARRAY", "OBJECT"},
    "VARCHAR": {"NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_TZ", "VARIANT"},
    "NUMBER": {"VARCHAR", "FLOAT", "BOOLEAN", "VARIANT"},
    "FLOAT": {"VARCHAR", "NUMBER", "BOOLEAN", "VARIANT"},
    "BOOLEAN": {"VARCHAR", "VARIANT"},
    "DATE": {"VARCHAR", "TIMESTAMP_NTZ", "VARIANT"},
    "TIMESTAMP_NTZ": {"VARCHAR", "DATE", "VARIANT", "TIMESTAMP_TZ", "TIMESTAMP_LTZ"},
    "TIMESTAMP_TZ": {"TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "VARCHAR", "DATE", "VARIANT"},
    "TIMESTAMP_LTZ": {"TIMESTAMP_NTZ", "TIMESTAMP_TZ", "VARCHAR", "DATE", "VARIANT"},
    "VARIANT": {"VARCHAR", "NUMBER", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_TZ", "ARRAY"},
    "ARRAY": {"VARIANT"},
    "OBJECT": {"VARIANT", "ARRAY"},
    "VECTOR": set[str](),
}
"""What is converted without a cast: the column "coercible" of Snowflake's table of data type conversion."""

_CAST_ONLY = {
    "BOOLEAN": {"NUMBER"},
    "VARCHAR": set[str](),
    "VARIANT": {"OBJECT"},
    "ARRAY": {"VARCHAR"},
    "OBJECT": {"VARCHAR"},
    "VECTOR": {"ARRAY"},
}
"""What is converted by a cast alone, in the same table."""


def coercible(source: SqlType, target: SqlType) -> bool:
    """Whether a value is converted where another type is asked for."""
    return source.name == target.name or target.name in _COERCED[source.name]


def castable(source: SqlType, target: SqlType) -> bool:
    """Whether CAST converts it."""
    return coercible(source, target) or target.name in _CAST_ONLY.get(source.name, ())


def common(types: list[SqlType], what: str) -> SqlType:
    """The one type of several values; text beside another type is refused: there the value decides."""
    names = {kind.name for kind in types} - {"NULL"}
    if not names:
        return NULL
    if names == {"NUMBER"}:
        return SqlType("NUMBER", max(kind.scale for kind in types))
    if names == {"NUMBER", "FLOAT"}:
        return FLOAT
    if names == {"DATE", "TIMESTAMP_NTZ"}:
        return TIMESTAMP
    if len(names) == 1:
        return SqlType(names.pop())
    if "VARIANT" in names:
        return VARIANT
    raise SnowflakeError(f"{what}: mixed types {', '.join(sorted(names))}")


# Numbers --------------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def to_scale(value: Any, scale: int, what: str = "", *, even: bool = False, precision: int = 38) -> int | Decimal:
    """A number with so many decimals, halves away from zero, that its type holds."""
    with localcontext(EXACT):
        given = Decimal(value)
        if not given.is_finite() or given.adjusted() + scale > precision:
            raise SnowflakeError(f"{what}: number out of representable range: {value}")
        number = given.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_EVEN if even else ROUND_HALF_UP)
        if abs(number.scaleb(scale)) >= Decimal(10) ** precision:
            raise SnowflakeError(f"{what}: number out of representable range: {value}")
        return int(number) if scale == 0 else number + 0  # there is no negative zero


def parse_number(text: str, scale: int) -> int | Decimal | None:
    """A text as a number, or None: only a plain or scientific decimal is one for certain."""
    if not _NUMBER.fullmatch(text):
        return None
    with localcontext(EXACT):
        number = Decimal(text)
    if number.adjusted() > 60:
        return None
    try:
        return to_scale(number, scale)
    except SnowflakeError:
        return None


def float_text(value: float) -> str:
    """A FLOAT as text: the fewest digits that give it back, no point behind a whole number, the sign of a zero.

    How many digits it has is open, and its form beyond some of them.
    """
    form = read_as().doubles
    if form != "certain" and math.isfinite(value):
        return f"{value:.15g}" if form == "display" else repr(value).removesuffix(".0")
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "inf", "-inf": "-inf"}[str(value)]
    if value and not 1e-5 <= abs(value) < 1e15:
        raise SnowflakeError(f"the text of the FLOAT {value} is not documented")
    text = repr(value)
    if "e" in text:
        text = f"{Decimal(text):f}"
    return text.removesuffix(".0")


def json_number(written: str) -> int | Decimal | float:
    """A number of JSON: fixed-point if 38 digits, 37 decimals hold it, DOUBLE if not, or if it has an exponent."""
    whole, _, decimals = written.lstrip("+-").partition(".")
    if "e" in written.lower() or len(whole.lstrip("0")) + len(decimals) > 38 or len(decimals) > 37:
        return float(written)
    if not decimals:
        return int(written.rstrip("."))
    number = Decimal(written) + 0
    if read_as().whole:
        number = Decimal(f"{number:f}".rstrip("0").rstrip("."))
        return int(number) if number == number.to_integral_value() else number
    return number.copy_abs() if number.is_zero() else number


def double_text(value: float) -> str:
    """A DOUBLE in a VARIANT as text: PARSE_JSON('1.912e2') is shown as 1.912000000000000e+02."""
    form = read_as().doubles
    if form == "certain" or not math.isfinite(value):
        return float_text(value)
    return f"{value:.15e}" if form == "display" else repr(value).removesuffix(".0")


def variant_text(value: Any) -> str:
    """A VARIANT, neither of the NULLs, as VARCHAR."""
    return double_text(value) if isinstance(value, float) else to_text(value)


def round_float(value: float, places: int, toward: str) -> float:
    """A FLOAT rounded by its exact value, the nearest one to that; a zero keeps the sign of what it comes from."""
    if not math.isfinite(value) or (places >= 0 and abs(value) >= 2**53):
        return value
    with localcontext(EXACT):
        return math.copysign(float(Decimal(value).quantize(Decimal(1).scaleb(-places), toward)), value)


def order(value: Any) -> Any:
    """What values of one type are compared by: NaN is equal to itself and greater than every other FLOAT."""
    return (value != value, 0 if value != value else value) if isinstance(value, float) else value


# Conversions ----------------------------------------------------------------------------------------------------------


def json_text(value: Any) -> str:
    """A VARIANT as JSON without blanks."""
    if isinstance(value, list):
        return "[" + ",".join("undefined" if item is None else json_text(item) for item in value) + "]"
    if isinstance(value, dict):
        pairs = (
            f"{json.dumps(k, ensure_ascii=False)}:{json_text(v)}" for k, v in sorted(value.items()) if v is not None
        )
        return "{" + ",".join(pairs) + "}"
    if value is JSON_NULL:
        return "null"
    if isinstance(value, str | dt.date):
        return json.dumps(to_text(value), ensure_ascii=False)
    return variant_text(value)


def to_text(value: Any) -> str:
    """A value, NULL excepted, as VARCHAR."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case float():
            return float_text(value)
        case dt.datetime() if value.tzinfo:
            raise SnowflakeError("the text of a time with a zone depends on the session")
        case dt.datetime():
            return value.isoformat(" ", "milliseconds")
        case dt.date():
            return value.isoformat()
        case list() | dict():
            return json_text(value)
    raise SnowflakeError(f"no text of {value!r}")


def _variant_number(value: Any, scale: int) -> Any:
    if isinstance(value, int | float | Decimal):  # TRUE is 1
        return to_scale(value, scale)
    number = parse_number(value, scale) if isinstance(value, str) else None
    if number is None:
        raise SnowflakeError(f"failed to cast variant value {json_text(value)} to FIXED")
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        word = value.lower()
        if word in ("true", "t", "yes", "y", "on", "1"):
            return True
        if word in ("false", "f", "no", "n", "off", "0"):
            return False
        raise SnowflakeError(f"Boolean value '{value}' is not recognized")
    if isinstance(value, int | float | Decimal):
        return bool(value)
    raise SnowflakeError(f"failed to cast {value!r} to BOOLEAN")


def _float(value: Any) -> float:
    if isinstance(value, str) and value.lower() in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise SnowflakeError(f"Numeric value '{value}' is not recognized")
    if isinstance(value, str | int | float | Decimal):
        return float(value)
    raise SnowflakeError(f"failed to cast {value!r} to FLOAT")


def _date(value: Any) -> dt.date:
    try:
        if isinstance(value, dt.datetime):
            return value.date()
        if isinstance(value, dt.date):
            return value
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            return dt.date.fromisoformat(value)
    except ValueError:
        pass
    raise SnowflakeError(f"Date {value!r} is not recognized")


def _timestamp(value: Any) -> dt.datetime:
    try:
        if isinstance(value, dt.datetime):
            return value.replace(tzinfo=None)
        if isinstance(value, dt.date):
            return dt.datetime(value.year, value.month, value.day)
        if isinstance(value, str):
            return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    except ValueError:
        pass
    raise SnowflakeError(f"Timestamp {value!r} is not recognized")


def _at_session(value: Any, source: SqlType, target: SqlType) -> dt.datetime:
    """A time as another type of times: the session's zone is that of a TIMESTAMP_LTZ, and of a time without one."""
    session = dt.timezone(-dt.timedelta(hours=read_as().behind_utc_h))
    if target.name == "TIMESTAMP_NTZ":
        return _timestamp(value.astimezone(session) if source.name == "TIMESTAMP_LTZ" else value)
    moment = value if isinstance(value, dt.datetime) and value.tzinfo else None
    if isinstance(value, str):
        moment = dt.datetime.fromisoformat(value)
    moment = _timestamp(value) if moment is None else moment
    return moment if moment.tzinfo else moment.replace(tzinfo=session)


def convert(value: Any, source: SqlType, target: SqlType) -> Any:
    """A value of one type as another; NULL stays NULL, and a JSON null becomes it outside of a VARIANT."""
    if value is None or target.name == "VARIANT":
        return value
    if value is JSON_NULL:
        return None
    match target.name:
        case "VARCHAR":
            return variant_text(value) if source.name == "VARIANT" else to_text(value)
        case "NUMBER":
            if source.name == "VARIANT":
                return to_scale(_variant_number(value, target.scale), target.scale, precision=target.precision)
            number = parse_number(value, target.scale) if isinstance(value, str) else value
            if number is None:
                raise SnowflakeError(f"Numeric value '{value}' is not recognized")
            return to_scale(number, target.scale, precision=target.precision)
        case "FLOAT":
            return _float(value)
        case "BOOLEAN":
            return value if isinstance(value, bool) else _boolean(value)
        case "DATE":
            return _date(value)
        case "TIMESTAMP_NTZ" | "TIMESTAMP_TZ" | "TIMESTAMP_LTZ":
            return _at_session(value, source, target)
        case "ARRAY":
            return value if isinstance(value, list) else [value]
        case "OBJECT" if isinstance(value, dict):
            return value
        case name if name == source.name:
            return value
    raise SnowflakeError(f"failed to cast {value!r} to {target}")


def equal(a: Any, b: Any) -> bool:
    """Whether two VARIANTs are equal: of one kind and value; numbers are one kind."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    found = kind(a) == kind(b) and bool(order(a) == order(b))
    if found and typeof(a) != typeof(b):
        raise SnowflakeError(f"whether {typeof(a)} {a} and {typeof(b)} {b} are equal VARIANTs is not documented")
    return found


def kind(value: Any) -> str:
    """TYPEOF of a VARIANT, its numbers as one."""
    name = typeof(value)
    return "NUMBER" if name in ("INTEGER", "DECIMAL", "DOUBLE") else name


def typeof(value: Any) -> str:
    """The word that TYPEOF gives."""
    if value is JSON_NULL:
        return "NULL_VALUE"
    for python, name in (
        (bool, "BOOLEAN"), (str, "VARCHAR"), (int, "INTEGER"), (Decimal, "DECIMAL"), (float, "DOUBLE"),
        (list, "ARRAY"), (dict, "OBJECT"), (type(None), "NULL"),
        (dt.datetime, "TIMESTAMP_TZ" if getattr(value, "tzinfo", None) else "TIMESTAMP_NTZ"), (dt.date, "DATE"),
    ):  # fmt: skip
        if isinstance(value, python):
            return name
    raise SnowflakeError(f"no VARIANT: {value!r}")
