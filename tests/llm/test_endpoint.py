"""The scripted endpoint itself: its limits hold, its faults come as scripted, its counts and its log are whole."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.endpoint import STATUS_FAULTS, ScriptedEndpoint
from tests.support.faults import FAULTS, HUGE, ODD_CONTENT, STOPPED
from tests.support.limits import Window
from tests.support.program import SCRIPT, Program

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
ANSWER = '{"n":1}'


def post(
    url: str, prompt: str, timeout_s: float = 5.0, page: str = "/v1/chat/completions", **fields: Any
) -> tuple[HTTPResponse, bytes]:
    """Ask on a connection of its own. Raises OSError or HTTPException where no whole answer comes."""
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **fields}
    connection = HTTPConnection(urlsplit(url).netloc, timeout=timeout_s)
    try:
        connection.request("POST", page, json.dumps(body))
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def status(url: str, prompt: str, **fields: Any) -> int:
    """Return the status of an answer, 0 where no whole one comes."""
    try:
        return post(url, prompt, 0.3, **fields)[0].status
    except (OSError, HTTPException):
        return 0


# Limits, then (time, tokens, seconds until it fits) one after another.
WINDOWS: list[tuple[dict[str, float], Sequence[tuple[float, int, float]]]] = [
    ({}, [(0, 10**9, 0), (0, 10**9, 0)]),
    ({"rpm": 2}, [(0, 1, 0), (1, 1, 0), (2, 1, 58), (59.5, 1, 0.5), (60, 1, 0), (60, 1, 1), (61, 1, 0)]),
    ({"tpm": 100}, [(0, 60, 0), (10, 40, 0), (20, 1, 40), (20, 61, 50), (60, 60, 0), (60, 41, 60), (60, 1, 10)]),
    ({"tpm": 100}, [(0, 101, math.inf), (0, 100, 0)]),
    ({"rpm": 3, "tpm": 100}, [(0, 10, 0), (1, 90, 0), (2, 10, 58), (2, 11, 59), (61, 100, 0), (61, 1, 60)]),
    ({"rpm": 3, "tpm": 100}, [(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 57), (3, 100, 59)]),
    ({"rpm": 1, "window_s": 2.0}, [(0, 1, 0), (1.5, 1, 0.5), (2, 1, 0)]),
]


@pytest.mark.parametrize(("limits", "asked"), WINDOWS)
def test_a_window_takes_what_fits(limits: dict[str, Any], asked: Sequence[tuple[float, int, float]]) -> None:
    window = Window(**limits)
    assert [window.admit(at, size) for at, size, _ in asked] == pytest.approx([wait for _, _, wait in asked])


def test_a_wait_is_as_long_as_it_must_be() -> None:
    window = Window(rpm=5, tpm=50)
    now = 0.0
    for number in range(200):
        size = number * 7 % 50
        wait = window.admit(now, size)
        if wait:
            assert window.admit(now + wait * 0.99, size) > 0
            now += wait
            assert window.admit(now, size) == 0
        now += number % 3
        assert sum(tokens for _, tokens in window.taken) == window.tokens <= 50


@pytest.mark.parametrize(
    ("limits", "fields", "accepted", "tokens"),
    [
        ({"rpm": 5}, {}, 5, 25),
        ({"tpm": 21}, {}, 4, 20),  # a prompt of 3 tokens, an answer of 2
        ({"tpm": 21, "rpm": 2}, {}, 2, 10),
        ({"tpm": 21, "count_max_tokens": True}, {"max_tokens": 4}, 3, 21),
        ({"tpm": 21, "count_max_tokens": True}, {"max_completion_tokens": 4}, 3, 21),
        ({"tpm": 21, "count_max_tokens": True}, {}, 4, 20),
        ({"tpm": 21}, {"max_tokens": 4}, 4, 20),
    ],
)
def test_limits_are_enforced(limits: dict[str, Any], fields: dict[str, Any], accepted: int, tokens: int) -> None:
    with ScriptedEndpoint(**limits, content=ANSWER, latency_s=0.05) as server:
        with ThreadPoolExecutor(9) as pool:
            replies = list(pool.map(lambda n: post(server.url, f"prompt {n}.", **fields)[0], range(9)))
        wait_until(lambda: not server.tally.under_way)
        stats = server.tally.stats()
        seconds = server.tally.seconds()
    assert Counter(response.status for response in replies) == {200: accepted, 429: 9 - accepted}
    for response in replies:
        if response.status == 429:
            assert 58 < int(response.headers["retry-after-ms"]) / 1000 <= int(response.headers["retry-after"]) <= 60
    counts = {"accepted": accepted, "refused": 9 - accepted, "tokens_accepted": tokens}
    assert {name: stats[name] for name in counts} == counts
    assert stats["share_429"] == pytest.approx((9 - accepted) / 9, abs=1e-6)
    assert [sum(second[name] for second in seconds) for name in ("accepted", "refused", "tokens")] == [*counts.values()]


def test_a_window_slides() -> None:
    """Whoever waits as long as the answer says is taken in; whoever does not is refused."""
    with ScriptedEndpoint(rpm=2, window_s=0.5, content=ANSWER) as server:
        assert [status(server.url, f"{n}") for n in range(3)] == [200, 200, 429]
        refused, _ = post(server.url, "again")
        time.sleep(int(refused.headers["retry-after-ms"]) / 1000)
        assert status(server.url, "again") == 200


@pytest.mark.parametrize(
    "fault", [None, *STATUS_FAULTS, *ODD_CONTENT, *STOPPED, "wrong_type", "slow", "huge", "refusal"]
)
def test_faults_that_answer(fault: str | None) -> None:
    with ScriptedEndpoint(rates={fault: 1.0} if fault else {}, content=ANSWER) as server:
        response, raw = post(server.url, "a")
        wait_until(lambda: not server.tally.under_way)
        stats = server.tally.stats()
        assert server.asked[0].complete == (fault not in STATUS_FAULTS)
    code, head, body = STATUS_FAULTS.get(fault or "", (200, "", None))
    assert (response.status, stats["status"], stats["faults"]) == (code, {str(code): 1}, {fault: 1} if fault else {})
    assert response.headers["retry-after"] == ("1" if "retry-after" in head else None)
    assert response.headers["content-type"] == ("text/html" if fault == "wrong_type" else "application/json")
    if body is not None:
        assert raw == body.replace(b"KEY", b"")
        return
    choice = json.loads(raw)["choices"][0]
    message = choice["message"]
    assert choice["finish_reason"] == STOPPED.get(fault or "", "stop")
    huge = '{"x":"' + "y" * HUGE + '"}'
    contents = {**ODD_CONTENT, **dict.fromkeys(STOPPED, ""), "huge": huge, "refusal": None}
    assert message["content"] == contents.get(fault or "", ANSWER)
    assert ("refusal" in message) == (fault == "refusal")


@pytest.mark.parametrize(
    ("fault", "ended", "began"),
    [
        ("reset", "ConnectionResetError", False),
        ("reset_mid", "ConnectionResetError", True),
        ("hang", "TimeoutError", False),
        ("stall", "TimeoutError", True),
        ("cut", "IncompleteRead", True),
    ],
)
def test_faults_that_do_not_end_the_answer(fault: str, ended: str, began: bool) -> None:
    with ScriptedEndpoint(rates={fault: 1.0}, content=ANSWER) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=0.3)
        connection.close()  # one that asks nothing harms nobody
        with pytest.raises((OSError, HTTPException)) as caught:
            post(server.url, "a", 0.3)
        assert type(caught.value).__name__ == ended
        wait_until(lambda: not server.tally.under_way)
        (seen,) = server.asked
        assert (seen.status, seen.complete, seen.fault) == (200 if began else 0, False, fault)


def wait_until(true: Any) -> None:
    until = time.monotonic() + 5.0
    while not true():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_every_fault_is_tried_here() -> None:
    tried = {*STATUS_FAULTS, *ODD_CONTENT, *STOPPED, "wrong_type", "slow", "huge", "refusal"}
    assert tried | {"reset", "reset_mid", "hang", "stall", "cut"} == set(FAULTS)


@pytest.mark.parametrize("given", [{"rates": {"flood": 1.0}}, {"script": {1: "flood"}}, {"by_prompt": {"a": "flood"}}])
def test_an_unknown_fault_is_refused(given: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown fault flood: known are 429"):
        ScriptedEndpoint(**given)


def test_faults_by_share_begin_after_the_calm() -> None:
    with ScriptedEndpoint(rates={"500": 1.0}, calm=2, script={4: ""}, content=ANSWER) as server:
        assert [status(server.url, f"{n}") for n in range(5)] == [200, 200, 500, 200, 500]


def test_slots_bound_what_is_worked_on() -> None:
    with ScriptedEndpoint(slots=2, latency_s=0.1, content=ANSWER) as server:
        began = time.monotonic()
        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(lambda n: status(server.url, f"{n}"), range(4))) == {200}
        assert time.monotonic() - began >= 0.2
        assert (server.busy_peak, server.tally.peak) == (2, 4)


def test_usage_tells_what_a_prefix_cache_spares() -> None:
    """Whole blocks of 16 tokens shared with the prompt before, never the whole prompt."""
    long = "x" * 64 * 3
    prompts = [long, long, long + "!" * 64, long[:100] + "?" * 200, "é" * 64, "é" * 64 + "a"]
    with ScriptedEndpoint(content=ANSWER) as server:
        usages = [json.loads(post(server.url, prompt)[1])["usage"] for prompt in prompts]
        counts = [post(server.url, prompt, page="/tokenize")[1] for prompt in prompts]
    assert [usage["prompt_tokens"] for usage in usages] == [49, 49, 65, 76, 33, 33]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [0, 48, 48, 16, 0, 32]
    assert [json.loads(raw) for raw in counts] == [
        {"count": usage["prompt_tokens"], "max_model_len": 32_768} for usage in usages
    ]
    assert {usage["completion_tokens"] for usage in usages} == {2}


PAGES: list[tuple[str, Any, int, Any]] = [
    ("/health", None, 200, None),
    ("/v1/models", None, 200, ["mock", "small"]),
    ("/tokenize", {"prompt": "12345678"}, 200, {"count": 3, "max_model_len": 32_768}),
    ("/tokenize", {"messages": [{"role": "user", "content": "1234"}]}, 200, {"count": 2, "max_model_len": 32_768}),
    ("/tokenize", {}, 400, None),
    ("/v1/chat/completions", {"messages": []}, 400, None),
]


@pytest.mark.parametrize(("page", "body", "code", "expected"), PAGES)
def test_pages(page: str, body: Any, code: int, expected: Any) -> None:
    with ScriptedEndpoint() as server:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET" if body is None else "POST", page, None if body is None else json.dumps(body))
        response = connection.getresponse()
        raw = response.read()
        connection.close()
    assert response.status == code
    if expected is not None:
        given = json.loads(raw)
        assert ([model["id"] for model in given["data"]] if "data" in given else given) == expected


def test_answers_fit_the_schema_or_are_chosen_by_the_prompt() -> None:
    def text(server: ScriptedEndpoint, prompt: str) -> str:
        raw = post(server.url, prompt, response_format=FORM)[1]
        return str(json.loads(raw)["choices"][0]["message"]["content"])

    with ScriptedEndpoint() as server:
        assert type(json.loads(text(server, "a"))["n"]) is int
        assert text(server, "a") == text(server, "a")
    with ScriptedEndpoint(content=["x", "y", "z"]) as server:
        chosen = [text(server, f"{number}") for number in range(30)]
        assert set(chosen) == {"x", "y", "z"}
        assert chosen == [text(server, f"{number}") for number in range(30)]


def test_the_program(tmp_path: Path) -> None:
    """Faults by share and by prompt, limits, counts and a log with each request once: also those not answered."""
    options = ("--latency", 0.01, "--slots", 4, "--seed", 3, "--content", ANSWER, "--rpm", 300)
    faults = ("--fault", "500=0.2", "--fault", "reset=0.1", "--fault-prompt", "lucky 7=413", "--fault-nth", "1=429")
    with Program(tmp_path, *options, *faults) as program:
        assert status(program.url, "first") == 429
        with ThreadPoolExecutor(8) as pool:
            found = Counter(pool.map(lambda n: status(program.url, f"prompt {n % 150}"), range(200)))
        assert status(program.url, "lucky 7") == 413
        stats = program.settled()
        assert set(found) == {200, 500, 0}
        assert (20 < found[500] < 60, 8 < found[0] < 40) == (True, True)
        assert stats["status"] == {"0": found[0], "200": found[200], "413": 1, "429": 1, "500": found[500]}
        assert stats["faults"] == {"429": 1, "500": found[500], "reset": found[0], "413": 1}
        assert (stats["requests"], stats["distinct_prompts"], stats["prompts_sent_more_than_once"]) == (202, 152, 50)
        assert (stats["accepted"], stats["refused"], stats["complete"]) == (202, 0, found[200])
        assert stats["busy_peak"] == 4 < stats["in_flight_peak"] <= 8
        lines = program.lines()
        assert Counter(str(line["status"]) for line in lines) == stats["status"]
        assert sum(line["tokens"] for line in lines) == stats["tokens_accepted"]
        assert sum(line["complete"] for line in lines) == found[200]
        assert len({line["prompt"] for line in lines}) == 152
        assert lines[-1]["prompt"] == sha256(b"lucky 7").hexdigest()
        assert 0 < time.time() - lines[-1]["at"] < 30
        assert sum(second["accepted"] for second in program.get("/timeline")) == 202
        program.reset()
        assert (program.stats()["requests"], program.lines(), program.get("/timeline")) == (0, [], [])
        assert [status(program.url, f"{n}") for n in range(3)] != [429] * 3
        assert len(program.lines()) == 3


def test_the_program_logs_what_it_never_answered(tmp_path: Path) -> None:
    with Program(tmp_path, "--latency", 30) as program:
        assert status(program.url, "a") == 0
        assert program.stats()["in_flight"] == 1
    (line,) = program.lines()
    assert (line["status"], line["complete"]) == (0, False)


def test_the_program_refuses_an_unknown_fault() -> None:
    command = [sys.executable, str(SCRIPT), "--fault", "flood=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "unknown fault flood" in done.stderr
