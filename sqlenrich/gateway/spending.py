"""What the answers of a gateway cost, and the cap on it: each model has its own price."""

from __future__ import annotations

import asyncio
from decimal import Decimal

from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.throttle.budget import FREE, Budget
from sqlenrich.spec.prices import Prices

MOST_TOKENS = 4096
"""The tokens that an answer counts with before it is there, where its request does not bound them."""


class SpentError(Exception):
    """A request that is not sent: the cap is reached, or its model has no price."""


class Spending:
    """Counts the cost of answers below a cap. For one event loop.

    A request counts with the most it may cost until its usage is known. Raises ConfigError for a cap without prices.
    """

    def __init__(self, max_cost: float | None, prices: Prices | None) -> None:
        if max_cost is not None and prices is None:
            raise ConfigError("max_cost needs prices: give --prices FILE, or write prices in sqlenrich.toml")
        self.prices = prices
        self.budget = Budget(max_cost=max_cost)
        self._turn, self._settled = asyncio.Lock(), asyncio.Event()

    async def reserve(self, model: str, size: int, max_tokens: int | None) -> Decimal:
        """Return the most that a request of so many bytes may cost, once the cap allows it. Raises SpentError."""
        if self.budget.max_cost is None:
            return FREE
        price = self.prices.models.get(model) if self.prices is not None else None
        if price is None:
            raise SpentError(f'the gateway has a max_cost and no price of "{model}": add it to the file of prices')
        self.budget.price = price.exact
        cost = self.budget.most(size, MOST_TOKENS if max_tokens is None else max_tokens)
        async with self._turn:  # first come, first served
            while (allowed := self.budget.allows(cost)) is None:
                self._settled.clear()
                await self._settled.wait()
            if not allowed:
                raise SpentError(f"the cap max_cost of the gateway is reached: {self.budget.spent:f} is spent")
            self.budget.sent(cost)
        return cost

    def settle(self, model: str, reserved: Decimal, tokens: tuple[int | None, int | None, int | None] | None) -> None:
        """Record the tokens that a request used (read, cached, written); None for one that was not answered."""
        if self.budget.max_cost is None:
            return
        assert self.prices is not None
        self.budget.price = self.prices.models[model].exact
        tokens_in, cached, tokens_out = (0, 0, 0) if tokens is None else tokens
        self.budget.settled(reserved, tokens_in, tokens_out, cached)
        self._settled.set()

    def cost(
        self, model: str, tokens_in: int | None, tokens_cached: int | None, tokens_out: int | None
    ) -> Decimal | None:
        """Return the cost of an answer; None where its price or its tokens are unknown."""
        price = None if self.prices is None else self.prices.models.get(model)
        if price is None or tokens_in is None or tokens_out is None:
            return None
        return price.exact(tokens_in, tokens_cached or 0, tokens_out)
