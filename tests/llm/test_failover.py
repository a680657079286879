"""Several endpoints that serve one model, and endpoints that are less than they seem."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from sqlenrich.core.api_key import LiteralKey
from sqlenrich.core.errors import RunError
from sqlenrich.core.limits import Limits
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.failure import RefusalCounter
from sqlenrich.llm.endpoint.failure_reader import RefusalPolicy
from sqlenrich.llm.endpoint.http import HttpPool, HttpResponse
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.response import Fault
from sqlenrich.llm.health import HealthPolicy
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.stream import StreamPolicy
from sqlenrich.llm.throttle.limiter import RateLimiter
from tests.support.endpoint import ScriptedEndpoint
from tests.support.faults import STATUS_FAULTS, error
from tests.support.models import endpoint_model

POLICY = EndpointPolicy(backoff_s=0.02, revive_s=(0.0, 0.05), refusals=RefusalPolicy(alike_s=0.0))


def model(*servers: ScriptedEndpoint, policy: EndpointPolicy = POLICY, **fields: Any) -> EndpointModel:
    given: dict[str, Any] = {"timeout": 0.4, "concurrency": 16} | fields
    return endpoint_model(*(server.url for server in servers), policy=policy, **given)


def requests(count: int) -> list[Request]:
    return [Request(str(n), 1, f"prompt {n}.") for n in range(count)]


def stream(client: Client, count: int, at: dict[int, object] | None = None) -> list[Answer]:
    """Ask; ``at`` holds what to do once so many answers are there."""
    seen: list[Answer] = []
    for batch in client.stream(iter(requests(count))):
        seen += batch
        for number, act in list((at or {}).items()):
            if len(seen) >= number:
                del at[number]  # type: ignore[union-attr]
                act()  # type: ignore[operator]
    return seen


def test_both_endpoints_work() -> None:
    with ScriptedEndpoint(latency_s=0.002) as one, ScriptedEndpoint(latency_s=0.002) as two:
        with Client(model(one, two), concurrency=16, batch_rows=50) as client:
            seen = stream(client, 600)
        assert Counter(answer.call_error for answer in seen) == {None: 600}
        assert min(len(one.asked), len(two.asked)) > 150
        assert len(one.asked) + len(two.asked) == 600


def test_what_one_endpoint_leaves_the_other_takes_and_gives_back() -> None:
    with ScriptedEndpoint(latency_s=0.005) as one, ScriptedEndpoint(latency_s=0.005) as two:
        before = [0]

        def revive() -> None:
            before[0] = len(one.asked)
            one.revive()

        with Client(model(one, two, timeout=30.0), concurrency=16, batch_rows=20) as client:
            seen = stream(client, 6_000, {300: one.die, 1_000: revive})
        assert Counter(answer.call_error for answer in seen) == {None: 6_000}
        assert len({answer.request_hash for answer in seen}) == 6_000
        heard = client.new_warnings()
        assert len(one.asked) > before[0] + 300, "it got nothing after it came back"
        assert [line.removeprefix(one.url)[:24] for line in heard] == [" can't be reached (conne", " answers again"]


def test_the_first_endpoint_is_dead_from_the_start() -> None:
    with ScriptedEndpoint() as one, ScriptedEndpoint() as two:
        one.die()
        with Client(model(one, two), concurrency=16) as client:
            head = client.preflight(requests(1))
            seen = stream(client, 100)
        assert [answer.call_error for answer in (*head, *seen)] == [None] * 101


def test_all_are_dead() -> None:
    with ScriptedEndpoint() as one, ScriptedEndpoint() as two:
        one.die()
        two.die()
        began = time.monotonic()
        with Client(model(one, two), concurrency=16) as client, pytest.raises(RunError, match="start the server"):
            client.preflight(requests(1))
        assert time.monotonic() - began < 5


def test_a_hanging_endpoint_is_left_to_the_other() -> None:
    with ScriptedEndpoint() as one, ScriptedEndpoint() as two:
        one.rates["hang"] = 1.0
        with Client(model(one, two), concurrency=16) as client:
            seen = stream(client, 200)
        assert Counter(answer.call_error for answer in seen) == {None: 200}


def test_a_pause_ends_as_soon_as_the_endpoint_is_there() -> None:
    """The probe finds out: nobody waits for the end of a long pause."""
    with ScriptedEndpoint(latency_s=0.002) as one:

        def die() -> None:
            one.die()
            threading.Timer(0.5, one.revive).start()

        with Client(model(one), concurrency=16, batch_rows=20) as client:
            began = time.monotonic()
            seen = stream(client, 1_000, {200: die})
        assert Counter(answer.call_error for answer in seen) == {None: 1_000}
        assert time.monotonic() - began < 8


def test_retries_come_out_of_one_budget() -> None:
    """Four of five rows always fail: each is tried, but not each as often as it might be."""
    policy = replace(POLICY, health=HealthPolicy(retry_budget=20.0))
    by_prompt = {f" {n}.": "500" for n in range(10, 400) if n % 5}
    with ScriptedEndpoint() as server:
        server.by_prompt = by_prompt
        with Client(model(server, policy=policy, max_tries=5), concurrency=16, give_up_s=30) as client:
            seen = stream(client, 400)
        failed = sum(answer.call_error is not None for answer in seen)
        assert (len(seen), failed) == (400, len(by_prompt))
        assert len(server.asked) < 400 + 20 + 2 * (400 - failed) + 10


@pytest.mark.parametrize(("counted", "warned"), [(100, True), (5_000, False)])
def test_a_server_that_cuts_without_a_word(counted: int, warned: bool) -> None:
    with ScriptedEndpoint() as server:
        asked = model(server)
        for _ in range(5):
            asked._notices.count_tokens(0, ("x" * 20_000,), counted)
        assert [("counts 100 tokens for a prompt of about 5,000" in line) for line in asked.traits.warnings or ()] == [
            True
        ] * warned


@pytest.mark.parametrize("concurrency", [8, None])
@pytest.mark.parametrize("fault", ["500", "503", "429", "html", "reset", "hang"])
def test_an_endpoint_that_fails_all_is_left_to_the_other(fault: str, concurrency: int | None) -> None:
    """Failing at once makes its load the lowest: without a rest it would get nearly all requests."""
    policy = replace(POLICY, health=HealthPolicy(retry_budget=50.0))
    with ScriptedEndpoint(rates={fault: 1.0}) as one, ScriptedEndpoint(latency_s=0.02) as two:
        asked = model(one, two, policy=policy, concurrency=concurrency)
        with Client(asked, concurrency=1, give_up_s=30) as client:
            head = client.preflight(requests(1))
            seen = stream(client, 300)
        assert [answer.call_error for answer in head] == [None]
        assert Counter(answer.call_error for answer in seen) == {None: 300}
        assert len(one.asked) < 100


def test_two_of_three_are_dead_from_the_start() -> None:
    with ScriptedEndpoint() as one, ScriptedEndpoint() as two, ScriptedEndpoint() as three:
        one.die()
        two.die()
        with Client(model(one, two, three), concurrency=16) as client:
            assert [answer.call_error for answer in client.preflight(requests(1))] == [None]


def test_an_endpoint_that_leaves_in_order_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers what is in stream and takes nothing new: the last answer must not hide that it is gone."""
    send, sends = HttpPool.send, itertools.count(1)

    async def refused_at_last(wire: HttpPool, method: str, target: str, *rest: Any, **more: Any) -> HttpResponse:
        if method == "GET" or next(sends) > 5:
            raise ConnectionRefusedError
        return await send(wire, method, target, *rest, **more)

    monkeypatch.setattr(HttpPool, "send", refused_at_last)
    with ScriptedEndpoint(latency_s=0.3) as server:
        began = time.monotonic()
        asked = model(server, concurrency=8)
        with Client(asked, concurrency=8, give_up_s=1.0) as client, pytest.raises(RunError, match="stopped answering"):
            stream(client, 100)
        assert time.monotonic() - began < 8


