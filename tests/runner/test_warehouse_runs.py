"""Runs on the three warehouses through the vendors' own clients, against a stand-in that is a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import sqlenrich as se
from sqlenrich.ask.observer import Stopper
from sqlenrich.runner.place import open_connection
from sqlenrich.spec.weights import Weights
from sqlenrich.store.connections.base import JobState, TransientError, WarehouseConnection
from sqlenrich.store.connections.snowflake.connection import SnowflakeConnection
from sqlenrich.store.jobs import JobPolicy
from sqlenrich.store.warehouse import WarehouseBackend
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import rows as duckdb_rows
from tests.support.warehouse_runs import REQUESTS, ROWS, enrich, quick_backend, quick_run, start
from tests.support.warehouses import Standin

FAILURES = {"bad_json": 0.2, "missing_field": 0.1}
COLUMNS = ("id", "channel", "intent", "urgency")


def folded(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_results_equal_those_of_duckdb(place: Standin, tmp_path: Path) -> None:
    place.set(answers_fail=FAILURES)
    report = enrich(place, chunk_rows=20)
    source = tmp_path / "messages.jsonl"
    source.write_text("\n".join(json.dumps(row) for row in ROWS))
    local = tmp_path / "out.duckdb"
    expected = se.run(
        se.load(place.folder / "tickets.prompt"), input=source, output=local, mock=True, mock_failures=FAILURES
    )
    assert (report.rows_in, report.enriched, dict(report.quarantine)) == (
        expected.rows_in,
        expected.enriched,
        dict(expected.quarantine),
    )
    assert (report.calls, report.cached, report.pending) == (REQUESTS, 0, 0)
    assert Counter(place.prompts()).most_common(1)[0][1] == 1
    named = ", ".join(COLUMNS)
    assert place.rows("tickets", *COLUMNS) == folded(duckdb_rows(local, f"SELECT {named} FROM tickets"))
    refused = ("id", "_error", "response", "prompt", "_attempts")
    wanted = folded(duckdb_rows(local, f"SELECT {', '.join(refused)} FROM tickets_quarantine"))
    assert place.rows("tickets_quarantine", *refused) == wanted
    steps = [one["step"] for one in report.statements]
    assert steps == [
        "prompts",
        "pending",
        "responses",
        "responses",
        "responses",
        "checked",
        "enriched",
        "quarantine",
    ]
    again = enrich(place, chunk_rows=20)
    assert (again.calls, again.cached, again.enriched) == (0, REQUESTS, report.enriched)
    place.set(answers_fail={})
    mended = se.retry(
        se.load(place.folder / "tickets.prompt"), engine=place.engine, profile="standin", output=place.schema
    )
    assert (mended.enriched, dict(mended.quarantine)) == (len(ROWS), {})
    assert len(place.prompts()) == REQUESTS + mended.calls


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_cascade_asks_both_models_in_sql(place: Standin) -> None:
    file = place.folder / "tickets.prompt"
    other = "another-model"
    header = f"cascade: {{ask: {other}, score: urgency, equal: [intent], target: 0.9, sample: 29}}\n"
    file.write_text(file.read_text().replace("output:\n", f"{header}output:\n", 1))
    report = enrich(place)
    assert report.cascade is not None
    assert (report.rows_in, report.enriched + report.quarantined, report.pending) == (len(ROWS), len(ROWS), 0)
    asked = [row[0] for row in place.rows("tickets_responses", "request_hash", where=f"model = '{other}'")]
    assert len(asked) == len(set(asked)) == report.cascade["requests"] == report.calls - REQUESTS
    assert report.cascade["sample"] == 29
    again = enrich(place)
    assert (again.calls, again.cascade and again.cascade["threshold"]) == (0, report.cascade["threshold"])


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_a_classifier_decides_in_the_warehouse_and_the_model_answers_the_rest(place: Standin) -> None:
    leads = [(f" {number} ", *((90, 0) if number % 2 else (0, 90))) for number in range(20)]
    Weights("intent", ("a", "b"), (0, 0), (0, 0), leads).write(place.folder / "intent.weights.parquet")
    file = place.folder / "tickets.prompt"
    header = "cascade: {distilled: intent.weights.parquet, threshold: 50}\n"
    text = file.read_text().replace("required: [intent, urgency]", "required: [intent]")
    file.write_text(text.replace("output:\n", f"{header}output:\n", 1))
    report = enrich(place)
    found = place.rows("tickets_responses", "request_hash", "response", where="model = 'distilled:intent'")
    certain = {(row["channel"], row["body"]) for row in ROWS if row["body"] and int(str(row["body"])[5:]) < 20}
    assert report.cascade is not None
    assert (report.enriched, report.pending, report.calls) == (len(ROWS), 0, REQUESTS - len(certain))
    assert len(found) == REQUESTS
    assert {answer for _, answer in found} == {'{"intent":"a"}', '{"intent":"b"}'}
    again = enrich(place)
    assert (again.calls, again.enriched) == (0, len(ROWS))


def wait_for(true: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def signalled(run: subprocess.Popen[str]) -> str:
    """Interrupt a run, and return the line that tells how it stops."""
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    return next(line for line in iter(run.stderr.readline, "") if "stopping:" in line)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_signal_ends_after_the_statement_and_a_second_one_cancels_it(place: Standin) -> None:
    place.set(delay=10.0)  # of the first three requests, which go ahead, and of the next ones until the signal
    run = start(place, "--chunk-rows", "15", "--json")
    wait_for(lambda: len(place.prompts()) > 3)
    assert "stopping: after this statement" in signalled(run)
    place.set(delay=0.0)
    out, told = run.communicate(timeout=120)
    report = json.loads(out)
    assert run.returncode == 4, told
    assert "stopping" not in told
    assert (report["calls"], report["enriched"] + report["quarantined"]) == (18, len(ROWS))
    place.set(delay=600.0)
    run = start(place, "--chunk-rows", "15", "--json")
    wait_for(lambda: len(place.prompts()) > 18)
    signalled(run)
    run.send_signal(signal.SIGINT)
    out, told = run.communicate(timeout=60)
    assert run.returncode == 4, told
    assert "its answers may be billed and are lost" in told
    # A statement that has just ended can't be cancelled: at most the three requests of the first one are answered.
    assert REQUESTS - 21 <= json.loads(out)["pending"] <= REQUESTS - 18


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_caps_are_kept(place: Standin, tmp_path: Path) -> None:
    assert enrich(place, max_rows=10).calls == 10
    first = {row[0] for row in place.rows("tickets_responses", "request_hash")}
    hashes = sorted(row[0] for row in place.rows("tickets_prompts", "request_hash") if row[0])
    assert first == set(sorted(set(hashes))[:10])
    name = place.rows("tickets_responses", "model")[0][0]
    prices = tmp_path / "prices.toml"
    prices.write_text(f'as_of = 2026-11-01\n[models."{name}"]\ninput = 1000\noutput = 1000\n')
    report = enrich(place, max_cost=1.2, prices=prices)
    counts = place.rows("tickets_responses", "tokens_in", "tokens_out", where=f"run_id = '{report.run_id}'")
    spent = sum((into or 0) + (out or 0) for into, out in counts) * 1000 / 1e6
    assert report.stopped_at == "max_cost"
    assert 0 < report.calls < REQUESTS - 10
    assert spent <= 1.2


class LosesReplies:
    """A connection that loses the first reply to each statement that makes prompts: the statement runs twice."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._lost, self.losses = inner, False, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> Any:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._inner.__exit__(*error)

    def submit(self, sql: str, tags: Mapping[str, str], job_id: str) -> str:
        id: str = self._inner.submit(sql, tags, job_id)
        self._lost = not self._lost and tags["step"] in ("prompts", "setup") and "tickets_prompts" in sql
        if self._lost:
            wait_for(lambda: self._inner.status(id).state is not JobState.RUNNING)
            self.losses += 1
            raise TransientError("the reply was lost")
        return id


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_rows_replaced_by_key_are_right_although_statements_run_twice(place: Standin) -> None:
    """An incremental run that ends early leaves the results; one that ends has each row once."""
    assert enrich(place, where="channel = 'web'").rows_in == len(ROWS) // 3
    stopped = enrich(place, incremental=True, max_calls=5)
    assert (stopped.rows_in, stopped.published, stopped.exit_status) == (len(ROWS), False, 4)
    assert len(place.rows("tickets", "id")) == len(ROWS) // 3
    connection, _ = open_connection(place.engine, {"profile": "standin"}, place.folder / "tickets.prompt")
    lossy = LosesReplies(connection)
    backend = WarehouseBackend(cast("WarehouseConnection", lossy), place.schema, jobs=JobPolicy(first_delay_s=0.05))
    enrich(place, engine=None, profile=None, output=backend, incremental=True)
    assert lossy.losses >= 2, "the table of the input's prompts, and that of all"
    for table in ("tickets_prompts", "tickets"):
        assert place.rows(table, "id") == [(row["id"],) for row in ROWS]
    assert [name for name in place.tables() if name.endswith(("_incoming", "_joined"))] == []


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_passing_failures_are_waited_for(place: Standin) -> None:
    file = place.folder / "tickets.prompt"
    file.write_text(file.read_text().replace("max_attempts: 2", "max_attempts: 9"))
    place.set(fail={"throttle": 0.07, "reset": 0.07, "job" if place.engine == "bigquery" else "statement": 0.1})
    report = quick_run(place, chunk_rows=20)
    place.set(fail={})
    assert report.rows_in == report.enriched + report.quarantined == len(ROWS)
    # A statement that failed alone twice may be its request's own fault: only a retry asks it again.
    retried = se.retry(
        place.folder / "tickets.prompt",
        reasons=["CALL_ERROR"],
        engine=place.engine,
        profile="standin",
        output=place.schema,
    )
    assert (retried.enriched, retried.quarantined) == (len(ROWS), 0)
    assert len({row[0] for row in place.rows("tickets_responses", "request_hash")}) == REQUESTS
    assert place.asked_twice() == 0


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_request_that_fails_its_statement_is_one_row(place: Standin) -> None:
    poisoned = "text 11"
    place.set(poison=poisoned)
    report = enrich(place, chunk_rows=20)
    hit = sum(poisoned in (row["body"] or "") for row in ROWS)
    assert dict(report.quarantine) == {"CALL_ERROR": hit}
    assert report.enriched == len(ROWS) - hit
    assert len(place.prompts()) <= report.calls <= 3 * REQUESTS


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_cap_holds_although_requests_fail_their_statements(place: Standin) -> None:
    place.set(poison="text 1")  # and 10 to 19
    report = quick_run(place, chunk_rows=20, max_calls=REQUESTS + 5)
    assert len(place.prompts()) <= report.calls <= REQUESTS + 5
    assert report.stopped_at == "max_calls"


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_enrichments_that_would_write_each_others_tables(place: Standin) -> None:
    """BigQuery's tables may differ by the case of their names."""
    enrich(place)
    asked = len(place.prompts())
    for name in ("tickets_quarantine", *(["TICKETS"] if place.engine != "bigquery" else [])):
        file = place.folder / f"{name}.prompt"
        file.write_text((place.folder / "tickets.prompt").read_text())
        with pytest.raises(se.ConfigError, match=f"has runs of tickets, which writes the table {name}.* too: rename"):
            se.run(se.load(file), engine=place.engine, profile="standin", input=place.source, output=place.schema)
    assert len(place.prompts()) == asked


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_what_can_t_run_is_told_before_anything_is_asked(place: Standin) -> None:
    with pytest.raises(se.ConfigError, match="there is no table"):
        enrich(place, input=place.source + "_missing")
    with pytest.raises(se.ConfigError, match="--mock invents answers, which no warehouse keeps"):
        enrich(place, mock=True)
    with pytest.raises(se.ConfigError, match="max_cost needs prices"):
        enrich(place, max_cost=1.0)
    with pytest.raises(se.ConfigError, match=f"is of {place.engine}, not of"):
        enrich(place, engine="bigquery" if place.engine == "snowflake" else "snowflake")
    place.load([{"note": "not ours"}], f"{place.schema}.tickets")
    with pytest.raises(se.ConfigError, match="is not sqlenrich's"):
        enrich(place)
    assert place.prompts() == []
    assert place.rows("tickets", "note") == [("not ours",)]


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_target_names_the_place(place: Standin) -> None:
    database, _, schema = place.schema.rpartition(".")
    target: Mapping[str, str] = {"engine": place.engine, "profile": "standin", "database": database, "schema": schema}
    lines = "\n".join(f'{key} = "{value}"' for key, value in target.items())
    (place.folder / "sqlenrich.toml").write_text(f'[targets.prod]\n{lines}\nresponses = "{place.schema}.shared"\n')
    try:
        report = se.run(se.load(place.folder / "tickets.prompt"), target="prod", input=place.source, stopper=Stopper())
    finally:
        (place.folder / "sqlenrich.toml").unlink()
    assert report.enriched == len(ROWS)
    assert len(place.rows("shared", "request_hash")) == REQUESTS


