"""Numbers and times in prompts: the same text on DuckDB, Google's evaluator, Spark and the stand-in for Snowflake as in
jinja2, or NULL where docs/prompts.md says so."""

from __future__ import annotations

import datetime as dt
import math
import random
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.core.types import BIGINT, parse_type
from tests.prompt.test_conformance import each_expression, rendered, select

Row = dict[str, Any]
MayFail = Callable[[Row], bool]
"""Whether a row may give NULL where Python gives a text."""


def never(_: Row) -> bool:
    return False


def check(
    engine: str, template: str, columns: Mapping[str, str], rows: Sequence[tuple[Any, ...]], may_fail: MayFail
) -> None:
    sql = se.prompt_sql(template, engine, columns=columns)
    types = {"place": BIGINT, **{name: parse_type(kind) for name, kind in columns.items()}}
    placed = [(place, *(stored(engine, value) for value in row)) for place, row in enumerate(rows)]
    found: dict[Any, Any] = dict(select(engine, f"SELECT place, {sql} FROM source", types, placed))
    wrong = {}
    for place, values in enumerate(rows):
        row = dict(zip(columns, values, strict=True))
        expected = rendered(template, row, {})
        if found[place] != expected and not (found[place] is None and may_fail(row)):
            wrong[place] = (row, found[place], expected)
    assert wrong == {}


def stored(engine: str, value: Any) -> Any:
    """BigQuery's timestamps are moments; they are printed in UTC."""
    return value.replace(tzinfo=dt.UTC) if engine == "bigquery" and isinstance(value, dt.datetime) else value


# Doubles and integers -------------------------------------------------------------------------------------------------


def around(value: float) -> list[float]:
    return [value, math.nextafter(value, -math.inf), math.nextafter(value, math.inf)]


def some_double(source: random.Random) -> float:
    match source.randrange(4):
        case 0:
            return round(source.uniform(-100, 100), source.randint(0, 5))
        case 1:
            return source.randint(-40000, 40000) / source.choice([2, 8, 16, 20, 32, 64, 200, 2000])
        case 2:
            return math.nextafter(
                source.randint(-3000, 3000) / source.choice([20, 200, 2000]), source.choice([-9e9, 9e9])
            )
    made: float = struct.unpack("d", struct.pack("Q", source.getrandbits(64)))[0]
    return made


RANDOM = random.Random(7)
DOUBLES: list[float | None] = [
    0.0, -0.0, *around(0.5), *around(2.5), *around(-0.5), 1.5, -1.5, -2.5, 2.675, -2.675, 1.005, 0.285, 0.05, 0.15,
    0.25, 0.35, -0.05, 0.1 + 0.2, 1 / 3, 5e-5, 1e-5, -1e-5, 1e-300, 5e-324, 99999.99995, 123456789.125, 100.0, -3.0,
    1e14, 999999999999999.0, 1e15, 1e16, 2.0**53, 1e22, 1e308, -1e308, 1.7976931348623157e308, None, math.nan, math.inf,
    -math.inf, *(some_double(RANDOM) for _ in range(120)),
]  # fmt: skip
INTEGERS = [
    0, 1, -1, 7, -7, 10, -10, 2999999, -2999999, 3000000, 2**53, -(2**53), 2**53 + 1, 2**63 - 1, -(2**63), None
]  # fmt: skip
NUMBERS = {"x": "double", "y": "double", "n": "bigint", "m": "bigint"}
ROWS: list[tuple[Any, ...]] = [
    (x, DOUBLES[(place * 5 + 3) % len(DOUBLES)], INTEGERS[place % 16], INTEGERS[(place * 3 + 2) % 16])
    for place, x in enumerate(DOUBLES)
]


def long(value: float | None, digits: int = 0) -> bool:
    """A double of more than 15 digits with ``digits`` decimals, NaN or infinite."""
    return value is None or not abs(value) < 10 ** (15 - digits)


def wide(*values: int) -> bool:
    """An integer beyond 64 bits."""
    return any(not -(2**63) <= value < 2**63 for value in values)


def inexact(value: int | None) -> bool:
    """An integer beyond 2**53."""
    return value is not None and abs(value) > 2**53


def integer(value: float) -> int:
    return int(value) if math.isfinite(value) else 2**64


