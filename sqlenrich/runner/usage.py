"""What stored answers took: tokens, time, and their cost at given prices."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlenrich.spec.prices import Prices

if TYPE_CHECKING:  # "import sqlenrich" does not load duckdb
    from sqlenrich.runner.backends.duckdb.database import Database

NO_PRICES = "no prices given (--prices)"
PERCENTILES = (50, 95, 99)


def account(database: Database, responses: str, run_id: str, prices: Prices | None) -> dict[str, Any]:
    """Give a report's tokens, cost and latencies from the answers that a run stored.

    Each count is None where no answer told it. The cost is None where an answer's model has no price or an answer
    told no counts; a call that failed took none.
    """
    of_run = f"FROM {responses} WHERE run_id = '{run_id}'"
    models = database.db.execute(
        "SELECT model, count(*) FILTER (call_error IS NULL AND (tokens_in IS NULL OR tokens_out IS NULL)), "
        "sum(tokens_in)::BIGINT, "
        "sum(CASE WHEN tokens_cached > tokens_in THEN tokens_in ELSE tokens_cached END)::BIGINT, "
        "sum(tokens_out)::BIGINT "
        f"{of_run} GROUP BY model ORDER BY model"
    ).fetchall()
    told = [[row[place] for row in models if row[place] is not None] for place in (2, 3, 4)]
    tokens_in, tokens_cached, tokens_out = (sum(counts) if counts else None for counts in told)
    cost, unknown = cost_of(models, prices)
    latencies = percentiles(database, f"SELECT latency_ms AS v {of_run} AND call_error IS NULL", PERCENTILES)
    return {
        "tokens_in": tokens_in,
        "tokens_cached": tokens_cached,
        "tokens_out": tokens_out,
        "cost": cost,
        "cost_unknown": unknown,
        "prices_as_of": None if prices is None else prices.as_of.isoformat(),
        "currency": None if prices is None else prices.currency,
        "latency_ms": latencies and {f"p{share}": value for share, value in zip(PERCENTILES, latencies, strict=True)},
    }


def cost_of(models: Sequence[tuple[Any, ...]], prices: Prices | None) -> tuple[float | None, str]:
    """Give the cost of ``model, answers without counts, tokens in, cached, out``, or None and why it is unknown."""
    if prices is None:
        return None, NO_PRICES
    total = Decimal(0)
    for model, uncounted, tokens_in, tokens_cached, tokens_out in models:
        if model not in prices.models:
            return None, f"no price of {model}"
        if uncounted:
            return None, f"{uncounted:,} answers of {model} without token counts"
        total += prices.models[model].exact(tokens_in or 0, tokens_cached or 0, tokens_out or 0)
    return float(total), ""


def percentiles(database: Database, values: str, shares: Sequence[int]) -> list[int] | None:
    """Give the least value of a query's column ``v`` that so many in a hundred do not exceed; None without values.

    Equal values are counted first: the memory grows with the different ones.
    """
    wanted = ", ".join(f"min(v) FILTER (upto * 100 >= {share} * every)" for share in shares)
    row = database.roomy(
        lambda: database.db.execute(
            f"WITH counted AS (SELECT v, count(*) AS n FROM ({values}) WHERE v IS NOT NULL GROUP BY v), "
            "running AS (SELECT v, sum(n) OVER (ORDER BY v) AS upto, sum(n) OVER () AS every FROM counted) "
            f"SELECT {wanted} FROM running"
        ).fetchone()
    )
    return None if row is None or row[0] is None else [int(value) for value in row]
