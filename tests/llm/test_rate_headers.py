"""What endpoints tell of their limits in headers, and what is sent after it."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

import pytest

from sqlenrich.llm.throttle.leaky_bucket import STILL_S, LeakyBucket
from sqlenrich.llm.throttle.rate_headers import HORIZON_S, MOVES_AFTER_S, Quota, QuotaBucket, read_quotas

DATE = {"date": "Sun, 22 Nov 2026 02:00:00 GMT"}
EPOCH = 1_795_312_800


def openai(reset: str, kind: str = "requests") -> dict[str, str]:
    return {
        f"x-ratelimit-{name}-{kind}": value for name, value in (("remaining", "59"), ("limit", "60"), ("reset", reset))
    }


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(openai("1s"), {"requests": Quota(59, 1, 60)}, id="seconds"),
        pytest.param(openai("6m0s", "tokens"), {"tokens": Quota(59, 360, 60)}, id="minutes"),
        pytest.param(openai("120ms"), {"requests": Quota(59, 0.12, 60)}, id="milliseconds"),
        pytest.param(openai("2m59.56s"), {"requests": Quota(59, 179.56, 60)}, id="both"),
        pytest.param(openai("1h2m3s"), {"requests": Quota(59, 3723, 60)}, id="hours"),
        pytest.param(openai("1d"), {"requests": Quota(59, 86_400, 60)}, id="a day"),
        pytest.param(openai("7"), {"requests": Quota(59, 7, 60)}, id="a bare number"),
        pytest.param({**openai(f"{EPOCH + 9}"), **DATE}, {"requests": Quota(59, 9, 60)}, id="Unix time"),
        pytest.param({**openai(f"{EPOCH + 9}500"), **DATE}, {"requests": Quota(59, 9.5, 60)}, id="in milliseconds"),
        pytest.param(
            {
                "anthropic-ratelimit-input-tokens-remaining": "1000",
                "anthropic-ratelimit-input-tokens-limit": "80000",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-22T02:00:30Z",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-22T01:59:00Z",
                **DATE,
            },
            {"input_tokens": Quota(1000, 30, 80_000)},
            id="Anthropic; nothing left that is whole at once says nothing",
        ),
        pytest.param(
            {
                "x-ratelimit-limit-requests": "0",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "60s",
            },
            {},
            id="a limit of nothing",
        ),
        pytest.param(
            {
                "ratelimit-remaining": "7",
                "ratelimit-reset": "1000000001",
                "date": "Mon, 01 Jan 2024 00:00:00 +99999999999999",
            },
            {"requests": Quota(7, 0, None)},
            id="an absurd date",
        ),
        pytest.param(
            {"ratelimit-remaining": "5", "ratelimit-limit": "100, 100;w=60", "ratelimit-reset": "50"},
            {"requests": Quota(5, 50, 100)},
            id="the draft of three fields",
        ),
        pytest.param({"ratelimit": '"default";r=50;t=30'}, {"requests": Quota(50, 30)}, id="the draft of one field"),
        pytest.param(
            {"ratelimit": "day;r=999;t=3600, minute;r=7;t=20"}, {"requests": Quota(7, 20)}, id="the tightest policy"
        ),
        pytest.param(
            {"x-ratelimit-remaining": "3", "x-ratelimit-reset": "2"}, {"requests": Quota(3, 2)}, id="gateways"
        ),
        *(
            pytest.param(openai(reset), {}, id=f"nonsense {reset!r}")
            for reset in ("", "soon", "-1s", "nan", "1e9", "9" * 400, "2026-13-45T99:99:99Z", "٣s", "\x00", "s")
        ),
        *(
            pytest.param({**openai("1s"), "x-ratelimit-remaining-requests": left}, {}, id=f"nonsense left {left!r}")
            for left in ("", "-1", "many", "inf", "9" * 400)
        ),
        pytest.param({**openai(f"{EPOCH}"), "date": "yesterday"}, {"requests": Quota(59, 0, 60)}, id="nonsense date"),
        pytest.param({"ratelimit": "r=;t=x, ;;;r=1"}, {}, id="nonsense policy"),
    ],
)
def test_headers_are_read(headers: dict[str, str], found: dict[str, Quota]) -> None:
    read = {kind: told._replace(reset_s=round(told.reset_s, 6)) for kind, told in read_quotas(headers).items()}
    assert read == found


class FixedWindow:
    """So many in each minute by the clock; tells when the next one begins."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self.limit, self.window_s = limit, window_s
        self.number, self.used = -1, 0

    def take(self, now: float) -> tuple[bool, Quota]:
        if int(now / self.window_s) != self.number:
            self.number, self.used = int(now / self.window_s), 0
        fits = self.used < self.limit
        self.used += fits
        return fits, Quota(self.limit - self.used, self.window_s - now % self.window_s, self.limit)


class FillsUp:
    """A bucket that fills up evenly, as OpenAI's, Groq's and Anthropic's; tells when it is full."""

    def __init__(self, limit: int, window_s: float = 60.0, *, level: float | None = None) -> None:
        self.limit, self.rate = limit, limit / window_s
        self.level, self.at = float(limit) if level is None else level, 0.0

    def take(self, now: float) -> tuple[bool, Quota]:
        self.level, self.at = min(self.limit, self.level + (now - self.at) * self.rate), now
        fits = self.level >= 1
        self.level -= fits
        return fits, Quota(int(self.level), (self.limit - self.level) / self.rate, self.limit)