def test_an_endpoint_that_was_down_is_asked_again_by_the_next_client() -> None:
    with ScriptedEndpoint() as server:
        asked = model(server)
        for _ in range(2):
            with Client(asked, concurrency=16, give_up_s=5) as client:
                assert [answer.call_error for answer in client.preflight(requests(1))] == [None]
                asked.limiter.endpoints[0].up = False  # nobody looks after it once the client is closed


def test_the_own_limits_are_no_outage() -> None:
    """One failure, and then no try for longer than a run waits for an endpoint: the limit is ours."""
    with ScriptedEndpoint(script={3: "500"}) as server:
        asked = model(server, concurrency=1, rpm=60)
        with Client(asked, concurrency=1, give_up_s=0.4) as client:
            seen = stream(client, 4)
        assert [answer.call_error for answer in seen] == [None] * 4


def test_an_endpoint_that_only_fails_is_given_up_below_the_own_limits_too() -> None:
    with ScriptedEndpoint(rates={"500": 1.0}) as server:
        asked = model(server, concurrency=4, rpm=600)
        with Client(asked, concurrency=4, give_up_s=1.0) as client, pytest.raises(RunError, match="stopped answering"):
            stream(client, 1_000)
        assert len(server.asked) < 100


def test_a_run_does_not_wait_for_each_silent_endpoint_again() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(ScriptedEndpoint(rates={"hang": 1.0})) for _ in range(3)]
        asked = model(*servers, policy=replace(POLICY, more_probes_s=0.0), max_tries=4)
        with Client(asked, concurrency=16) as client, pytest.raises(RunError, match="no byte for"):
            client.preflight(requests(10))
        assert sorted(len(server.asked) for server in servers) == [1, 2, 2]


