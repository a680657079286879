"""Minutes of asking endpoints that refuse and tell nothing of their limits: how many are refused, and answered."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from sqlenrich.llm.throttle.concurrency import ConcurrencyPolicy
from tests.support.models import endpoint_model
from tests.support.virtual import (
    Chance,
    Clock,
    Minutes,
    Phases,
    Refilled,
    Rule,
    Sliding,
    VirtualEndpoint,
    in_no_time,
    stream,
)

MINUTES = 6
LEARNT = 4
"""From the fourth minute on the limit is known."""
ALL = 10**9


@pytest.mark.parametrize(
    ("rule", "latency_s", "at_a_time", "fixed", "first", "learnt", "least"),
    [
        pytest.param(lambda c: Sliding(c, 600), 0.2, ALL, None, 0.8, 0.02, 590, id="600 in any minute"),
        pytest.param(lambda c: Sliding(c, 600), 2.0, ALL, None, 0.8, 0.12, 590, id="the same, slow answers"),
        pytest.param(lambda c: Sliding(c, 600), 0.2, ALL, 64, 0.8, 0.02, 590, id="the same, a fixed width"),
        pytest.param(lambda c: Sliding(c, 60), 0.5, ALL, None, 0.8, 0.04, 56, id="60 in any minute"),
        pytest.param(lambda c: Sliding(c, 600, 600, 30), 0.2, ALL, None, 0.8, 0.02, 540, id="used up by others before"),
        pytest.param(lambda c: Minutes(c, 600), 0.2, ALL, None, 0.8, 0.02, 590, id="600 in each minute"),
        pytest.param(lambda c: Refilled(c, 600, 600), 0.2, ALL, None, 0.87, 0.03, 580, id="a bucket of 600"),
        pytest.param(lambda c: Refilled(c, 600, 10), 0.2, ALL, None, 0.9, 0.02, 540, id="a bucket of 10"),
        pytest.param(lambda c: Sliding(c, ALL), 1.0, 20, None, 0.1, 0.02, 900, id="20 at a time"),
        pytest.param(lambda c: Sliding(c, ALL), 3.0, 100, None, 0.12, 0.02, 1500, id="100 at a time"),
        pytest.param(lambda c: Sliding(c, ALL), 2.0, 4, None, 0.3, 0.1, 90, id="4 at a time"),
        pytest.param(lambda c: Sliding(c, ALL), 0.3, 20, None, 0.3, 0.25, 2700, id="20 at a time, fast answers"),
        pytest.param(
            lambda c: Chance(c, 0.05), 5.0, ALL, None, 0.08, 0.07, 5000, id="one of 20 by chance, slow answers"
        ),
        pytest.param(
            lambda c: Chance(c, 0.1), 5.0, ALL, None, 0.13, 0.12, 4800, id="one of ten by chance, slow answers"
        ),
        pytest.param(lambda c: Chance(c, 0.5), 2.0, ALL, None, 0.6, 0.6, 200, id="half by chance, slow answers"),
        pytest.param(lambda c: Chance(c, 0.67), 0.4, ALL, None, 0.8, 0.8, 100, id="two thirds by chance"),
    ],
)
def test_refusals(
    monkeypatch: pytest.MonkeyPatch,
    rule: Callable[[Clock], Rule],
    latency_s: float,
    at_a_time: int,
    fixed: int | None,
    first: float,
    learnt: float,
    least: int,
) -> None:
    """Of the first three minutes and of the others a share is refused at most; so many are taken a minute."""
    random.seed(3)
    clock = Clock()
    wire = VirtualEndpoint(clock, rule(clock).admits, latency_s, at_a_time)

    async def work() -> list[str]:
        model = endpoint_model("http://127.0.0.1:1/v1", transport=wire.connected, concurrency=fixed)
        await model.open()
        return await stream(clock, model, MINUTES)

    notes = in_no_time(monkeypatch, clock, work)
    shares = []
    for minutes in (range(LEARNT - 1), range(LEARNT - 1, MINUTES)):
        taken, refused = (sum(count[minute] for minute in minutes) for count in (wire.taken, wire.refused))
        shares.append(refused / (taken + refused))
    rate = taken / (MINUTES - LEARNT + 1)
    told = (wire.taken, wire.refused, notes)
    assert (shares[0] <= first, shares[1] <= learnt, rate >= least) == (True, True, True), (*shares, rate, *told)


@pytest.mark.parametrize(
    ("before", "minutes"),
    [
        pytest.param(lambda c: [(20, Chance(c, 1.0))], 5, id="down for 20 s"),
        pytest.param(lambda c: [(90, Chance(c, 1.0)), (60, Chance(c, 0.3))], 6, id="down, then in trouble"),
        pytest.param(lambda c: [(150, Chance(c, 0.6))], 5, id="in trouble"),
        pytest.param(lambda c: [(300, Sliding(c, 30)), (40, Chance(c, 1.0))], 15, id="a small limit, lifted"),
        pytest.param(lambda c: [(300, Minutes(c, 600)), (300, Minutes(c, 60))], 15, id="a limit that fell, lifted"),
    ],
)
def test_it_recovers(
    monkeypatch: pytest.MonkeyPatch, before: Callable[[Clock], list[tuple[float, Rule]]], minutes: int
) -> None:
    """Whatever it met before, an endpoint that takes all is used in full some minutes later."""
    random.seed(7)
    clock = Clock()
    phases = before(clock)
    wire = VirtualEndpoint(clock, Phases(clock, *phases, (0, Sliding(clock, ALL))).admits, 6.0)
    last = int(sum(for_s for for_s, _ in phases) // 60) + minutes

    async def work() -> list[str]:
        model = endpoint_model("http://127.0.0.1:1/v1", transport=wire.connected)
        await model.open()
        return await stream(clock, model, last + 1)

    in_no_time(monkeypatch, clock, work)
    assert wire.taken[last] > 0.9 * 60 * ConcurrencyPolicy().largest / (1.1 * 6.0 + 0.03), (wire.taken, wire.refused)


def test_what_is_learnt_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(3)
    clock = Clock()
    wire = VirtualEndpoint(clock, Sliding(clock, 600).admits, 0.2)

    async def work() -> list[str]:
        model = endpoint_model("http://127.0.0.1:1/v1", transport=wire.connected)
        await model.open()
        return await stream(clock, model, 4)

    (line,) = (line for line in in_no_time(monkeypatch, clock, work) if "429, 503" in line)
    told = re.fullmatch(
        r"http://127\.0\.0\.1:1/v1 refuses \d+ % of the requests \(429, 503\): the run keeps to the (\d+) a minute "
        r"that it answers; rpm = (\d+) in its settings begins there",
        line,
    )
    assert told is not None
    assert told[1] == told[2]
    assert 580 <= int(told[1]) <= 600
