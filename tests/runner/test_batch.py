"""Runs that ask by batches: each row answered, each request billed once, whatever is lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sqlenrich as se
from sqlenrich.ask.batch_creation import CreationPolicy
from sqlenrich.spark.session import settings
from sqlenrich.store.batches import BATCHES
from tests.support.batch_driver import MOMENTS, QUICK
from tests.support.batch_vendors import FakeVendors
from tests.support.endpoint import ScriptedEndpoint
from tests.support.runs import GOOD, Result, assert_accounted, call, rows, write_csv, write_prompt
from tests.support.warehouse_runs import REQUESTS as WAREHOUSE_REQUESTS
from tests.support.warehouse_runs import ROWS as WAREHOUSE_ROWS
from tests.support.warehouse_runs import enrich
from tests.support.warehouses import Standin

ROWS = 40
REQUESTS = ROWS - 2
"""Two rows repeat others."""
APIS = ("openai", "anthropic")


def answering(content: str = GOOD) -> Callable[[dict[str, Any]], bytes]:
    """A model that answers everything alike."""
    scripted = ScriptedEndpoint(content=content)
    return lambda body: scripted.completion(body, "")


@pytest.fixture
def fake() -> Iterator[FakeVendors]:
    """Both vendors, which end a batch when it is asked for the second time."""
    with FakeVendors(complete=answering()) as served:
        yield served


def made(folder: Path, header: str = "key: [id]\nparams: {max_tokens: 20}\n") -> tuple[Path, Path, Path]:
    """A prompt file, its rows, and where the results go."""
    data = write_csv(folder / "in.csv", [(i, f"text {i % REQUESTS}") for i in range(ROWS)])
    return write_prompt(folder, header), data, folder / "out.duckdb"


def endpoint(fake: FakeVendors, api: str = "openai", **settings: Any) -> se.Endpoint:
    url = fake.openai_url if api == "openai" else fake.anthropic_url + "/v1"
    return se.Endpoint(url, **{"api": api, "model": "mock", "probe": False, **settings})


def run(folder: Path, model: se.Endpoint, **options: Any) -> se.Report:
    """Run until all batches have ended."""
    prompt, data, output = made(folder)
    return se.run(prompt, output=output, model=model, **{"input": data, "batch": QUICK, **options})


def states(folder: Path) -> list[tuple[Any, ...]]:
    """The lines of the batches that have ended."""
    last = f"SELECT state, requests, answered, failed, unasked FROM {BATCHES} WHERE ended_at IS NOT NULL ORDER BY key"
    return rows(folder / "out.duckdb", last)


def whole(folder: Path, fake: FakeVendors, report: se.Report) -> None:
    """Check that each row is accepted and each request was billed once."""
    assert (report.enriched, report.quarantined, report.pending) == (ROWS, 0, 0)
    assert (len(fake.billed), set(fake.billed.values())) == (REQUESTS, {1})
    assert_accounted(report.to_dict(), folder / "out.duckdb")


@pytest.mark.parametrize("api", APIS)
def test_each_row_is_answered_and_each_request_is_billed_once(tmp_path: Path, fake: FakeVendors, api: str) -> None:
    fake.shuffle = True
    report = run(tmp_path, endpoint(fake, api, batch_requests=15))
    whole(tmp_path, fake, report)
    assert (report.calls, report.retries, fake.asked) == (REQUESTS, 0, [])
    assert states(tmp_path) == [("collected", n, n, 0, 0) for n in (15, 15, 8)]
    assert report.latency_ms is None
    assert [one["state"] for one in report.batches] == ["collected"] * 3
    again = run(tmp_path, endpoint(fake, api))
    assert (again.calls, again.cached, list(again.batches)) == (0, REQUESTS, [])


def test_one_live_request_goes_ahead(tmp_path: Path, fake: FakeVendors) -> None:
    held = [{"id": i, "body": f"text {i % REQUESTS}"} for i in range(ROWS)]
    report = run(tmp_path, endpoint(fake, probe=True), input=held)
    assert (report.enriched, report.calls, len(fake.asked), len(fake.billed)) == (ROWS, REQUESTS, 1, REQUESTS - 1)


def run_killed(folder: Path, model: se.Endpoint, moment: str, hours_ahead: float = 0.0) -> None:
    """Run in a process that ends after a moment; its clock may be ahead of the vendor's."""
    prompt, data, output = made(folder)
    given = {"prompt": prompt, "input": data, "output": output, "url": model.url, "api": model.api, "requests": 20}
    given |= {"moment": moment, "hours_ahead": hours_ahead}
    command = [sys.executable, "-m", "tests.support.batch_driver", json.dumps(given, default=str)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.mark.parametrize(
    ("api", "moment", "hours_ahead"),
    [
        *(("openai", moment, 0.0) for moment in MOMENTS),
        ("anthropic", "created", 0.0),
        ("anthropic", "uploaded", 0.0),
        ("anthropic", "created", 25.0),
    ],
)
def test_a_run_that_is_killed_pays_nothing_twice(
    tmp_path: Path, fake: FakeVendors, api: str, moment: str, hours_ahead: float
) -> None:
    run_killed(tmp_path, endpoint(fake, api), moment, hours_ahead)
    report = run(tmp_path, endpoint(fake, api))
    fake.end()  # a batch that the run took for lost is billed too
    whole(tmp_path, fake, report)


@pytest.mark.parametrize(
    ("api", "faults"),
    [
        ("openai", {"lose": ["create"]}),
        ("openai", {"broken": ["create"], "drop": ["upload"]}),
        ("openai", {"drop": ["create"]}),
        ("openai", {"lose": ["upload", "upload", "create", "create"]}),
        ("openai", {"lose": ["state", "content"]}),
        ("openai", {"broken": ["content"]}),
        ("anthropic", {"lose": ["create"]}),
        ("anthropic", {"drop": ["create"]}),
        ("anthropic", {"lose": ["create", "state"], "broken": ["content"]}),
    ],
    ids=str,
)
def test_a_lost_reply_pays_nothing_twice(tmp_path: Path, api: str, faults: dict[str, list[str]]) -> None:
    with FakeVendors(complete=answering(), **faults) as fake:  # type: ignore[arg-type]
        whole(tmp_path, fake, run(tmp_path, endpoint(fake, api)))


def part(custom_id: str) -> bool:
    """Whether a request is of some share of all."""
    return int(custom_id[:2], 16) < 64


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("what", "reasons"),
    [
        ("fail", {"CALL_ERROR"}),
        ("expire", {"NOT_ASKED"}),
        ("cancel", {"NOT_ASKED"}),
        ("vanish", {"CALL_ERROR"}),
    ],
)
def test_requests_without_an_answer(tmp_path: Path, fake: FakeVendors, api: str, what: str, reasons: set[str]) -> None:
    """A request that failed has used an attempt, one that was not asked has not; a run that may repeat asks again."""
    setattr(fake, what, part)
    first = run(tmp_path, endpoint(fake, api), max_rows=REQUESTS)
    assert set(first.quarantine) == reasons
    setattr(fake, what, lambda _: False)
    last = run(tmp_path, endpoint(fake, api))
    refused = first.quarantined if what == "fail" else 0  # HTTP 400 is the request's fault
    assert (last.enriched, last.quarantined) == (ROWS - refused, refused)
    attempts = "SELECT max(attempt) FROM intent_responses"
    assert rows(tmp_path / "out.duckdb", attempts) == [(2 if what == "vanish" else 1,)]


