"""One client in several streams, threads, event loops and processes."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
from decimal import Decimal

import pytest

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import ConfigError
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.health import Stopped
from sqlenrich.llm.messages import Request
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.llm.throttle.budget import Budget
from tests.support.endpoint import ScriptedEndpoint
from tests.support.models import endpoint_model

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORKED = """
import json, os, sys
from sqlenrich.llm import Client, Endpoint, EndpointModel, Request, RequestConfig

def ask(client, name):
    requests = [Request(name + str(n), 1, name) for n in range(20)]
    return [one.call_error for batch in client.stream(iter(requests)) for one in batch]

with Client(EndpointModel(Endpoint(sys.argv[1]), RequestConfig("mock")), concurrency=1) as client:
    parent = ask(client, "parent")
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, json.dumps(ask(client, "child")).encode())
        os._exit(0)
    os.close(writer)
    both = ask(client, "again")
    os.waitpid(child, 0)
    print(json.dumps([parent, json.loads(os.read(reader, 9999)), both]))
"""


def requests(count: int, name: str = "r") -> list[Request]:
    return [Request(f"{name}{number}", 1, f"{name} {number}") for number in range(count)]


def test_two_streams_share_one_client() -> None:
    seen: dict[str, list[str]] = {"a": [], "b": []}
    with ScriptedEndpoint(latency_s=0.01) as server:
        model = endpoint_model(server.url, concurrency=4)
        with Client(model, concurrency=1, batch_rows=5) as client:

            def read(name: str) -> None:
                for batch in client.stream(iter(requests(60, name))):
                    seen[name] += [answer.request_hash for answer in batch]

            threads = [threading.Thread(target=read, args=(name,)) for name in seen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert server.busy_peak <= 4
        assert client.stats.answered == len(server.asked) == 120
    assert all(
        sorted(hashes) == sorted(one.request_hash for one in requests(60, name)) for name, hashes in seen.items()
    )


def test_a_stream_that_ends_leaves_the_others_alone() -> None:
    def failing() -> object:
        yield from requests(5, "bad")
        raise KeyError("the source")

    with ScriptedEndpoint(latency_s=0.02) as server, Client(endpoint_model(server.url), concurrency=1) as client:
        other = client.stream(iter(requests(100, "good")))
        seen = len(next(other))
        with pytest.raises(KeyError):
            list(client.stream(failing()))  # type: ignore[arg-type]
        assert seen + sum(len(batch) for batch in other) == 100


@pytest.mark.parametrize("instant", [True, False])
def test_a_request_is_awaited_in_the_hosts_loop(instant: bool) -> None:
    async def host() -> tuple[list[str], bool]:
        async with Client(MockModel(SCHEMA, latency_s=0.0 if instant else 0.01), concurrency=8) as client:
            answers = await asyncio.gather(*(client.request(one) for one in requests(30)))
            client.stop()
            with pytest.raises(Stopped):
                await client.request(requests(1)[0])
            return [answer.request_hash for answer in answers], client.stats.answered == 30

    assert asyncio.run(host()) == ([one.request_hash for one in requests(30)], True)


def test_a_request_keeps_to_the_caps_and_the_limiter() -> None:
    async def host(model: EndpointModel, caps: Budget) -> int:
        async with Client(model, concurrency=1, budget=caps) as client:
            found = await asyncio.gather(*(client.request(one) for one in requests(20)), return_exceptions=True)
        assert {type(one).__name__ for one in found} == {"Answer", "Stopped"}
        return sum(not isinstance(one, Stopped) for one in found)

    with ScriptedEndpoint(latency_s=0.01) as server:
        caps = Budget(max_calls=7)
        assert asyncio.run(host(endpoint_model(server.url, concurrency=3, budget=caps), caps)) == 7
        assert (len(server.asked), server.busy_peak <= 3) == (7, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_opens_connections_of_its_own() -> None:
    with ScriptedEndpoint() as server:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", FORKED, server.url], capture_output=True, text=True, timeout=60
        )
        assert done.stdout.strip() == str([[None] * 20] * 3).replace("None", "null"), done.stderr
        assert len(server.asked) == 60


def test_a_configuration_is_pickled_without_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    settings = Endpoint("http://h/v1", "THE_KEY"), RequestConfig("m")
    raw = pickle.dumps(settings)
    assert b"sk-very-secret" not in raw
    assert "sk-very-secret" not in repr(settings) + repr(EndpointModel(*settings))
    assert (loaded := pickle.loads(raw)) == settings
    assert loaded[0].resolve_key() == "sk-very-secret"


def test_shares_of_caps() -> None:
    used = Budget(10, 2.0, lambda *_: Decimal(1), calls=5)
    share = used.share(4)
    assert (share.max_calls, share.max_cost, share.calls, share.price) == (2, 0.5, 0, used.price)
    with pytest.raises(ConfigError, match="1 or more processes"):
        used.share(0)


def test_the_room_loads_no_compiler_and_no_database() -> None:
    code = "import sys, sqlenrich.llm as llm; [getattr(llm, name) for name in llm.__all__]; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sqlglot", "jinja2", "ruamel", "click", "duckdb"} & set(loaded)