def test_the_list_of_models_of_an_endpoint_that_answered_nothing_ends_no_outage() -> None:
    with ScriptedEndpoint(latency_s=0.01) as one, ScriptedEndpoint(rates={"429": 1.0}) as two:
        asked = model(one, two, concurrency=4, max_refusals=4)
        with Client(asked, concurrency=4, give_up_s=1.0) as client:
            with pytest.raises(RunError, match="stopped answering"):
                stream(client, 60, {1: lambda: one.rates.update({"429": 1.0})})
            assert (client.stats.answered > 0, client.stats.failed) == (True, 0)


def _held(server: ScriptedEndpoint, asked: EndpointModel) -> None:
    asked.limiter.endpoints[0].blocked_until = time.monotonic() + 60


def _dead(server: ScriptedEndpoint, _: EndpointModel) -> None:
    server.die()


def _failing(server: ScriptedEndpoint, _: EndpointModel) -> None:
    server.rates["500"] = 1.0


def _limiting(server: ScriptedEndpoint, _: EndpointModel) -> None:
    server.rates["429_after"] = 1.0


def _hanging(server: ScriptedEndpoint, _: EndpointModel) -> None:
    server.rates["hang"] = 1.0


def _as_it_is(server: ScriptedEndpoint, _: EndpointModel) -> None:
    """Only the user's own limits hold requests back."""


