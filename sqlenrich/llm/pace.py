"""How many requests an endpoint is asked at a time: found by trying, for nobody knows it beforehand."""

from __future__ import annotations

START = 8
MOST = 512
OTHER_FILES = 128
"""So many open files are left to whatever else the program has open."""
TURN_S = 0.1
ROUND_S = 0.5
DECREASE = 0.7
DECREASE_EVERY_S = 1.0
LOST = 0.15
"""Where a decrease takes more than this share of the answers a second, it was of no use."""
DEAF_S, LONGEST_DEAF_S = 5.0, 60.0
WIDER, NARROWER = 0.25, 0.1
WORTH = 0.25
"""A larger width is kept where at least this share of it comes back as more answers a second."""
LOSS = 0.1
"""A smaller width is kept where at most this share of it is lost in answers a second."""
LONGEST_REST = 16


def most_each(endpoints: int, open_files: float) -> int:
    """Give the most connections to each of several endpoints that fit into a limit of open files."""
    return int(min(MOST, max(START, (open_files - OTHER_FILES) / endpoints)))


class Pace:
    """The width of a stream: how many requests may be in flight.

    It grows by one for each answer, so it doubles in the time of one, until more in flight brings no more answers a
    second: there requests only queue, and each takes longer. Then it is tried a little wider and a little narrower
    from time to time; what brings as much with less is kept. A limit that was met (429, 503, a timeout) takes it down
    to seven tenths, once a second at most; where that only brings fewer answers, the refusals have another cause: it is
    taken back, and they are not listened to for a while.
    """

    def __init__(self, *, most: int = MOST, start: int = START) -> None:
        self.most = most
        self.width = min(start, most)
        self.growing = True
        self._full = False
        self._began = 0.0
        self._turn_width = self.width
        self._answers = 0
        self._turns: list[float] = []
        self._decreased_at = self._deaf_until = float("-inf")
        self._deaf_s = DEAF_S
        self._before: tuple[int, float] | None = None
        self._since, self._count = 0.0, 0
        self._skip = 0
        self._base: tuple[int, float] | None = None
        self._rest, self._rested, self._narrower = 1, 0, False

    def answered(self, now: float, *, full: bool) -> None:
        """Take note of an answer at the monotonic time ``now``; ``full``: nothing but the width held requests back."""
        if self._began == 0.0:
            self._begin(now, skip=0)
        self._count += 1
        if self._before is None and now - self._since >= 2 * DECREASE_EVERY_S:
            self._since, self._count = now, 0
        self._full = self._full or full
        if self._skip:
            self._skip -= 1
            if not self._skip:
                self._began = now
        else:
            self._answers += 1
        if self.growing:
            if full:
                self.width = min(self.most, self.width + 1, 2 * self._turn_width)
            if self._answers >= self._turn_width and now - self._began >= TURN_S:
                self._end_turn(now)
        elif self._answers >= 2 * self.width and now - self._began >= ROUND_S:
            self._end_round(now)

    def pushed_back(self, now: float) -> None:
        """Take note that the endpoint wants fewer requests."""
        if now - self._decreased_at < DECREASE_EVERY_S or now < self._deaf_until:
            return
        self._decreased_at = now
        rate = self._count / max(now - self._since, 0.1)
        self._since, self._count = now, 0
        if self._before is not None and rate < (1 - LOST) * self._before[1]:
            self.width, self._before = self._before[0], None
            self._deaf_until, self._deaf_s = now + self._deaf_s, min(2 * self._deaf_s, LONGEST_DEAF_S)
        else:
            self._before = (self.width, rate)
            self.width = max(1, int(self.width * DECREASE))
        self.growing = False
        self._base, self._rest, self._rested = None, 1, 0
        self._begin(now, skip=0)

    def _begin(self, now: float, *, skip: int) -> None:
        self._began, self._answers, self._full, self._skip = now, 0, False, skip
        self._turn_width = self.width

    def _end_turn(self, now: float) -> None:
        rate = self._answers / (now - self._began)
        if self._full:
            self._turns.append(rate)
            # Over two turns, in which the width grew to its fourfold: one alone may be chance.
            gain = rate / self._turns[-3] if len(self._turns) > 2 else 4.0
            if gain < (1 + WORTH) ** 2 or self.width == self.most:
                self.growing = False
                # The queue that forms in front of a server keeps it busy between two answers.
                enough = self._turn_width / 4 * max(gain, 1.0) * (1 + WORTH)
                self.width = max(1, min(self.most, round(enough)))
        self._begin(now, skip=0 if self.growing else self._turn_width)

    def _end_round(self, now: float) -> None:
        """Judge the width that was tried, and choose the next one."""
        rate, full = self._answers / (now - self._began), self._full
        tried = self.width
        if not full:
            self._begin(now, skip=0)  # something else was the limit: nothing is learnt
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
                self.width = self._step(width, narrower=self._narrower)
        self._begin(now, skip=tried)

    def _step(self, width: int, *, narrower: bool) -> int:
        if narrower:
            return max(1, width - max(1, round(width * NARROWER)))
        return min(self.most, width + max(1, round(width * WIDER)))
