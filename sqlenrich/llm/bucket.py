"""A limit of so many a minute, kept evenly: a token bucket."""

from __future__ import annotations

SHARE = 0.97
BURST = 0.02
"""Share and burst together stay below the limit in any minute, wherever the endpoint begins to count."""
SLOWER, SLOWEST = 0.9, 0.3
RECOVERY_S = 60.0


class Bucket:
    """Lets ``per_minute`` units through, some hundredths of a minute's at once at most.

    More is taken than there is where one request is larger than the bucket; then the next ones wait for longer.
    """

    def __init__(self, per_minute: float, now: float) -> None:
        self.per_minute = per_minute
        self.room = max(1.0, per_minute * BURST)
        self.level = self.room
        self.factor = 1.0
        self._at = now

    def wait_s(self, units: float, now: float) -> float:
        """Give in how many seconds ``units`` can be taken; 0 for at once."""
        rate = self._refill(now)
        missing = min(units, self.room) - self.level
        return max(missing / rate, 0.0)

    def take(self, units: float) -> None:
        """Take units, or with a negative number give back what was not used."""
        self.level = min(self.room, self.level - units)

    def slower(self) -> None:
        """Let less through for a while: the endpoint counts otherwise than we do, or somebody else uses it too."""
        self.factor = max(SLOWEST, self.factor * SLOWER)

    def _refill(self, now: float) -> float:
        past, self._at = max(now - self._at, 0.0), now
        rate = self.per_minute * SHARE * self.factor / 60.0
        self.level = min(self.room, self.level + past * rate)
        self.factor = min(1.0, self.factor + past / RECOVERY_S)
        return rate