def overflow(*values: float) -> bool:
    """BigQuery's operators give no infinity."""
    return any(not math.isfinite(value) for value in values)


def sum_of(r: Row) -> float:
    return float(r["x"] + r["y"])


TEMPLATES: list[tuple[str, MayFail]] = [
    ("{{ x|round }}", lambda r: long(r["x"])),
    ("{{ x|round(1) }}", lambda r: long(r["x"], 1)),
    ("{{ x|round(2) }}", lambda r: long(r["x"], 2)),
    ("{{ x|round(4) }}", lambda r: long(r["x"], 4)),
    ("{{ '%.1f'|format(x) }}", lambda r: long(r["x"], 1)),
    ("{{ '%.0f|%s' % (x, n) }}", lambda r: long(r["x"])),
    ("{{ '%f' % x }}", lambda r: long(r["x"], 6)),
    ("{{ '%.9f'|format(x) }}", lambda r: long(r["x"], 9)),
    ("{{ '{:.2f} {}'.format(x, n) }}", lambda r: long(r["x"], 2)),
    ("{{ x|int }}|{{ x|round|int }}", lambda r: wide(integer(r["x"])) or long(r["x"])),
    ("{{ x|round(0, 'floor') }}|{{ x|round(0, 'ceil') }}", lambda r: long(r["x"])),
    ("{{ x == y }}{{ x < y }}{{ x <= y }}{{ x > y }}{{ x >= y }}{{ x != y }}", never),
    ("{{ x == 0.5 }}{{ x < 2.5 }}{{ x >= -0.0 }}{{ x > 1e300 }}{{ x == 1 }}{{ x in [0.5, 1.5] }}", never),
    ("{{ 'y' if x else 'n' }}{{ not x }}{{ x is none }}{{ x == none }}", never),
    ("{{ (x + y)|round(1) }}", lambda r: long(sum_of(r), 1)),
    ("{{ (x - y)|round(1) }}", lambda r: long(r["x"] - r["y"], 1)),
    ("{{ (x * 3)|round(2) }}", lambda r: long(r["x"] * 3, 2)),
    ("{{ (x / 3)|round(2) }}", lambda r: long(r["x"] / 3, 2)),
    ("{{ (x / y)|round(2) }}", lambda r: long(r["x"] / r["y"], 2)),
    ("{{ x + y > 0 }}{{ x * 2 > x }}", lambda r: overflow(sum_of(r), r["x"] * 2)),
    ("{{ (x - y) == 0 }}", lambda r: overflow(r["x"] - r["y"])),
    ("{{ x|abs|round(1) }}{{ (-x)|round }}", lambda r: long(r["x"], 1)),
    ("{{ (5*x)|round/5 }}", lambda r: long(r["x"] * 5, 1)),
    ("{{ (x*100)|round/100 }}", lambda r: long(r["x"] * 100, 2)),
    ("{{ x|default(1.5)|round(1) }}{{ (x or 2.5)|round(1) }}", lambda r: long(r["x"], 1)),
    ("{{ x|int(5) }}{{ x|float|round(1) }}", lambda r: long(r["x"], 1)),
    ("{{ n + m }}|{{ n - m }}", lambda r: wide(r["n"] + r["m"], r["n"] - r["m"])),
    ("{{ n * m }}", lambda r: wide(r["n"] * r["m"])),
    ("{{ n * n * n }}", lambda r: wide(r["n"] ** 3, r["n"] ** 2)),
    ("{{ -n }}|{{ n|abs }}", lambda r: wide(-r["n"])),
    ("{{ n % 7 }}|{{ n // 7 }}|{{ n % -7 }}|{{ n // -7 }}", never),
    ("{{ n // 3000000 }}|{{ n % 3000000 }}|{{ n // 3000001 }}|{{ n // 9007199254740991 }}", never),
    ("{{ n is divisibleby(3) }}{{ n is odd }}{{ n is even }}{{ n|round }}{{ n|round(1) }}", never),
    ("{{ n / 5 }}", lambda r: inexact(r["n"]) or long(r["n"] / 5, 1)),
    ("{{ (n / 3)|round(2) }}", lambda r: inexact(r["n"]) or long(r["n"] / 3, 2)),
    ("{{ (n / m)|round(1) }}", lambda r: inexact(r["n"]) or inexact(r["m"]) or long(r["n"] / r["m"], 1)),
    ("{{ n|float }}", lambda r: long(float(r["n"]), 0)),
    ("{{ (n * 1.5)|round(1) }}", lambda r: long(r["n"] * 1.5, 1)),
    ("{{ '%d %.2f' % (n, n) }}", lambda r: long(float(r["n"]), 2)),
    ("{{ n < 0.5 }}{{ n == 1.0 }}{{ n >= 2.5 }}{{ n <= -0.5 }}{{ n in [1, 2.5] }}", never),
    ("{{ n < 1e30 }}{{ n > -1e30 }}{{ n == 1e30 }}{{ n >= 1e19 }}{{ n > -9223372036854775809.0 }}", never),
]  # fmt: skip


