"""What is learnt from refusals: a limit, a wall, or that the width is not their cause."""

from __future__ import annotations

import pytest

from sqlenrich.llm.throttle.circuit_breaker import BRAKE_S, FIRST, HOLD_S, LONGEST_HOLD_S, SURE, Wall
from sqlenrich.llm.throttle.concurrency import Finding, LearntLimit, Window
from sqlenrich.llm.throttle.pushback import DEAF_S, DECREASE, FEWEST, Pushback


def test_a_window_counts_what_was_sent_in_a_minute() -> None:
    window = Window(1000.0)
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


def minutes(learnt: LearntLimit, *counts: tuple[int, int], since: float = 1000.0) -> list[tuple[int, Finding]]:
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
    learnt = LearntLimit()
    told = minutes(learnt, *counts)
    learnt.wait_s(0.0)
    assert [(minute, finding.kept) for minute, finding in told] == found
    assert learnt.limit == (None if limit is None else pytest.approx(limit, rel=0.05))


REFUSES = "refuses 33 % of the requests (429, 503)"
KEPT = Finding(1 / 3, 1234, kept=True)
KEEPS = f"{REFUSES}: the run keeps to the 1,234 a minute that it answers"


@pytest.mark.parametrize(
    ("finding", "rpm", "alone", "fixed", "text"),
    [
        (KEPT, None, True, False, f"{KEEPS}; rpm = 1234 in its settings begins there"),
        (KEPT, None, True, True, f"{KEEPS}; rpm = 1234, or a lower concurrency, in its settings begins there"),
        (KEPT, 2000, True, True, f"{KEEPS}; lower rpm = 2000 in its settings"),
        (KEPT, None, False, True, KEEPS),
        (
            Finding(1 / 3, 1234, kept=False),
            None,
            True,
            False,
            f"{REFUSES}, however many are sent: its limit is none of requests a minute",
        ),
    ],
)
def test_what_is_told(finding: Finding, rpm: int | None, alone: bool, fixed: bool, text: str) -> None:
    assert finding.to_text(rpm, alone=alone, fixed=fixed) == text


def test_after_a_refusal_a_moment_passes() -> None:
    wall = Wall()
    assert not wall.refused(1000.0, 1000.1, 1.0)
    assert wall.until == 1000.1 + BRAKE_S
    assert not wall.refused(1000.0, 1000.2, 1.0)  # sent before that
    assert wall.until == 1000.1 + BRAKE_S


def test_a_wall_is_met_and_gone() -> None:
    wall = Wall()
    for number in range(SURE):
        assert not wall.refused(1000.0 + number * 0.05, 1001.0, 1.0)
    assert wall.stands
    assert wall.until == 1001.0 + HOLD_S
    assert wall.refused(1000.9, 1001.1, 1.0)  # sent before it was met
    wall.answered(1000.5, 1001.2)  # taken in before
    assert wall.stands
    held = []
    for _ in range(6):
        now = wall.until
        wall.sent(now)
        assert wall.refused(now, now + 0.1, 1.0)
        held.append(wall.until - now - 0.1)
    assert held == [pytest.approx(s, rel=0.21) for s in (1, 2, 4, *[LONGEST_HOLD_S] * 3)]
    now = wall.until
    wall.sent(now)
    wall.answered(now, now + 0.1)
    assert not wall.stands
    sent = 0
    while now + 0.1 >= wall.until:
        wall.sent(now + 0.1)
        sent += 1
    assert sent == FIRST
    for _ in range(40):
        wall.answered(now + 0.1, now + 0.3)
    for _ in range(1000):
        wall.sent(now + 0.4)
    assert wall.until == 0.0


@pytest.mark.parametrize(
    ("rates", "widths", "deaf"),
    [
        pytest.param([100, 100, 100, 100], [70, 49, 34, 23], False, id="as many answers with less"),
        pytest.param([100, 70, 49], [70, 100], True, id="as many fewer as it is smaller"),
        pytest.param([100, 1, 1, 1], [70, 49, 34, 23], False, id="nobody is answered"),
        pytest.param([4, 2, 2], [70, 49, 34], False, id="too little to tell"),
    ],
)
def test_the_width_follows_refusals(rates: list[int], widths: list[int], deaf: bool) -> None:
    pushback, now, width, found = Pushback(), 1000.0, 100, []
    pushback.answered(now)
    for rate in rates:
        for i in range(rate):
            pushback.answered(now + i / rate * 1.01)
        now += 1.01
        new = [pushback.refused(now, width, 512, 0.2) for _ in range(FEWEST)][-1]
        if new is None:
            break
        width = new
        found.append(width)
        if now < pushback.deaf_until:
            break
    assert found == widths
    assert (pushback.deaf_until == pytest.approx(now + DEAF_S)) == deaf


def test_it_decreases_once_in_the_time_of_an_answer() -> None:
    pushback = Pushback()
    changes = [pushback.refused(1000.0 + i / 10, 100, 512, 4.0) for i in range(100)]
    first = FEWEST - 1
    assert [i for i, width in enumerate(changes) if width is not None] in ([first, first + 60], [first, first + 61])
    assert changes[first] == int(100 * DECREASE)


@pytest.mark.parametrize(
    ("sent", "refused", "smaller"),
    [
        pytest.param(20, 3, False, id="few"),
        pytest.param(20, 6, False, id="it may be chance"),
        pytest.param(20, 7, True, id="more than chance"),
        pytest.param(500, 60, False, id="the usual share of many"),
        pytest.param(500, 75, True, id="more than the usual share of many"),
    ],
)
def test_the_width_bears_some_refusals(sent: int, refused: int, smaller: bool) -> None:
    pushback, widths = Pushback(), []
    for i in range(sent):
        pushback.sent(1000.0 + i / sent)
    for _ in range(refused):
        widths.append(pushback.refused(1001.0, 100, 512, 5.0))
    assert ([width for width in widths if width is not None] != []) == smaller


def test_what_was_refused_long_ago_is_forgotten() -> None:
    pushback = Pushback()
    for second in range(0, 100, 10):
        pushback.sent(1000.0 + second)
        assert pushback.refused(1000.0 + second, 100, 512, 1.0) is None


def test_a_wider_trial_is_judged_by_the_answers_that_follow() -> None:
    """Five at a time are taken, each for two seconds: a trial ends where it brings no more."""
    pushback, width, widths = Pushback(), 6, []
    for i in range(4000):
        now = 1000.0 + i / 20
        pushback.sent(now)
        if i % 8 == 0:
            pushback.answered(now)
        elif (new := pushback.refused(now, width, 512, 2.0)) is not None:
            width = max(new, 6)
            widths.append(width)
    assert 24 in widths
    assert widths.count(24) < len(widths) / 4
    assert max(widths) == 24
