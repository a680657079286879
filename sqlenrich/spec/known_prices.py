"""Prices of hosted models from the package genai-prices, which the extra ``prices`` installs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.spec.prices import Price, Prices

GENAI_PRICES = "genai-prices"
"""What settings name in place of a file."""
PROVIDERS = ("openai", "anthropic", "google")
"""Whose prices are taken: nobody else runs their models, so that a model's name says what it costs."""
OPEN_WEIGHTS = ("gpt-oss", "gemma")
"""The beginnings of their models that anybody may run, on a server of their own too."""
_TOKENS = 1000
"""The size of the request whose price is asked for: some models cost more beyond 100,000 tokens."""
_BATCH = {"processing": "batch"}


class KnownModels(Mapping[str, Price]):
    """The price of each model of :data:`PROVIDERS`, looked up when it is asked for."""

    def __getitem__(self, name: str) -> Price:
        """Return the price of a model. Raises KeyError where none is known."""
        found = _price(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        """Return the names of the models, for suggestions."""
        from genai_prices.data_snapshot import get_snapshot

        for provider in get_snapshot().providers:
            if provider.id in PROVIDERS:
                yield from (model.id for model in provider.models)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def known_prices() -> Prices:
    """Return the prices of the installed package. Raises ConfigError where it is not installed."""
    try:
        import genai_prices  # noqa: F401
    except ImportError:
        raise ConfigError(
            f'prices = "{GENAI_PRICES}" needs the package: pip install "sqlenrich[prices]", or name a file of prices'
        ) from None
    return Prices(None, "USD", KnownModels(), source=f"{GENAI_PRICES} {version(GENAI_PRICES)}")


@cache
def _price(name: str) -> Price | None:
    if name.lower().startswith(OPEN_WEIGHTS):
        return None
    for provider in PROVIDERS:
        try:
            read, written = _cost(provider, name, read=True), _cost(provider, name, written=True)
            cached = _cost(provider, name, read=True, cached=True)
            whole, batched = (_cost(provider, name, read=True, written=True, batch=batch) for batch in (False, True))
        except (LookupError, ValueError):
            continue
        return Price(read, cached, written, batched / whole if batched < whole else None)
    return None


def _cost(
    provider: str, name: str, *, read: bool = False, cached: bool = False, written: bool = False, batch: bool = False
) -> Decimal:
    """Return the price of a million tokens of these kinds. Raises LookupError."""
    from genai_prices import Usage, calc_price

    tokens = {"input_tokens": read, "cache_read_tokens": cached, "output_tokens": written}
    usage = Usage(**{kind: _TOKENS for kind, given in tokens.items() if given})
    found: Any = calc_price(usage, name, provider_id=provider, price_context=_BATCH if batch else None)
    return Decimal(found.total_price) * 1_000_000 / _TOKENS