@pytest.mark.parametrize("api", APIS)
def test_all_requests_fail(tmp_path: Path, fake: FakeVendors, api: str) -> None:
    """A vendor then has no file of answers, and calls the batch completed."""
    fake.fail = lambda _: True
    report = run(tmp_path, endpoint(fake, api))
    assert (report.enriched, dict(report.quarantine), report.exit_status) == (0, {"CALL_ERROR": ROWS}, 3)


def test_expired_requests_are_asked_again_by_the_same_run(tmp_path: Path, fake: FakeVendors) -> None:
    asked: set[str] = set()

    def once(custom_id: str) -> bool:
        new = custom_id not in asked
        asked.add(custom_id)
        return new and part(custom_id)

    fake.expire = once
    whole(tmp_path, fake, run(tmp_path, endpoint(fake)))


@pytest.mark.parametrize("api", APIS)
def test_lines_of_other_ids_are_left_aside(tmp_path: Path, api: str) -> None:
    with FakeVendors(complete=answering(), foreign=["f" * 64]) as fake:
        lines: list[str] = []
        report = run(tmp_path, endpoint(fake, api), observer=noting(lines))
    assert (report.enriched, report.quarantined) == (ROWS, 0)
    assert any("1 line of other ids are left aside" in line for line in lines)