@pytest.mark.parametrize(
    ("state", "limits", "seconds"),
    [
        pytest.param(_held, {"concurrency": 4}, 0.5, id="asked to wait"),
        pytest.param(_dead, {"concurrency": 4}, 0.5, id="down"),
        pytest.param(_failing, {"concurrency": 4}, 0.5, id="between two tries"),
        pytest.param(_limiting, {"concurrency": None}, 0.5, id="limited"),
        pytest.param(_as_it_is, {"concurrency": 4, "rpm": 60}, 0.5, id="own limits"),
        pytest.param(_as_it_is, {"concurrency": 4, "tpm": 10}, 0.5, id="a limit below one request"),
        pytest.param(_hanging, {"concurrency": 4}, 1.0, id="in stream"),
    ],
)
@pytest.mark.parametrize("stops", [1, 2])
def test_stop_whatever_it_waits_for(
    state: Callable[[ScriptedEndpoint, EndpointModel], None],
    limits: dict[str, int | None],
    seconds: float,
    stops: int,
) -> None:
    with ScriptedEndpoint() as server:
        asked = model(server, policy=replace(POLICY, backoff_s=5.0), timeout=30.0, **limits)
        with Client(asked, concurrency=4, give_up_s=60, policy=StreamPolicy(grace_s=0.6)) as client:
            state(server, asked)
            stopped = []

            def stop() -> None:
                stopped.append(time.monotonic())
                for _ in range(stops):
                    client.stop()

            threading.Timer(0.4, stop).start()
            stream(client, 1_000)
            assert time.monotonic() - stopped[0] < (seconds if stops == 1 else 0.5)
        assert asked.limiter.in_flight == 0
        assert time.monotonic() - stopped[0] < seconds + 0.5


def test_stop_ends_a_preflight_that_waits() -> None:
    with ScriptedEndpoint() as server:
        asked = model(server)
        asked.limiter.endpoints[0].blocked_until = time.monotonic() + 60
        with Client(asked, concurrency=1) as client:
            began = time.monotonic()
            threading.Timer(0.2, client.stop).start()
            assert client.preflight(requests(1)) == []
            assert time.monotonic() - began < 20


def test_an_outage_is_told_before_its_end() -> None:
    policy = StreamPolicy(outage_warning_s=0.3, check_s=0.1, batch_rows=20)
    heard: list[str] = []
    with ScriptedEndpoint(latency_s=0.002) as server, Client(model(server), concurrency=16, policy=policy) as client:
        seen = 0
        for batch in client.stream(iter(requests(600))):
            if seen < 200 <= seen + len(batch):
                server.die()
                threading.Timer(1.0, server.revive).start()
            seen += len(batch)
            heard += client.new_warnings()
    assert seen == 600
    assert heard[0].startswith("no answer for 0 s (connection")
    assert heard[0].endswith("the run ends after 120 s without any")
    assert heard[1:] in ([], ["answers come again"])


# An endpoint that refuses all -----------------------------------------------------------------------------------------

KEY = "sk-secret-0123456789"
# What an endpoint does from now on, and what its one warning says beside its url and the way out.
CLOSED = {
    "401": "refuses the key (HTTP 401: Incorrect API key provided: ***): set the variable that api_key_env names",
    "403": "refuses the key (HTTP 403: no access for ***): set the variable that api_key_env names",
    "404_model": 'has no model "other"; set one that it offers: mock, small',
    "404_path": "/chat/completions: HTTP 404: Not Found; correct the url (it usually ends in /v1)",
    "307": "doesn't take requests (HTTP 307: redirects to https://elsewhere.invalid/v1): correct the url",
    "quota": ": the quota is used up (HTTP 429: You exceeded your current quota): raise it, then run again",
}
AT_THE_START = {**CLOSED, "400_format": "refuses what every request sends: HTTP 400: Grammar error"}


@pytest.fixture
def _key_in_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault in ("401", "403"):
        status, lines, body = STATUS_FAULTS[fault]
        monkeypatch.setitem(STATUS_FAULTS, fault, (status, lines, body.replace(b"KEY", KEY.encode())))


def asked_for(fault: str, *servers: ScriptedEndpoint, **fields: Any) -> EndpointModel:
    urls = tuple(f"{server.url}?sig={KEY}" for server in servers)
    given: dict[str, Any] = {
        "model": "other" if fault == "404_model" else "mock",
        "api_key": LiteralKey(KEY),
        "timeout": 2.0,
        "concurrency": 16,
        "response_format": {"type": "json_object"},
    }
    return endpoint_model(*urls, policy=POLICY, **given | fields)


