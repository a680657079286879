"""A Dagster job: a partition a day, and a check that fails where too many rows are refused."""

# Without `from __future__ import annotations`: Dagster reads the type of `context` itself.
from pathlib import Path

import dagster as dg

import sqlenrich as se

FOLDER = Path(__file__).parent
DAYS = dg.DailyPartitionsDefinition(start_date="2026-01-31")


@dg.asset(
    partitions_def=DAYS,
    check_specs=[dg.AssetCheckSpec("few_are_refused", asset="tickets")],
    pool="tickets",  # with a limit of 1: a database accepts one run at a time
    retry_policy=dg.RetryPolicy(max_retries=3, delay=300),
)
def tickets(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
    """Enrich the file of one day. A retry asks only what has no answer yet."""
    report = se.run(
        se.load(FOLDER / "tickets.prompt"),
        input=FOLDER / "inbox" / f"{context.partition_key}.csv",
        output=FOLDER / "tickets.duckdb",
        incremental=True,
        caps=se.Caps(max_calls=5000),
    )
    if report.exit_status == 4:
        raise RuntimeError(report.to_text())
    return dg.MaterializeResult(
        metadata={"calls": report.calls, "enriched": report.enriched, "quarantined": report.quarantined},
        check_results=[dg.AssetCheckResult(check_name="few_are_refused", passed=report.exit_status == 0)],
    )


daily = dg.define_asset_job("daily_tickets", selection=[tickets], partitions_def=DAYS)
defs = dg.Definitions(assets=[tickets], jobs=[daily], schedules=[dg.build_schedule_from_partitioned_job(daily)])