@pytest.mark.parametrize("api", APIS)
def test_files_that_are_gone_are_asked_again(tmp_path: Path, fake: FakeVendors, api: str) -> None:
    fake.hold = True
    first = run(tmp_path, endpoint(fake, api), wait=False)
    assert (first.exit_status, first.pending, first.batches[0]["state"]) == (4, REQUESTS, "created")
    fake.end()
    fake.delete_files()
    fake.hold = False
    lines: list[str] = []
    report = run(tmp_path, endpoint(fake, api), observer=noting(lines))
    assert (report.enriched, report.quarantined) == (ROWS, 0)
    assert rows(tmp_path / "out.duckdb", "SELECT max(attempt) FROM intent_responses") == [(1,)]
    assert sum("asked again" in line for line in lines) == 1


def noting(lines: list[str]) -> Any:
    """An observer that keeps what it is told."""
    from sqlenrich.ask.observer import NullObserver

    class Noting(NullObserver):
        def note(self, line: str) -> None:
            lines.append(line)

    return Noting()


def test_more_tokens_than_may_wait(tmp_path: Path, fake: FakeVendors) -> None:
    """The vendor refuses a batch while others wait; it is sent once one of them has ended."""
    size = 15
    prompt_bytes = sum(len(json.dumps(line)) for line in range(size)) + 400 * size
    fake.enqueued = prompt_bytes
    whole(tmp_path, fake, run(tmp_path, endpoint(fake, batch_requests=size)))


def test_open_batches_are_left_alone_by_every_other_run(tmp_path: Path, fake: FakeVendors) -> None:
    fake.hold = True
    first = run(tmp_path, endpoint(fake, batch_requests=30), wait=False)
    assert (first.exit_status, dict(first.quarantine)) == (4, {"NOT_ASKED": ROWS})
    lines: list[str] = []
    plain = run(tmp_path, endpoint(fake), batch=False, observer=noting(lines))
    assert (plain.calls, plain.pending, plain.exit_status) == (0, REQUESTS, 4)
    assert any(f"{REQUESTS} requests are in open batches" in line for line in lines)
    waiting = run(tmp_path, endpoint(fake), wait=False)
    assert (waiting.calls, len(fake.batches)) == (0, 2)
    fake.end()
    whole(tmp_path, fake, run(tmp_path, endpoint(fake)))


def test_a_stop_leaves_batches_to_the_vendor(tmp_path: Path, fake: FakeVendors) -> None:
    from sqlenrich.ask.observer import Stopper

    fake.hold = True
    stopper = Stopper()

    def stop_once_sent() -> None:
        while not fake.batches:
            time.sleep(0.02)
        stopper.stop()

    threading.Thread(target=stop_once_sent, daemon=True).start()
    stopped = run(tmp_path, endpoint(fake), stopper=stopper, batch=replace(QUICK, poll_s=60.0))
    assert (stopped.exit_status, stopped.pending, len(fake.batches)) == (4, REQUESTS, 1)
    assert "1 batch open at the vendor" in stopped.to_text()
    fake.end()
    whole(tmp_path, fake, run(tmp_path, endpoint(fake)))