@each_expression
@pytest.mark.parametrize(("template", "may_fail"), TEMPLATES)
def test_doubles_and_integers_equal_the_reference(template: str, may_fail: MayFail, engine: str) -> None:
    check(engine, template, NUMBERS, ROWS, may_fail)


# Decimals -------------------------------------------------------------------------------------------------------------

DECIMALS = {
    "a": "decimal(9, 2)",
    "b": "decimal(9, 2)",
    "whole": "decimal(38, 0)",
    "long": "decimal(38, 6)",
    "small": "decimal(10, 3)",
    "part": "decimal(5, 5)",
    "least": "decimal(38, 38)",
    "fine": "decimal(38, 20)",
    "edge": "decimal(29, 1)",
}
_NINES = "9" * 32
_VALUES: dict[str, list[str]] = {
    "a": "0 0.01 -0.01 0.05 0.15 0.25 -0.25 2.5 3.5 -2.5 -3.5 -1.5 9999999.99 -9999999.99 0.5 -0.5 1 100".split(),
    "b": "0.05 0.01 2.5 -0.25".split(),
    "whole": ["0", "1", "-1", "9" * 38, "-" + "9" * 38, "10", "5", "1" + "0" * 20],
    "long": [
        *"0 0.000001 -0.000001 0.5 -0.5 1.5 2.5 2.500001 2.499999 -2.5 100".split(),
        *(f"{_NINES}.999999", f"-{_NINES}.999999", f"{_NINES}.5"),
    ],
    "small": "0 0.005 0.015 0.025 -0.005 -0.015 -0.025 0.125 0.135 9999999.999 9999999.995 1.005 -1.005".split(),
    "part": "0 0.5 -0.5 0.99999 -0.99999 0.00001 0.12345 0.12335".split(),
    "least": ["0", "0.5", "-0.5", "0." + "9" * 38, "-0." + "9" * 38, "1e-38", "0.25"],
    "fine": ["0.5", "0.50000000000000000001", "0.49999999999999999999", "2.5", "-1e-20", "1234567890.5"],
    "edge": ["0.5", "-0.5", "9" * 28 + ".4", "9" * 28 + ".5", "-" + "9" * 28 + ".5", "9" * 27 + "8.5"],
}


def decimals() -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = [tuple(None for _ in DECIMALS)]
    for place in range(18):
        row = []
        for name, kind in DECIMALS.items():
            step = Decimal(1).scaleb(-int(kind.rstrip(")").split(", ")[1]))
            row.append(Decimal(_VALUES[name][place % len(_VALUES[name])]).quantize(step, context=Context(prec=40)))
        made.append(tuple(row))
    return made