@pytest.mark.parametrize(
    ("warehouse", "client"),
    [("snowflake", False), ("snowflake", True)],
    indirect=["warehouse"],
    ids=lambda value: value if isinstance(value, str) else "a client" if value else "the own function",
)
def test_a_run_ends_where_all_first_answers_are_refused(place: Standin, client: bool) -> None:
    place.set(answers_fail={"bad_json": 1.0})
    with ScriptedEndpoint(content="Sure: {}") as server:
        model = se.Endpoint(server.url, model="m", concurrency=4) if client else None
        report = enrich(place, model=model, stop_after_refused=10)
    assert (report.calls, report.stopped_at, report.exit_status) == (10, "stop_after_refused", 4)
    assert report.to_text().count("  BAD_JSON: the text is not one JSON document: ") == 2


def test_the_next_requests_of_many_are_looked_for_in_a_part_of_them(place: Standin) -> None:
    backend = quick_backend(place.engine, place.folder / "tickets.prompt", place.schema)
    backend.statements = replace(backend.statements, wide_rows=3)
    report = enrich(place, engine=None, profile=None, output=backend, chunk_rows=5)
    assert (report.calls, report.enriched + report.quarantined, report.pending) == (REQUESTS, len(ROWS), 0)
    assert len(place.prompts()) == len(set(place.prompts())) == REQUESTS
    asked = [one["rows"] for one in report.statements if one["step"] == "responses"]
    assert max(asked) <= 5


