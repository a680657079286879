"""Workers and their desk: each request is asked once, within the run's limits, and no told answer is lost."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

import sqlenrich.spark.worker as workers
from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.limits import Limits
from sqlenrich.core.turn import ROW_SYSTEM, Turn
from sqlenrich.core.version import __version__
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig
from sqlenrich.llm.messages import AnsweredRequest, Request
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.spark import rows as arrow
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.assignment import Assignment, HandedKey, config_of, endpoint_of
from sqlenrich.spark.desk import Desk, DeskPolicy
from sqlenrich.spark.journal import Journal
from sqlenrich.spark.session import first_line
from sqlenrich.spark.shares import SharedBuckets
from sqlenrich.spark.worker import Worker, WorkerError
from tests.support.endpoint import ScriptedEndpoint
from tests.support.full_disk import fill_disk

PRICE = {"input": "1", "cached": "1", "output": "1000"}


def requests(*places: range) -> list[Request]:
    return [Request(f"{number:064x}", 1, f"prompt {number}") for place in places for number in place]


@contextmanager
def desk_of(
    folder: Path, url: str, budget: Budget | None = None, policy: DeskPolicy | None = None, **settings: Any
) -> Iterator[Desk]:
    endpoint = Endpoint(url, **{"concurrency": 8, **settings})
    with Journal(folder / "journal") as journal, Desk(journal, endpoint, budget=budget, policy=policy) as desk:
        origin = {"run_id": "r", "version": None, "fingerprint": "f"}
        config = RequestConfig("mock", params={"max_tokens": 10})
        desk.assignments["run"] = Assignment(endpoint, config, origin, PRICE)
        yield desk


def ask(desk: Desk, parts: Sequence[list[Request]]) -> list[list[str]]:
    """Let a worker a part ask at the same time; give the hashes that each got."""
    found: list[list[str]] = [[] for _ in parts]

    def work(number: int) -> None:
        worker = Worker(desk.address, "run")
        for rows in worker.ask(iter(parts[number])):
            found[number] += [row["request_hash"] for row in rows]
        worker.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def hashes(part: Sequence[Request]) -> list[str]:
    return sorted(request.request_hash for request in part)


def test_each_request_is_asked_once_within_the_width(tmp_path: Path) -> None:
    parts = [requests(range(300)), requests(range(100, 400)), requests(range(0)), requests(range(300, 310))]
    with ScriptedEndpoint(latency_s=0.01) as server, desk_of(tmp_path, server.url) as desk:
        found = ask(desk, parts)
        assert [sorted(one) for one in found] == [hashes(part) for part in parts]
        assert (len(server.asked), server.busy_peak <= 8) == (400, True)
        assert (desk.counts.told, desk.counts.calls, len(desk.journal)) == (400, 400, 400)
        again = ask(desk, parts[:1])
        assert (sorted(again[0]), len(server.asked)) == (hashes(parts[0]), 400)
        rows = list(desk.journal.rows())
    batch = arrow.answer_batch(rows[:3])
    assert batch.schema.names == list(RESPONSES)
    assert (batch["run_id"][0].as_py(), batch["raw"][0].as_py()) == ("r", None)


class Raw:
    """A worker process, word by word."""

    def __init__(self, desk: Desk) -> None:
        self.socket = socket.create_connection((desk.address.host, desk.address.port), 10)
        self.lines = self.socket.makefile("rb")
        self.say(token=desk.address.token, version=__version__, assignment="run", host="h", pid=1)
        self.hear("origin")

    def say(self, **message: Any) -> None:
        self.socket.sendall(orjson.dumps(message) + b"\n")

    def hear(self, name: str) -> dict[str, Any]:
        """The next message that has something of this name."""
        return next(found for line in self.lines if name in (found := orjson.loads(line)))

    def want(self, request_hash: str = "a hash", *, busy: bool = True) -> str:
        """Whose a request is: ``yours`` or ``later``. Without ``busy`` others have the whole width."""
        self.say(busy=busy)
        self.say(want=[(request_hash, 1)])
        found = self.hear("yours")
        return next(name for name in ("known", "yours", "later") if found[name])

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


@pytest.mark.parametrize("ends_first", ["the one that waits", "the one that asks"])
def test_what_a_task_waited_for_that_ended_early_is_asked_by_the_next(tmp_path: Path, ends_first: str) -> None:
    """Its process lives on: a request that was handed to it would be asked by nobody."""
    with desk_of(tmp_path, "http://127.0.0.1:9/v1") as desk, ExitStack() as stack:
        asks, waits, third = (stack.enter_context(closing(Raw(desk))) for _ in range(3))
        assert (asks.want(), waits.want()) == ("yours", "later")
        if ends_first == "the one that waits":
            waits.say(busy=False)
            asks.say(busy=False)
        else:
            asks.say(busy=False)
            assert waits.hear("over") == {"over": ["a hash", 1]}
            waits.say(busy=False)
        deadline = time.monotonic() + 10
        while desk.busy() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert third.want() == "yours"
        assert waits.want() == "later"


def test_what_was_handed_to_an_earlier_task_is_not_asked_by_the_next(tmp_path: Path) -> None:
    """The desk told it when the task had ended; meanwhile another process asks the request."""
    (request,) = requests(range(1))
    with ScriptedEndpoint() as server, desk_of(tmp_path, server.url) as desk, ExitStack() as stack:
        worker = stack.enter_context(closing(Worker(desk.address, "run")))
        other = stack.enter_context(closing(Raw(desk)))
        assert other.want(request.request_hash, busy=False) == "yours"
        desk._thread.post(desk._connections[1].send, {"over": [request.request_hash, 1]})
        found: list[str] = []
        task = threading.Thread(
            target=lambda: found.extend(row["request_hash"] for rows in worker.ask(iter([request])) for row in rows)
        )
        task.start()
        deadline = time.monotonic() + 10
        while not desk.counts.later and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        assert not server.asked
        other.say(busy=False)
        task.join(10)
        assert (found, len(server.asked)) == ([request.request_hash], 1)


def price(into: int, _: int, out: int) -> Decimal:
    return (Decimal(into) + 1000 * out) / 1_000_000


@pytest.mark.parametrize("cap", ["max_calls", "max_cost"])
def test_workers_together_keep_to_a_cap(tmp_path: Path, cap: str) -> None:
    budget = Budget(max_calls=101) if cap == "max_calls" else Budget(max_cost=0.5, price=price)
    with ScriptedEndpoint(latency_s=0.01) as server, desk_of(tmp_path, server.url, budget) as desk:
        found = ask(desk, [requests(range(300)), requests(range(300, 500))])
        rows = list(desk.journal.rows())
        assert sum(map(len, found)) == len(rows) == len(server.asked) < 500
        assert budget.reached == cap
    if cap == "max_calls":
        assert len(rows) == 101
    else:  # what is left of the cap is less than one request may cost: 10 tokens out
        spent = sum(price(row["tokens_in"], 0, row["tokens_out"]) for row in rows)
        assert Decimal("0.48") < spent <= Decimal("0.5")


@pytest.mark.parametrize(
    "limits", [{}, {"rpm": 600}, {"tpm": 100_000}, {"budget": Budget(max_calls=1)}, {"budget": Budget(max_cost=1.0)}]
)
def test_a_request_of_an_earlier_run_is_asked_within_the_limits(tmp_path: Path, limits: dict[str, Any]) -> None:
    with ScriptedEndpoint() as server, desk_of(tmp_path, server.url, **limits) as desk:
        worker = Worker(desk.address, "run")
        assert worker.ask_again(AnsweredRequest("an earlier one", 5)) == 1
        worker.close()
        assert ([seen.prompt for seen in server.asked], len(desk.journal)) == (["an earlier one"], 0)


def test_what_is_asked_travels_as_json() -> None:
    """Each field of a request's settings, and of the endpoint those that workers need."""
    form = OutputForm("json_object", {"type": "json_object"}, "Answer in JSON")
    config = RequestConfig(
        "m", {"top_p": 0.5}, {"type": "text"}, "Hint", fallbacks=(form,), turns=(ROW_SYSTEM, Turn("user", "Hi")),
        max_tries=2, max_refusals=3, embedding=Embedding("vector", 4),
    )  # fmt: skip
    assert all(getattr(config, one.name) != one.default for one in fields(config))
    more: dict[str, Any] = {"headers": {"X-Team": "t"}, "extra_body": {"n_best": 1}, "timeout": 5}
    given = Endpoint("http://a/v1", others=("http://b/v1",), **more)
    settings = orjson.loads(orjson.dumps(Assignment(given, config).to_dict()))
    assert config_of(settings["config"]) == config
    found = endpoint_of(settings, HandedKey("sk-1", lambda: "sk-2"))
    assert (found.urls, found.timeout, dict(found.extra_body)) == (given.urls, 5, {"n_best": 1})
    assert found.resolve_headers() == {"x-team": "t"}
    assert [found.resolve_key(), found.resolve_key()] == ["sk-1", "sk-2"]


