"""Random runs against endpoints that fail, limit, die and come back: what holds whatever happens.

SQLENRICH_EXAMPLES=500 pytest tests/llm/test_scenarios.py           # so many runs of another seed
SQLENRICH_EXAMPLES=500 SQLENRICH_SEED=7 pytest ...                  # the same ones again
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from sqlenrich.core.endpoint import Endpoint
from sqlenrich.core.errors import RunError
from sqlenrich.core.limits import Limits
from sqlenrich.llm.client import Client
from sqlenrich.llm.endpoint.model import EndpointModel
from sqlenrich.llm.endpoint.policy import EndpointPolicy
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.health import HealthPolicy
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.stream import StreamPolicy
from sqlenrich.llm.throttle.budget import Budget
from sqlenrich.llm.throttle.endpoint_state import Permit
from sqlenrich.llm.throttle.limiter import RateLimiter
from sqlenrich.llm.throttle.limiter_policy import LimiterPolicy
from sqlenrich.llm.throttle.wait_times import share_of_time
from sqlenrich.spec.prices import Price
from tests.support.endpoint import ScriptedEndpoint

EXAMPLES = int(os.environ.get("SQLENRICH_EXAMPLES", "0"))
SEED = int(os.environ.get("SQLENRICH_SEED", "0")) or (random.randrange(1, 10**6) if EXAMPLES else 1)
BOUND_S = 45.0
FAULTS = (
    *("429", "429_after", "500", "503", "reset", "reset_mid", "cut", "html", "no_choices", "error_200"),
    *("400_context", "400_unclear", "huge", "empty", "refusal", "wrong_type", "hang", "stall"),
)


@dataclass(frozen=True)
class Scene:
    """One run: what the endpoints do, what the user set, and what happens when."""

    count: int
    endpoints: tuple[dict[str, object], ...]
    limits: Limits
    unstored: int
    batch_rows: int
    clients: int
    preflight: bool
    store_s: float
    max_calls: int | None = None
    max_cost: float | None = None
    stops: tuple[float, ...] = ()
    outages: tuple[tuple[int, float, float], ...] = ()
    refusals: tuple[tuple[int, float, str], ...] = ()
    """Which endpoint refuses all from when on, and how."""


def scene(seed: int) -> Scene:
    r = random.Random(seed)
    endpoints: list[dict[str, object]] = []
    several = r.choice((1, 1, 2, 3))
    for number in range(several):
        some = r.sample(FAULTS, r.choice((0, 0, 1, 3)))
        rates = {name: r.choice((0.01, 0.05, 0.2)) * (0.2 if name in ("hang", "stall") else 1) for name in some}
        if r.random() < (0.5 if number < several - 1 else 0.05):
            rates = {r.choice(("500", "reset", "503", "429", "html")): 1.0}
        limit = {"rpm": r.choice((20, 100)), "window_s": 0.5} if r.random() < 0.15 else {}
        latency = r.choice((0.0, 0.002, 0.02))
        slots = r.choice((0, 0, 4, 16))
        endpoints.append({"rates": rates, "latency_s": latency, "slots": slots, "huge": 90_000, **limit})
    per_minute = dict([r.choice((("rpm", 3_000), ("tpm", 60_000)))]) if r.random() < 0.2 else {}
    stop = r.choice((0, 0, 1, 2))
    return Scene(
        count=r.choice((0, 1, 3, 40, 150, 400)),
        endpoints=tuple(endpoints),
        limits=Limits(r.choice((None, 1, 3, 16, 64)), **per_minute),
        unstored=r.choice((1, 16, 256)),
        batch_rows=r.choice((1, 10, 128)),
        clients=r.choice((1, 1, 2)),
        preflight=r.random() < 0.5,
        store_s=r.choice((0.0, 0.0, 0.01)),
        max_calls=r.choice((0, 5, 60, 200)) if r.random() < 0.2 else None,
        max_cost=r.choice((0.0, 0.13, 0.3, 2.0)) if r.random() < 0.2 else None,
        stops=tuple(sorted(r.uniform(0, 1.0) for _ in range(stop))),
        outages=tuple(
            (number, at, at + r.choice((0.05, 0.4, 100.0)))
            for number in range(len(endpoints))
            if r.random() < 0.25 and (at := r.uniform(0.0, 0.6)) is not None
        ),
        refusals=tuple(
            (number, r.choice((0.0, 0.1, 0.4)), r.choice(("401", "404_path", "quota")))
            for number in range(len(endpoints))
            if r.random() < (0.2 if several > 1 else 0.03)
        ),
    )


POLICY = EndpointPolicy(
    backoff_s=0.02, largest_backoff_s=0.2, revive_s=(0.0, 0.05), health=HealthPolicy(retry_budget=50.0)
)


class Watched(EndpointModel):
    """Knows the most requests that were ever under way."""

    peak = under_way = 0

    async def _send(self, name: str, body: bytes, permit: Permit, texts: int) -> Any:
        self.under_way += 1
        self.peak = max(self.peak, self.under_way)
        try:
            return await super()._send(name, body, permit, texts)
        finally:
            self.under_way -= 1


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


class Hands:
    """Stops clients and ends endpoints at their times, from a thread of its own."""

    def __init__(self, plan: list[tuple[float, object]]) -> None:
        self._plan = sorted(plan, key=lambda one: one[0])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        began = time.monotonic()
        for at, act in self._plan:
            self._over.wait(max(0.0, began + at - time.monotonic()))
            act()  # type: ignore[operator]

    def __enter__(self) -> Hands:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def play(scene: Scene) -> None:
    given: list[Answer] = []
    late = threading.Event()
    failure: RunError | None = None
    stops = 0
    now: list[Client] = []

    def stop() -> None:
        nonlocal stops
        stops += 1
        for client in now:
            client.stop()

    with ExitStack() as stack:
        servers = [stack.enter_context(ScriptedEndpoint(**one)) for one in scene.endpoints]  # type: ignore[arg-type]
        caps = Budget(scene.max_calls, scene.max_cost, Price(Decimal(1), Decimal(1), Decimal(4)).exact)
        first, *others = (server.url for server in servers)
        endpoint = Endpoint(first, others=tuple(others), timeout=1.0, **asdict(scene.limits))
        config = RequestConfig("mock", params={"max_tokens": 30_000})
        limiter = RateLimiter(
            len(servers), endpoint.limits, max_out=config.max_out, budget=caps, policy=LimiterPolicy(first_rest_s=0.05)
        )
        models: list[Watched] = []

        def give_up() -> None:
            late.set()
            for client in now * 2:
                client.stop()

        guard = threading.Timer(BOUND_S, give_up)
        guard.start()
        plan: list[tuple[float, object]] = [(at, stop) for at in scene.stops]
        for number, dies, revives in scene.outages:
            plan += [(dies, servers[number].die), (revives, servers[number].revive)]
        for number, at, fault in scene.refusals:
            plan.append((at, partial(servers[number].rates.update, {fault: 2.0})))
        left = [Request(str(n), 1, f"prompt {n}.") for n in range(scene.count)]
        share = -(-len(left) // scene.clients)
        exposed = abandoned = 0
        with Hands(plan):
            for turn in range(scene.clients):
                model = Watched(endpoint, config, limiter=limiter, policy=POLICY)  # a retry shares its limiter too
                models.append(model)
                mine = left[turn * share : (turn + 1) * share]
                client = Client(
                    model,
                    concurrency=1,
                    unstored=scene.unstored,
                    batch_rows=scene.batch_rows,
                    give_up_s=4.0,
                    budget=caps,
                    policy=StreamPolicy(grace_s=3.0),
                )
                if stops or caps.reached or failure:
                    break
                now[:] = [client]
                try:
                    with client:
                        if scene.preflight:
                            head = client.preflight(mine[:3])
                            given += head
                            asked = {one.request_hash for one in head}
                            mine = [one for one in mine if one.request_hash not in asked]
                        for batch in client.stream(iter(mine)):
                            given += batch
                            time.sleep(scene.store_s)
                except RunError as error:
                    failure = error
                finally:
                    exposed = max(exposed, client.stats.exposed_peak)
                    abandoned += client._stops > 1
        guard.cancel()
        guard.join()
        calls = sum(model.health.calls for model in models)
        until = time.monotonic() + 5
        while any(server.open for server in servers) and time.monotonic() < until:
            time.sleep(0.005)
        assert not any(server.open for server in servers), "connections are left open"
        seen = [one for server in servers for one in server.asked]

    assert not late.is_set(), "it did not end"
    assert (limiter.in_flight, [endpoint.in_flight for endpoint in limiter.endpoints]) == (0, [0] * len(servers))
    assert all(waiting.done() for _, waiting, _ in limiter._waiting)
    assert (caps.open, float(caps.reserved)) == (0, 0)
    assert {endpoint.number for endpoint in limiter.endpoints if endpoint.disabled} <= {
        number for number, _, _ in scene.refusals
    }
    assert not all(endpoint.disabled for endpoint in limiter.endpoints)
    shares = share_of_time([limiter.wait_times])
    assert all(0 <= one <= 1 for one in shares.values()), shares
    assert sum(shares.values()) <= 1.001, shares
    answered = Counter(one.request_hash for one in given)
    assert all(count == 1 for count in answered.values())
    assert answered.keys() <= {one.request_hash for one in left}
    if not (stops or caps.reached or failure):
        assert len(given) == scene.count
    broken = failure is not None or scene.outages or stops
    assert len(seen) <= calls
    if not (scene.outages or abandoned or failure or stops):
        assert len(seen) == calls
        assert caps.reached or calls == sum(one.calls for one in given)
    if scene.max_calls is not None:
        assert calls <= scene.max_calls
    if scene.max_cost is not None:
        assert caps.spent <= Decimal(repr(scene.max_cost))
    if (width := scene.limits.concurrency) is not None:
        assert max(model.peak for model in models) <= width
        assert exposed <= width + scene.unstored
    # A whole answer is given, and nobody is asked for it again.
    whole = Counter(one.prompt for one in seen if one.complete)
    good = {one.request_hash for one in given if one.call_error is None}
    if not broken:
        assert all(count == 1 for count in whole.values())
        assert {f"prompt {number}." for number in good} == set(whole)
    refusing = {number for number, _, _ in scene.refusals}
    well = [number for number, one in enumerate(scene.endpoints) if not one["rates"] and number not in refusing]
    if not broken and not caps.reached and len(servers) > 1 and well:
        assert all(answer.call_error is None or not answer.retryable for answer in given), "a well endpoint was there"


@pytest.mark.parametrize("number", range(EXAMPLES or 24))
def test_whatever_happens(number: int) -> None:
    seed = SEED * 1_000_003 + number
    chosen = scene(seed)
    try:
        play(chosen)
    except BaseException as problem:
        problem.add_note(f"seed {seed}: {chosen}")
        raise