def made(report: se.Report) -> set[str]:
    """The tables that a run made of its answers."""
    return {one["step"] for one in report.statements} & {"checked", "enriched", "quarantine"}


def test_a_run_with_nothing_new_makes_no_table_again(place: Standin) -> None:
    place.set(answers_fail=FAILURES)
    first = enrich(place)
    results = [(table, place.rows(table)) for table in ("tickets", "tickets_quarantine")]
    again = enrich(place)
    assert (made(first), made(again), again.calls) == ({"checked", "enriched", "quarantine"}, set(), 0)
    assert [(table, place.rows(table)) for table, _ in results] == results
    assert (again.rows_in, again.enriched, again.quarantine) == (first.rows_in, first.enriched, first.quarantine)
    place.load(ROWS[:30])  # of the rows that are left, each request is answered
    fewer = enrich(place)
    assert (made(fewer), fewer.calls) == (made(first), 0)
    assert (fewer.rows_in, fewer.enriched + fewer.quarantined) == (30, 30)
    place.load([{**ROWS[0], "id": "another"}, *ROWS[1:30]])  # as many rows, and one of another key
    other = enrich(place)
    assert (made(other), other.calls) == (made(first), 0)
    assert "another" in {key for table, _ in results for (key,) in place.rows(table, "id")}
    assert made(enrich(place)) == set()
    place.execute(f"DELETE FROM {place.schema}.tickets_quarantine WHERE id IS NOT NULL")
    assert made(enrich(place)) == made(first)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_statements_are_lines_of_a_table_and_no_part_of_the_report_that_is_stored(place: Standin) -> None:
    """A report of thousands of statements would be longer than a warehouse takes in one statement."""
    report = quick_run(place, chunk_rows=6)
    ended = f"run_id = '{report.run_id}' AND state = 'ended' AND kind <> 'lease'"
    names = ("statement_id", "step", "chunk", "written", "seconds", "link")
    stored = place.rows("_sqlenrich_statements", *names, where=ended)
    told = [
        (one["id"], one["step"], one["chunk"], one["rows"], one["seconds"], one["link"]) for one in report.statements
    ]
    assert folded(stored) == folded(told)
    assert sum(one["step"] == "responses" for one in report.statements) == 6
    ((written,),) = place.rows("_sqlenrich_runs", "report")
    assert "statements" not in json.loads(written)
    used = se.usage(engine=place.engine, profile="standin", output=place.schema)
    assert [run.statements for run in used.runs] == [6]


