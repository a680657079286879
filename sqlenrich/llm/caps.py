"""What a run may use at most: calls and money. Whoever sends asks first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Caps:
    """How many calls a run may make and what it may cost, and how much of that is used.

    ``input_price``, ``cached_price`` and ``output_price`` are those of a million tokens, in the currency of
    ``max_cost``. A request is counted with what it may cost until its own usage is told, so
    a run stays below its cap as far as the answers keep to ``max_tokens``.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0
    cached_price: float | None = None
    calls: int = 0
    spent: float = 0.0
    reserved: float = 0.0
    open: int = 0
    reached: str | None = None
    """The option that ended the run: ``max_calls`` or ``max_cost``."""

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_cost"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must be at least 0")

    def cost(self, tokens_in: float, tokens_out: float, tokens_cached: float = 0.0) -> float:
        """Give what so many tokens cost."""
        cached = self.input_price if self.cached_price is None else self.cached_price
        fresh = tokens_in - tokens_cached
        return (fresh * self.input_price + tokens_cached * cached + tokens_out * self.output_price) / 1e6

    def allows(self, cost: float) -> bool | None:
        """Say whether one more request may be sent: None where that shows once what is in flight is answered."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            self.reached = "max_calls"
            return False
        if self.max_cost is not None and self.spent + self.reserved + cost > self.max_cost:
            if self.open:
                return None
            self.reached = "max_cost"
            return False
        return True

    def spend_call(self) -> bool:
        """Say whether a request that costs nothing may be sent, and count it if so."""
        if not self.allows(0.0):
            return False
        self.calls += 1
        return True

    def sent(self, cost: float) -> None:
        """Take note of a request that is sent and may cost so much."""
        self.calls += 1
        self.open += 1
        self.reserved += cost

    def settled(self, reserved: float, cost: float) -> None:
        """Take note of what a request cost after all."""
        self.open -= 1
        self.reserved = self.reserved - reserved if self.open else 0.0
        self.spent += cost
