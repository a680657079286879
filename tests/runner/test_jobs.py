"""Statements that run in a warehouse as jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

import sqlenrich as se
from sqlenrich.core.lease import LeaseLostError
from sqlenrich.llm.messages import Answer
from sqlenrich.store.base import Origin
from sqlenrich.store.connections.base import (
    JobState,
    JobStatus,
    LostConnectionError,
    TransientError,
    WarehouseConnection,
)
from sqlenrich.store.jobs import JobConnection, JobPolicy, JobRunner, Statement, StatementFailedError
from sqlenrich.store.statement_ledger import Lease, StatementLedger
from sqlenrich.store.warehouse import WarehouseBackend

FAST = JobPolicy(first_poll_s=0.0, longest_poll_s=0.0, first_delay_s=0.0, find_poll_s=0.0, heartbeat_s=99.0)
RUNNING, DONE, UNKNOWN = JobStatus(JobState.RUNNING), JobStatus(JobState.DONE, 5), JobStatus(JobState.UNKNOWN)


class Warehouse:
    """A warehouse in which each statement has these statuses in turn, and each submission this error, or none."""

    place = "warehouse"
    engine = "snowflake"
    starts_once = False
    late_s = 0.0
    statement_bytes = 1_000_000

    def __init__(
        self, statuses: Sequence[JobStatus] = (RUNNING,) * 3 + (DONE,), errors: Sequence[Exception | None] = ()
    ) -> None:
        self.statuses, self.errors = statuses, list(errors)
        self.submitted: list[tuple[str, str]] = []
        self.polls: dict[str, int] = {}
        self.found: list[bool] = []

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        self.submitted.append((sql, tags["step"]))
        self.polls[job_id] = 0
        if self.errors and (error := self.errors.pop(0)) is not None:
            raise error
        return job_id

    def status(self, id: str, *, counted: bool = True) -> JobStatus:  # noqa: ARG002
        self.polls[id] += 1
        return self.statuses[min(self.polls[id], len(self.statuses)) - 1]

    def find(self, job_id: str) -> str | None:
        return job_id if self.found and self.found.pop(0) else None

    def link(self, id: str) -> str | None:
        return f"link of {id}"


def test_no_two_clients_give_a_submission_the_same_id() -> None:
    """BigQuery starts one of an id: a second command would be told that its statement has run."""
    warehouse = Warehouse()
    for _ in range(2):
        JobRunner(cast(WarehouseConnection, warehouse), FAST).run("UPDATE", "setup")
    assert len(warehouse.polls) == 2


class Lines:
    """A journal that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, job_id: str) -> None:
        self.told.append(f"begin {job_id[-1]}")

    def submitted(self, job_id: str, statement_id: str) -> None:
        assert job_id == statement_id
        self.told.append(f"submitted {job_id[-1]}")

    def abandoned(self, job_id: str) -> None:
        self.told.append(f"abandoned {job_id[-1]}")

    def end(self, job_id: str, statement: Statement | None) -> None:  # noqa: ARG002
        self.told.append(f"end {job_id[-1]}")


def runner(warehouse: Warehouse, policy: JobPolicy = FAST) -> JobRunner:
    jobs = JobRunner(cast(WarehouseConnection, warehouse), policy)
    jobs.begin("run", {})
    return jobs


def test_a_heartbeat_is_no_statement_of_the_run_and_has_none_itself() -> None:
    warehouse = Warehouse()
    jobs = runner(warehouse, JobPolicy(first_poll_s=0.0, heartbeat_s=-1.0))
    connection, ledger, told = JobConnection(jobs), JobConnection(jobs, "ledger"), []
    jobs.on_statement = lambda statement: told.append(statement.step)
    jobs.heartbeat = lambda: ledger.execute("SEEN")
    with connection.step("checked"):
        connection.execute("CHECK")
        connection.execute("CHECK AGAIN")
    seen = ("SEEN", "ledger")
    assert warehouse.submitted == [
        seen, ("CHECK", "checked"), *[seen] * 3,
        seen, ("CHECK AGAIN", "checked"), *[seen] * 3,
    ]  # fmt: skip
    assert told == [one.step for one in jobs.statements] == ["checked", "checked"]


def test_a_run_that_has_lost_its_lease_submits_nothing_more() -> None:
    warehouse = Warehouse()
    policy = JobPolicy(first_poll_s=0.0, heartbeat_s=-1.0)
    backend = WarehouseBackend(cast(WarehouseConnection, warehouse), "raw.public", jobs=policy)
    ledger = StatementLedger(JobConnection(backend.jobs, "ledger"), backend.engine, "raw.public.ledger")
    warehouse.rows = lambda _: [("other", "run 2")]  # type: ignore[attr-defined]
    backend.lease, backend.jobs.heartbeat = Lease(ledger, "run 1", "answers", 90.0), backend._renew
    with backend.statement.step("checked"), pytest.raises(LeaseLostError, match="run 2 has taken over these tables"):
        backend.statement.execute("CHECK")
    assert [step for _, step in warehouse.submitted] == ["ledger"]
    assert backend.statements_run() == []


