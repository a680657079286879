"""The usage of stored answers: tokens, latencies, and their cost at given prices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from sqlenrich.plan.plan import Plan
from sqlenrich.spec.prices import Prices
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import ModelUsage

NO_PRICES = "no prices given (--prices)"
PERCENTILES = (50, 95, 99)


def account(backend: Backend, plan: Plan, run_id: str, prices: Prices | None, *, stored: bool = True) -> dict[str, Any]:
    """Return a report's tokens, cost and latencies from the answers that a run has ``stored``, if it has.

    Each count is None where no answer reports it. The cost is None where an answer's model has no price or an answer
    reports no counts; a failed call costs nothing.
    """
    models = backend.usage(plan, run_id) if stored else []
    cost, unknown = cost_of(models, prices)
    latencies = backend.latencies(plan, run_id, PERCENTILES) if stored else None
    return {
        **{name: _sum(getattr(one, name) for one in models) for name in ("tokens_in", "tokens_cached", "tokens_out")},
        "cost": cost,
        "cost_unknown": unknown,
        "prices_as_of": None if prices is None else prices.told,
        "currency": None if prices is None else prices.currency,
        "latency_ms": latencies and {f"p{share}": value for share, value in zip(PERCENTILES, latencies, strict=True)},
    }


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def cost_of(models: Sequence[ModelUsage], prices: Prices | None) -> tuple[float | None, str]:
    """Return the cost of the models' usage, or None and why it is unknown."""
    if prices is None:
        return None, NO_PRICES
    total = Decimal(0)
    for used in models:
        if used.model not in prices.models:
            if not (used.uncounted or used.tokens_in or used.tokens_out):
                continue  # a classifier's answers cost nothing
            return None, f"no price of {used.model}"
        if used.uncounted:
            return None, f"{used.uncounted:,} answers of {used.model} without token counts"
        price = prices.models[used.model]
        total += price.exact(used.tokens_in or 0, used.tokens_cached or 0, used.tokens_out or 0)
        batched = (used.batch_tokens_in or 0, used.batch_tokens_cached or 0, used.batch_tokens_out or 0)
        total -= (1 - price.batch_share) * price.exact(*batched)
    return float(total), ""
