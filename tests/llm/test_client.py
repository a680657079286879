"""Streams: bounds, order, batches, stopping, giving up, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest

from sqlenrich.core.errors import RunError
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.mock.model import MockModel
from sqlenrich.llm.model import Traits
from sqlenrich.llm.stream import Stream, StreamPolicy
from sqlenrich.llm.throttle.budget import Budget
from tests.support.endpoint import ScriptedEndpoint
from tests.support.models import endpoint_model

NOW = datetime.now(UTC)
SCHEMA = {"type": ["object"], "properties": {"n": {"type": ["integer"]}}, "required": ["n"]}


def requests(count: int, start: int = 0) -> list[Request]:
    return [Request(str(number), 1, f"prompt {number}") for number in range(start, start + count)]


def answer(request: Request, call_error: str | None = None) -> Answer:
    failed = call_error is not None
    reason = None if failed else "stop"
    return Answer(request.request_hash, 1, "s", "{}", call_error, failed, reason, "fake", 1, 0, 1, 0, NOW, 1)


class FakeModel:
    """Asks what ``act`` does; knows what is in stream and what was sent."""

    name = "fake"
    traits = Traits()

    def __init__(self, act: Callable[[Request], Awaitable[str | None]]) -> None:
        self.act = act
        self.sent: list[str] = []
        self.in_flight = 0
        self.peak = 0
        self.opened = self.closed = 0

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    async def ask(self, request: Request) -> Answer:
        self.sent.append(request.request_hash)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            return answer(request, await self.act(request))
        finally:
            self.in_flight -= 1


def sleeping(seconds: float) -> FakeModel:
    async def act(_: Request) -> None:
        await asyncio.sleep(seconds)

    return FakeModel(act)


def collect(stream: Iterator[list[Answer]], into: list[Answer], after: Callable[[], object] | None = None) -> None:
    """Put all answers into a list, calling ``after`` after each batch."""
    for batch in stream:
        into += batch
        if after is not None:
            after()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("count", [0, 1, 7, 1000])
def test_every_request_is_answered_once(count: int) -> None:
    model = sleeping(0.001)
    with Client(model, concurrency=20) as client:
        batches = list(client.stream(iter(requests(count))))
        stats = client.stats
    hashes = [one.request_hash for batch in batches for one in batch]
    assert sorted(hashes, key=int) == [str(number) for number in range(count)]
    assert Counter(model.sent) == Counter(hashes)
    assert (stats.calls, stats.answered, stats.failed, stats.retries, stats.in_flight) == (
        count,
        count,
        0,
        0,
        0,
    )
    assert (model.opened, model.closed) == (1, 1)


@pytest.mark.parametrize("latency_s", [0.0, 0.002])
@pytest.mark.parametrize(
    ("concurrency", "unstored", "batch_rows"),
    [(1, 1, 1), (1, 1, 256), (8, 1, 256), (8, 30, 10), (64, 256, 256), (300, 20, 64)],
)
def test_exposed_requests_are_bounded(concurrency: int, unstored: int, batch_rows: int, latency_s: float) -> None:
    limit = concurrency + unstored
    read = 0

    def source() -> Iterator[Request]:
        nonlocal read
        for request in requests(700):
            read += 1
            assert read - stored <= limit
            assert threading.current_thread() is threading.main_thread()
            yield request

    stored = 0
    model = sleeping(latency_s)
    count = 700 if concurrency > 1 else 60
    with Client(model, concurrency=concurrency, unstored=unstored, batch_rows=batch_rows, batch_s=0.01) as client:
        stream = client.stream(request for request, _ in zip(source(), range(count), strict=False))
        for batch in stream:
            assert 1 <= len(batch) <= batch_rows
            time.sleep(0.002)
            assert len(model.sent) - stored <= limit
            stored += len(batch)
        assert client.stats.exposed_peak <= limit
    assert stored == count
    assert model.peak <= concurrency


def test_all_of_the_concurrency_is_used() -> None:
    model = sleeping(0.05)
    started = time.monotonic()
    with Client(model, concurrency=50) as client:
        assert sum(len(batch) for batch in client.stream(iter(requests(500)))) == 500
    assert model.peak == 50
    assert 0.5 <= time.monotonic() - started < 1.5


def test_completion_order_and_the_age_of_a_batch() -> None:
    async def act(request: Request) -> None:
        await asyncio.sleep({"0": 0.62, "1": 0.02}.get(request.request_hash, 0.2))

    with Client(FakeModel(act), concurrency=4, batch_s=0.05) as client:
        started = time.monotonic()
        arrived = [(time.monotonic() - started, [a.request_hash for a in b]) for b in client.stream(iter(requests(4)))]
    assert [sorted(hashes) for _, hashes in arrived] == [["1"], ["2", "3"], ["0"]]
    for (at, _), (low, high) in zip(arrived, [(0.06, 0.19), (0.24, 0.5), (0.6, 0.9)], strict=True):
        assert low < at < high


def test_a_slow_source_does_not_hold_answers_back() -> None:
    def source() -> Iterator[Request]:
        for request in requests(12):
            yield request
            time.sleep(0.05)

    with Client(sleeping(0.001), concurrency=4, batch_s=0.02) as client:
        sizes = [len(batch) for batch in client.stream(source())]
    assert sum(sizes) == 12
    assert len(sizes) >= 6


def test_batches_that_gather_meanwhile_are_joined() -> None:
    sizes = []
    with Client(sleeping(0.001), concurrency=4, unstored=400, batch_rows=100, batch_s=0.005) as client:
        for batch in client.stream(iter(requests(400))):
            sizes.append(len(batch))
            time.sleep(0.05)
    assert sum(sizes) == 400
    assert len(sizes) <= 10


@pytest.mark.parametrize("kind", [ValueError, RunError])
@pytest.mark.parametrize("instant", [False, True])
def test_an_error_of_the_source_comes_out_after_the_answers(kind: type[Exception], instant: bool) -> None:
    def source() -> Iterator[Request]:
        yield from requests(40)
        raise kind("the table is gone")

    seen: list[Answer] = []
    model = MockModel(SCHEMA) if instant else sleeping(0.02)
    with Client(model, concurrency=8, batch_rows=8) as client:
        with pytest.raises(kind, match="the table is gone"):
            collect(client.stream(source()), seen)
        if isinstance(model, FakeModel):
            assert len(seen) == len(model.sent)
        assert len(seen) >= 8
        again = [one for batch in client.stream(iter(requests(3))) for one in batch]
    assert len(again) == 3


@pytest.mark.parametrize("error", [RunError("no more credit"), TypeError("a bug")])
def test_an_error_of_the_model_comes_out_after_the_answers(error: Exception) -> None:
    async def act(request: Request) -> None:
        await asyncio.sleep(0.01 if request.request_hash != "50" else 0.002)
        if request.request_hash == "50":
            raise error

    model = FakeModel(act)
    seen: list[Answer] = []
    with Client(model, concurrency=10) as client, pytest.raises(type(error), match=str(error)):
        collect(client.stream(iter(requests(500))), seen)
    assert len(seen) == len(model.sent) - 1
    assert 50 <= len(model.sent) <= 70


def test_an_error_on_opening_leaves_nothing() -> None:
    model = sleeping(0)

    async def broken() -> None:
        raise RunError("no")

    model.open = broken  # type: ignore[method-assign]
    with pytest.raises(RunError, match="no"), Client(model, concurrency=1):
        pytest.fail("acquired")


@pytest.mark.parametrize("way", ["break", "raise", "close", "forgotten"])
def test_a_stream_that_is_left_early(way: str) -> None:
    model = sleeping(0.03)
    held: list[Iterator[list[Answer]]] = []
    with (
        pytest.raises(KeyError) if way == "raise" else nullcontext(),
        Client(model, concurrency=10, batch_rows=5) as client,
    ):
        stream = client.stream(iter(requests(1000)))
        if way == "forgotten":
            held.append(stream)
        next(stream)
        if way == "raise":
            raise KeyError("in the caller")
        if way == "close":
            stream.close()  # type: ignore[attr-defined]
            assert model.in_flight == 0
            assert sum(len(batch) for batch in client.stream(iter(requests(3)))) == 3
    assert model.in_flight == 0
    assert len(model.sent) < 60


def test_an_interrupt_of_the_caller() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    model = sleeping(30)
    old = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with Client(model, concurrency=10) as client, pytest.raises(KeyboardInterrupt):
            list(client.stream(iter(requests(100))))
    finally:
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - started < 1
    assert model.in_flight == 0


def test_several_streams_at_a_time_and_only_while_open() -> None:
    client = Client(sleeping(0.02), concurrency=1, batch_rows=1)
    with pytest.raises(RuntimeError, match="not open"):
        client.preflight(requests(1))
    with client:
        first = client.stream(iter(requests(3)))
        next(first)
        assert sum(len(batch) for batch in client.stream(iter(requests(3)))) == 3
        assert sum(len(batch) for batch in first) == 2


def test_inside_a_running_loop() -> None:
    async def notebook() -> int:
        with Client(sleeping(0.001), concurrency=5) as client:
            client.preflight(requests(1))
            return sum(len(batch) for batch in client.stream(iter(requests(30))))

    assert asyncio.run(notebook()) == 30


@pytest.mark.parametrize(("errors", "expected"), [([], 1), (["0"], 2), (["0", "1"], 3), (["0", "1", "2"], 3)])
def test_preflight_of_any_model(errors: list[str], expected: int) -> None:
    async def act(request: Request) -> str | None:
        return "HTTP 500" if request.request_hash in errors else None

    model = FakeModel(act)
    with Client(model, concurrency=9) as client:
        answers = client.preflight(requests(9))
        assert len(answers) == len(model.sent) == client.stats.calls == expected
        assert client.stats.failed == len(errors)
    assert model.peak == 1


# Stopping


@pytest.mark.parametrize("way", ["thread", "signal", "loop body"])
def test_stop_yields_what_is_in_flight(way: str) -> None:
    async def act(_: Request) -> None:
        if len(model.sent) == 20 and way == "thread":
            threading.Thread(target=client.stop).start()
        elif len(model.sent) == 20 and way == "signal":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        await asyncio.sleep(0.3)

    model = FakeModel(act)
    seen: list[Answer] = []
    with Client(model, concurrency=10, batch_s=0.01) as client:
        old = signal.signal(signal.SIGALRM, lambda *_: client.stop())
        started = time.monotonic()
        for batch in client.stream(iter(requests(1000))):
            seen += batch
            if way == "loop body" and len(seen) >= 10 and not client.stopped:
                client.stop()
        took = time.monotonic() - started
        signal.signal(signal.SIGALRM, old)
        assert list(client.stream(iter(requests(5)))) == []
        assert client.preflight(requests(5)) == []
    assert len(seen) == len(model.sent) == 20
    assert 0.55 < took < client.policy.grace_s


def test_stop_waits_for_the_grace_only() -> None:
    model = sleeping(30)
    with Client(model, concurrency=10, policy=StreamPolicy(grace_s=0.2)) as client:
        threading.Timer(0.1, client.stop).start()
        started = time.monotonic()
        assert list(client.stream(iter(requests(100)))) == []
        assert 0.25 < time.monotonic() - started < 1
    assert model.in_flight == 0


def test_what_is_in_flight_at_a_cap_is_answered_after_the_grace_too() -> None:
    with Client(sleeping(0.6), concurrency=10, policy=StreamPolicy(grace_s=0.1), budget=Budget(max_calls=6)) as client:
        assert sum(map(len, client.stream(iter(requests(100))))) == 6


@pytest.mark.parametrize("phase", ["stream", "preflight"])
def test_a_second_stop_abandons_at_once(phase: str) -> None:
    model = sleeping(30)
    with Client(model, concurrency=10) as client:
        for delay in (0.1, 0.2):
            threading.Timer(delay, client.stop).start()
        started = time.monotonic()
        found = list(client.stream(iter(requests(100)))) if phase == "stream" else client.preflight(requests(9))
        assert found == []
        assert 0.15 < time.monotonic() - started < 1
    assert model.in_flight == 0


def test_stop_before_the_stream() -> None:
    model = MockModel(SCHEMA)
    with Client(model, concurrency=1) as client:
        client.stop()
        assert list(client.stream(iter(requests(5)))) == []


def test_stop_of_an_instant_model() -> None:
    with Client(MockModel(SCHEMA), concurrency=1, batch_rows=10) as client:
        seen = 0
        for batch in client.stream(iter(requests(1000))):
            seen += len(batch)
            client.stop()
    assert seen == 10


def test_what_waits_to_be_sent_again_is_not_sent_after_stop() -> None:
    policy = EndpointPolicy(backoff_s=30_000.0, largest_backoff_answering_s=30_000.0, largest_backoff_s=30_000.0)
    with ScriptedEndpoint(by_prompt={"prompt 3": "500"}) as server:
        with Client(troubled_model(server, policy), concurrency=10) as client:
            threading.Timer(0.3, client.stop).start()
            started = time.monotonic()
            seen = [one.request_hash for batch in client.stream(iter(requests(10))) for one in batch]
            assert time.monotonic() - started < 2
        assert len(server.asked) == 10
    assert sorted(seen) == list("012456789")


# Trouble


def troubled_model(server: ScriptedEndpoint, policy: EndpointPolicy, **fields: Any) -> EndpointModel:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    given: dict[str, Any] = {"timeout": 0.4, "max_tries": 4, "max_refusals": 4, "response_format": form} | fields
    return endpoint_model(server.url, policy=policy, **given)


def test_every_kind_of_trouble_together() -> None:
    kinds = (
        "429",
        "500",
        "503",
        "reset",
        "hang",
        "cut",
        "html",
        "no_choices",
        "error_200",
        "slow",
        "400_context",
    )
    with ScriptedEndpoint(rates=dict.fromkeys(kinds, 0.02), latency_s=0.002, seed=3) as server:
        with Client(troubled_model(server, EndpointPolicy(backoff_s=0.02), max_tries=9), concurrency=32) as client:
            seen = [one for batch in client.stream(iter(requests(1000))) for one in batch]
            stats = client.stats
        assert stats.calls == len(server.asked) == sum(one.calls for one in seen)
    assert sorted((one.request_hash for one in seen), key=int) == [str(n) for n in range(1000)]
    failed = [one for one in seen if one.call_error is not None]
    assert {(one.retryable, (one.call_error or "")[:8]) for one in failed} == {(False, "HTTP 400")}
    assert 5 < len(failed) < 50
    assert (stats.answered, stats.failed, stats.retries) == (
        1000 - len(failed),
        len(failed),
        stats.calls - 1000,
    )
    assert stats.retries > 100


def test_good_answers_are_paid_for_once() -> None:
    with ScriptedEndpoint(rates={"500": 0.1}, slots=8, latency_s=0.002) as server:
        with Client(troubled_model(server, EndpointPolicy(), concurrency=16), concurrency=16) as client:
            batches = list(client.stream(iter(requests(300))))
        good = Counter(seen.prompt for seen in server.asked if seen.status == 200)
        assert server.connections <= 16 + 2
        assert server.busy_peak == 8
    assert set(good.values()) == {1}
    assert len(good) == sum(one.call_error is None for batch in batches for one in batch) > 290


@pytest.mark.parametrize("fault", ["500", "hang", "429", "html"])
def test_a_dead_endpoint_ends_the_run(fault: str) -> None:
    with ScriptedEndpoint() as server:
        with Client(troubled_model(server, EndpointPolicy(backoff_s=0.05)), concurrency=20, give_up_s=1.0) as client:
            seen: list[Answer] = []

            def break_it() -> None:
                if len(seen) > 20:
                    server.rates[fault] = 1.0

            with pytest.raises(RunError, match=r"stopped answering .*run again to continue") as caught:
                collect(client.stream(iter(requests(100_000))), seen, break_it)
        assert "\n" not in str(caught.value)
        good = sum(one.call_error is None for one in seen)
        failed = sum(one.call_error is not None for one in seen)
        assert good > 20
        assert failed <= 20  # all 20 workers together could fail some 120 times in that time
        paid = sum(one.status == 200 and fault != "html" for one in server.asked)
        assert fault == "html" or good == paid


def test_a_killed_endpoint_and_the_run_after_it() -> None:
    stored: list[Answer] = []
    with ScriptedEndpoint(latency_s=0.002) as server:

        def kill() -> None:
            if len(stored) > 800:
                server.die()

        with Client(troubled_model(server, EndpointPolicy(backoff_s=0.05)), concurrency=20, give_up_s=0.8) as client:
            with pytest.raises(RunError, match="connection refused"):
                collect(client.stream(iter(requests(3000))), stored, kill)
            assert client.stats.failed <= 20
        first = {one.request_hash for one in stored if one.call_error is None}
        assert 800 < len(first) < 3000
        server.revive()
        with Client(troubled_model(server, EndpointPolicy(backoff_s=0.05)), concurrency=20) as client:
            left = (one for one in requests(3000) if one.request_hash not in first)
            second = [one.request_hash for batch in client.stream(left) for one in batch]
        assert sorted(first | set(second), key=int) == [str(n) for n in range(3000)]
        assert len(first) + len(second) == 3000


def test_a_short_outage_is_waited_for() -> None:
    seen: list[Answer] = []
    with (
        ScriptedEndpoint(latency_s=0.002) as server,
        Client(
            troubled_model(server, EndpointPolicy(backoff_s=0.2), max_tries=6), concurrency=20, give_up_s=10
        ) as client,
    ):
        for batch in client.stream(iter(requests(2000))):
            if len(seen) < 500 <= len(seen) + len(batch):
                server.die()
                threading.Timer(0.4, server.revive).start()
            seen += batch
    assert Counter(one.call_error for one in seen) == {None: 2000}


def test_giving_up_on_a_model_that_reports_no_tries() -> None:
    async def act(_: Request) -> str:
        await asyncio.sleep(0.05)
        return "HTTP 500"

    model = FakeModel(act)
    with Client(model, concurrency=10, give_up_s=0.5) as client, pytest.raises(RunError, match="HTTP 500"):
        list(client.stream(iter(requests(1000))))
    assert len(model.sent) < 30


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_rows_that_all_fail_are_all_answered(concurrency: int) -> None:
    async def act(_: Request) -> str:
        await asyncio.sleep(0.001)
        return "HTTP 500"

    with Client(FakeModel(act), concurrency=concurrency, give_up_s=30) as client:
        seen = [one for batch in client.stream(iter(requests(25))) for one in batch]
    assert len({one.request_hash for one in seen}) == len(seen) == 25


def test_a_failing_row_does_not_hold_up_the_others() -> None:
    async def act(request: Request) -> str | None:
        await asyncio.sleep(0.002)
        return "HTTP 500" if int(request.request_hash) % 3 == 0 else None

    started = time.monotonic()
    with Client(FakeModel(act), concurrency=8) as client:
        seen = [one for batch in client.stream(iter(requests(600))) for one in batch]
    assert sum(one.call_error is not None for one in seen) == 200
    assert len(seen) == 600
    assert time.monotonic() - started < 3


def test_no_time_passes_for_an_endpoint_that_is_not_asked() -> None:
    async def act(request: Request) -> str | None:
        if request.request_hash == "0":
            return "HTTP 500"
        await asyncio.sleep(0.15)
        return None

    def source() -> Iterator[Request]:
        yield requests(1)[0]
        time.sleep(0.6)
        yield from requests(3, start=1)

    with Client(FakeModel(act), concurrency=2, give_up_s=0.2) as client:
        assert sum(len(batch) for batch in client.stream(source())) == 4


# The mock model through the client


def test_instant_and_slow_mock_answers_are_the_same() -> None:
    def all_of(latency_s: float) -> dict[str, tuple[str | None, str | None]]:
        model = MockModel(SCHEMA, failures={"bad_json": 0.2, "error": 0.2}, latency_s=latency_s)
        with Client(model, concurrency=16) as client:
            seen = [one for batch in client.stream(iter(requests(200))) for one in batch]
            assert (client.stats.calls, client.stats.answered + client.stats.failed) == (200, 200)
        return {one.request_hash: (one.response, one.call_error) for one in seen}

    assert all_of(0.0) == all_of(0.003)


def test_an_instant_model_answers_all_however_late_its_thread_runs() -> None:
    """The time of a batch may be over before its first request is read."""
    with Client(MockModel(SCHEMA), concurrency=4, batch_s=1e-9) as client:
        assert sum(map(len, client.stream(iter(requests(500))))) == 500


def test_an_instant_model_asks_no_further_than_a_batch() -> None:
    read = 0

    def source() -> Iterator[Request]:
        nonlocal read
        for request in requests(5000):
            read += 1
            yield request

    stored = 0
    with Client(MockModel(SCHEMA), concurrency=4, unstored=30, batch_rows=256) as client:
        for batch in client.stream(source()):
            assert read - stored <= 34
            stored += len(batch)
        assert client.stats.exposed_peak <= 34
    assert stored == 5000


@pytest.mark.parametrize("name", ["concurrency", "unstored", "batch_rows"])
def test_settings_below_one(name: str) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        Client(MockModel(SCHEMA), **{"concurrency": 1} | {name: 0})  # type: ignore[arg-type]


def test_a_feed_at_the_same_moment_is_not_lost() -> None:
    """The loop clears the mark between the caller's look at it and its change of it."""

    class Between(Stream):
        marked = True

        @property
        def _feed_due(self) -> bool:
            value, self.marked = self.marked, False
            return value

        @_feed_due.setter
        def _feed_due(self, value: bool) -> None:
            self.marked = value

    with Client(sleeping(0.0), concurrency=1) as client:
        stream = Between(client._context())
        stream.marked = True
        assert not stream.add(requests(1)[0])
        assert stream.add(requests(1)[0])


def test_a_stop_before_the_stream_begins_leaves_no_time_counted() -> None:
    model = endpoint_model("http://127.0.0.1:1/v1")
    with Client(model, concurrency=1) as client:
        stream = Stream(client._context())
        client._post(stream.wind_down)
        client._post(stream.start)
        client._wait(asyncio.sleep(0.01))
        assert not model.limiter.wait_times.is_open


@pytest.mark.parametrize(("timeout_s", "give_up_s"), [(1.0, 120.0), (120.0, 120.0), (600.0, 600.0)])
def test_an_endpoint_is_not_given_up_before_an_answer_is_due(timeout_s: float, give_up_s: float) -> None:
    model = endpoint_model("http://127.0.0.1:1/v1", timeout=timeout_s)
    assert Client(model, concurrency=1).policy.give_up_s == give_up_s
