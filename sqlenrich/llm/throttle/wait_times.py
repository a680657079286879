"""What holds the requests of a stream back, and for how long."""

from __future__ import annotations

from collections.abc import Sequence


class Held:
    """The reason for which no request may be sent now (empty: none), and the seconds of each while a stream is open."""

    def __init__(self) -> None:
        self.reason = ""
        self.seconds = 0.0
        self.by_reason: dict[str, float] = {}
        self._since = self._open_at = 0.0
        self._open = False

    def begin(self, now: float) -> None:
        """A stream begins: from here on time counts."""
        self._open, self._open_at = True, now
        self.reason, self._since = "", now

    def end(self, now: float) -> None:
        """The stream ended."""
        if self._open:
            self.mark("", now)
            self.seconds += now - self._open_at
            self._open = False

    def mark(self, reason: str, now: float) -> None:
        """Take note of what holds requests back from now on."""
        if reason != self.reason:
            if self.reason and self._open:
                self.by_reason[self.reason] = self.by_reason.get(self.reason, 0.0) + now - self._since
            self.reason, self._since = reason, now


def share_of_time(streams: Sequence[Held]) -> dict[str, float]:
    """Give, of the time of all streams, the share in which each limit held requests back."""
    seconds = sum(held.seconds for held in streams)
    names = dict.fromkeys(name for held in streams for name in held.by_reason)
    if not seconds:
        return {}
    return {name: round(sum(h.by_reason.get(name, 0.0) for h in streams) / seconds, 4) for name in names}