def refuse(server: ScriptedEndpoint, fault: str) -> Callable[[], None]:
    return lambda: server.rates.update({fault: 1.0})


@pytest.mark.usefixtures("_key_in_the_answers")
@pytest.mark.parametrize("fault", AT_THE_START)
@pytest.mark.parametrize("first", [True, False])
def test_an_endpoint_that_refuses_all_from_the_start_is_closed(fault: str, first: bool) -> None:
    with ScriptedEndpoint(rates={fault: 1.0}) as bad, ScriptedEndpoint(latency_s=0.002) as good:
        asked = asked_for(fault, *((bad, good) if first else (good, bad)))
        with Client(asked, concurrency=16, batch_rows=50) as client:
            head = client.preflight(requests(1))
            seen = stream(client, 400)
            (told,) = client.new_warnings()
        with Client(asked, concurrency=16) as client:  # the same run goes on: a further round, or other parameters
            tries = len(bad.asked)
            again = stream(client, 50)
            assert client.new_warnings() == []
    assert Counter(answer.call_error for answer in (*head, *seen, *again)) == {None: 451}
    assert told.startswith(f"warning: {bad.url}")
    assert AT_THE_START[fault] in told
    assert told.endswith("; this run goes on without it")
    assert KEY not in told
    assert 1 <= tries == len(bad.asked) <= 16
    assert asked.limiter.in_flight == 0


@pytest.mark.usefixtures("_key_in_the_answers")
@pytest.mark.parametrize("fault", CLOSED)
@pytest.mark.parametrize("concurrency", [16, None])
def test_an_endpoint_that_refuses_all_at_once_is_closed(fault: str, concurrency: int | None) -> None:
    with ScriptedEndpoint(latency_s=0.01, slots=8) as bad, ScriptedEndpoint(latency_s=0.01, slots=8) as good:
        asked = asked_for(fault, bad, good, concurrency=concurrency)
        with Client(asked, concurrency=16, batch_rows=20) as client:
            seen = stream(client, 2_000, {200: refuse(bad, fault)})
            (told,) = client.new_warnings()
    assert Counter(answer.call_error for answer in seen) == {None: 2_000}
    assert len({answer.request_hash for answer in seen}) == 2_000
    assert (told.startswith(f"warning: {bad.url}"), CLOSED[fault] in told, KEY in told) == (True, True, False)


@pytest.mark.usefixtures("_key_in_the_answers")
@pytest.mark.parametrize(
    ("when", "fault"),
    [
        *itertools.product(("preflight",), sorted({*AT_THE_START} - {"403", "404_path"})),  # three rows may be at fault
        *itertools.product(("stream",), AT_THE_START),
        *itertools.product(("later",), CLOSED),
    ],
)
def test_the_last_endpoint_that_refuses_all_ends_the_run(fault: str, when: str) -> None:
    with ScriptedEndpoint(latency_s=0.002) as one, ScriptedEndpoint(latency_s=0.002) as two:
        one.rates[fault] = 1.0
        if when != "later":
            two.rates[fault] = 1.0
        asked = asked_for(fault, one, two)
        ends: Callable[[Client], object] = {
            "preflight": lambda client: client.preflight(requests(3)),
            "stream": lambda client: stream(client, 1_000),
            "later": lambda client: stream(client, 1_000, {200: refuse(two, fault)}),
        }[when]
        with Client(asked, concurrency=16, batch_rows=20) as client:
            with pytest.raises(RunError) as caught:
                ends(client)
            (told,) = client.new_warnings()
        assert asked.limiter.in_flight == 0
    line = str(caught.value)
    shown = {server.url for server in (one, two) if server.url in told or server.url in line}
    assert shown == {one.url, two.url}
    assert all(AT_THE_START[fault] in text for text in (told, line))
    assert ("\n" in line, KEY in line, told.startswith("warning: ")) == (False, False, True)


