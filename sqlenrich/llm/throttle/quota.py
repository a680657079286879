"""An estimate of a quota that no header gives, from refusals: the requests that an endpoint answers in a minute."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MINUTE_S = 60.0
SLOT_S = 0.25
SHARE, FEW, SOME = 0.05, 10, 3
"""A minute counts as limited at this share of refusals and this number of them."""
HELPED, TRIAL_S = 0.5, 15.0
"""A quota is kept where it lowers the share of refusals to this part; that is tried for TRIAL_S."""
ALIKE, NEAR = 0.1, 0.7
"""Two minutes agree within ALIKE; requests admitted and requests answered agree within NEAR."""
DROPPED_S = 600.0
"""After a quota that did not help, none is estimated for this time."""
MORE, MORE_AGAIN, MOST_MORE = 0.02, 4, 3.0
"""A quota larger by this share is tried; the share grows by MORE_AGAIN with each success, up to MOST_MORE."""
TOO_MANY, LONGEST_REST = 0.01, 16
"""Above this share of refusals the last quota comes back, for twice as many minutes, at most LONGEST_REST."""
LESS, LEAST = 0.25, 0.85
"""Each refusal lowers the quota by LESS requests a minute, down to the share LEAST of the estimate."""
HOLD, HOLD_S = 10, 1.0
"""Each refusal also stops requests for the time of HOLD requests, at most HOLD_S."""


class SlidingWindow:
    """How many requests were sent in the last 60 seconds and not refused."""

    def __init__(self, since: float) -> None:
        self.count = 0
        self._since = since
        self._slots: deque[list[int]] = deque()

    def add(self, at: float) -> None:
        """Count a request that is sent."""
        self._forget(at)
        slot = int(at / SLOT_S)
        if self._slots and self._slots[-1][0] >= slot:
            self._slots[-1][1] += 1
        else:
            self._slots.append([slot, 1])
        self.count += 1

    def drop(self, at: float) -> None:
        """Take one back that was sent then: it was refused."""
        if at < self._since:
            return
        slot = int(at / SLOT_S)
        for entry in reversed(self._slots):
            if entry[0] <= slot:
                if entry[0] == slot and entry[1]:
                    entry[1] -= 1
                    self.count -= 1
                return

    def before(self, at: float) -> int:
        """Give how many of them were sent before, but for those just before: some of these may be refused as well."""
        later, slot = 0, int(at / SLOT_S)
        for number, count in reversed(self._slots):
            if number < slot:
                break
            later += count
        return self.count - later

    def wait_s(self, most: float, now: float) -> float:
        """Give in how many seconds fewer than ``most`` are counted; 0 for now."""
        self._forget(now)
        over, wait_s = self.count + 1 - most, 0.0
        for slot, count in self._slots:
            if over <= 0:
                break
            over -= count
            wait_s = _over_at(slot) - now
        return max(wait_s, 0.0)

    def _forget(self, now: float) -> None:
        while self._slots and _over_at(self._slots[0][0]) <= now:
            self.count -= self._slots.popleft()[1]


def _over_at(slot: int) -> float:
    return (slot + 1) * SLOT_S + MINUTE_S


@dataclass(frozen=True)
class QuotaFinding:
    """Something to tell: the share of a minute's requests that was refused, and how many of them were answered.

    ``kept``: from now on no more than that are sent; else that was tried, and is not what the endpoint refuses for.
    """

    share: float
    a_minute: int
    kept: bool

    def to_text(self, rpm: int | None, *, alone: bool, fixed: bool) -> str:
        """Give what follows the endpoint's name.

        ``rpm`` is what is set; ``alone``: all requests go there; ``fixed``: the number at a time is, and may be the
        cause.
        """
        refused = f"refuses {max(1, round(100 * self.share))} % of the requests (429, 503)"
        if not self.kept:
            return f"{refused}, however many are sent: its limit is none of requests a minute"
        if not alone:
            todo = ""
        elif rpm is not None:
            todo = f"; lower rpm = {rpm} in its settings"
        else:
            other = ", or a lower concurrency," if fixed else ""
            todo = f"; rpm = {self.a_minute}{other} in its settings begins there"
        return f"{refused}: the run keeps to the {self.a_minute:,} a minute that it answers{todo}"


class QuotaEstimator:
    """Learns how many requests a minute an endpoint takes, where it refuses many and nobody tells.

    Two minutes one after the other tell, in which as many were taken in before the last refusal as were answered in
    all: when an endpoint is only down, these differ. From then on no more are sent in any 60 seconds. Where refusals go
    on as before, or come while fewer are sent, they have another cause, and no limit is learnt for a while. Else now
    and then a little more is tried, until some of that is refused. All times are monotonic, in seconds.
    """

    def __init__(self) -> None:
        self.limit: float | None = None
        self._window: SlidingWindow | None = None
        self._held = self._trial = False
        self._since = self._until = self._learnt_at = self._dropped_until = 0.0
        self._answered = self._refused = 0
        self._taken = self._taken_before = self._before = self._least = 0.0
        self._good: float | None = None
        self._more, self._rest, self._rested = MORE, 1, 0

    def wait_s(self, now: float) -> float:
        """Give in how many seconds another request may be sent; 0 for at once."""
        if self.limit is None or self._window is None:
            return 0.0
        wait_s = self._window.wait_s(self.limit, now)
        self._held = self._held or wait_s > 0
        return max(wait_s, self._until - now)

    def sent(self, now: float) -> None:
        """Record that a request is sent."""
        if self._window is not None:
            self._window.add(now)

    def answered(self, now: float) -> QuotaFinding | None:
        """Record an answer; give a finding to report."""
        if self._window is None:
            return None
        self._answered += 1
        return self._judge(now)

    def refused(self, sent_at: float, now: float) -> QuotaFinding | None:
        """Record a refusal for a limit of a request that was sent then; give a finding to report."""
        if now < self._dropped_until:
            return None
        if self._window is None:
            self._window, self._since = SlidingWindow(now), now
        self._window.drop(sent_at)
        if sent_at < self._learnt_at:
            return None
        self._refused += 1
        if now - sent_at < MINUTE_S / 2:  # what was sent a minute before is forgotten at the moment of its refusal
            self._taken = self._window.before(sent_at) * MINUTE_S / (MINUTE_S - (now - sent_at))
        if self.limit is not None:
            if self._good is not None and self._refused >= SOME and self._refused > TOO_MANY * self._answered:
                self.limit, self._good = self._good, None
                self._more, self._rest, self._rested = MORE, min(2 * self._rest, LONGEST_REST), 0
            self.limit = max(self.limit - LESS, self._least)
            self._until = now + min(HOLD_S, HOLD * MINUTE_S / self.limit)
        return self._judge(now)

    def _judge(self, now: float) -> QuotaFinding | None:
        past, refused = now - self._since, self._refused
        share, rate = refused / (self._answered + refused), self._answered * MINUTE_S / max(past, SLOT_S)
        as_before = refused >= FEW and share > HELPED * self._before
        if past < MINUTE_S and not (self._trial and past >= TRIAL_S and as_before):
            return None
        self._since, self._answered, self._refused = now, 0, 0
        held, self._held = self._held, False
        taken, self._taken = self._taken, 0.0
        taken_before, self._taken_before = self._taken_before, taken if past < 2 * MINUTE_S else 0.0
        if past >= 2 * MINUTE_S:  # nothing was asked for a while
            return None
        if self.limit is None:
            same = taken and abs(taken - taken_before) <= ALIKE * taken and NEAR * rate <= taken <= rate / NEAR
            if not same or share < SHARE or refused < FEW:
                return None
            self._learn(taken, share, now)
            return QuotaFinding(share, int(taken), kept=True)
        if self._trial if as_before else refused >= FEW and not held:
            self.limit, self._window, self._dropped_until = None, None, now + DROPPED_S
            return QuotaFinding(share, int(rate), kept=False)
        self._trial = False
        if as_before and rate >= FEW:
            self._learn(rate, share, now)  # it allows fewer now
        elif refused >= FEW and held:
            self._least = min(self._least, LEAST * self.limit)
        elif held:
            self._rested += 1
            self._good = None
            if self._rested >= self._rest:
                self._good = self.limit
                self.limit += self._more * self.limit + 1
                self._more = min(MORE_AGAIN * self._more, MOST_MORE)
        return None

    def _learn(self, limit: float, share: float, now: float) -> None:
        self.limit, self._before, self._trial, self._learnt_at = max(limit, 1.0), share, True, now
        self._least, self._good = LEAST * self.limit, None
