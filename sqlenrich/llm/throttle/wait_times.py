"""The time for which each limit delayed the requests of streams."""

from __future__ import annotations

from collections.abc import Sequence


class WaitTimes:
    """The limit that delays requests now (``reason``; empty: none), and the seconds of each while a stream is open."""

    def __init__(self) -> None:
        self.reason = ""
        self.seconds = 0.0
        """Seconds in which at least one stream was open."""
        self.by_reason: dict[str, float] = {}
        self._since = self._open_at = 0.0
        self._open = 0

    @property
    def is_open(self) -> bool:
        """Whether a stream is open."""
        return self._open > 0

    def begin(self, now: float) -> None:
        """Open a stream."""
        if not self._open:
            self._open_at = now
            self.reason, self._since = "", now
        self._open += 1

    def end(self, now: float) -> None:
        """Close a stream."""
        if not self._open:
            return
        if self._open == 1:
            self.mark("", now)
            self.seconds += now - self._open_at
        self._open -= 1

    def mark(self, reason: str, now: float) -> None:
        """Record which limit delays requests from now on."""
        if reason != self.reason:
            if self.reason and self._open:
                self.by_reason[self.reason] = self.by_reason.get(self.reason, 0.0) + now - self._since
            self.reason, self._since = reason, now


def share_of_time(wait_times: Sequence[WaitTimes]) -> dict[str, float]:
    """Return the share of the streams' time in which each limit delayed requests."""
    seconds = sum(one.seconds for one in wait_times)
    names = dict.fromkeys(name for one in wait_times for name in one.by_reason)
    if not seconds:
        return {}
    return {name: round(sum(o.by_reason.get(name, 0.0) for o in wait_times) / seconds, 4) for name in names}
