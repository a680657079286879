"""The width that is found by trying, against servers simulated in no time."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from sqlenrich.llm.throttle.concurrency import ConcurrencyLimit, ConcurrencyPolicy, max_per_endpoint

POLICY = ConcurrencyPolicy()
LARGEST = POLICY.largest


@dataclass
class Outcome:
    """What a simulated stream came to, in its second half: answers a second, and the widths."""

    rate: float
    widths: list[int]
    peak: int
    """The largest width of all."""


def simulate(
    latency: Callable[[int], float], seconds: float, *, slots: int = 10**9, noise: float = 0.0, demand: int = 10**9
) -> Outcome:
    """Stream against a server: ``latency`` by the requests it works on, ``slots`` of them, the others in its queue.

    ``noise`` spreads latencies; ``demand`` bounds what there is to ask at a time.
    """
    chance, limit_ = random.Random(1), ConcurrencyLimit()
    now, in_flight, working, number, answered = 0.0, 0, 0, 0, 0
    ends: list[tuple[float, int]] = []
    queued: deque[float] = deque()
    sent: dict[int, float] = {}
    widths: list[int] = []

    def begin(at: float) -> None:
        nonlocal working, number
        working, number = working + 1, number + 1
        spread = chance.lognormvariate(0, noise) if noise else 1.0
        sent[number] = at
        heapq.heappush(ends, (now + latency(working) * spread, number))

    peak = 0
    while now < seconds:
        while in_flight < min(limit_.limit, demand):
            in_flight += 1
            if working < slots:
                begin(now)
            else:
                queued.append(now)
        now, key = heapq.heappop(ends)
        limit_.answered(1.0 + now, now - sent.pop(key), full=in_flight >= limit_.limit)
        in_flight, working = in_flight - 1, working - 1
        if queued:
            begin(queued.popleft())
        peak = max(peak, limit_.limit)
        if now > seconds / 2:
            answered += 1
            widths.append(limit_.limit)
    return Outcome(answered / (seconds / 2), widths, peak)


@pytest.mark.parametrize(
    ("latency", "options", "best", "share", "most"),
    [
        pytest.param(lambda _: 0.2, {"slots": 256}, 1280.0, 0.97, LARGEST, id="256 slots"),
        pytest.param(
            lambda _: 0.2, {"slots": 256, "noise": 0.5}, 1130.0, 0.90, LARGEST, id="256 slots, answers differ"
        ),
        pytest.param(lambda _: 0.2, {"slots": 24}, 120.0, 0.97, 60, id="24 slots: no long queue"),
        pytest.param(lambda _: 1.0, {"slots": 1}, 1.0, 0.97, 16, id="one at a time"),
        pytest.param(lambda n: 0.5 + 0.004 * n, {"noise": 0.5}, 210.0, 0.65, LARGEST, id="slower the more it does"),
        pytest.param(lambda n: 0.5 + 0.02 * max(0, n - 64), {"noise": 0.3}, 122.0, 0.80, 128, id="thrashes above 64"),
        pytest.param(lambda _: 1.0, {"noise": 0.5}, 453.0, 0.90, LARGEST, id="takes all"),
    ],
)
def test_width_is_found(
    latency: Callable[[int], float], options: dict[str, float], best: float, share: float, most: int
) -> None:
    found = simulate(latency, 120, **options)  # type: ignore[arg-type]
    assert found.rate >= share * best
    assert sum(found.widths) / len(found.widths) <= most


@pytest.mark.parametrize(
    ("latency_s", "width"),
    [(0.01, POLICY.largest_start), (0.2, 40), (0.5, 16), (1.0, POLICY.start), (30.0, POLICY.start)],
)
def test_it_begins_gently_where_an_answer_takes_long(latency_s: float, width: int) -> None:
    limit_ = ConcurrencyLimit()
    assert limit_.limit == POLICY.start
    limit_.answered(1.0, latency_s, full=False)
    assert limit_.limit == width


def test_it_grows_fast() -> None:
    reached = next(n for n in range(1, 12) if simulate(lambda _: 1.0, float(n), slots=256).peak >= 256)
    assert reached <= 4  # to the fourfold in the time of an answer


def test_nothing_is_learnt_where_something_else_is_the_limit() -> None:
    assert simulate(lambda _: 0.2, 60, demand=4).peak == POLICY.start_s / 0.2


@pytest.mark.parametrize(
    ("share", "most_s"),
    [pytest.param(0.01, 20, id="1 %"), pytest.param(0.1, 30, id="10 %"), pytest.param(0.5, 45, id="50 %")],
)
def test_refusals_that_no_width_lessens_do_not_starve_a_run(share: float, most_s: float) -> None:
    """10,000 answers of 50 ms each from an endpoint that refuses by chance."""
    chance, limit_, now, in_flight, done, number = random.Random(2), ConcurrencyLimit(), 1.0, 0, 0, 0
    ends: list[tuple[float, int, float, bool]] = []
    while done < 10_000:
        while in_flight < limit_.limit:
            in_flight, number = in_flight + 1, number + 1
            limit_.sent(now)
            refused = chance.random() < share
            heapq.heappush(ends, (now + (0.005 if refused else 0.05), number, now, refused))
        now, _, sent_at, refused = heapq.heappop(ends)
        if refused:
            limit_.refused(sent_at, in_flight - 1, now)
        else:
            done += 1
            limit_.answered(now, 0.05, full=True)
        in_flight -= 1
    assert now < most_s


def test_the_limit_stays_above_zero_and_recovers() -> None:
    limit, now = ConcurrencyLimit(), 1.0
    for _ in range(300):  # an endpoint that takes one at a time
        limit.sent(now)
        if limit.limit > 1:
            limit.refused(now, limit.limit - 1, now + 0.01)
        now += 0.1
    assert limit.limit >= 1
    while now < 150:
        now += 0.2
        for _ in range(limit.limit):
            limit.sent(now - 0.2)
            limit.answered(now, 0.2, full=True)
    assert limit.limit > 64


@pytest.mark.parametrize(
    ("endpoints", "open_files", "most"),
    [(1, 1024, 512), (2, 1024, 448), (3, 1024, 298), (1, 256, 128), (4, 64, POLICY.start), (3, float("inf"), 512)],
)
def test_connections_fit_into_the_limit_of_open_files(endpoints: int, open_files: float, most: int) -> None:
    assert max_per_endpoint(endpoints, open_files) == most
