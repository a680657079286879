"""A keeper with a fake server: whatever is killed, the server is ready again, or nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from sqlenrich.spark.vllm.status import GIVEN_UP, READY
from tests.support.kept_server import KeptServer
from tests.support.vllm_processes import FAST, alive, family, kill, until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[KeptServer]:
    with KeptServer(tmp_path) as one:
        yield one


def ask(url: str) -> None:
    """Send a prompt whose answer nobody waits for."""
    with pytest.raises(OSError, match="timed out"):
        urlopen(Request(f"{url}/chat/completions", b"{}"), timeout=0.2)


@pytest.mark.parametrize(("victim", "reason"), [
    ("server", "it ended with exit status 137"),
    ("engine", "it ended with exit status 0"),
    ("guard", "it ended with exit status 137"),
])  # fmt: skip
def test_what_is_killed_is_ready_again(world: KeptServer, victim: str, reason: str) -> None:
    first = world.at(READY)
    old = family(first.pid)
    assert len(old) == 4
    kill(world.processes(first)[victim])
    again = world.at(READY, starts=2)
    assert (again.url, again.starts, again.reason) == (first.url, 2, reason)
    assert not alive(old)


@pytest.mark.parametrize("fault", ["", "deaf"])
@pytest.mark.parametrize("victim", ["executor", "keeper"])
def test_nothing_is_left_without_executor_or_keeper(world: KeptServer, victim: str, fault: str) -> None:
    server = world.at(READY)
    old = family(server.pid)
    if fault:
        world.fail(fault)
    processes = world.processes(server)
    kill(processes[victim])
    assert until(lambda: not alive(old))
    assert until(lambda: world.server is None and not alive({processes["keeper"]}))


@pytest.mark.parametrize(("fault", "reason"), [
    ("deaf", "3 health checks in a row failed: /health and /metrics: no answer within 0.4 s"),
    ("stuck", "it processed no token for 0.5 s with 1 requests running"),
])  # fmt: skip
def test_a_server_that_hangs_is_started_again(world: KeptServer, fault: str, reason: str) -> None:
    first = world.at(READY)
    old = family(first.pid)
    world.fail(fault)
    if fault == "stuck":
        ask(first.url)
    assert until(lambda: world.server and world.server.starts == 2)
    world.heal()
    again = world.at(READY, starts=2)
    assert again.reason == reason
    assert not alive(old)


def test_a_server_that_ends_again_and_again_is_given_up(tmp_path: Path) -> None:
    with KeptServer(tmp_path, policy=replace(FAST, failed_checks=1000)) as world:  # its end is seen before these
        for starts in range(1, 4):
            kill(world.processes(world.at(READY, starts))["server"])
        reason = world.at(GIVEN_UP).reason
    assert reason.startswith("it ended with exit status 137; 3 starts within 600 s; the end of its log:\nloading tiny")


def test_the_load_is_told(world: KeptServer) -> None:
    world.at(READY)
    loaded = until(lambda: (one := world.server) and one.waiting and one)
    assert (loaded.running, loaded.waiting, loaded.kv_use, loaded.prefix_hits) == (0, 2, 0.25, 0.4)
    assert str(loaded).endswith("ready: 0 running, 2 waiting, KV cache 25%, prefix hits 40%")


@pytest.mark.parametrize(("world_arguments", "fault", "starts", "reason"), [
    pytest.param({}, "broken", 3,
                 "it ended with exit status 1; 3 starts in a row were never ready; the end of its log:\n"
                 "loading tiny, my key is ***\nno weights", id="it ends at once"),
    pytest.param({}, "worker", 3,
                 "it ended with exit status 0: ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -4); 3 "
                 "starts in a row were never ready; the end of its log:\nloading tiny, my key is ***\n"
                 "ERROR Worker proc VllmWorker-0 died unexpectedly (exit code: -4)\nfinished",
                 id="a process of its own dies"),
    pytest.param({}, "stuck", 3,
                 "it listens, but 3 trials to generate a text failed: the trial text: no answer within 0.5 s; 3 starts "
                 "in a row were never ready; the end of its log:\nloading tiny, my key is ***",
                 id="it answers health only"),
    pytest.param({"arguments": ("--no-such-thing", "1")}, "", 1,
                 "fake_vllm: error: unrecognized arguments: --no-such-thing 1", id="an unknown argument"),
    pytest.param({"arguments": ("--max-model-len", "long")}, "", 1,
                 "fake_vllm: error: argument --max-model-len: invalid int value: 'long'", id="a bad value"),
    pytest.param({"arguments": ("--max-model-len", "200000")}, "", 1,
                 "Value error, 200000 is too long", id="more than the model has"),
    pytest.param({"command": ("/no/vllm",)}, "", 1,
                 "error: can't start /no/vllm: No such file or directory", id="no program"),
])  # fmt: skip
def test_a_server_that_never_works_is_given_up(
    tmp_path: Path, world_arguments: dict[str, Any], fault: str, starts: int, reason: str
) -> None:
    given = dict(world_arguments)
    world = KeptServer(tmp_path, *given.pop("arguments", ()), **given)
    if fault:
        world.fail(fault)
    with world:
        ended = world.at(GIVEN_UP)
        assert (ended.reason, ended.starts, ended.pid) == (reason, starts, None)


def test_a_port_in_use_is_replaced(tmp_path: Path) -> None:
    world = KeptServer(tmp_path)
    world.fail("port in use")
    with world:
        ready = world.at(READY, starts=2)
        assert ready.reason == "it ended with exit status 1"
