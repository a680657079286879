"""Statements that run in a warehouse as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from sqlenrich.runner.backends.connections.base import JobState, JobStatus, WarehouseConnection
from sqlenrich.runner.backends.jobs import JobConnection, JobPolicy, JobRunner
from sqlenrich.runner.backends.warehouse import WarehouseBackend


class Warehouse:
    """A warehouse in which each statement is seen running three times before its end."""

    place = "warehouse"
    engine = "snowflake"

    def __init__(self) -> None:
        self.submitted: list[tuple[str, str]] = []
        self.polls: dict[str, int] = {}

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        self.submitted.append((sql, tags["step"]))
        self.polls[job_id] = 0
        return job_id

    def status(self, id: str, *, counted: bool = True) -> JobStatus:  # noqa: ARG002
        self.polls[id] += 1
        return JobStatus(JobState.RUNNING if self.polls[id] <= 3 else JobState.DONE)

    def link(self, id: str) -> str | None:
        return f"link of {id}"


def test_a_heartbeat_is_no_statement_of_the_run_and_has_none_itself() -> None:
    warehouse = Warehouse()
    jobs = JobRunner(cast(WarehouseConnection, warehouse), JobPolicy(first_poll_s=0.0, heartbeat_s=-1.0))
    jobs.begin("run", {})
    connection, ledger, told = JobConnection(jobs), JobConnection(jobs, "ledger"), []
    jobs.on_statement = lambda statement: told.append(statement.step)
    jobs.heartbeat = lambda: ledger.execute("SEEN")
    with connection.step("checked"):
        connection.execute("CHECK")
        connection.execute("CHECK AGAIN")
    assert warehouse.submitted == [
        ("CHECK", "checked"),
        *[("SEEN", "ledger")] * 3,
        ("CHECK AGAIN", "checked"),
        *[("SEEN", "ledger")] * 3,
    ]
    assert told == [one.step for one in jobs.statements] == ["checked", "checked"]


def test_a_run_tells_its_ledger_that_it_lives_and_lists_no_statement_for_it() -> None:
    warehouse = Warehouse()
    policy = JobPolicy(first_poll_s=0.0, heartbeat_s=-1.0)
    backend = WarehouseBackend(cast(WarehouseConnection, warehouse), "raw.public", jobs=policy)
    backend.jobs.begin("run", {})
    backend.jobs.heartbeat = lambda: backend._quietly_seen("run")
    with backend.statement.step("checked"):
        backend.statement.execute("CHECK")
    assert [step for _, step in warehouse.submitted] == ["checked", "ledger", "ledger", "ledger"]
    assert "seen_at" in warehouse.submitted[1][0]
    assert [one["step"] for one in backend.statements_run()] == ["checked"]
