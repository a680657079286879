"""What stays: the tables that every verb reads, what is forgotten, and answers of a gateway that was killed."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

import duckdb
import pytest

import sqlenrich as se
from tests.gateway.conftest import Notes, ask, chat
from tests.support.endpoint import ScriptedEndpoint

Serve = Callable[..., se.Gateway]


@pytest.fixture
def answered(output: Path, endpoint: ScriptedEndpoint) -> Path:
    """An output with three answers, one of them a second attempt."""
    with se.Gateway(output, se.Endpoint(endpoint.url), port=0) as gateway:
        for text in ("first", "of Alice"):
            assert ask(gateway.url, chat(text)).status == 200
        assert ask(gateway.url, chat("first"), cache_control="no-cache").cache == "miss"
        assert ask(gateway.url, {"model": "small", "input": ["a"]}, "/embeddings").status == 200
    assert (gateway.stored, gateway.written) == (4, 4)
    return output


def test_every_verb_reads_what_a_gateway_stored(answered: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = se.report("gateway", output=answered, page=page)
    assert (found.table.rows, found.runs[-1].run.status) == (3, "done")
    assert "/embeddings" in page.read_text()
    audit = se.audit("gateway", output=answered)
    assert audit.holds, audit.to_text()
    (used,) = se.usage(output=str(answered)).runs
    assert (used.name, used.answers, used.failed) == ("gateway", 4, 0)
    assert used.tokens_in
    with duckdb.connect(str(answered), read_only=True) as db:
        assert db.sql("SELECT page, model, count(*) FROM gateway GROUP BY ALL ORDER BY ALL").fetchall() == [
            ("/chat/completions", "mock", 2),
            ("/embeddings", "small", 1),
        ]
        assert db.sql("SELECT attempt, count(*) FROM gateway_responses GROUP BY ALL ORDER BY ALL").fetchall() == [
            (1, 3),
            (2, 1),
        ]
        assert db.sql(
            "SELECT count(*) FROM gateway_prompts SEMI JOIN gateway_responses USING (request_hash)"
        ).fetchall() == [(3,)]


def test_what_is_forgotten_leaves_no_byte_and_is_asked_again(
    answered: Path, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    with se.Gateway(answered, endpoint.url, port=0), pytest.raises(se.RunError, match="gateway has these answers"):
        se.forget("gateway", output=answered, where="page = '/embeddings'")
    forgotten = se.forget(
        "gateway",
        output=answered,
        where="true = (SELECT contains(p.prompt, 'Alice') FROM gateway_prompts p WHERE p.request_hash = _request_hash)",
    )
    assert (forgotten.rows, forgotten.answers) == (1, 1)
    assert not [path.name for path in tmp_path.iterdir() if path.is_file() and b"of Alice" in path.read_bytes()]
    before = len(endpoint.asked)
    with se.Gateway(answered, endpoint.url, port=0) as gateway:
        assert [ask(gateway.url, chat(text)).cache for text in ("first", "of Alice")] == ["hit", "miss"]
    assert len(endpoint.asked) == before + 1


def _start(output: Path, url: str, *options: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "sqlenrich", "gateway", "--output", str(output), "--endpoint", url, "--port", "0"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    found = re.match(r"(http://\S+) asks ", line)
    assert found is not None, line + process.stderr.read()
    return process, found[1]


def test_killed_at_random_moments_it_asks_no_stored_answer_again(output: Path, endpoint: ScriptedEndpoint) -> None:
    """An answer that a caller got is never asked again; what is, was in flight at a kill."""
    endpoint.latency_s = 0.02
    acknowledged: set[str] = set()
    exposed = 0
    drawn = random.Random(5)
    for kill in range(5):
        process, url = _start(output, endpoint.url, "--concurrency", "8")
        waiting: Counter[str] = Counter()

        def call(part: int, url: str = url, waiting: Counter[str] = waiting) -> None:
            for number in range(part, 240, 8):
                text = f"text {number}"
                waiting[text] += 1
                try:
                    if ask(url, chat(text)).status != 200:
                        return
                except (OSError, HTTPException):
                    return
                acknowledged.add(text)
                del waiting[text]

        callers = [threading.Thread(target=call, args=(part,)) for part in range(8)]
        for caller in callers:
            caller.start()
        if kill < 4:
            time.sleep(drawn.uniform(0.05, 0.5))
            process.kill()
        for caller in callers:
            caller.join()
        exposed += len(waiting)
        process.terminate()
        process.communicate(timeout=30)
    asked = Counter(seen.prompt for seen in endpoint.asked)
    assert len(asked) == len(acknowledged) == 240
    repeats = sum(asked.values()) - 240
    assert repeats <= exposed <= 4 * 8
    with duckdb.connect(str(output), read_only=True) as db:
        assert db.sql("SELECT count(*), count(DISTINCT request_hash) FROM gateway_responses").fetchall() == [(240, 240)]
        assert db.sql("SELECT count(*) FROM gateway").fetchall() == [(240,)]


@pytest.mark.parametrize(("signals", "stored"), [(1, 1), (2, 0)])
def test_a_signal_waits_for_what_is_in_flight_and_a_second_one_does_not(
    output: Path, endpoint: ScriptedEndpoint, signals: int, stored: int
) -> None:
    endpoint.latency_s = 1.5
    process, url = _start(output, endpoint.url, "--json")
    found: list[int] = []
    caller = threading.Thread(target=lambda: found.append(ask(url, chat("a")).status))
    caller.start()
    while not endpoint.asked:
        time.sleep(0.02)
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
    out, err = process.communicate(timeout=30)
    caller.join()
    assert (process.returncode, found) == (0, [200 if stored else 503])
    assert "waiting for what is in flight" in err
    summary = json.loads(out)
    assert (summary["stored"], summary["requests"], summary["cost"]) == (stored, 1, None)
    assert output.exists() == bool(stored)


def test_answers_of_a_killed_gateway_are_written_by_the_next_one_and_before_are_not_forgotten(
    output: Path, endpoint: ScriptedEndpoint
) -> None:
    with se.Gateway(output, endpoint.url, port=0) as gateway:
        assert ask(gateway.url, chat("kept")).status == 200
    process, url = _start(output, endpoint.url)
    assert ask(url, chat("from a killed one")).status == 200
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with pytest.raises(se.RunError, match="1 answer of a gateway that was killed"):
        se.forget("gateway", output=output, where="true")
    with se.Gateway(output, endpoint.url, port=0) as gateway:
        assert gateway.written == 1
        assert ask(gateway.url, chat("from a killed one")).cache == "hit"
    assert se.forget("gateway", output=output, where="true").rows == 2


def test_an_answer_whose_first_attempt_is_forgotten_is_still_given(
    output: Path, endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlenrich.gateway import answer_store

    monkeypatch.setattr(answer_store, "PUBLISHED_ROWS", 1)  # each answer is a run of its own
    with se.Gateway(output, endpoint.url, port=0) as gateway:
        bodies = [ask(gateway.url, chat("a"), cache_control="no-cache").body for _ in range(3)]
        assert ask(gateway.url, chat("b")).status == 200
    assert gateway.written == 4
    output.with_name("answers.duckdb.journal").unlink()
    with duckdb.connect(str(output)) as db:
        db.execute("DELETE FROM gateway_responses WHERE attempt < 3 AND request_hash IN "
                   "(SELECT request_hash FROM gateway_responses WHERE attempt = 3)")  # fmt: skip
    for _ in range(2):
        with se.Gateway(output, endpoint.url, port=0) as gateway:
            found = ask(gateway.url, chat("a"))
            assert (found.cache, found.body) == ("hit", bodies[2])
            assert ask(gateway.url, chat("b")).cache == "hit"
    assert len(endpoint.asked) == 4


def test_a_database_in_use_at_the_end_loses_nothing(output: Path, endpoint: ScriptedEndpoint) -> None:
    notes = Notes()
    with se.Gateway(output, endpoint.url, port=0) as gateway:
        assert ask(gateway.url, chat("a")).status == 200
    with se.Gateway(output, endpoint.url, port=0, observer=notes) as gateway:
        assert ask(gateway.url, chat("b")).status == 200
        program = "import duckdb, sys; db = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
        reader = subprocess.Popen(
            [sys.executable, "-c", program, str(output)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout is not None
        assert reader.stdout.readline() == "1\n"
    reader.communicate("\n")
    assert "is in use by the process" in notes.lines[-1]
    assert "no answer is lost" in notes.lines[-1]
    with se.Gateway(output, endpoint.url, port=0) as gateway:
        assert (gateway.written, ask(gateway.url, chat("b")).cache) == (1, "hit")