TEXTS = ("text " * 40, "'\\\n" * 100, "\u6f22" * 100, '{"x": "a"}')
HEADER = "---\nkey: [id]\nsource: raw.t\noutput: {'x(enum)': [a]}\n---\n{{ body }}\n"


@pytest.mark.parametrize("engine", ["bigquery", "databricks", "snowflake"])
def test_a_client_s_answers_are_stored_by_few_statements_that_the_warehouse_takes(engine: str, tmp_path: Path) -> None:
    warehouse = Warehouse([DONE])
    warehouse.engine, warehouse.statement_bytes = engine, 100_000
    backend = WarehouseBackend(cast(WarehouseConnection, warehouse), "a.b", jobs=FAST)
    (tmp_path / "answers.prompt").write_text(HEADER)
    plan = se.compile_plan(se.load(tmp_path / "answers.prompt"), engine, asked_by_client=True)
    names = ("stop", "a-model-with-a-long-name-2026-11-25", 1000, 0, 1000, 31)
    answers = [
        Answer(f"{n:064}", 1, f"{n:064}", TEXTS[n % 4], None, False, *names, datetime.now(UTC), 1, f"chatcmpl-{n:032}")
        for n in range(400)
    ]
    backend.append(plan, answers, Origin("20261125T100708-49b09b53", "2026-11-25", "889b7224c99cc380"))
    sizes = [len(sql.encode()) for sql, _ in warehouse.submitted]
    assert max(sizes) <= 100_000
    assert len(sizes) <= 1 + 1.25 * sum(sizes) / 100_000


LOST, THROTTLED = LostConnectionError("no answer"), TransientError("try later")


@pytest.mark.parametrize(
    ("errors", "found", "late_s", "lines"),
    [
        ([], [], 0.0, "begin 1, submitted 1, end 1"),
        ([THROTTLED], [], 0.0, "begin 1, submitted 1, end 1"),
        ([LOST], [True], 0.0, "begin 1, abandoned 1, submitted 1, end 1"),
        ([LOST], [False, False, True], 9.0, "begin 1, abandoned 1, submitted 1, end 1"),
        ([LOST], [False], 0.0, "begin 1, abandoned 1, begin 2, submitted 2, end 2"),
        ([LOST, LOST], [False, True], 0.0, "begin 1, abandoned 1, begin 2, abandoned 2, submitted 2, end 2"),
    ],
    ids=["answered", "refused", "found", "found late", "not there", "lost twice"],
)
def test_a_submission_whose_answer_was_lost_is_found_or_closed_before_another_one(
    errors: list[Exception], found: list[bool], late_s: float, lines: str
) -> None:
    warehouse, journal = Warehouse(errors=errors), Lines()
    warehouse.found, warehouse.late_s = list(found), late_s
    texts: list[str] = []

    def text(job_id: str) -> str:
        texts.append(job_id)
        return f"ASK {job_id}"

    done = runner(warehouse).ask(text, "responses", "1", {}, journal)
    assert ", ".join(journal.told) == lines
    assert done.rows == 5
    assert [sql for sql, _ in warehouse.submitted] == [f"ASK {id}" for id in texts] * (
        2 if errors == [THROTTLED] else 1
    )


@pytest.mark.parametrize(
    ("statuses", "rows"),
    [([UNKNOWN, UNKNOWN, RUNNING, DONE], 5), ([UNKNOWN, DONE], 5), ([UNKNOWN], None)],
    ids=["late, then runs", "late, then done", "never known"],
)
def test_an_unknown_statement_has_not_ended(statuses: list[JobStatus], rows: int | None) -> None:
    warehouse, journal = Warehouse(statuses), Lines()
    jobs = runner(warehouse, JobPolicy(first_poll_s=0.0, longest_poll_s=0.0, unknown_for_s=0.05))
    if rows is None:
        with pytest.raises(StatementFailedError, match="no longer knows") as raised:
            jobs.ask(str, "responses", "1", {}, journal)
        assert raised.value.asked, "it counts"
        assert "end 1" not in journal.told, "a later run looks for it"
    else:
        assert jobs.ask(str, "responses", "1", {}, journal).rows == rows
    assert len(warehouse.submitted) == 1


@pytest.mark.parametrize("started", [True, False])
def test_a_statement_that_asks_is_not_repeated_by_the_runner(started: bool) -> None:
    failed = JobStatus(JobState.FAILED, None, "service down", transient=True, started=started)
    warehouse = Warehouse([failed])
    with pytest.raises(StatementFailedError, match="service down") as raised:
        runner(warehouse).ask(str, "responses", "1", {}, Lines())
    assert (raised.value.transient, raised.value.asked) == (True, started)
    assert len(warehouse.submitted) == 1