def test_a_lost_worker_loses_what_was_in_flight(tmp_path: Path) -> None:
    """Another worker wants the same rows: it asks what the lost one had not told."""
    all_rows = requests(range(600))
    with ScriptedEndpoint(latency_s=0.02, keep=False) as server, desk_of(tmp_path, server.url) as desk:
        lost = Worker(desk.address, "run")
        stream = lost.ask(iter(all_rows))
        next(stream)
        server.latency_s = 1.0  # what it asks now lasts until another worker wants it too
        other: list[list[str]] = []
        thread = threading.Thread(target=lambda: other.extend(ask(desk, [all_rows])))
        thread.start()
        while not desk.counts.later:
            time.sleep(0.01)
        server.latency_s = 0.02
        lost._socket.shutdown(2)
        thread.join()
        lost.close()
        assert sorted(other[0]) == hashes(all_rows)
        assert server.tally.stats()["requests"] - 600 <= 8 + 128
        assert desk.counts.handed_over > 0
        # What it may have sent counts, also where nobody told it.
        assert server.tally.stats()["requests"] <= desk.counts.calls <= 600 + 8 + 3 * 128
        assert "ended without telling all of its calls" in "".join(desk.new_notes())


def test_the_calls_of_lost_workers_count_for_the_next_desk_of_a_run(tmp_path: Path) -> None:
    budget = Budget(max_calls=60)
    with ScriptedEndpoint(latency_s=0.02) as server:
        with desk_of(tmp_path, server.url, budget) as desk:
            lost = Worker(desk.address, "run")
            next(lost.ask(iter(requests(range(300)))))
            lost._socket.shutdown(2)
            lost.close()
        assert 0 < len(server.asked) <= budget.calls < 60
        with desk_of(tmp_path, server.url, budget) as desk:
            ask(desk, [requests(range(300, 600))])
        assert (len(server.asked) <= budget.calls, budget.calls, budget.reached) == (True, 60, "max_calls")