MISSING = (("tickets_responses", ("INSERT", "UPDATE")), ("tickets_quarantine", ("INSERT", "UPDATE", "CREATE")))


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"], indirect=True)
def test_a_right_that_the_end_needs_is_missed_before_anything_is_asked(place: Standin) -> None:
    enrich(place, max_rows=5)
    asked = len(place.prompts())
    for table, words in MISSING:
        place.set(denied={table: list(words)})
        told = rf"(?i){table}.*: the run could not write \S*{table}\S* at its end, so nothing was asked; it needs "
        with pytest.raises(se.ConfigError, match=told):
            enrich(place)
    assert len(place.prompts()) == asked


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_table_keeps_the_policies_that_were_set_on_it(place: Standin) -> None:
    """And a run that would lose one says so before it asks. The role may write the tables, which others own."""
    place.set(answers_fail=FAILURES)
    enrich(place)
    tables = {name: f"{place.schema}.{name}" for name in ("tickets_prompts", "tickets", "tickets_quarantine")}
    place.execute(
        f"ALTER TABLE {tables['tickets_prompts']} MODIFY COLUMN prompt SET MASKING POLICY mask_text",
        f"ALTER TABLE {tables['tickets']} ADD ROW ACCESS POLICY own_region ON (channel)",
        f"ALTER TABLE {tables['tickets_quarantine']} MODIFY COLUMN prompt SET MASKING POLICY mask_text",
    )

    def policies() -> list[list[str]]:
        with place.connected() as connection:
            return [cast(SnowflakeConnection, connection).policies(name) for name in tables.values()]

    found = policies()
    assert found == [["masking policy MASK_TEXT"], ["row access policy OWN_REGION"], ["masking policy MASK_TEXT"]]
    place.set(denied={name: ["CREATE", "ALTER", "DROP"] for name in tables})
    again = enrich(place)
    assert (again.calls, again.exit_status) == (0, 0)
    assert policies() == found
    place.set(denied={})
    rows, asked = place.rows("tickets_quarantine", "id"), len(place.prompts())
    file = place.folder / "tickets.prompt"
    file.write_text(file.read_text().replace("  required:", "    note: {type: string}\n  required:"))
    with pytest.raises(se.ConfigError, match="would lose its row access policy OWN_REGION: drop it, run again"):
        enrich(place)
    assert (place.rows("tickets_quarantine", "id"), len(place.prompts())) == (rows, asked)
    place.execute(f"DROP TABLE IF EXISTS {tables['tickets']}", f"DROP TABLE IF EXISTS {tables['tickets_quarantine']}")
    assert enrich(place).pending == 0


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_a_session_without_a_database_reads_the_history_of_the_results(place: Standin) -> None:
    place.write_profile(database="", schema="")
    assert enrich(place).enriched == len(ROWS)


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_the_newest_run_is_compared_with_the_one_before(place: Standin) -> None:
    prompt = place.folder / "tickets.prompt"
    days = [[{"id": str(n), "channel": "web", "body": f"day {day} text {n}"} for n in range(200)] for day in (1, 2)]
    for rows in days:
        place.load(rows)
        report = enrich(place)
    assert (report.enriched, report.calls) == (200, 200)
    found = se.drift(prompt, engine=place.engine, profile="standin", output=place.schema)
    assert found.run == report.run_id
    compared = {one.field: (one.new_rows, one.old_rows, one.alarm) for one in found.fields}
    assert (compared["intent"], compared["urgency"]) == ((200, 200, False), (200, 200, False))
