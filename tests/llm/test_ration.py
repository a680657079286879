"""The rate that an endpoint's refusals show, against endpoints simulated in no time."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

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
                if wait_s < math.inf and next_at <= now:
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
