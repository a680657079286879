"""How many requests an endpoint is asked at a time: found by trying, for nobody knows it beforehand."""

from __future__ import annotations

from sqlenrich.llm.throttle.pushback import Pushback

START, START_MOST = 8, 64
START_S = 8.0
"""It begins with as many as an endpoint that works on one at a time is through with in these seconds."""
MOST = 512
OTHER_FILES = 128
"""So many open files are left to whatever else the program has open."""
GROWTH, QUEUED_GROWTH = 4, 2
QUEUED = 1.25
"""An answer that takes so many times as long as the first ones did has stood in a queue."""
TURN_S = 0.1
ROUND_S = 0.5
WIDER, NARROWER = 0.25, 0.1
WORTH = 0.25
"""A larger width is kept where at least this share of it comes back as more answers a second."""
ENOUGH = 0.9
SMOOTH = 0.1
LOSS = 0.05
"""A smaller width is kept where at most this share of it is lost in answers a second."""
LONGEST_REST = 16


def most_each(endpoints: int, open_files: float) -> int:
    """Give the most connections to each of several endpoints that fit into a limit of open files."""
    return int(min(MOST, max(START, (open_files - OTHER_FILES) / endpoints)))


class Pace:
    """The width of a stream: how many requests may be in flight.

    It begins as wide as the first answer's latency allows, and grows to its fourfold in the time of an answer, or only
    doubles where requests queue, until more in flight brings no more answers a second. Then it is tried a little wider
    and a little narrower from time to time; what brings as much with less is kept. Limits that are met (429, 503,
    timeouts) more often than by chance take it down to seven tenths, once a second at most; where that only brings
    fewer answers, the refusals have another cause: it is taken back, and they are not listened to for a while.
    """

    def __init__(self, *, most: int = MOST, start: int = START) -> None:
        self.most = most
        self.width = min(start, most)
        self.growing = True
        self._latency_s = self._alone_s = 0.0
        self._growth = GROWTH
        self._full = False
        self._from = 0.0
        self._answers = 0
        self._turn_width = self.width
        self._turns: list[tuple[int, float]] = []
        self.pushback = Pushback()
        self._base: tuple[int, float] | None = None
        self._rest, self._rested, self._narrower = 1, 0, False

    def answered(self, now: float, latency_s: float, *, full: bool) -> None:
        """Take note of an answer at the monotonic time ``now``; ``full``: nothing but the width held requests back.

        Answers are counted over whole latencies: those to requests sent together come together.
        """
        if self._from == 0.0:
            self._latency_s = self._alone_s = latency_s
            self.width = min(max(self.width, min(START_MOST, int(START_S / max(latency_s, 0.001)))), self.most)
            self._begin(now, skip_s=latency_s if self.width > START else 0.0)
        self._latency_s += SMOOTH * (latency_s - self._latency_s)
        self.pushback.answered(now)
        self._full = self._full or full
        self._answers += now >= self._from
        if self.growing:
            # Only at the end of a turn, so that its answers are those to requests sent at its width.
            if full and now - self._from >= TURN_S - self._latency_s:
                growth = QUEUED_GROWTH if latency_s > QUEUED * self._alone_s else self._growth
                grown = min(self.most, self.width + growth - 1, growth * self._turn_width)
                self.width = max(self.width, grown)
            if now - self._from >= max(TURN_S, self._latency_s):
                self._end_turn(now)
        elif now - self._from >= max(ROUND_S, 2 * self._latency_s):
            self._end_round(now)

    def sent(self, now: float) -> None:
        """Take note that a request is sent."""
        self.pushback.sent(now)

    def pushed_back(self, now: float) -> None:
        """Take note that the endpoint wants fewer requests."""
        width = self.pushback.refused(now, self.width, self.most, self._latency_s)
        if width is None:
            return
        self.width = width
        self.growing = False
        self._base, self._rest, self._rested = None, 1, 0
        self._begin(now)

    def _begin(self, now: float, *, skip_s: float = 0.0) -> None:
        self._from, self._answers, self._full = now + skip_s, 0, False
        self._turn_width = self.width

    def _end_turn(self, now: float) -> None:
        rate = self._answers / (now - self._from)
        if self._full:
            self._turns.append((self._turn_width, rate))
            if self._latency_s > QUEUED * self._alone_s:
                self._growth = QUEUED_GROWTH
            # Over two turns, or one in which the width grew to its threefold: less may be chance.
            before = [r for w, r in self._turns if 3 * w <= self._turn_width] + [r for _, r in self._turns[-3:-2]]
            little = any(rate < (1 + WORTH) ** 2 * earlier for earlier in before[-2:])
            if little or self._turn_width == self.most:
                self.growing = False
                best = max(rate for _, rate in self._turns)
                enough = min(width for width, rate in self._turns if rate >= ENOUGH * best)
                # The queue that forms in front of a server keeps it busy between two answers, unless it slows it down.
                queue = WIDER if rate >= ENOUGH * best else 0.0
                self.width = min(self.most, round(enough * (1 + queue)))
        self._begin(now, skip_s=0.0 if self.growing else self._latency_s)

    def _end_round(self, now: float) -> None:
        """Judge the width that was tried, and choose the next one."""
        rate, full = self._answers / (now - self._from), self._full
        tried = self.width
        if not full:
            self._begin(now)  # something else was the limit: nothing is learnt
            return
        if self._base is None:
            self._base = (tried, rate)
        width, before = self._base
        if tried > width:
            kept = rate >= before * (1 + WORTH * (tried / width - 1))
        elif tried < width:
            kept = rate >= before * (1 - LOSS * (1 - tried / width))
        else:
            # What is known fades, for an endpoint changes.
            self._base = (width, 0.5 * before + 0.5 * rate)
            kept = False
        if kept:
            self._base, self._rest, self._rested = (tried, rate), 1, 0
            self.width = self._step(tried, narrower=tried < width)
        elif tried != width:
            self.width = width
            self._narrower = tried > width
            if not self._narrower:
                self._rest = min(2 * self._rest, LONGEST_REST)
            self._rested = 0
        else:
            self._rested += 1
            if self._rested >= self._rest:
                self.width = self._step(width, narrower=self._narrower and width > 1)
        self._begin(now, skip_s=0.0 if self.width == tried else self._latency_s)

    def _step(self, width: int, *, narrower: bool) -> int:
        if narrower:
            return max(1, width - max(1, round(width * NARROWER)))
        return min(self.most, width + max(1, round(width * WIDER)))
