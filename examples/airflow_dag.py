"""An Airflow DAG: each day's file goes through the model. For Airflow 3; needs ``sqlenrich`` where tasks run."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import dag, task

import sqlenrich as se

FOLDER = Path(__file__).parent


@task(retries=3, retry_delay=datetime.timedelta(minutes=5))
def enrich(ds: str | None = None) -> dict[str, Any]:
    """Enrich the file of the day ``ds`` and give the report. A retry asks only what has no answer yet."""
    report = se.run(
        se.load(FOLDER / "tickets.prompt"),
        input=FOLDER / "inbox" / f"{ds}.csv",
        output=FOLDER / "tickets.duckdb",
        incremental=True,
        caps=se.Caps(max_calls=5000),
    )
    if report.exit_status:  # 3: too many refused, 4: stopped by a cap
        raise RuntimeError(report.to_text())
    return report.to_dict()


@dag(schedule="0 6 * * *", start_date=datetime.datetime(2026, 1, 31), catchup=False, max_active_runs=1)
def tickets() -> None:
    """The file of a day, at six o'clock. One day at a time: a database accepts one run."""
    enrich()


tickets()