OF_DECIMALS: list[tuple[str, MayFail]] = [
    ("{{ a }}|{{ whole }}|{{ long }}|{{ small }}|{{ part }}|{{ edge }}", never),
    ("{{ a|round }}|{{ a|round(1) }}|{{ small|round(2) }}|{{ small|round(1) }}", never),
    ("{{ part|round }}|{{ part|round(4) }}", never),
    ("{{ long|round }}", never),
    ("{{ long|round(1) }}|{{ long|round(5) }}", never),
    ("{{ least|round }}|{{ least|round(1) }}|{{ fine|round }}|{{ fine|round(3) }}", never),
    ("{{ edge|round }}", never),
    ("{% set r = a|round(1) %}{{ r }}{{ r > 1 }}{{ r|int }}{{ '%s' % r }}{{ r|upper }}", never),
    ("{{ (a|round(1) if b > 0 else none)|string }}", never),
    ("{{ a|int }}|{{ small|int }}", never),
    ("{{ long|int }}|{{ whole|int }}", lambda r: wide(int(r["long"]), int(r["whole"]))),
    ("{{ a == 0.5 }}{{ a < 0.5 }}{{ a >= 2.5 }}{{ a == 1 }}{{ a > -3.5 }}{{ a in [0.5, 1] }}{{ a < 0.125 }}", never),
    ("{{ a == b }}{{ a < b }}{{ a >= b }}{{ a != b }}", never),
    ("{{ long == 2.5 }}{{ long > 2.5 }}{{ long <= 100 }}{{ long == 0.1 }}{{ long < 1e33 }}{{ long > -1e33 }}", never),
    ("{{ part < 1 }}{{ part > -1 }}{{ part == 10 }}{{ part < 0.25 }}{{ part == 1e-5 }}{{ part >= 0.12345 }}", never),
    ("{{ least < 1 }}{{ least > -1 }}{{ least == 0.5 }}{{ least == 10 }}{{ least >= 1e30 }}{{ least < 0.5 }}", never),
    ("{{ fine == 0.5 }}{{ fine > 0.5 }}{{ fine < 0.5 }}{{ fine <= 1e17 }}", never),
    ("{{ whole > 9007199254740993 }}{{ whole == 100000000000000000000 }}{{ whole < 0.5 }}{{ whole == 1e19 }}", never),
    ("{{ 'y' if a else 'n' }}{{ 'y' if least else 'n' }}{{ a is none }}{{ a ~ long }}{{ [a, b]|join(',') }}", never),
]  # fmt: skip


@each_expression
@pytest.mark.parametrize(("template", "may_fail"), OF_DECIMALS)
def test_decimals_equal_the_reference(template: str, may_fail: MayFail, engine: str) -> None:
    check(engine, template, DECIMALS, decimals(), may_fail)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{{ fine }}", "is not the same on all engines"),
        ("{{ x }}", "is not the same on all engines"),
        ("{{ x|round(5) }}", "is not the same on all engines"),
        ("{{ a == long }}", "cast one of them in the source query"),
        ("{{ a == n }}", "cast one of them in the source query"),
        ("{{ a == x }}", "cast one of them in the source query"),
        ("{{ prices|map('round')|join }}", "rounded decimals"),
    ],
)
def test_what_engines_print_or_compare_differently_is_refused(template: str, why: str) -> None:
    with pytest.raises(se.PromptError, match=why):
        se.prompt_sql(template, "duckdb", columns={**NUMBERS, **DECIMALS, "prices": {"array": "decimal(9, 2)"}})


# Times ----------------------------------------------------------------------------------------------------------------

TIMES = {"t": "timestamp", "u": "timestamp", "d": "date"}
_MOMENTS = [
    dt.datetime(2024, 2, 29, 13, 5, 9),
    dt.datetime(2024, 2, 29, 13, 5, 9, 1),
    dt.datetime(2024, 2, 29, 13, 5, 9, 500000),
    dt.datetime(99, 1, 2, 3, 4, 5),
    dt.datetime(99, 1, 2, 3, 4, 5, 678900),
    dt.datetime(9999, 12, 30, 23, 59, 59, 999999),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1582, 10, 10),
    None,
]
_DAYS = [dt.date(2024, 2, 29), dt.date(99, 1, 2), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10), None]
OF_TIMES = [
    "{{ t }}|{{ d }}|{{ d ~ t }}",
    "{{ t|string|length }}{{ (t|string)[:10] }}{{ '%s' % t }}{{ '{}'.format(d) }}",
    "{{ t == u }}{{ t < u }}{{ t >= u }}{{ t == d }}{{ t is none }}{{ 'y' if t else 'n' }}",
    "{{ [t, u]|join(',') }}",
]


@each_expression
@pytest.mark.parametrize("template", OF_TIMES)
def test_times_equal_the_reference(template: str, engine: str) -> None:
    rows = [(t, _MOMENTS[(place * 5 + 2) % 9], _DAYS[place % 6]) for place, t in enumerate(_MOMENTS * 2)]
    check(engine, template, TIMES, rows, never)
