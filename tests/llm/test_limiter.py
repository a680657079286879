"""Who may send when: limits, caps, endpoints that are down, and the time each limit took."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.limits import Limits
from sqlenrich.llm.health import Stopped
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.endpoint_state import Permit
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.limiter_policy import LimiterPolicy
from sqlenrich.llm.throttle.rate_headers import Quota
from sqlenrich.llm.throttle.wait_times import share_of_time
from sqlenrich.spec.prices import Price


def in_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await asyncio.wait_for(work(), 10)

    return asyncio.run(main())


def price(*amounts: float | str) -> Callable[[int, int, int], Decimal]:
    """The price of a million tokens: read, read from the cache, written."""
    return Price(*(Decimal(str(amount)) for amount in amounts)).exact


async def acquired(limiter: RateLimiter, size: int = 400) -> Permit:
    return limiter.try_acquire(size) or await limiter.acquire(size)


def test_the_first_answer_tells_how_long_answers_are() -> None:
    async def work() -> list[float]:
        limiter = RateLimiter(1, Limits(concurrency=1, output_tpm=1_000_000))
        expected = []
        for tokens_out in (5000, 1000, 1000):
            permit = await acquired(limiter)
            expected.append(permit.tokens_out)
            limiter.answered(permit, 100, tokens_out)
        return expected

    assert asyncio.run(work()) == pytest.approx([LimiterPolicy().output_tokens, 5000, 4800])


def test_a_fixed_width_is_kept_and_first_come_is_first_served() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(concurrency=2))
        one, two = await acquired(limiter), await acquired(limiter)
        order: list[str] = []

        async def wait(name: str, *, again: bool = False) -> None:
            await limiter.acquire(400, again=again)
            order.append(name)

        tasks = [asyncio.create_task(wait("a")), asyncio.create_task(wait("b"))]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(wait("again", again=True)))
        await asyncio.sleep(0.01)
        assert order == []
        assert limiter.in_flight == 2
        limiter.answered(one)
        await asyncio.sleep(0.01)
        assert order == ["again"]  # what is sent again goes first
        limiter.answered(two)
        await asyncio.sleep(0.01)
        assert order == ["again", "a"]
        tasks[1].cancel()
        await asyncio.sleep(0)
        assert limiter.in_flight == 2

    in_loop(work)


def test_a_waiter_that_is_cancelled_gives_its_ticket_back() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(concurrency=1))
        permit = await acquired(limiter)
        task = asyncio.create_task(limiter.acquire(400))
        await asyncio.sleep(0)
        limiter.answered(permit)  # the waiter has its permit, but did not run yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert limiter.in_flight == 0
        assert limiter.try_acquire(400) is not None

    in_loop(work)


@pytest.mark.parametrize(
    ("limits", "size", "name"),
    [
        pytest.param(Limits(8, rpm=60), 400, "rpm", id="requests"),
        pytest.param(Limits(8, tpm=6_000), 400, "tpm", id="tokens"),
        pytest.param(Limits(8, input_tpm=6_000), 400, "input_tpm", id="input tokens"),
        pytest.param(Limits(8, output_tpm=6_000), 4, "output_tpm", id="output tokens"),
    ],
)
def test_limits_a_minute_hold_back(limits: Limits, size: int, name: str) -> None:
    async def work() -> None:
        limiter = RateLimiter(1, limits, max_out=64)
        limiter.begin()
        first = 0
        while (permit := limiter.try_acquire(size)) is not None:
            first += 1
            limiter.answered(permit, size // 4, 64)
        assert 1 <= first <= 4
        began = asyncio.get_running_loop().time()
        permit = await limiter.acquire(size)
        assert asyncio.get_running_loop().time() - began > 0.05
        limiter.answered(permit, size // 4, 64)
        limiter.end()
        assert share_of_time([limiter.wait_times])[name] > 0.9

    in_loop(work)


def test_what_answers_really_take_is_learnt() -> None:
    async def work() -> int:
        limiter = RateLimiter(1, Limits(100, tpm=1_000_000), max_out=1_000)
        for _ in range(300):
            permit = await acquired(limiter, 400)
            limiter.answered(permit, 300, 5)
        permit = await acquired(limiter, 400)
        assert permit.tokens_in == pytest.approx(300, rel=0.02)
        assert permit.tokens_out == pytest.approx(5, rel=0.2)
        return 0

    in_loop(work)


@pytest.mark.parametrize(
    ("caps", "sent", "reached"),
    [
        pytest.param(Budget(max_calls=3), 3, "max_calls", id="calls"),
        pytest.param(Budget(max_calls=0), 0, "max_calls", id="no call"),
        pytest.param(Budget(max_cost=0.00085, price=price(1, 1, 0)), 5, "max_cost", id="cost"),
        pytest.param(Budget(max_cost=0.0, price=price(0, 0, 0)), 9, None, id="free of charge"),
        pytest.param(Budget(max_cost=0.0, price=price(1, 1, 0)), 0, "max_cost", id="nothing to spend"),
    ],
)
def test_caps_end_a_run(caps: Budget, sent: int, reached: str | None) -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(8), budget=caps)
        seen: list[str] = []
        limiter.on_budget_spent[lambda: seen.append("cap")] = None
        done = 0
        try:
            while done < 9:
                limiter.answered(await acquired(limiter, 400), 100, 10)
                done += 1
        except Stopped:
            pass
        assert (done, caps.reached, bool(seen)) == (sent, reached, reached is not None)

    in_loop(work)


def test_a_run_stays_below_its_cost_while_answers_keep_to_max_tokens() -> None:
    async def work() -> None:
        caps = Budget(max_cost=0.010, price=price(1, 1, 4))
        limiter = RateLimiter(1, Limits(16), max_out=500, budget=caps)
        open_: list[Permit] = []
        stopped = False
        for number in range(10_000):
            waiting = asyncio.create_task(acquired(limiter, 400))
            await asyncio.sleep(0)
            while not waiting.done() and open_:
                limiter.answered(open_.pop(0), 100, 500 if number % 3 else 20)
                await asyncio.sleep(0)
            try:
                open_.append(await waiting)
            except Stopped:
                stopped = True
                break
        for permit in open_:
            limiter.answered(permit, 100, 500)
        assert stopped
        assert Decimal("0.0075") < caps.spent <= Decimal("0.010")

    in_loop(work)


@pytest.mark.parametrize("seed", range(20))
def test_a_cap_holds_whatever_answers_take(seed: int) -> None:
    """256 in stream, which take any tokens up to a byte each and max_tokens; some fail, some don't tell what they took.

    Not more than one request's most is left of the cap.
    """
    draw = random.Random(seed)
    told = price(draw.choice((1, 3)), draw.choice((0, "0.1", 5)), draw.choice((0, 4, 15)))
    cap, max_out = draw.choice((0.05, 0.5, 2.0)), draw.choice((16, 900))

    async def work() -> None:
        caps = Budget(max_cost=cap, price=told)
        limiter = RateLimiter(1, Limits(256), max_out=max_out, budget=caps)
        open_: list[Permit] = []
        took, worst = Decimal(0), Decimal(0)

        def settle() -> None:
            nonlocal took
            permit = open_.pop(draw.randrange(len(open_)))
            tokens_in, tokens_out = draw.randint(1, permit.size), draw.randint(1, max_out)
            kind = draw.random()
            if kind < 0.05:
                limiter.failed(permit, unreachable=False, timeout=False)
                return
            cached = draw.choice((None, 0, draw.randint(0, 2 * tokens_in)))
            took += told(tokens_in, cached or 0, tokens_out)
            if kind < 0.1:
                limiter.answered(permit, None, tokens_out)
            else:
                limiter.answered(permit, tokens_in, tokens_out, cached)

        try:
            while True:
                size = draw.randint(200, 4_000)
                worst = max(worst, caps.most(size, max_out))
                waiting = asyncio.create_task(acquired(limiter, size))
                await asyncio.sleep(0)
                while not waiting.done():
                    settle()
                    await asyncio.sleep(0)
                open_.append(await waiting)
        except Stopped:
            while open_:
                settle()
        limit = Decimal(str(cap))
        assert took <= caps.spent <= limit
        assert caps.spent > limit - worst
        assert (caps.open, float(caps.reserved)) == (0, 0)

    in_loop(work)


@pytest.mark.parametrize(("begun", "spent"), [(True, "0.0004"), (False, "0")])
def test_a_try_that_may_be_billed_counts_with_the_most_that_it_may_cost(begun: bool, spent: str) -> None:
    async def work() -> None:
        caps = Budget(max_cost=1, price=price(1, 1, 0))
        limiter = RateLimiter(1, Limits(8), max_out=10, budget=caps)
        limiter.failed(await acquired(limiter, 400), unreachable=True, timeout=begun, begun=begun)
        assert caps.spent == Decimal(spent)
        limiter.release(await acquired(limiter, 400), begun=begun)
        assert caps.spent == 2 * Decimal(spent)

    in_loop(work)


def test_a_server_that_adds_a_text_of_its_own_is_known_after_one_answer() -> None:
    async def work() -> None:
        caps = Budget(max_cost=0.02, price=price(1, 1, 0))
        limiter = RateLimiter(1, Limits(8), max_out=10, budget=caps)
        limiter.answered(await acquired(limiter, 400), 5_000, 1)
        for _ in range(3):
            limiter.answered(await acquired(limiter, 400), 5_000, 1)
        with pytest.raises(Stopped):
            await acquired(limiter, 400)
        assert caps.spent == Decimal("0.02")  # 4 x 5,000 tokens

    in_loop(work)


@pytest.mark.parametrize("cap", [-1, float("nan")])
def test_caps_that_are_none(cap: float) -> None:
    with pytest.raises(ConfigError, match="max_cost is 0 or more, not"):
        Budget(max_cost=cap)


@pytest.mark.parametrize(("limits", "sent", "of_each"), [
    pytest.param(Limits(30), 5, (5, 0, 0), id="room at the nearest"),
    pytest.param(Limits(30), 30, (10, 10, 10), id="none left"),
    pytest.param(Limits(), 12, (8, 2, 2), id="the nearest's own limit"),
])  # fmt: skip
def test_the_nearest_endpoint_is_chosen_while_it_has_room(
    limits: Limits, sent: int, of_each: tuple[int, int, int]
) -> None:
    async def session() -> None:
        limiter = RateLimiter(3, limits, nearest_room=10)
        limiter.begin()
        permits = [limiter.try_acquire(10) for _ in range(sent)]
        assert tuple(endpoint.in_flight for endpoint in limiter.endpoints) == of_each
        assert permits[0] is not None
        limiter.failed(permits[0], unreachable=True, timeout=False)
        after = limiter.try_acquire(10)
        assert after is not None
        assert after.endpoint.number != 0

    asyncio.run(session())


def test_requests_go_where_there_is_room_and_not_where_nobody_answers() -> None:
    async def work() -> None:
        limiter = RateLimiter(3, Limits(30))
        downs: list[int] = []
        limiter.on_down = lambda endpoint: downs.append(endpoint.number)
        permits = [await acquired(limiter) for _ in range(9)]
        assert [endpoint.in_flight for endpoint in limiter.endpoints] == [3, 3, 3]
        limiter.failed(permits[1], unreachable=True, timeout=False)
        assert downs == [1]
        assert {(await acquired(limiter)).endpoint.number for _ in range(6)} == {0, 2}
        limiter.mark_up(limiter.endpoints[1])
        assert (await acquired(limiter)).endpoint.number == 1

    in_loop(work)


def test_nothing_is_sent_while_the_only_endpoint_is_down() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits())
        limiter.begin()
        downs: list[int] = []
        limiter.on_down = lambda endpoint: downs.append(endpoint.number)
        for expected in ([], [], [0]):
            limiter.failed(await acquired(limiter), unreachable=True, timeout=False)
            assert downs == expected
        assert limiter.try_acquire(400) is None
        waiting = asyncio.create_task(limiter.acquire(400))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        limiter.mark_up(limiter.endpoints[0])
        limiter.answered(await waiting)
        limiter.end()
        assert share_of_time([limiter.wait_times])["endpoint"] > 0.8

    in_loop(work)


def test_retry_after_holds_everybody_where_nothing_is_answered() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits())
        limiter.refused(await acquired(limiter), 0.2)
        began = asyncio.get_running_loop().time()
        limiter.answered(await acquired(limiter))
        assert asyncio.get_running_loop().time() - began >= 0.19
        # One that was refused while others are answered says nothing of all: a moment is enough.
        limiter.refused(await acquired(limiter), 5.0)
        assert limiter.try_acquire(400) is None
        limiter.answered(await acquired(limiter))
        assert asyncio.get_running_loop().time() - began < 2.0

    in_loop(work)


def test_stop_sends_away_who_waits() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(concurrency=1))
        await acquired(limiter)
        tasks = [asyncio.create_task(limiter.acquire(400)) for _ in range(3)]
        await asyncio.sleep(0)
        limiter.stop()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [Stopped] * 3

    in_loop(work)


def test_nobody_is_let_through_after_stop_until_it_begins_again() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(concurrency=4))
        limiter.stop()
        with pytest.raises(Stopped):
            limiter.try_acquire(400)
        with pytest.raises(Stopped):
            await limiter.acquire(400)
        limiter.begin()
        assert limiter.try_acquire(400) is not None

    in_loop(work)


def test_a_gate_outlives_its_loop() -> None:
    """A retry asks several models one after another, each in a loop of its own, through one limiter."""
    limiter = RateLimiter(1, Limits(8, rpm=60))

    async def work() -> None:
        limiter.begin()
        while (permit := limiter.try_acquire(400)) is not None:
            limiter.answered(permit, 100, 5)
        waiting = asyncio.create_task(limiter.acquire(400))
        await asyncio.sleep(0)
        waiting.cancel()
        limiter.end()
        assert limiter._timer is None

    in_loop(work)
    in_loop(work)
    assert limiter.in_flight == 0


def test_an_endpoint_that_only_fails_gets_one_request_now_and_then() -> None:
    async def work() -> None:
        limiter = RateLimiter(2, Limits(20))
        bad = limiter.endpoints[0]
        asked = 0
        for _ in range(12):
            permit = await acquired(limiter)
            if permit.endpoint is bad:
                asked += 1
                limiter.failed(permit, unreachable=False, timeout=False)
        assert asked == 5
        await asyncio.sleep(0.3)
        assert [(await acquired(limiter)).endpoint.number for _ in range(4)].count(0) == 1

    in_loop(work)


def test_only_an_endpoint_that_is_out_of_reach_time_and_again_is_down() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(20))
        for number in range(12):
            limiter.failed(await acquired(limiter), unreachable=number % 3 != 0, timeout=False)
        assert limiter.endpoints[0].up

    in_loop(work)


def test_an_only_endpoint_never_rests() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(20))
        for _ in range(60):
            limiter.failed(await acquired(limiter), unreachable=False, timeout=False)
        assert limiter.try_acquire(400) is not None

    in_loop(work)


def test_more_cached_tokens_than_there_are_do_not_pay_back() -> None:
    async def work() -> None:
        caps = Budget(max_cost=1.0, price=price(1, "0.1", 1))
        limiter = RateLimiter(1, Limits(1), budget=caps)
        limiter.answered(await acquired(limiter), 100, 0, 1_000)
        assert caps.spent == Decimal("0.00001")

    in_loop(work)


@pytest.mark.parametrize("way", ["own limit", "endpoint down", "asked to wait", "all in stream"])
def test_a_cap_ends_a_run_at_once_whatever_else_holds_it_back(way: str) -> None:
    async def work() -> None:
        caps = Budget(max_calls=1)
        limiter = RateLimiter(1, Limits(1, rpm=1 if way == "own limit" else None), budget=caps)
        permit = await acquired(limiter)
        if way != "all in stream":
            limiter.answered(permit)
        if way == "endpoint down":
            limiter.endpoints[0].up = False
        elif way == "asked to wait":
            limiter.endpoints[0].blocked_until = float("inf")
        with pytest.raises(Stopped):
            await asyncio.wait_for(acquired(limiter), 1)
        assert caps.reached == "max_calls"

    in_loop(work)


def test_what_an_endpoint_tells_holds_back_and_is_named() -> None:
    async def work() -> None:
        limiter = RateLimiter(2, Limits(64))
        limiter.begin()
        told = await acquired(limiter)
        limiter.observe_headers(told, {"requests": Quota(0, 1.0)}, complete=True)
        other = limiter.endpoints[1 - told.endpoint.number]
        assert {(await acquired(limiter)).endpoint for _ in range(4)} == {other}  # it is that endpoint's own limit
        limiter.observe_headers(await acquired(limiter), {"requests": Quota(0, 1.0)}, complete=True)
        assert limiter.try_acquire(400) is None
        waiting = asyncio.create_task(limiter.acquire(400))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        limiter.observe_headers(told, {}, complete=False)  # a refusal without headers tells nothing new
        assert limiter.try_acquire(400) is None
        await asyncio.wait_for(waiting, 2)
        limiter.end()
        assert share_of_time([limiter.wait_times])["endpoint_rate"] > 0.5

    in_loop(work)


def test_nothing_is_held_back_any_more_where_nothing_is_told_any_more() -> None:
    async def work() -> None:
        limiter = RateLimiter(1, Limits(64))
        limiter.observe_headers(await acquired(limiter), {"tokens": Quota(0, 30.0)}, complete=True)
        assert limiter.try_acquire(400) is None
        permit = Permit(limiter.endpoints[0], 0.0, 0, 0.0, 0.0)
        limiter.observe_headers(permit, {}, complete=True)
        limiter.answered(permit)
        assert (await asyncio.wait_for(acquired(limiter), 1)).endpoint.number == 0

    in_loop(work)