def test_a_stop_is_heard_while_batches_of_an_earlier_run_are_looked_for(tmp_path: Path, fake: FakeVendors) -> None:
    from sqlenrich.ask.observer import Stopper

    run_killed(tmp_path, endpoint(fake), "upload noted")
    stopper, listed = Stopper(), fake.calls["list"]

    def stop_once_looked() -> None:
        while fake.calls["list"] == listed:
            time.sleep(0.02)
        stopper.stop()

    threading.Thread(target=stop_once_looked, daemon=True).start()
    patient = replace(QUICK, creation=CreationPolicy(looks_s=(0.0, 600.0)))
    stopped = run(tmp_path, endpoint(fake, probe=True), stopper=stopper, batch=patient)
    assert (stopped.exit_status, stopped.calls, fake.asked, len(fake.batches)) == (4, 0, [], 0)
    whole(tmp_path, fake, run(tmp_path, endpoint(fake)))


def test_two_outputs_of_one_account(tmp_path: Path, fake: FakeVendors) -> None:
    fake.hold = True
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        run(folder, endpoint(fake, "anthropic"), wait=False)
    fake.end()
    for folder in folders:
        report = run(folder, endpoint(fake, "anthropic"))
        assert (report.calls, report.enriched) == (0, ROWS)
    assert set(fake.billed.values()) == {2}


def test_a_cap_on_the_cost_counts_a_batch_with_its_most(tmp_path: Path, fake: FakeVendors) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("as_of = 2026-11-01\n[models.mock]\ninput = 1.0\noutput = 1.0\nbatch = 0.5\n", encoding="utf-8")
    report = run(tmp_path, endpoint(fake, batch_requests=10), prices=prices, max_cost=0.004)
    assert report.stopped_at == "max_cost"
    assert report.cost is not None
    assert 0 < report.cost <= 0.004
    assert 10 <= report.calls < REQUESTS
    last = run(tmp_path, endpoint(fake), prices=prices)
    spent = last.cost
    tokens = (last.tokens_in or 0) + (last.tokens_out or 0)
    assert spent == pytest.approx(0.5 * tokens / 1e6)
    assert se.audit(tmp_path / "intent.prompt", output=tmp_path / "out.duckdb").exit_status == 0


def test_refused_rows_are_retried_by_batches(tmp_path: Path, fake: FakeVendors) -> None:
    good, fake.complete = fake.complete, answering("no JSON")
    first = run(tmp_path, endpoint(fake), stop_after_refused=0)
    assert dict(first.quarantine) == {"BAD_JSON": ROWS}
    fake.complete = good
    last = se.retry(tmp_path / "intent.prompt", output=tmp_path / "out.duckdb", model=endpoint(fake), batch=QUICK)
    assert (last.enriched, last.calls) == (ROWS, REQUESTS)
    assert set(fake.billed.values()) == {2}


def test_a_retry_leaves_its_batches_and_collects_them(tmp_path: Path, fake: FakeVendors) -> None:
    good, fake.complete = fake.complete, answering("no JSON")
    run(tmp_path, endpoint(fake), stop_after_refused=0)
    fake.complete, fake.hold = good, True
    again: dict[str, Any] = {"output": tmp_path / "out.duckdb", "model": endpoint(fake), "batch": QUICK}
    sent = se.retry(tmp_path / "intent.prompt", wait=False, **again)
    assert (sent.calls, sent.pending, sent.exit_status) == (REQUESTS, REQUESTS, 4)
    waiting = se.retry(tmp_path / "intent.prompt", wait=False, **again)
    assert (waiting.calls, waiting.pending) == (0, REQUESTS)
    fake.end()
    collected = se.retry(tmp_path / "intent.prompt", **again)
    assert (collected.calls, collected.enriched, collected.pending) == (0, ROWS, 0)
    assert set(fake.billed.values()) == {2}


def test_a_retry_ends_where_its_batch_is_cancelled(tmp_path: Path, fake: FakeVendors) -> None:
    good, fake.complete = fake.complete, answering("no JSON")
    run(tmp_path, endpoint(fake), stop_after_refused=0)
    fake.complete, fake.cancel = good, part
    again = se.retry(tmp_path / "intent.prompt", output=tmp_path / "out.duckdb", model=endpoint(fake), batch=QUICK)
    assert again.exit_status == 4
    assert 0 < again.pending < REQUESTS


