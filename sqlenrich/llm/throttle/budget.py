"""What a run may use at most: calls and money. Whoever sends asks first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from sqlenrich.core.errors import ConfigError

FREE = Decimal(0)


@dataclass
class Caps:
    """How many calls a run may make and what it may cost, and how much of that is used.

    ``price`` gives what tokens cost exactly: those read, those of them from the vendor's cache, those written. A
    request is counted with the most that it may cost until its own usage is told, so a run stays below its cap as far
    as the answers keep to ``max_tokens``. Raises ConfigError for a cap below 0.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    price: Callable[[int, int, int], Decimal] | None = None
    calls: int = 0
    spent: Decimal = FREE
    reserved: Decimal = FREE
    open: int = 0
    reached: str | None = None
    """The option that ended the run: ``max_calls`` or ``max_cost``."""

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_cost"):
            value = getattr(self, name)
            if value is not None and not value >= 0:  # nan is no cap either
                raise ConfigError(f"{name} is 0 or more, not {value}")
        self._limit = None if self.max_cost is None else Decimal(str(self.max_cost))

    def most(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Give the most that so many tokens may cost: a cache may be the dearer way to read them."""
        if self.price is None:
            return FREE
        return max(self.price(tokens_in, 0, tokens_out), self.price(tokens_in, tokens_in, tokens_out))

    def allows(self, cost: Decimal) -> bool | None:
        """Say whether one more request may be sent: None where that shows once what is in flight is answered."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            self.reached = "max_calls"
            return False
        if self._limit is not None and self.spent + self.reserved + cost > self._limit:
            if self.open:
                return None
            self.reached = "max_cost"
            return False
        return True

    def spend_call(self) -> bool:
        """Say whether a request that costs nothing may be sent, and count it if so."""
        if not self.allows(FREE):
            return False
        self.calls += 1
        return True

    def sent(self, cost: Decimal) -> None:
        """Take note of a request that is sent and may cost so much."""
        self.calls += 1
        self.open += 1
        self.reserved += cost

    def settled(
        self, reserved: Decimal, tokens_in: int | None, tokens_out: int | None, tokens_cached: int | None
    ) -> None:
        """Take note of what a request took after all; where an endpoint does not tell that, of the most it may cost."""
        self.open -= 1
        self.reserved -= reserved
        if tokens_in is None or tokens_out is None:
            self.spent += reserved
        elif self.price is not None:
            self.spent += self.price(tokens_in, tokens_cached or 0, tokens_out)
