"""Limits a minute, in simulated time."""

from __future__ import annotations

import pytest

from sqlenrich.llm.throttle.token_bucket import SHARE, TokenBucket, seconds_for


def sent(per_minute: float, units: float, seconds: float) -> list[float]:
    """Return the times at which requests of so many units go, each as soon as it may."""
    bucket, now = TokenBucket(per_minute, 0.0), 0.0
    times: list[float] = []
    while True:
        now += bucket.wait_s(units, now)
        if now > seconds:
            return times
        bucket.take(units, now)
        times.append(now)


@pytest.mark.parametrize(
    ("per_minute", "units"), [(600, 1), (60_000, 100), (60_000, 437.5), (30, 1), (10_000, 9_000), (6, 1)]
)
def test_no_minute_has_more_than_the_limit_and_most_of_it_is_used(per_minute: float, units: float) -> None:
    times = sent(per_minute, units, 600)
    for first in range(len(times)):
        within = sum(1 for at in times[first:] if at < times[first] + 60) * units
        assert within <= max(per_minute, units) * 1.0001
    # Only whole requests can be sent, and a window is looked at by whole seconds.
    assert len(times) >= 10 * (per_minute // units) * (SHARE - 0.035)


def test_a_request_above_the_limit_goes_when_nothing_else_did() -> None:
    assert len(sent(1_000, 2_000, 600)) == pytest.approx(600 / (2 * 60 / SHARE), abs=1)


def test_what_was_not_used_comes_back() -> None:
    bucket = TokenBucket(6_000, 0.0)
    bucket.take(bucket.room, 0.0)
    assert bucket.wait_s(10, 0.0) > 0
    bucket.take(-10, 0.0)
    assert bucket.wait_s(10, 0.0) == 0


def test_what_was_not_used_makes_no_room_for_as_much_in_a_later_minute() -> None:
    """A request was taken for 300 tokens, and its answer, which had 10, came late. Others of 40 tokens follow."""
    bucket, now, times = TokenBucket(100, 0.0), 61.0, []
    bucket.take(300, 0.0)
    bucket.settle(-290, 0.0)
    for _ in range(3):
        now += bucket.wait_s(40, now)
        bucket.take(40, now)
        times.append(round(now))
    assert times == [61, 85, 122]  # at 110 there would be 120 tokens in a minute


@pytest.mark.parametrize(
    ("per_minute", "count", "units", "seconds"),
    [
        (600, 12, 1, 0.0),  # they go at once
        (600, 13, 1, 0.1),
        (600, 100, 1, 9.0),
        (5, 10, 1, 110.2),
        (60, 61, 1, 61.0),
        (500, 8_500, 1, 1_039.6),
        (1_000, 50, 15, 44.7),
        (1_000, 50, 71, 213.0),
        (1_000, 9, 400, 244.0),  # two a minute
        (1_000, 5, 1_500, 367.3),  # each above the limit
        (3, 1, 10, 0.0),
        (7, 3, 0, 0.0),
    ],
)
def test_the_time_of_so_many_requests(per_minute: float, count: int, units: float, seconds: float) -> None:
    """What is told beforehand is what a bucket does."""
    bucket, now = TokenBucket(per_minute, 0.0), 0.0
    for _ in range(count):
        now += bucket.wait_s(units, now)
        bucket.take(units, now)
    told = seconds_for(per_minute, count, count * units)
    assert told == pytest.approx(seconds, abs=0.06)
    assert told == pytest.approx(now, rel=0.003, abs=0.01)
