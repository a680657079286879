"""The rate that an endpoint's refusals show, against endpoints simulated in no time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from sqlenrich.llm.pace import Pace
from sqlenrich.llm.ration import Ration

Server = Callable[[float, int], float | None]
"""Takes a request at a time beside so many others in (None), or refuses it and asks to wait so long."""


def window(quota: int, window_s: float = 60.0, *, tells: bool = False) -> Server:
    taken: deque[float] = deque()

    def admit(now: float, _: int) -> float | None:
        while taken and taken[0] <= now - window_s:
            taken.popleft()
        if len(taken) >= quota:
            return math.ceil(taken[0] + window_s - now) if tells else 0.0
        taken.append(now)
        return None

    return admit


def minute_by_the_clock(quota: int, window_s: float = 60.0, *, offset_s: float = 0.0) -> Server:
    seen: dict[int, int] = {}

    def admit(now: float, _: int) -> float | None:
        number = int((now + offset_s) / window_s)
        if seen.get(number, 0) >= quota:
            return 0.0
        seen[number] = seen.get(number, 0) + 1
        return None

    return admit


def filling_up(rate: float, most: float) -> Server:
    state = [most, 0.0]

    def admit(now: float, _: int) -> float | None:
        state[0], state[1] = min(most, state[0] + (now - state[1]) * rate), now
        if state[0] < 1:
            return 0.0
        state[0] -= 1
        return None

    return admit


def by_chance(share: float, *, asks: float = 0.0) -> Server:
    chance = random.Random(3)
    return lambda *_: asks if chance.random() < share else None


def so_many_at_a_time(most: int) -> Server:
    return lambda _, working: 0.0 if working >= most else None


def after_another(first: Server, second: Server, at: float) -> Server:
    return lambda now, working: (first if now < at else second)(now, working)


@dataclass
class Outcome:
    seconds: float = 0.0
    answers: int = 0
    refused: int = 0
    times: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    rate: float | None = None

    @property
    def share(self) -> float:
        return self.refused / max(self.answers + self.refused, 1)

    def admitted(self, first: float, last: float) -> float:
        """Answers a second between two moments."""
        return sum(first <= at < last for at in self.times) / (last - first)

    def share_between(self, first: float, last: float) -> float:
        bad = sum(first <= at < last for at in self.refusals)
        return bad / max(bad + sum(first <= at < last for at in self.times), 1)


def simulate(
    server: Server,
    *,
    seconds: float = math.inf,
    rows: int = 10**9,
    latency_s: float = 0.2,
    trip_s: float = 0.005,
    slots: int = 10**9,
    ration: Ration | bool | None = True,
) -> Outcome:
    """Stream as the client does: a width, a rate, and requests that come again after a random wait."""
    chance, pace = random.Random(1), Pace()
    rationed = Ration() if ration is True else ration or None
    out = Outcome()
    now, in_flight, working, paused, left = 1.0, 0, 0, 0, rows
    events: list[tuple[float, int, str, int, int, float, float]] = []
    again: deque[int] = deque()
    queued: deque[tuple[int, int, float]] = deque()
    order = 0
    next_at = -1.0

    def push(at: float, what: str, number: int = 0, tries: int = 0, sent: float = 0.0, asked: float = 0.0) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (at, order, what, number, tries, sent, asked))

    while now < 1.0 + seconds and out.answers < rows:
        while (again or left) and in_flight < pace.width and in_flight + max(0, paused - 128) < 640:
            wait_s = rationed.wait_s(now) if rationed is not None else 0.0
            if wait_s > 0:
                if wait_s < math.inf and not now < next_at <= now + wait_s + 2e-6:
                    next_at = now + wait_s + 1e-6
                    push(next_at, "wake")
                break
            tries = again.popleft() if again else 0
            left -= tries == 0
            number = rationed.take(now) if rationed is not None else 0
            in_flight += 1
            asked = server(now, working + len(queued))
            if asked is not None:
                push(now + trip_s, "refused", number, tries, now, asked)
            elif working < slots:
                working += 1
                push(now + latency_s, "answer", number, tries, now)
            else:
                queued.append((number, tries, now))
        if not events:
            break
        now, _, what, number, tries, sent, asked = heapq.heappop(events)
        if what == "wake":
            continue
        if what == "again":
            paused -= 1
            again.append(tries)
            continue
        full = 2 * in_flight > pace.width
        in_flight -= 1
        if what == "answer":
            working -= 1
            if queued:
                working += 1
                waiting = queued.popleft()
                push(now + latency_s, "answer", *waiting)
            pace.answered(now, now - sent, full=full)
            if rationed is not None:
                rationed.answered(number, now - sent, now)
            out.answers += 1
            out.times.append(now - 1.0)
        else:
            if rationed is None or not rationed.engaged:
                pace.pushed_back(now)
            if rationed is not None:
                rationed.refused(number, asked, now)
            out.refused += 1
            out.refusals.append(now - 1.0)
            paused += 1
            push(now + asked + chance.uniform(0.0, min(5.0, 0.5 * 2.0**tries)), "again", 0, tries + 1)
    out.seconds, out.rate = now - 1.0, rationed.rate if rationed is not None else None
    return out


@pytest.mark.parametrize(
    ("server", "options", "quota", "share"),
    [
        # The share after the first minute: what an empty window takes in at first can't be known.
        pytest.param(lambda: window(600), {}, 10.0, 0.03, id="600 in any minute"),
        pytest.param(lambda: window(600, tells=True), {}, 10.0, 0.03, id="and it asks to wait"),
        pytest.param(lambda: window(600), {"latency_s": 2.0, "trip_s": 0.05}, 10.0, 0.03, id="and it is slow"),
        pytest.param(lambda: window(6_000), {}, 100.0, 0.03, id="6,000 in any minute"),
        pytest.param(lambda: window(100, 10.0), {}, 10.0, 0.03, id="100 in any 10 s"),
        pytest.param(lambda: window(10, 1.0), {}, 10.0, 0.03, id="10 in any second"),
        pytest.param(lambda: minute_by_the_clock(600, offset_s=40), {}, 10.0, 0.05, id="600 in each minute"),
        pytest.param(lambda: filling_up(10, 600), {}, 10.0, 0.03, id="fills up, and was full"),
        pytest.param(lambda: filling_up(10, 10), {}, 10.0, 0.03, id="fills up"),
    ],
)
def test_a_rate_is_found_and_kept(
    server: Callable[[], Server], options: dict[str, float], quota: float, share: float
) -> None:
    found = simulate(server(), seconds=300, **options)  # type: ignore[arg-type]
    assert found.share_between(62, 300) <= share
    assert found.admitted(60, 300) >= 0.8 * quota


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_refusals_that_no_rate_lessens_cost_little(share: float) -> None:
    """What the rate adds to the time of the same stream without it; the tail of waits apart."""
    rows = 10_000
    with_rate, without = (simulate(by_chance(share), rows=rows, latency_s=0.02, ration=on) for on in (True, False))
    assert with_rate.times[rows * 9 // 10] <= 1.1 * without.times[rows * 9 // 10]
    assert with_rate.rate is None


@pytest.mark.parametrize("most", [32, 100])
def test_an_endpoint_that_takes_so_many_at_a_time_is_used(most: int) -> None:
    with_rate, without = (simulate(so_many_at_a_time(most), rows=10_000, ration=on) for on in (True, False))
    assert with_rate.seconds <= 1.05 * without.seconds


def test_an_outage_is_no_limit_for_long() -> None:
    outage = after_another(by_chance(0), after_another(by_chance(1), by_chance(0), 30), 10)
    found = simulate(outage, seconds=150)
    assert found.admitted(130, 150) >= 0.9 * found.admitted(5, 9)


def test_without_refusals_nothing_is_held_back() -> None:
    with_rate, without = (simulate(by_chance(0), rows=20_000, ration=on) for on in (True, False))
    assert with_rate.seconds == without.seconds


def test_a_probe_that_comes_to_nothing_is_followed_by_another() -> None:
    ration = Ration()
    for _ in range(60):
        ration.take(1.0)
    for number in range(1, 61):
        ration.refused(number, 0.0, 1.1)
    assert ration.engaged
    assert ration.wait_s(1.1) == 0
    probe = ration.take(1.1)
    assert ration.wait_s(1.1) == math.inf
    ration.lost(probe, 1.2)
    assert 0 < ration.wait_s(1.2) <= 1
    ration.answered(ration.take(3.0), 0.1, 3.1)
    assert ration.wait_s(3.1) < math.inf
