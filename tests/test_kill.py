"""A run that is killed again and again ends as an undisturbed one does, and pays twice only for what was exposed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .llm.endpoint import ScriptedEndpoint
from .runs import Result, opened, rows, start, wait, write_csv, write_prompt

KILLS = int(os.environ.get("SQLENRICH_KILLS", "3"))
ROWS = 3_000
CONCURRENCY = 32
EXPOSED = CONCURRENCY + 256
ANSWERS = ('{"label":"a","urgency":1}', '```json\n{"label":"b","urgency":2}\n```', '{"label":"z","urgency":1}', "no")
SIGNALLED_S = 20.0


def answer(prompt: str) -> str:
    """Good, repaired and refused answers, by the prompt."""
    return ANSWERS[sum(prompt.encode()) % len(ANSWERS)]


def make_input(folder: Path, count: int = ROWS) -> Path:
    """Distinct texts, each tenth row a duplicate, some empty; repeated and NULL keys."""
    asked = [i - 1 if i % 10 == 0 else i for i in range(count)]
    texts = [None if i % 97 == 0 else f"text {i} " + "x" * (i % 50) for i in asked]
    keys = [None if i % 31 == 0 else i // 2 for i in range(count)]
    return write_csv(folder / "in.csv", zip(keys, texts, strict=True))


def command(folder: Path, data: Path, output: Path, url: str) -> tuple[Any, ...]:
    options = ("--model", "mock", "--json", "--concurrency", CONCURRENCY)
    return ("run", folder / "intent.prompt", "--input", data, "--output", output, "--endpoint", url, *options)


def tables(output: Path) -> dict[str, Counter[Any]]:
    """Both results as multisets of rows, less ``_attempts``."""
    with opened(output) as db:
        return {
            "intent": Counter(db.execute("FROM intent").fetchall()),
            "quarantine": Counter(db.execute("SELECT * EXCLUDE (_attempts) FROM intent_quarantine").fetchall()),
        }


def ask_until_killed(process: subprocess.Popen[str], endpoint: ScriptedEndpoint, after: int) -> bool:
    """Kill a run once the endpoint has seen ``after`` requests; False if it ended by itself."""
    while process.poll() is None:
        if len(endpoint.asked) >= after:
            process.kill()
            break
        time.sleep(0.002)
    process.communicate()
    return process.returncode == -signal.SIGKILL


@pytest.mark.timeout(600)
def test_killed_runs_end_as_an_undisturbed_one(tmp_path: Path, record_property: Any) -> None:
    chance = random.Random(7)
    write_prompt(tmp_path, "key: [id]\nkeep: [body]\nversion: 1\n")
    corpus = os.environ.get("SQLENRICH_KILL_INPUT")
    data = make_input(tmp_path)
    if corpus:
        write_prompt(tmp_path, "key: [category]\nkeep: [text]\ncolumns: {body: {from: text}}\nversion: 1\n")
        data = Path(corpus)
    with ScriptedEndpoint(content=answer) as endpoint:
        undisturbed = wait(start(*command(tmp_path, data, tmp_path / "calm.duckdb", endpoint.url)))
        assert undisturbed.status == 0, undisturbed.err
        expected, distinct = tables(tmp_path / "calm.duckdb"), undisturbed.report["distinct_requests"]
        assert len(endpoint.asked) == distinct
    output, kills, began = tmp_path / "killed.duckdb", 0, time.monotonic()
    with ScriptedEndpoint(content=answer, latency_s=0.01) as endpoint:
        for part in range(KILLS):
            seen = len(endpoint.asked)
            # Each kill falls somewhere in the part of the rest that is its share.
            share = (distinct - seen) // (KILLS - part + 1)
            after = seen + chance.randint(max(share // 3, 1), max(share, 2))
            process = start(*command(tmp_path, data, output, endpoint.url))
            kills += ask_until_killed(process, endpoint, after)
        last = wait(start(*command(tmp_path, data, output, endpoint.url)))
        asked = Counter(seen.prompt for seen in endpoint.asked)
    assert last.status == 0, last.err
    assert kills == KILLS
    assert tables(output) == expected
    assert len(asked) == distinct
    again = sum(asked.values()) - len(asked)
    seconds = time.monotonic() - began
    figures = f"{kills} kills, {distinct} requests, {again} sent again, bound {kills * EXPOSED}, {seconds:.1f} s"
    record_property("figures", figures)
    print(figures)  # noqa: T201 (shown by pytest -s)
    assert again <= kills * EXPOSED
    assert last.report["calls"] < distinct, "the last run asked everything anew"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    write_prompt(tmp_path)
    data, output = make_input(tmp_path, 2_000), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=answer, latency_s=0.2) as endpoint:
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
    with ScriptedEndpoint(content=answer, script=dict.fromkeys(range(5, 9_000), "hang")) as endpoint:
        process = start(*command(tmp_path, make_input(tmp_path, 500), output, endpoint.url))
        wait_for(endpoint, 20)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        ended = wait(process)
        assert time.monotonic() - sent < 4.0
    assert ended.status == 4
    assert ended.report["rows_in"] == ended.report["enriched"] + ended.report["quarantined"] == 500


def test_a_second_run_on_the_same_database_ends_at_once(tmp_path: Path) -> None:
    write_prompt(tmp_path)
    data, output = make_input(tmp_path, 500), tmp_path / "out.duckdb"
    with ScriptedEndpoint(content=answer, script=dict.fromkeys(range(5, 9_000), "hang")) as endpoint:
        first = start(*command(tmp_path, data, output, endpoint.url))
        try:
            wait_for(endpoint, 5)
            began = time.monotonic()
            second: Result = wait(start(*command(tmp_path, data, output, endpoint.url)))
            assert time.monotonic() - began < 5.0
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
