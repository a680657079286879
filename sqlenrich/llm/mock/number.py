"""Samplers of numbers within the limits of a schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from sqlenrich.llm.mock.draw import Draw

_SPAN = 100
"""The width of the range, in steps, where a schema limits it on one side or not at all."""


def number_sampler(schema: Mapping[str, Any], *, whole: bool) -> Callable[[Draw], int | float]:
    """Return a sampler of numbers, integers if ``whole``. Raises ValueError where no number is within the limits."""
    step = Fraction(str(schema["multipleOf"])) if "multipleOf" in schema else None
    if whole:
        # A whole multiple of p/q in lowest terms is a multiple of p.
        step = Fraction(step.numerator) if step is not None else Fraction(1)
    low, low_open, high, high_open = _bounds(schema, step or Fraction(1))
    if step is None:
        return _real(low, low_open, high, high_open)
    first = math.floor(low / step) + 1 if low_open else math.ceil(low / step)
    last = math.ceil(high / step) - 1 if high_open else math.floor(high / step)
    if first > last:
        raise _no_number(schema)
    if step.denominator == 1:
        unit = step.numerator
        return lambda draw: (first + draw.below(last - first + 1)) * unit
    return _multiples(step, first, last, schema)


def _bounds(schema: Mapping[str, Any], step: Fraction) -> tuple[Fraction, bool, Fraction, bool]:
    """Return the range: each limit, and whether it is exclusive. A missing limit is replaced by a plausible one."""
    lows = [(Fraction(str(schema[key])), key != "minimum") for key in ("minimum", "exclusiveMinimum") if key in schema]
    highs = [(Fraction(str(schema[key])), key == "maximum") for key in ("maximum", "exclusiveMaximum") if key in schema]
    span = max(Fraction(_SPAN), step * _SPAN)
    if lows:
        low, low_open = max(lows)
    elif highs:
        low, low_open = min(highs)[0] - span, False
        low = max(low, Fraction(0)) if min(highs)[0] > 0 else low
    else:
        low, low_open = Fraction(0), False
    if highs:
        high, closed = min(highs)
    else:
        high, closed = low + span, True
    return low, low_open, high, not closed


def _real(low: Fraction, low_open: bool, high: Fraction, high_open: bool) -> Callable[[Draw], int | float]:
    def inside(value: Fraction) -> bool:
        return (value > low if low_open else value >= low) and (value < high if high_open else value <= high)

    if not (inside((low + high) / 2)):
        raise _no_number({"minimum": float(low), "maximum": float(high)})
    start, end = float(low), float(high)
    middle = float((low + high) / 2)

    def make(draw: Draw) -> int | float:
        exact = start + (end - start) * draw.share()
        for value in (round(exact, 2), exact, middle):
            if start < value < end or inside(Fraction(repr(value))):
                return int(value) if value == int(value) else value
        return middle

    return make


def _multiples(step: Fraction, first: int, last: int, schema: Mapping[str, Any]) -> Callable[[Draw], int | float]:
    """Return a sampler of multiples that are exact in decimal and in binary arithmetic, since validators use either."""
    unit = float(step)
    found: list[int | float] = []
    chance = Draw(str(schema).encode(), "")
    for place in range(400):
        times = first + (place if last - first < 400 else chance.below(last - first + 1))
        value = float(times * step)
        if times <= last and Fraction(repr(value)) == times * step and (value / unit).is_integer():
            found.append(int(value) if value.is_integer() else value)
    if not found:
        raise _no_number(schema)
    return lambda draw: draw.pick(found)


def _no_number(schema: Mapping[str, Any]) -> ValueError:
    keys = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
    return ValueError(
        "the mock model finds no number with " + ", ".join(f"{key} {schema[key]}" for key in keys if key in schema)
    )
