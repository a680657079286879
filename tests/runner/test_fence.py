"""Two runs on the same tables of a warehouse, and submissions whose fate is unknown: no request is asked twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.store.connections.bigquery.connection import BigQueryConnection
from sqlenrich.store.connections.databricks.connection import DatabricksConnection
from sqlenrich.store.connections.snowflake.connection import SnowflakeConnection
from sqlenrich.store.jobs import JobRunner
from sqlenrich.store.statement_ledger import Lease, StatementLedger
from sqlenrich.store.warehouse import WarehouseBackend
from tests.support.warehouse_runs import REQUESTS, ROWS, Recorder, quick_run, start_quick
from tests.support.warehouses import SECRET, Standin

LEDGER = "_sqlenrich_statements"


def wait_for(true: Callable[[], bool], seconds: float = 180.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def slow(place: Standin, seconds: float = 1.0) -> None:
    """Let a statement that asks 6 requests take so long."""
    place.set(delay=seconds / 12 if place.engine == "databricks" else seconds)


def ids_are_stored(place: Standin) -> bool:
    """Whether the ledger has the id of each statement."""
    if LEDGER not in place.tables():
        return False
    found = Counter(state for (state,) in place.rows(LEDGER, "state", where="kind = 'call'"))
    return 0 < found["open"] == found["submitted"]


def no_such_process(*_: Any) -> None:
    raise ProcessLookupError


def whole(place: Standin, report: se.Report) -> None:
    """Check that all is answered, each request asked once, and each key there once."""
    assert (report.enriched, report.quarantined, report.pending) == (len(ROWS), 0, 0)
    assert (len(place.prompts()), place.asked_twice()) == (REQUESTS, 0)
    assert place.rows("tickets", "id") == [(row["id"],) for row in ROWS]


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_a_second_run_is_refused_wherever_it_runs_and_whatever_its_clock_says(
    place: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has the same host name, but no process here has its number."""
    slow(place)
    first = start_quick(place, clock_s=200.0, chunk_rows=6, lasts_s=20.0)
    wait_for(lambda: len(place.prompts()) > 3)
    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", no_such_process)
        busy = r"run \S+ works on these tables \(host \S+, process \d+.*wait for its end, or take them"
        with pytest.raises(se.ConfigError, match=busy):
            quick_run(place)
    place.set(delay=0.0)
    _, told = first.communicate(timeout=120)
    assert first.returncode == 0, told
    assert (len(place.prompts()), place.asked_twice()) == (REQUESTS, 0)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_frozen_run_ends_in_one_line_when_it_wakes_and_asks_nothing_more(place: Standin) -> None:
    slow(place)
    first = start_quick(place, chunk_rows=6)
    wait_for(lambda: len(place.prompts()) > 9)
    first.send_signal(signal.SIGSTOP)
    place.set(delay=0.0)
    second = quick_run(place, chunk_rows=6)
    first.send_signal(signal.SIGCONT)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 1
    assert f"run {second.run_id} has taken over these tables: run " in told
    assert told.count("\n") == 1, told
    whole(place, second)


class Hastened(Recorder):
    """Lets nothing take time once the prompts are made: what was waited for has ended."""

    def __init__(self, place: Standin) -> None:
        super().__init__()
        self.place = place

    def note(self, line: str) -> None:
        super().note(line)
        if line.startswith("prompts:"):
            self.place.set(delay=0.0)