SHORT = DeskPolicy(silent_s=1.5)


@pytest.mark.parametrize("silent", [True, False])
def test_what_a_worker_has_that_says_nothing_is_asked_by_others(tmp_path: Path, silent: bool) -> None:
    """A process that is stopped, or whose host is gone without a word. One that only waits says that it lives."""
    rows = requests(range(20))
    with ScriptedEndpoint() as server, desk_of(tmp_path, server.url, policy=SHORT) as desk, ExitStack() as stack:
        if silent:
            given = desk.address
            other = stack.enter_context(socket.create_connection((given.host, given.port)))
            hello = {"token": given.token, "version": __version__, "assignment": "run", "host": "h", "pid": 7}
            for message in (hello, {"busy": True}, {"want": [(row.request_hash, 1) for row in rows]}):
                other.sendall(orjson.dumps(message) + b"\n")
            while not desk.busy():
                time.sleep(0.01)
        else:
            waiting = Worker(desk.address, "run")
            time.sleep(2 * SHORT.silent_s)
            assert sum(map(len, waiting.ask(iter(rows)))) == 20
            waiting.close()
        began = time.monotonic()
        assert hashes(rows) == sorted(ask(desk, [rows])[0])
        assert time.monotonic() - began < 5 * SHORT.silent_s
        assert desk.counts.silent == silent
        assert ("the worker process 7 of h says nothing for 1.5 s" in "".join(desk.new_notes())) == silent


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_full_disk_ends_the_run_with_all_that_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    parts = [requests(range(300)), requests(range(300, 600))]
    with ScriptedEndpoint(latency_s=0.01) as server, desk_of(tmp_path, server.url) as desk:
        fill_disk(monkeypatch, 30_000, call)
        found = ask(desk, parts)
        assert re.fullmatch(
            rf"the folder {tmp_path} takes no more answers \(No space left on device\): free space there, or .*",
            desk.fatal or "",
        )
        kept = {row["request_hash"] for row in (*desk.journal.rows(), *desk.held)}
        assert kept == {one for part in found for one in part}
        assert len(desk.journal) < len(kept) == len(server.asked) < 600 or call == "fdatasync"
    with Journal(tmp_path / "journal") as left:  # no half line
        assert len(left) == len(list(left.rows())) > 0


def test_a_worker_whose_desk_is_gone_ends(tmp_path: Path) -> None:
    """With a batch that is told and not acknowledged."""
    with ScriptedEndpoint(latency_s=0.01) as server, desk_of(tmp_path, server.url) as desk:
        worker = Worker(desk.address, "run")
        stream = worker.ask(iter(requests(range(600))))
        next(stream)
        desk.journal.sync = lambda: time.sleep(0.2)  # type: ignore[method-assign]
        threading.Timer(0.1, lambda: worker._socket.shutdown(2)).start()
        with pytest.raises(ConnectionError, match="the driver is gone"):
            for _ in stream:
                pass
        worker.close()