def test_a_cascade_leaves_the_batches_of_each_stage_and_goes_on(tmp_path: Path, fake: FakeVendors) -> None:
    cascade = "cascade: {ask: strong, score: urgency, equal: [label], target: 0.9, sample: 29}\n"
    prompt, data, output = made(tmp_path, "key: [id]\nparams: {max_tokens: 20}\n" + cascade)
    statuses = []
    for _ in range(8):
        report = se.run(prompt, input=data, output=output, model=endpoint(fake), batch=QUICK, wait=False)
        statuses.append(report.exit_status)
        if statuses[-1] == 0:
            break
    assert statuses[0] == 4
    assert statuses[-1] == 0
    assert report.cascade is not None
    assert (report.cascade["threshold"], report.cascade["sample"]) == (3, 29)
    by_model = dict(rows(output, "SELECT model, count(*) FROM intent_responses GROUP BY model"))
    assert by_model == {"mock": REQUESTS, "strong": report.cascade["requests"]}
    assert 27 <= by_model["strong"] <= 29
    assert rows(output, "SELECT max(n) FROM (SELECT count(*) AS n FROM intent_responses GROUP BY request_hash, model)")[
        0
    ] == (1,)
    assert report.enriched == ROWS


@pytest.mark.parametrize("warehouse", ["snowflake"], indirect=True)
def test_rows_of_a_warehouse(place: Standin, fake: FakeVendors) -> None:
    """The driver sends them, and the ledger is a table of the schema; the run that waits keeps its lease."""
    model = endpoint(fake, batch_requests=20)
    fake.complete, fake.hold = answering('{"intent":"a","urgency":3}'), True
    sent = enrich(place, model=model, batch=QUICK, wait=False)
    assert (sent.pending, [one["requests"] for one in sent.batches]) == (WAREHOUSE_REQUESTS, [20, 11])
    assert enrich(place, model=model, wait=True).calls == 0, "a plain run leaves them alone"
    fake.end()
    report = enrich(place, model=model, batch=QUICK)
    assert (report.enriched, report.calls, report.pending) == (len(WAREHOUSE_ROWS), 0, 0)
    assert set(fake.billed.values()) == {1}
    assert [state for (state,) in place.rows(BATCHES, "state", where="ended_at IS NOT NULL")] == ["collected"] * 2


def test_without_a_live_request_all_are_sent_at_once(tmp_path: Path, fake: FakeVendors) -> None:
    """More than a run asks before an answer is accepted."""
    fake.hold = True
    prompt, _, output = made(tmp_path)
    data = write_csv(tmp_path / "many.csv", [(i, f"text {i}") for i in range(300)])
    on: dict[str, Any] = {"input": data, "output": output, "batch": QUICK}
    sent = se.run(prompt, model=endpoint(fake, batch_requests=120), wait=False, **on)
    assert ([one["requests"] for one in sent.batches], fake.asked) == ([120, 120, 60], [])
    fake.end()
    assert se.run(prompt, model=endpoint(fake), **on).enriched == 300


