"""What is learnt from refusals: a limit, a wall, or that the width is not their cause."""

from __future__ import annotations

import pytest

from sqlenrich.llm.throttle.circuit_breaker import CircuitBreaker, CircuitBreakerPolicy
from sqlenrich.llm.throttle.quota import QuotaEstimator, QuotaFinding, SlidingWindow
from sqlenrich.llm.throttle.refusals import ChanceTest

POLICY = CircuitBreakerPolicy()


def test_a_window_counts_what_was_sent_in_a_minute() -> None:
    window = SlidingWindow(1000.0)
    for second in range(100):
        window.add(1000.0 + second)
    assert window.count == pytest.approx(60, abs=1)
    assert window.before(1080.0) == window.count - 20
    window.drop(1099.0)
    window.drop(1020.0)  # long forgotten
    assert window.count == pytest.approx(59, abs=1)
    assert window.wait_s(62, 1099.0) == 0
    assert window.wait_s(50, 1099.0) == pytest.approx(10, abs=1.5)
    assert window.wait_s(52, 1110.0) == 0


def minutes(learnt: QuotaEstimator, *counts: tuple[int, int], since: float = 1000.0) -> list[tuple[int, QuotaFinding]]:
    """Spread so many answers and refusals over each minute; give what was found, and in which."""
    found = []
    for number, (answers, refused) in enumerate(counts):
        for i in range(answers + refused):
            at = since + 60 * number + 60 * i / (answers + refused)
            learnt.sent(at)
            no = i * refused // (answers + refused) != (i + 1) * refused // (answers + refused)
            if (finding := learnt.refused(at, at) if no else learnt.answered(at)) is not None:
                found.append((number, finding))
    return found


@pytest.mark.parametrize(
    ("counts", "found", "limit"),
    [
        pytest.param([(600, 0)] * 5, [], None, id="nothing is refused"),
        pytest.param([(600, 300)] * 2, [], None, id="two minutes are not over"),
        pytest.param([(1200, 900), (600, 300), (600, 300), (600, 0)], [(3, True)], 600, id="two that agree"),
        pytest.param([(600, 20)] * 4, [], None, id="few are refused"),
        pytest.param([(600, 300)] * 4, [(2, True), (2, False)], None, id="it does not help"),
        pytest.param([(600, 300)] * 2 + [(600, 0)] * 2, [(2, True)], 613, id="it helps, and then more is tried"),
        pytest.param([(600, 300)] * 2 + [(600, 0), (200, 400), (200, 0)], [(2, True)], 200, id="fewer are allowed"),
        pytest.param([(600, 300)] * 2 + [(200, 20)] * 2, [(2, True), (3, False)], None, id="it is not reached"),
        pytest.param([(0, 300)] * 4, [], None, id="nobody is answered"),
        pytest.param([(600, 20), (600, 5), (200, 30), (0, 12), (300, 12), (600, 0)], [], None, id="it was down"),
    ],
)
def test_a_limit_is_learnt(counts: list[tuple[int, int]], found: list[tuple[int, bool]], limit: float | None) -> None:
    learnt = QuotaEstimator()
    told = minutes(learnt, *counts)
    learnt.wait_s(0.0)
    assert [(minute, finding.kept) for minute, finding in told] == found
    assert learnt.limit == (None if limit is None else pytest.approx(limit, rel=0.05))


REFUSES = "refuses 33 % of the requests (429, 503)"
KEPT = QuotaFinding(1 / 3, 1234, kept=True)
KEEPS = f"{REFUSES}: the run keeps to the 1,234 a minute that it answers"


@pytest.mark.parametrize(
    ("finding", "rpm", "alone", "fixed", "text"),
    [
        (KEPT, None, True, False, f"{KEEPS}; rpm = 1234 in its settings begins there"),
        (KEPT, None, True, True, f"{KEEPS}; rpm = 1234, or a lower concurrency, in its settings begins there"),
        (KEPT, 2000, True, True, f"{KEEPS}; lower rpm = 2000 in its settings"),
        (KEPT, None, False, True, KEEPS),
        (
            QuotaFinding(1 / 3, 1234, kept=False),
            None,
            True,
            False,
            f"{REFUSES}, however many are sent: its limit is none of requests a minute",
        ),
    ],
)
def test_what_is_told(finding: QuotaFinding, rpm: int | None, alone: bool, fixed: bool, text: str) -> None:
    assert finding.to_text(rpm, alone=alone, fixed=fixed) == text


def test_after_a_refusal_a_moment_passes() -> None:
    wall = CircuitBreaker()
    assert not wall.refused(1000.0, 1000.1, 1.0)
    assert wall.until == 1000.1 + POLICY.pause_s
    assert not wall.refused(1000.0, 1000.2, 1.0)  # sent before that
    assert wall.until == 1000.1 + POLICY.pause_s


def test_a_wall_is_met_and_gone() -> None:
    wall = CircuitBreaker()
    for number in range(POLICY.opens_after):
        assert not wall.refused(1000.0 + number * 0.05, 1001.0, 1.0)
    assert wall.is_open
    assert wall.until == 1001.0 + POLICY.first_probe_s
    assert wall.refused(1000.9, 1001.1, 1.0)  # sent before it was met
    wall.answered(1000.5, 1001.2)  # taken in before
    assert wall.is_open
    held = []
    for _ in range(6):
        now = wall.until
        wall.sent(now)
        assert wall.refused(now, now + 0.1, 1.0)
        held.append(wall.until - now - 0.1)
    assert held == [pytest.approx(s, rel=0.21) for s in (1, 2, 4, *[POLICY.longest_probe_s] * 3)]
    now = wall.until
    wall.sent(now)
    wall.answered(now, now + 0.1)
    assert not wall.is_open
    sent = 0
    while now + 0.1 >= wall.until:
        wall.sent(now + 0.1)
        sent += 1
    assert sent == POLICY.after_probe
    for _ in range(40):
        wall.answered(now + 0.1, now + 0.3)
    for _ in range(1000):
        wall.sent(now + 0.4)
    assert wall.until == 0.0


@pytest.mark.parametrize(
    ("before", "after", "by_chance"),
    [
        pytest.param((100, 10), (100, 10), True, id="the same share"),
        pytest.param((100, 10), (100, 0), False, id="none any more"),
        pytest.param((1_000, 20), (1_000, 2), False, id="a tenth of the share"),
        pytest.param((100, 50), (60, 30), True, id="half, whatever the limit"),
        pytest.param((100, 10), (8, 1), None, id="too few to tell"),
    ],
)
def test_refusals_that_a_decrease_does_not_lessen_are_chance(
    before: tuple[int, int], after: tuple[int, int], by_chance: bool | None
) -> None:
    test = ChanceTest()
    for sent, refused in (before, after):
        for number in range(sent):
            test.count_sent()
            if number < refused:
                test.count_refused()
        if sent == before[0] and not test.testing:
            assert test.unusual(growing=False)
            test.begin_test()
    assert test.result() == by_chance
    if by_chance:
        assert test.usual == pytest.approx(after[1] / after[0])