NOTHING: Any = lambda *_, **__: None  # noqa: E731
NONE: Any = lambda *_, **__: []  # noqa: E731
MUTANTS: Mapping[str, Mapping[tuple[Any, str], Any]] = {
    "never waits": {(WarehouseBackend, "_await"): NOTHING},
    "forgets the line": {(StatementLedger, "open_calls"): NONE},
}
"""A recovery that lacks a part. The tags of running statements are a second way to find one: it is taken away too."""


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_dead_run_whose_process_number_lives_again_holds_nothing_for_longer_than_its_lease(
    place: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_in_a_statement(place, monkeypatch)
    whole(place, quick_run(place, observer=Hastened(place)))


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_recovery_that_lacks_a_part_asks_twice(place: Standin, monkeypatch: pytest.MonkeyPatch, mutant: str) -> None:
    """It does not wait for the statement of the dead run, which goes on until this one asks."""
    die_in_a_statement(place, monkeypatch, 240.0)
    for (owner, name), value in MUTANTS[mutant].items():
        monkeypatch.setattr(owner, name, value)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(wait_for, lambda: place.asked_twice() > 0)
        asked.add_done_callback(lambda _: place.set(delay=0.0))
        quick_run(place, max_rows=3)
        asked.result()


def die_in_a_statement(place: Standin, monkeypatch: pytest.MonkeyPatch, seconds: float = 6.0) -> None:
    """Kill a run whose process number then is that of this process, and hide its statement from the history."""
    slow(place, seconds)
    dead = start_quick(place, chunk_rows=6)
    wait_for(lambda: len(place.prompts()) > 0 and ids_are_stored(place))
    dead.kill()
    _, told = dead.communicate(timeout=60)
    assert SECRET not in told
    place.execute(f"UPDATE {place.schema}.{LEDGER} SET pid = {os.getpid()} WHERE pid = {dead.pid}")
    for connection in (BigQueryConnection, DatabricksConnection, SnowflakeConnection):
        monkeypatch.setattr(connection, "running", NONE)


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_runner_that_repeats_a_submission_asks_twice(place: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test of lost submissions is for: here nothing is looked for, and each submission may ask.

    Snowflake's client repeats a request under the id by which the service knows it.
    """
    slow(place, 3.0)
    monkeypatch.setattr(JobRunner, "find", NOTHING)
    monkeypatch.setattr(Lease, "conditions", NONE)
    monkeypatch.setattr(BigQueryConnection, "starts_once", False)
    place.once("reply")
    quick_run(place, max_rows=3)
    assert place.asked_twice() > 0


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_take_over_does_not_wait_for_a_lease_and_cancels_the_statement(place: Standin) -> None:
    slow(place, 5.0)
    first = start_quick(place, chunk_rows=6, lasts_s=600.0)
    wait_for(lambda: ids_are_stored(place))
    first.send_signal(signal.SIGSTOP)
    seen = Recorder()
    place.set(delay=0.0)
    second = quick_run(place, take_over=True, observer=seen)
    first.send_signal(signal.SIGCONT)
    _, told = first.communicate(timeout=60)
    assert (first.returncode, told.count("\n")) == (1, 1), told
    assert (second.enriched, second.pending) == (len(ROWS), 0)
    assert place.asked_twice() <= 3, "the statement that was cancelled"


LOST = ("reply", "cut", "late", "reply")


@pytest.mark.parametrize(
    ("warehouse", "faults"),
    [("snowflake", (*LOST, "twice")), ("bigquery", (*LOST, "twice")), ("databricks", LOST)],
    indirect=["warehouse"],
)
def test_a_submission_whose_answer_was_lost_is_asked_once(place: Standin, faults: tuple[str, ...]) -> None:
    """The history is late; that of Databricks does not show the text, nor tell apart what a proxy sent twice."""
    if place.engine != "bigquery":  # a job is known at once
        place.set(history_late=1.0, **({"history_hides": ["query_text"]} if place.engine == "databricks" else {}))
    place.once(*faults)
    report = quick_run(place, chunk_rows=8)
    whole(place, report)
    assert report.calls == REQUESTS


@pytest.mark.parametrize(
    ("warehouse", "faults", "most"),
    [("snowflake", 1, 1000), ("snowflake", 1, REQUESTS + 10), ("snowflake", 4, REQUESTS + 5)],
    indirect=["warehouse"],
)
def test_what_a_failed_statement_asked_counts(place: Standin, faults: int, most: int) -> None:
    place.once(*["asked"] * faults)
    report = quick_run(place, chunk_rows=12, max_calls=most)
    assert len(place.prompts()) == report.calls <= most
    assert report.stopped_at == ("max_calls" if report.pending else None)
    if most == 1000:
        assert (report.enriched, report.pending) == (len(ROWS), 0)
