"""The budget of a run: the most calls it may make and the most it may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from sqlenrich.core.errors import ConfigError

FREE = Decimal(0)


@dataclass
class Budget:
    """The caps of a run, and how much of them is used.

    ``max_cost`` is in the currency of ``price``, which gives the exact price of tokens read, those of them from the
    vendor's cache, and tokens written. A request counts with the most it may cost until its usage is known, so the
    cost stays below the cap as far as answers keep to ``max_tokens``. Raises ConfigError for a cap below 0.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    price: Callable[[int, int, int], Decimal] | None = None
    calls: int = 0
    spent: Decimal = FREE
    reserved: Decimal = FREE
    """The most that the requests in flight may cost."""
    open: int = 0
    """The requests in flight."""
    reached: str | None = None
    """The cap that ended the run: ``max_calls`` or ``max_cost``."""

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_cost"):
            value = getattr(self, name)
            if value is not None and not value >= 0:  # nan is no cap either
                raise ConfigError(f"{name} is 0 or more, not {value}")
        self._limit = None if self.max_cost is None else Decimal(str(self.max_cost))

    def share(self, n: int) -> Budget:
        """Return what one of ``n`` processes may use; calls are rounded down. Nothing of a share is used yet."""
        if n < 1:
            raise ConfigError(f"caps are shared by 1 or more processes, not {n}")
        calls = None if self.max_calls is None else self.max_calls // n
        return Budget(calls, None if self.max_cost is None else self.max_cost / n, self.price)

    def most(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Return the most that these tokens may cost: tokens from a cache may cost more than others."""
        if self.price is None:
            return FREE
        return max(self.price(tokens_in, 0, tokens_out), self.price(tokens_in, tokens_in, tokens_out))

    def allows(self, cost: Decimal) -> bool | None:
        """Whether one more request may be sent. None: that depends on what the requests in flight cost."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            self.reached = "max_calls"
            return False
        if self._limit is not None and self.spent + self.reserved + cost > self._limit:
            if self.open:
                return None
            self.reached = "max_cost"
            return False
        return True

    async def affords(self, cost: Decimal) -> bool:
        """Whether one more request may be sent now; where others share the caps, after a short wait for them."""
        return self.allows(cost) is True

    @property
    def exhausted(self) -> bool:
        """Whether no request may be sent any more."""
        return self.allows(FREE) is False

    def spend_call(self) -> bool:
        """Count a request that costs nothing; False where none is left."""
        if not self.allows(FREE):
            return False
        self.calls += 1
        return True

    async def take_call(self) -> bool:
        """Count a request that costs nothing, once it is known whether one is left; False where none is."""
        return self.spend_call()

    def sent(self, cost: Decimal) -> None:
        """Record a request that is sent and may cost this much."""
        self.calls += 1
        self.open += 1
        self.reserved += cost

    def settled(
        self, reserved: Decimal, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None
    ) -> None:
        """Record what a request used; where the endpoint gives no usage, the most it may cost."""
        self.open -= 1
        self.reserved -= reserved
        if tokens_in is None or tokens_out is None:
            self.spent += reserved
        elif self.price is not None:
            self.spent += self.price(tokens_in, tokens_cached or 0, tokens_out)

    def forget_open(self) -> None:
        """Forget the requests in flight: after a fork they are the parent's."""
        self.open, self.reserved = 0, FREE
