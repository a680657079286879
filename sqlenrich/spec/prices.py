"""Prices of models, from a file of the user. sqlenrich itself has none, because prices change."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.spec.toml_lines import TomlLines

KEYS = ("as_of", "currency", "models")
PRICE_KEYS = ("input", "cached", "output", "batch")
A_TOKEN = Decimal("0.000001")
"""One token as a part of the million that a price is for."""


@dataclass(frozen=True)
class Price:
    """The price of a million tokens of one model: input, cached input, output.

    ``batch`` is the part of it that a request of a Batch API costs; None: unknown, the whole counts.
    """

    input: Decimal
    cached: Decimal
    output: Decimal
    batch: Decimal | None = None

    @property
    def batch_share(self) -> Decimal:
        """The part of the price that a request of a batch costs, or the whole."""
        return Decimal(1) if self.batch is None else self.batch

    def exact(self, tokens_in: int, tokens_cached: int, tokens_out: int) -> Decimal:
        """Return the exact cost. ``tokens_in`` includes the cached ones, as endpoints report it."""
        cached = tokens_cached if tokens_cached < tokens_in else tokens_in
        return (self.input * (tokens_in - cached) + self.cached * cached + self.output * tokens_out) * A_TOKEN

    def cost(self, tokens_in: int | None, tokens_cached: int | None, tokens_out: int | None) -> float | None:
        """Return the cost, or None if a count is unknown. ``tokens_cached`` of None counts as 0."""
        if tokens_in is None or tokens_out is None:
            return None
        return float(self.exact(tokens_in, tokens_cached or 0, tokens_out))


@dataclass(frozen=True)
class Prices:
    """The prices of one file: their day, the currency, and a price for each model's own name.

    ``source`` is where those come from that are in no file.
    """

    as_of: date | None
    currency: str = "USD"
    models: Mapping[str, Price] = field(default_factory=dict)
    path: Path | None = None
    source: str = ""

    @property
    def told(self) -> str:
        """The day of the prices, or where they come from, as reports have it."""
        return self.source if self.as_of is None else self.as_of.isoformat()


def read_prices(path: Path) -> Prices:
    """Read a file of prices. Raises ConfigError with all its problems."""
    try:
        text = path.read_text(encoding="utf-8")
        values = tomllib.loads(text, parse_float=Decimal)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: {what}") from None
    problems: list[str] = []
    _known(values, KEYS, "", problems)
    as_of, currency = values.get("as_of"), values.get("currency", "USD")
    if not isinstance(as_of, date) or isinstance(as_of, datetime):
        problems.append("as_of must be the day of the prices, without quotes, e.g. as_of = 2026-11-01 @ as_of")
    if not isinstance(currency, str) or not re.fullmatch(r"\S{1,12}", currency):
        problems.append('currency must be a short text, e.g. currency = "USD" @ currency')
    models = values.get("models")
    if not isinstance(models, dict) or not models:
        problems.append('no model has a price: write [models."NAME"] with input and output @ models')
        models = {}
    found = {name: _price(written, name, problems) for name, written in models.items()}
    if problems or not isinstance(as_of, date):
        raise ConfigError("\n".join(f"{path}: {problem}" for problem in TomlLines(text).told(problems)))
    return Prices(as_of, currency, {name: price for name, price in found.items() if price is not None}, path)


def _price(written: Any, name: str, problems: list[str]) -> Price | None:
    place = f"models.{name}"
    if not isinstance(written, dict):
        problems.append(f"a model's price must be a table with input and output @ {place}")
        return None
    if inner := next((key for key, value in written.items() if isinstance(value, dict)), None):
        # TOML reads a dot outside quotes as a nested table.
        problems.append(f'a name with a dot needs quotes: [models."{name}.{inner}"] @ {place}')
        return None
    _known(written, PRICE_KEYS, place, problems)
    amounts: dict[str, Decimal] = {}
    for key in PRICE_KEYS:
        value = written.get(key)
        if value is None:
            if key in ("input", "output"):
                problems.append(f"{key} is missing: the price of a million tokens @ {place}")
        elif isinstance(value, bool) or not isinstance(value, int | Decimal):
            problems.append(f"{key} must be a number, the price of a million tokens, not {value!r} @ {place}.{key}")
        elif not Decimal(value).is_finite() or value < 0:
            problems.append(f"{key} must be 0 or more, not {value} @ {place}.{key}")
        elif key == "batch" and value > 1:
            problems.append(f"batch must be a part of the price, such as 0.5, not {value} @ {place}.{key}")
        else:
            amounts[key] = Decimal(value)
    if not {"input", "output"} <= amounts.keys():
        return None
    cached = amounts.get("cached", amounts["input"])
    return Price(amounts["input"], cached, amounts["output"], amounts.get("batch"))


def _known(values: Mapping[str, Any], known: tuple[str, ...], place: str, problems: list[str]) -> None:
    for key in values:
        if key not in known:
            where = f"{place}.{key}" if place else key
            problems.append(f'unknown key "{key}"{did_you_mean(key, known)} @ {where}')


def money(amount: float) -> str:
    """Return an amount as text: with two decimals from 1 on, below that with three significant digits."""
    if amount >= 1 or amount == 0:
        return f"{amount:,.2f}" if amount else "0"
    digits = 2 - Decimal(repr(amount)).adjusted()
    return f"{amount:.{digits}f}"