@pytest.mark.parametrize("refuses_first", [True, False])
def test_at_the_start_nobody_waits_for_an_endpoint_that_is_down(refuses_first: bool) -> None:
    with ScriptedEndpoint() as dead, ScriptedEndpoint(rates={"401": 1.0}) as refusing:
        dead.die()
        servers = (refusing, dead) if refuses_first else (dead, refusing)
        began = time.monotonic()
        with Client(asked_for("401", *servers), concurrency=16) as client, pytest.raises(RunError) as caught:
            client.preflight(requests(3))
        assert time.monotonic() - began < 5
        heard = client.new_warnings()
    both = "\n".join([*heard, str(caught.value)])
    assert all(server.url in both for server in servers)
    assert "refuses the key" in both
    assert "connection refused" in both


def test_an_endpoint_that_is_down_is_waited_for_when_the_other_is_closed() -> None:
    with ScriptedEndpoint(latency_s=0.002) as down, ScriptedEndpoint(latency_s=0.002) as closed:

        def turn() -> None:
            down.die()
            closed.rates["401"] = 1.0
            threading.Timer(0.5, down.revive).start()

        with Client(asked_for("401", down, closed), concurrency=16, batch_rows=20, give_up_s=10) as client:
            seen = stream(client, 600, {200: turn})
            heard = client.new_warnings()
    assert Counter(answer.call_error for answer in seen) == {None: 600}
    assert sum(line.startswith(f"warning: {closed.url} refuses the key") for line in heard) == 1


def test_an_endpoint_that_is_closed_while_it_is_down_stays_closed() -> None:
    limiter = RateLimiter(2, Limits(4))
    endpoint = limiter.endpoints[0]
    endpoint.up = False
    limiter.disable(endpoint)
    limiter.mark_up(endpoint)
    limiter.mark_all_up()
    assert [(one.up, one.disabled) for one in limiter.endpoints] == [(False, True), (True, False)]


@pytest.mark.parametrize("fault", ["403", "404_path", "307"])
def test_a_refusal_now_and_then_ends_nothing(fault: str) -> None:
    """A firewall refuses some texts, and a page is away for a moment, at an endpoint that answers."""
    policy = replace(POLICY, refusals=RefusalPolicy(alike_s=3.0))
    faults = {"by_prompt": {"prompt 77.": fault}, "script": {50: fault, 51: fault}}
    with (
        ScriptedEndpoint(latency_s=0.002, **faults) as server,  # type: ignore[arg-type]
        Client(model(server, policy=policy), concurrency=16, batch_rows=20) as client,
    ):
        seen = stream(client, 400)
        assert client.new_warnings() == []
    failed = [answer for answer in seen if answer.call_error is not None]
    assert [(one.request_hash, one.retryable) for one in failed] == [("77", True)]
    assert len(seen) == 400


def test_a_row_that_is_not_allowed_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STATUS_FAULTS, "403", (403, "", error("Input was flagged by moderation")))
    with (
        ScriptedEndpoint(latency_s=0.002, by_prompt={"prompt 77.": "403"}) as server,
        Client(model(server), concurrency=16, batch_rows=20) as client,
    ):
        failed = [answer for answer in stream(client, 400) if answer.call_error is not None]
        tries = sum(seen.status == 403 for seen in server.asked)
    assert [(one.request_hash, one.retryable) for one in failed] == [("77", False)]
    assert tries == 1


def test_an_endpoint_that_refuses_all_in_the_same_words_ends_the_run() -> None:
    with ScriptedEndpoint(latency_s=0.002) as server:
        told = pytest.raises(RunError, match=r"refused \d+ requests in a row alike: HTTP 400: computer says no")
        with Client(model(server), concurrency=16, batch_rows=20) as client, told:
            stream(client, 3_000, {200: refuse(server, "400_unclear")})
        refused = sum(seen.status == 400 for seen in server.asked)
    assert refused >= POLICY.refusals.alike


