"""What callers get when something fails: the endpoint, the disk, a cap, a caller that left, the start of a gateway."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sqlenrich as se
from sqlenrich.gateway.counts import GatewayPolicy
from tests.gateway.conftest import Notes, ask, chat
from tests.support.endpoint import ScriptedEndpoint
from tests.support.full_disk import fill_disk

Serve = Callable[..., se.Gateway]

REFUSALS = [
    # fault of the first request, status, code or text, requests at the endpoint
    ("400_context", 400, "maximum context length", 1),
    ("400_policy", 400, "content_filter", 1),
    ("400_format", 400, "Grammar error", 1),
    ("422", 422, "computer says no", 1),
    ("404_model", 404, "model_not_found", 1),
    ("413", 413, "too big", 1),
    ("quota", 429, "insufficient_quota", 1),
    ("401", 502, "wrong_key", 1),
    ("500", 200, "", 2),
    ("429", 200, "", 2),
    ("reset", 200, "", 2),
    ("cut", 200, "", 2),
    ("html", 200, "", 2),
    ("no_choices", 200, "", 2),
    ("error_200", 200, "", 2),
]


@pytest.mark.parametrize(("fault", "status", "told", "asked"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_a_refusal_is_passed_on_and_what_may_pass_is_tried_again(
    serve: Serve, endpoint: ScriptedEndpoint, fault: str, status: int, told: str, asked: int
) -> None:
    endpoint.script = {1: fault}
    gateway = serve(endpoint=se.Endpoint(endpoint.url, api_key="secret-of-the-gateway"))
    found = ask(gateway.url, chat("a"), authorization="Bearer the-caller's-own")
    assert found.status == status
    assert told in found.body.decode()
    assert b"secret-of-the-gateway" not in found.body
    assert len(endpoint.asked) == asked
    assert {seen.authorization for seen in endpoint.asked} == {"Bearer secret-of-the-gateway"}
    assert gateway.counts.failed == (status != 200)
    # A refusal is not stored, and it says nothing of other requests.
    assert ask(gateway.url, chat("a")).cache == ("hit" if status == 200 else "miss")
    assert ask(gateway.url, chat("b")).status == 200


def test_a_failure_that_lasts_is_told_after_the_tries(serve: Serve, endpoint: ScriptedEndpoint) -> None:
    endpoint.by_prompt = {"poison": "500"}
    url = serve(policy=GatewayPolicy(outage_s=0.5, check_s=0.1)).url
    assert [ask(url, chat(text)).status for text in ("good", "poison", "good too")] == [200, 500, 200]
    endpoint.die()
    found = ask(url, chat("poison too"))
    assert (found.status, found.code) == (503, "overloaded")
    assert "the endpoint is down (connection" in found.json["error"]["message"]
    assert ask(url, chat("good")).cache == "hit"
    endpoint.revive()
    until = time.monotonic() + 20
    while ask(url, chat("good again")).status != 200:
        assert time.monotonic() < until


PATHS = [
    ("GET", "/health", 200, "ok"),
    ("GET", "/usage", 200, '"hits":0'),
    ("GET", "/nothing", 404, "/chat/completions"),
    ("POST", "/files", 404, "no page /files"),
    ("GET", "/chat/completions", 405, "asked by POST"),
    ("POST", "/models", 405, "asked by GET"),
]


def test_other_pages_and_large_bodies_are_refused(serve: Serve) -> None:
    url = serve(policy=GatewayPolicy(largest_body=1 << 20)).url
    for method, path, status, told in PATHS:
        found = ask(url, {}, path, method)
        assert (found.status, told in found.body.decode()) == (status, True), path
    assert ask(url, chat("x" * (1 << 20))).status == 413
    assert ask(url, b"\x1f\x8b", content_encoding="gzip").code == "unsupported_encoding"


CALLERS: list[tuple[str, str | None, dict[str, str], int]] = [
    ("this machine", None, {}, 200),
    ("by its name", None, {"host": "localhost:1"}, 200),
    ("by IPv6", None, {"host": "[::1]:1"}, 200),
    ("a name bound to this machine", None, {"host": "attacker.example"}, 403),
    ("a web page", None, {"origin": "https://attacker.example"}, 403),
    ("the token", "sesame", {"authorization": "Bearer sesame"}, 200),
    ("the token from a page", "sesame", {"authorization": "Bearer sesame", "origin": "https://x"}, 200),
    ("no token", "sesame", {}, 401),
    ("another token", "sesame", {"authorization": "Bearer sesam"}, 401),
]


def test_who_may_ask(output: Path, endpoint: ScriptedEndpoint) -> None:
    for token in (None, "sesame"):
        with se.Gateway(output, se.Endpoint(endpoint.url), port=0, token=token) as gateway:
            found = {
                what: (ask(gateway.url, chat("a"), **headers).status, status)
                for what, wanted, headers, status in CALLERS
                if wanted == token
            }
        assert all(status == expected for status, expected in found.values()), found


PRICES = """as_of = 2026-11-01
[models.mock]
input = 1
output = 1000000
[models.free]
input = 0
output = 0
"""


def test_max_cost_ends_the_asking_and_stored_answers_are_given_on(
    serve: Serve, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """An answer has one token, which costs 1; a request counts with its max_tokens until then."""
    endpoint.content = "abc"
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    gateway = serve(max_cost=3.5, prices=prices)
    found = [ask(gateway.url, chat(f"text {n}", max_tokens=1)) for n in range(4)]
    assert [one.status for one in found] == [200, 200, 200, 402]
    assert found[3].code == "max_cost"
    assert found[3].headers["x-should-retry"] == "false"
    assert 1.0 <= float(found[0].headers["x-sqlenrich-cost"]) < 1.01
    again = ask(gateway.url, chat("text 0", max_tokens=1))
    assert (again.cache, again.headers["x-sqlenrich-cost"]) == ("hit", "0")
    assert [ask(gateway.url, chat("x", model=name)).status for name in ("free", "unknown")] == [200, 402]
    usage = ask(gateway.url, None, "/usage", "GET").json
    assert (usage["hits"], usage["answered"], usage["failed"], usage["currency"]) == (1, 4, 2, "USD")
    assert usage["cost"] == pytest.approx(3, abs=0.01)
    assert usage["saved"] == pytest.approx(1, abs=0.01)


def test_concurrent_requests_wait_for_what_the_cap_leaves(
    serve: Serve, endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    """Each may cost 2 and costs 1: of a cap of 5.5 five are answered, whatever their order."""
    endpoint.content, endpoint.latency_s = "abc", 0.05
    (tmp_path / "prices.toml").write_text(PRICES)
    gateway = serve(max_cost=5.5, prices=tmp_path / "prices.toml")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: ask(gateway.url, chat(f"{n}", max_tokens=2)).status, range(8)))
    assert sorted(found) in ([200] * 4 + [402] * 4, [200] * 5 + [402] * 3)
    assert gateway.counts.cost <= 5.5


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_loses_no_paid_answer_and_pays_for_no_other(
    serve: Serve, endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    notes = Notes()
    gateway = serve(observer=notes, policy=GatewayPolicy(full_disk_s=0.3))
    with monkeypatch.context() as patch:
        fill_disk(patch, 0, call)
        paid = ask(gateway.url, chat("paid"))
        refused = ask(gateway.url, chat("not asked"))
    assert (paid.status, refused.status, refused.code) == (200, 507, "disk_full")
    assert len(endpoint.asked) == 1
    assert "free space there" in notes.lines[0]
    time.sleep(0.4)
    assert [ask(gateway.url, chat("later")).cache for _ in range(2)] == ["miss", "hit"]
    assert gateway.counts.unstored == 1


def test_a_request_that_nobody_waits_for_is_not_sent(serve: Serve, endpoint: ScriptedEndpoint) -> None:
    endpoint.latency_s = 2.0
    gateway = serve(concurrency=1, policy=GatewayPolicy(watch_s=0.05))
    host, port = gateway.url.split("//")[1].removesuffix("/v1").split(":")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, gateway.url, chat("first"))
        while not endpoint.asked:
            time.sleep(0.01)
        raw = json.dumps(chat("abandoned")).encode()
        with socket.create_connection((host, int(port))) as caller:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(raw)}\r\n\r\n"
            caller.sendall(head.encode() + raw)
            time.sleep(0.2)
        assert first.result().status == 200
    time.sleep(0.2)
    assert [seen.prompt for seen in endpoint.asked] == ["first"]


def test_a_request_that_is_not_sent_in_time_is_refused(serve: Serve, endpoint: ScriptedEndpoint) -> None:
    endpoint.latency_s = 0.8
    gateway = serve(concurrency=1, policy=GatewayPolicy(queue_s=0.2))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda n: ask(gateway.url, chat(f"{n}")).status, range(2)))
    assert sorted(found) == [200, 503]


def _other_version(output: Path, _: str) -> dict[str, Any]:
    with duckdb.connect(str(output)) as db:
        db.execute("CREATE TABLE gateway_responses (request_hash VARCHAR, attempt BIGINT)")
        db.execute("CREATE TABLE _sqlenrich_runs (run_id VARCHAR)")
    return {}


def _no_database(output: Path, _: str) -> dict[str, Any]:
    output.write_text("not a database")
    return {}


BAD_STARTS: list[tuple[str, Callable[[Path, str], dict[str, Any]], type[se.SqlenrichError], str]] = [
    ("a CSV file", lambda *_: {"output": "a.csv"}, se.ConfigError, "are in a .duckdb database: name one"),
    ("another version", _other_version, se.ConfigError, "was made by another version of sqlenrich"),
    ("no database", _no_database, se.ConfigError, "can't be opened"),
    ("other machines", lambda *_: {"host": "0.0.0.0"}, se.ConfigError, "set SQLENRICH_GATEWAY_TOKEN to a token"),
    ("no token", lambda *_: {"token": ""}, se.ConfigError, "token is empty"),
    ("reuse", lambda *_: {"reuse": "none"}, se.ConfigError, 'reuse is one of all, fixed, not "none"'),
    ("no prices", lambda *_: {"max_cost": 1.0}, se.ConfigError, "max_cost needs prices"),
    ("a folder", lambda *_: {"endpoint": se.Endpoint("file:///tmp/x")}, se.ConfigError, "a folder takes batches alone"),
    ("no endpoint", lambda *_: {"endpoint": "nowhere"}, se.ConfigError, "neither a URL nor an endpoint"),
    ("a busy port", lambda _, url: {"port": int(url.split(":")[2][:-3])}, se.RunError, "give another --port"),
]


@pytest.mark.parametrize(
    ("made", "kind", "told"), [case[1:] for case in BAD_STARTS], ids=[one[0] for one in BAD_STARTS]
)
def test_what_keeps_a_gateway_from_starting_is_one_line(
    output: Path,
    endpoint: ScriptedEndpoint,
    made: Callable[[Path, str], dict[str, Any]],
    kind: type[se.SqlenrichError],
    told: str,
) -> None:
    options = {"output": output, "endpoint": endpoint.url, "port": 0, **made(output, endpoint.url)}
    with pytest.raises(kind) as caught, se.Gateway(**options):
        pass
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not endpoint.log


def test_an_output_has_one_gateway(serve: Serve, output: Path, endpoint: ScriptedEndpoint) -> None:
    serve()
    with (
        pytest.raises(se.RunError, match="another gateway has these answers"),
        se.Gateway(output, endpoint.url, port=0),
    ):
        pass
