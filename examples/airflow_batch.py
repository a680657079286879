"""An Airflow DAG: each day's file goes through the vendor's Batch API. For Airflow 3; needs ``sqlenrich[batch]``.

``send`` ends within minutes. ``collect`` is asked every half an hour until no batch is open; no worker waits for it.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import PokeReturnValue, dag, task

import sqlenrich as se

FOLDER = Path(__file__).parent
ENDPOINT = se.Endpoint("https://api.openai.com/v1", "OPENAI_API_KEY", model="gpt-4.1-mini")


def enrich(day: str) -> se.Report:
    """Send what is pending and store what has ended. The same call, again and again."""
    return se.run(
        se.load(FOLDER / "tickets.prompt"),
        input=FOLDER / "inbox" / f"{day}.csv",
        output=FOLDER / "tickets.duckdb",
        model=ENDPOINT,
        incremental=True,
        batch=True,
        wait=False,
    )


@task(retries=3, retry_delay=datetime.timedelta(minutes=5))
def send(ds: str | None = None) -> dict[str, Any]:
    """Send the batches of the day ``ds``. A retry sends nothing twice."""
    return enrich(str(ds)).to_dict()


@task.sensor(poke_interval=1800, timeout=2 * 86_400, mode="reschedule")
def collect(ds: str | None = None) -> PokeReturnValue:
    """Store the answers that have come; done once no request is pending."""
    report = enrich(str(ds))
    return PokeReturnValue(is_done=not report.pending, xcom_value=report.to_dict())


@dag(schedule="0 22 * * *", start_date=datetime.datetime(2026, 1, 31), catchup=False, max_active_runs=1)
def tickets_by_batch() -> None:
    """The file of a day, in the night. One day at a time: a database accepts one run."""
    send() >> collect()


tickets_by_batch()