@pytest.mark.spark
def test_rows_of_spark(tmp_path: Path, fake: FakeVendors, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is a folder beside the results."""
    from tests.standins.spark import INTERPRETED, spark_session

    session = spark_session()
    monkeypatch.chdir(tmp_path)  # the journal's folder is below
    fake.hold = True
    on: dict[str, Any] = {"spark": session, "output": f"{tmp_path}/out", "model": endpoint(fake, batch_requests=20)}
    prompt, data, _ = made(tmp_path)
    with settings(session, INTERPRETED):
        sent = se.run(prompt, input=data, batch=QUICK, wait=False, **on)
        assert (sent.pending, [one["requests"] for one in sent.batches]) == (REQUESTS, [20, 18])
        assert se.run(prompt, input=data, **on).calls == 0, "a plain run leaves them alone"
        fake.end()
        report = se.run(prompt, input=data, batch=QUICK, **on)
        assert (report.enriched, report.calls, report.pending) == (ROWS, 0, 0)
        listed = se.batches(**{name: on[name] for name in ("spark", "output")})
    assert [one.state for one in listed.batches] == ["collected"] * 2
    assert (len(fake.billed), set(fake.billed.values())) == (REQUESTS, {1})


def test_a_second_run_on_the_same_output_is_refused(tmp_path: Path, fake: FakeVendors) -> None:
    """The first one waits for its batches."""
    made(tmp_path)
    fake.hold = True
    given = (tmp_path / "intent.prompt", "--input", tmp_path / "in.csv", "--output", tmp_path / "out.duckdb")
    first = subprocess.Popen(
        [sys.executable, "-m", "sqlenrich", "run", *map(str, given), "--endpoint", fake.openai_url, "--model", "mock",
         "--batch"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OPENAI_API_KEY": "k"},
    )  # fmt: skip
    try:
        while not fake.batches:
            assert first.poll() is None, first.communicate()
            time.sleep(0.02)
        with pytest.raises(se.RunError, match=rf"out\.duckdb is in use by the process {first.pid}"):
            run(tmp_path, endpoint(fake))
        assert len(fake.batches) == 1
    finally:
        first.send_signal(signal.SIGINT)
    _, told = first.communicate(timeout=60)
    assert first.returncode == 4, told
    fake.end()
    assert run(tmp_path, endpoint(fake)).enriched == ROWS


def command(folder: Path, verb: str, *arguments: object) -> Result:
    prompt, data, output = folder / "intent.prompt", folder / "in.csv", folder / "out.duckdb"
    asked = () if verb == "batches" else (prompt, "--input", data)
    return call(verb, *asked, "--output", output, *arguments)


def test_the_commands(tmp_path: Path, fake: FakeVendors) -> None:
    made(tmp_path)
    fake.hold = True
    asked = ("--endpoint", fake.openai_url, "--model", "mock")
    sent = command(tmp_path, "run", *asked, "--batch", "--no-wait")
    assert sent.status == 4
    assert f"1 batch open at the vendor, {REQUESTS - 1} requests to go; the same command collects them" in sent.err
    listed = command(tmp_path, "batches", "--json")
    (batch,) = json.loads(listed.out)["batches"]
    assert (batch["state"], batch["requests"], batch["endpoint"]) == ("created", REQUESTS - 1, fake.openai_url)
    text = command(tmp_path, "batches").out
    assert batch["key"] in text
    assert "created" in text
    assert "has no open batch" in command(tmp_path, "batches", "--cancel", "nothing").error
    cancelled = command(tmp_path, "batches", "--cancel", "all", "--endpoint", fake.openai_url)
    assert "1 batch cancelled" in cancelled.out
    fake.hold = False
    planned = command(tmp_path, "plan", *asked, "--batch")
    assert "within a day" in planned.out
    assert command(tmp_path, "run", *asked, "--no-wait").error.startswith("--no-wait leaves batches to the vendor")


@pytest.mark.parametrize(
    ("settings", "change", "error"),
    [
        ({"key": "right"}, {"api_key": "wrong-key"}, "the key is refused|Incorrect API key"),
        ({"models": ["gpt"]}, {}, "model"),
        ({"pages": False}, {}, "batch"),
    ],
    ids=["key", "model", "no batches"],
)
@pytest.mark.parametrize("api", APIS)
def test_what_a_vendor_refuses_is_one_line(
    tmp_path: Path, api: str, settings: dict[str, Any], change: dict[str, Any], error: str
) -> None:
    with FakeVendors(complete=answering(), **settings) as fake, pytest.raises(se.SqlenrichError, match=error) as raised:
        run(tmp_path, endpoint(fake, api, **change))
    assert "\n" not in str(raised.value)
    assert "wrong-key" not in str(raised.value)
    assert not fake.billed


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"mock": True}, "--batch sends the requests to an endpoint"),
        ({"wait": False, "batch": False, "mock": True}, "--no-wait leaves batches to the vendor"),
    ],
)
def test_options_that_contradict_each_other(tmp_path: Path, options: dict[str, Any], error: str) -> None:
    prompt, data, output = made(tmp_path)
    with pytest.raises(se.ConfigError, match=error):
        se.run(prompt, input=data, output=output, **{"batch": QUICK, **options})
    assert not output.exists() or f"{BATCHES}" not in str(rows(output, "SHOW TABLES"))