def test_a_stopped_run_keeps_what_is_in_flight(tmp_path: Path) -> None:
    with ScriptedEndpoint(latency_s=0.02) as server, desk_of(tmp_path, server.url) as desk:

        def stop() -> None:
            while len(server.asked) < 8:
                time.sleep(0.01)
            desk.stop()

        stopping = threading.Thread(target=stop)
        stopping.start()
        found = ask(desk, [requests(range(5000)), requests(range(5000, 9000))])
        stopping.join()
        assert 0 < sum(map(len, found)) == len(server.asked) == len(desk.journal) < 9000


@pytest.mark.parametrize(("rates", "most_s", "kept"), [({}, 10.0, True), ({"hang": 1.0}, 0.3, False)])
def test_a_drained_desk_has_all_that_was_in_flight(
    tmp_path: Path, rates: dict[str, float], most_s: float, kept: bool
) -> None:
    with ScriptedEndpoint(latency_s=0.5, rates=rates) as server, desk_of(tmp_path, server.url) as desk:
        asking = threading.Thread(target=ask, args=(desk, [requests(range(1000))]))
        asking.start()
        while len(server.asked) < 8:
            time.sleep(0.01)
        desk.drain(most_s)
        assert (desk.busy(), len(desk.journal)) == (0, len(server.asked) if kept else 0)
        asking.join()


def test_what_every_request_would_meet_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "sk-very-secret")
    with (
        ScriptedEndpoint(key="another") as server,
        desk_of(tmp_path, server.url, api_key_env="THE_KEY") as desk,
    ):
        assert ask(desk, [requests(range(50))]) == [[]]
        until = time.monotonic() + 10
        while desk.fatal is None and time.monotonic() < until:  # the worker's last message is on its way
            time.sleep(0.01)
        assert "refuses the key" in (desk.fatal or "")
        assert "sk-very-secret" not in f"{desk.fatal}{desk.address}"


@pytest.mark.parametrize(("change", "problem"), [
    ({"version": "0.0.1"}, "sqlenrich 0.0.1 is installed on the executor .*, and .* on the driver"),
    ({"assignment": "old"}, "the run that this task belongs to is over"),
    ({"token": "wrong"}, "the desk of the driver at 127.0.0.1:.* closes the connection"),
    ({"port": 1}, "can't reach the driver at 127.0.0.1:1 .*: set spark.driver.host"),
])  # fmt: skip
def test_who_may_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], problem: str
) -> None:
    with desk_of(tmp_path, "http://127.0.0.1:9/v1") as desk:
        monkeypatch.setattr(workers, "__version__", change.get("version", __version__))
        given = desk.address
        address = DeskAddress(given.host, change.get("port", given.port), change.get("token", given.token))
        with pytest.raises(WorkerError, match=problem) as refused:
            Worker(address, change.get("assignment", "run"))
    assert given.token not in f"{refused.value}{given}"


@pytest.mark.parametrize("demand", [(1, 1, 1, 1), (1, 0, 0, 0), (20, 1, 1, 1)])
def test_a_limit_a_minute_is_used_up_whoever_has_the_rows(demand: tuple[int, ...]) -> None:
    """Two virtual minutes at 600 a minute: workers ask again as soon as they have used what they got."""
    now, used, wished = 0.0, 0.0, 0
    buckets = SharedBuckets(Limits(rpm=600), now)
    for tick in range(2 * 60 * 20):
        now = tick / 20
        for worker, share in enumerate(demand):
            if share:
                buckets.wish(worker, "rpm", 1.0)
                wished += 1
        used += sum(grant.units for grant in buckets.grants(sum(map(bool, demand)), now))
    assert 0.96 * 1200 <= used <= 1200 + 12


@pytest.mark.parametrize(("text", "line"), [
    ("[TABLE_NOT_FOUND] there is no t\n  at x", "[TABLE_NOT_FOUND] there is no t"),
    ("An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
     "ModuleNotFoundError: No module named 'pyarrow'\n", "ModuleNotFoundError: No module named 'pyarrow'"),
    ("", "RuntimeError"),
])  # fmt: skip
def test_an_error_of_spark_is_told_in_one_line(text: str, line: str) -> None:
    assert first_line(RuntimeError(text)) == line
