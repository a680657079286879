"""A limit a minute: a token bucket for an even rate, and a sliding window for every minute."""

from __future__ import annotations

import math
from collections import deque

WINDOW_S = 60
SHARE = 0.98
BURST = 0.02


class TokenBucket:
    """Lets ``per_minute`` units through in any 60 seconds, some hundredths of it at once at most.

    A request that is larger than the limit itself goes where nothing else went for a minute.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self.room = room_of(per_minute)
        self.level = self.room
        self._at = now
        self._seconds: deque[list[float]] = deque()
        self._used = 0.0

    def wait_s(self, units: float, now: float) -> float:
        """Return the seconds until ``units`` can be taken; 0: now."""
        rate = self._refill(now)
        missing = min(units, self.room) - self.level
        wait_s = missing / rate if missing > 1e-9 else 0.0
        used = self._used
        for second, taken in self._seconds:
            if used <= 1e-9 or used + units <= self.per_minute:
                break
            wait_s = max(wait_s, second + WINDOW_S + 1 - now)
            used -= taken
        return wait_s

    def take(self, units: float, now: float) -> None:
        """Take units, or with a negative number give back what was not used."""
        self.level = min(self.room, self.level - units)
        self._used += units
        second = float(int(now))
        if self._seconds and self._seconds[-1][0] >= second:
            self._seconds[-1][1] += units
        else:
            self._seconds.append([second, units])

    def settle(self, units: float, taken_at: float) -> None:
        """Add to what was taken at a time, or with a negative number give back what was not used of it.

        It counts for the window in which it was taken: what is given back later would make room for as much again.
        """
        self.level = min(self.room, self.level - units)
        second = float(int(taken_at))
        for taken in reversed(self._seconds):
            if taken[0] <= second:
                if taken[0] == second:
                    taken[1] += units
                    self._used += units
                break

    def _refill(self, now: float) -> float:
        past, self._at = max(now - self._at, 0.0), max(now, self._at)
        rate = self.per_minute * SHARE / WINDOW_S
        self.level = min(self.room, self.level + past * rate)
        while self._seconds and now >= self._seconds[0][0] + WINDOW_S + 1:
            self._used -= self._seconds.popleft()[1]
        return rate


def room_of(per_minute: float) -> float:
    """Return what a bucket holds, and holds at its beginning."""
    return max(1.0, per_minute * BURST)


def seconds_for(per_minute: float, count: int, units: float) -> float:
    """Return in how many seconds ``count`` requests that take ``units`` in all are sent, if nothing else is slower."""
    each = units / count
    even = (units - max(each, room_of(per_minute))) / (per_minute * SHARE / WINDOW_S)
    at_once = max(1, math.floor(per_minute / each)) if each else count
    return max(0.0, even, (count - 1) // at_once * (WINDOW_S + 1.0))
