"""A run that is killed again and again ends as an undisturbed one does, and pays twice only for what was exposed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.endpoint import ScriptedEndpoint
from tests.support.kills import ANSWERS, PHASES, command, kill_often, make_input, phases, undisturbed
from tests.support.runs import Result, rows, start, wait, write_prompt

KILLS = int(os.environ.get("SQLENRICH_KILLS", "3"))
SIGNALLED_S = 20.0


@pytest.mark.timeout(600)
def test_killed_runs_end_as_an_undisturbed_one(tmp_path: Path, record_property: Any) -> None:
    write_prompt(tmp_path, "key: [id]\nkeep: [body]\nversion: 1\n")
    data = make_input(tmp_path, 3_000)
    if corpus := os.environ.get("SQLENRICH_KILL_INPUT"):
        write_prompt(tmp_path, "key: [category]\nkeep: [text]\ncolumns: {body: {from: text}}\nversion: 1\n")
        data = Path(corpus)
    began = time.monotonic()
    outcome = kill_often(tmp_path, data, undisturbed(tmp_path, data), KILLS, random.Random(7))
    exposed = [len(kill.exposed) for kill in outcome.kills]
    figures = f"{outcome.distinct} requests, {outcome.asked_again} sent again, exposed {exposed}"
    record_property("figures", f"{figures}, {time.monotonic() - began:.1f} s")
    print(figures)  # noqa: T201 (shown by pytest -s)
    assert not outcome.problems
    assert {kill.phase for kill in outcome.kills} == set(phases(KILLS, random.Random(7)))


@pytest.mark.parametrize(("kills", "counts"), [(1, (0, 1, 0)), (3, (1, 1, 1)), (4, (1, 2, 1)), (50, (10, 30, 10))])
def test_kills_fall_into_all_phases(kills: int, counts: tuple[int, int, int]) -> None:
    order = phases(kills, random.Random(1))
    assert tuple(order.count(phase) for phase in PHASES) == counts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    write_prompt(tmp_path)
    data, output = make_input(tmp_path, 2_000), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=ANSWERS, latency_s=0.2) as endpoint:
        process = start(*command(tmp_path, data, output, endpoint.url))
        wait_for(endpoint, 150)
        process.send_signal(number)
        sent = time.monotonic()
        stopped = wait(process)
        assert time.monotonic() - sent < SIGNALLED_S
        assert stopped.status == 4, stopped.err
        report = stopped.report
        assert report["rows_in"] == report["enriched"] + report["quarantined"] == 2_000
        assert report["pending"] > 0
        assert report["quarantine"]["NOT_ASKED"] >= report["pending"]
        assert "stopping" in stopped.err
        assert f"{report['pending']:,} requests to go" in stopped.err
        # Nothing that was sent is lost: the run waits for what is in flight.
        stored = rows(output, "SELECT count(*) FROM intent_responses")[0][0]
        assert stored == len(endpoint.asked)
        endpoint.latency_s = 0.0
        rest = wait(start(*command(tmp_path, data, output, endpoint.url)))
        assert (rest.status, rest.report["pending"], rest.report["cached"]) == (0, 0, stored), rest.err
        assert len({seen.prompt for seen in endpoint.asked}) == len(endpoint.asked)


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """The endpoint never answers: the first signal would wait for the grace of what is in flight."""
    write_prompt(tmp_path)
    output = tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=ANSWERS, script=dict.fromkeys(range(5, 9_000), "hang")) as endpoint:
        process = start(*command(tmp_path, make_input(tmp_path, 500), output, endpoint.url))
        wait_for(endpoint, 20)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        ended = wait(process)
        assert time.monotonic() - sent < 8.0
    assert ended.status == 4
    assert ended.report["rows_in"] == ended.report["enriched"] + ended.report["quarantined"] == 500


def test_a_second_run_on_the_same_database_ends_at_once(tmp_path: Path) -> None:
    write_prompt(tmp_path)
    data, output = make_input(tmp_path, 500), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=ANSWERS, script=dict.fromkeys(range(5, 9_000), "hang")) as endpoint:
        first = start(*command(tmp_path, data, output, endpoint.url))
        try:
            wait_for(endpoint, 5)
            began = time.monotonic()
            second: Result = wait(start(*command(tmp_path, data, output, endpoint.url)))
            assert time.monotonic() - began < 20.0
            assert second.status == 1
            assert second.error == (
                f"{output} is in use by the process {first.pid}; wait for it, or end it, then run again"
            )
        finally:
            first.kill()
            first.communicate()


def wait_for(endpoint: ScriptedEndpoint, requests: int) -> None:
    """Wait until so many requests were seen."""
    until = time.monotonic() + 30.0
    while len(endpoint.asked) < requests:
        assert time.monotonic() < until, f"only {len(endpoint.asked)} requests came"
        time.sleep(0.005)