@pytest.mark.parametrize(
    ("fault", "texts", "seconds", "counts"),
    [
        (Fault.UNCLEAR, ["no"] * 4, [0, 1, 2.9, 3], [1, 1, 1, 4]),
        (Fault.UNCLEAR, ["no", "no", "not", "not"], [0, 3, 4, 7], [1, 2, 1, 2]),
        (Fault.KEY, ["no 1", "no 2", "no 3"], [0, 3, 4], [1, 2, 3]),
        (Fault.UNCLEAR, ["no", "", "no"], [0, 3, 3], [1, 0, 1]),
        (Fault.UNCLEAR, ["no", "", "no"], [0, 0.5, 3], [1, 0, 1]),
        (Fault.UNCLEAR, ["no", "", "no"], [0, 0.4, 3], [1, 0, 2]),
        (Fault.ROW, ["no"] * 3, [0, 3, 4], [0, 0, 0]),
        (Fault.TRANSIENT, ["no"] * 3, [0, 3, 4], [0, 0, 0]),
    ],
)
def test_refusals_in_a_row_are_counted(fault: Fault, texts: list[str], seconds: list[float], counts: list[int]) -> None:
    """An empty text stands for an answer to a request that was sent half a second before."""
    refusals, counted = RefusalCounter(3.0), []
    for number, (text, second) in enumerate(zip(texts, seconds, strict=True)):
        if not text:
            refusals.answered(1000.0 + second - 0.5)
        counted.append(refusals.add(fault, text, f"request {number}", 0.5, 1000.0 + second) if text else 0)
    assert counted == counts


def test_the_tries_of_one_request_count_once() -> None:
    refusals = RefusalCounter(3.0)
    counted = [refusals.add(Fault.KEY, "no", request, 0.5, 1000.0 + 4 * n) for n, request in enumerate("aaba")]
    assert counted == [1, 1, 2, 2]


def test_an_endpoint_that_is_up_again_is_asked_whatever_its_other_pages_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its list of models answers 503 for ever."""
    send = HttpPool.send

    async def no_models(wire: HttpPool, method: str, target: str, *rest: Any, **more: Any) -> HttpResponse:
        if method == "GET":
            return HttpResponse(503, "Service Unavailable", {}, b"")
        return await send(wire, method, target, *rest, **more)

    monkeypatch.setattr(HttpPool, "send", no_models)
    with ScriptedEndpoint(latency_s=0.002) as server:

        def restart() -> None:
            server.die()
            threading.Timer(0.3, server.revive).start()

        with Client(model(server, max_tries=100), concurrency=16, batch_rows=20, give_up_s=20.0) as client:
            seen = stream(client, 600, {100: restart})
    assert Counter(answer.call_error for answer in seen) == {None: 600}


def test_a_run_begins_where_another_endpoint_does_not_ask_to_wait() -> None:
    with ScriptedEndpoint(rates={"429_after": 1.0}) as busy, ScriptedEndpoint() as free:
        began = time.monotonic()
        with Client(model(busy, free), concurrency=16) as client:
            (answer,) = client.preflight(requests(1))
        assert answer.call_error is None
        assert time.monotonic() - began < 0.9


def test_a_run_begins_in_a_minute_that_others_used_up() -> None:
    policy = replace(POLICY, busy_s=5.0)
    with ScriptedEndpoint(rates={"429": 1.0}) as server:
        threading.Timer(1.0, server.rates.clear).start()
        with Client(model(server, policy=policy, max_tries=2, max_refusals=2), concurrency=16) as client:
            (answer,) = client.preflight(requests(3))
    assert (answer.request_hash, answer.call_error) == ("0", None)