class Sliding:
    """So many in any minute; tells when all of it is left again, or with ``next`` when one more is."""

    def __init__(self, limit: int, window_s: float = 60.0, *, next: bool = False) -> None:
        self.limit, self.window_s, self.next = limit, window_s, next
        self.taken: deque[float] = deque()

    def take(self, now: float) -> tuple[bool, Quota]:
        while self.taken and self.taken[0] <= now - self.window_s:
            self.taken.popleft()
        fits = len(self.taken) < self.limit
        if fits:
            self.taken.append(now)
        whole_s = self.taken[0 if self.next else -1] + self.window_s - now
        return fits, Quota(self.limit - len(self.taken), math.ceil(whole_s) if self.next else whole_s, self.limit)


Endpoint = FixedWindow | FillsUp | Sliding


def stream(endpoint: Endpoint, seconds: float, *, latency_s: float, width: int = 256) -> tuple[int, int, float]:
    """Return the answers, the refusals, and the most answers of any second after the first."""
    bucket, ends, sent = QuotaBucket(), list[tuple[float, int, bool, Quota]](), 0
    now, answers, refused, wake = 0.0, 0, 0, -1.0
    by_second: dict[int, int] = {}
    while now < seconds:
        # Nothing is known before the first answer.
        while len([end for end in ends if end[1] > 0]) < (width if answers + refused else 1):
            wait_s = bucket.wait_s(1.0, sent, now)
            if wait_s > 0:
                if wake <= now:
                    wake = now + wait_s
                    heapq.heappush(ends, (wake, 0, False, Quota(0, 0)))
                break
            bucket.take(1.0)
            sent += 1
            fits, told = endpoint.take(now)
            heapq.heappush(ends, (now + latency_s, sent, fits, told))
            by_second[int(now)] = by_second.get(int(now), 0) + fits
        now, number, fits, told = heapq.heappop(ends)
        if number:
            bucket.observe(told, number, now)
            answers, refused = answers + fits, refused + (not fits)
    return answers, refused, max(count for second, count in by_second.items() if second > 1)


@pytest.mark.parametrize("latency_s", [0.2, 3.0])
@pytest.mark.parametrize(
    ("endpoint", "most"),
    [
        pytest.param(lambda: FixedWindow(600), 2400, id="a minute by the clock"),
        pytest.param(lambda: FillsUp(600), 2400, id="fills up"),
        pytest.param(lambda: FillsUp(600, level=0), 2400, id="fills up, empty at first"),
        pytest.param(lambda: Sliding(600), 2400, id="any minute"),
        pytest.param(lambda: Sliding(600, next=True), 2400, id="any minute, tells of the next place"),
    ],
)
def test_a_limit_that_is_told_is_used_and_not_met(
    endpoint: Callable[[], Endpoint], most: int, latency_s: float
) -> None:
    answers, refused, _ = stream(endpoint(), 240, latency_s=latency_s)
    assert refused <= 0.01 * answers
    assert answers >= 0.9 * most


def test_a_quota_of_a_day_is_not_spread_over_it() -> None:
    answers, refused, _ = stream(FillsUp(14_400, 86_400.0), 60, latency_s=0.2)
    assert (answers > 8_000, refused) == (True, 0)


def test_what_is_left_is_spread_over_the_time() -> None:
    answers, refused, most = stream(FixedWindow(600), 60, latency_s=0.2)
    assert (answers > 570, refused, most <= 15) == (True, 0, True)


@pytest.mark.parametrize("reset_s", [100.0, 1e5, 1e15])
def test_nothing_is_held_back_for_longer_than_a_minute(reset_s: float) -> None:
    bucket = QuotaBucket()
    for at in (0.0, MOVES_AFTER_S):
        bucket.observe(Quota(0, reset_s - at, 600), 1, at)
    assert bucket.wait_s(1.0, 1, 10.0) > 45
    at = MOVES_AFTER_S + HORIZON_S
    assert bucket.wait_s(1.0, 1, at) == 0  # one finds out
    bucket.take(1.0)
    assert bucket.wait_s(1.0, 2, at + 0.1) > 45
    bucket.observe(Quota(500, 0.01, 600), 2, at + 0.2)
    assert bucket.wait_s(1.0, 2, at + 0.2) == 0


def test_nothing_left_for_a_request_that_is_admitted_is_not_believed() -> None:
    bucket = QuotaBucket()
    for sent in range(1, 3):
        bucket.observe(Quota(0, 60.0), sent, float(sent), admitted=True)
    assert bucket.wait_s(1.0, 2, 3.0) == 0.0


def test_a_rate_of_nothing_is_asked_again() -> None:
    assert LeakyBucket().wait_s(2.0, 0.0, 1.0) == STILL_S


def test_what_came_late_changes_nothing() -> None:
    bucket = QuotaBucket()
    bucket.observe(Quota(0, 4, 600), 9, 0.0)
    bucket.observe(Quota(600, 60, 600), 8, 0.1)
    assert bucket.wait_s(1.0, 9, 0.2) > 3


def test_a_request_larger_than_the_limit_goes_when_all_of_it_is_left() -> None:
    bucket = QuotaBucket()
    bucket.observe(Quota(1_000, 0.0, 1_000), 10, 0.0)
    assert bucket.wait_s(5_000, 10, 0.1) < HORIZON_S
