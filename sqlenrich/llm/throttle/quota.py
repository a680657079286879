"""An estimate of a quota that no header gives, from refusals: the requests that an endpoint answers in a minute."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MINUTE_S = 60.0
SLOT_S = 0.25
"""The resolution of the sliding window."""


@dataclass(frozen=True)
class QuotaPolicy:
    """When refusals show a quota, and how it is used. Shares are from 0 to 1."""

    limited_share: float = 0.05
    """A minute counts as limited at this share of refusals, ..."""
    limited_refusals: int = 10
    """... and this number of them."""
    helped: float = 0.5
    """A quota is kept where it lowers the share of refusals to this part, ..."""
    trial_s: float = 15.0
    """... within this time."""
    alike: float = 0.1
    """The admitted requests of two minutes agree within this share, ..."""
    near: float = 0.7
    """... and requests admitted and requests answered within this one."""
    dropped_s: float = 600.0
    """After a quota that did not help, none is estimated for this time."""
    larger: float = 0.02
    """A quota larger by this share is tried. The share is multiplied ..."""
    larger_growth: int = 4
    """... by this with each success, ..."""
    largest: float = 3.0
    """... up to this."""
    too_many: float = 0.01
    """Above this share of refusals, ..."""
    too_many_refusals: int = 3
    """... and from this number of them on, the last quota comes back for twice as many minutes, ..."""
    longest_rest: int = 16
    """... at most this number."""
    decrease: float = 0.25
    """Each refusal lowers the quota by this number of requests a minute, ..."""
    least: float = 0.85
    """... down to this share of the estimate."""
    pause_requests: int = 10
    """Each refusal also stops requests for the time of this number of requests, ..."""
    longest_pause_s: float = 1.0
    """... at most for this time."""


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
        """Return how many of them were sent before, but for those just before: some of these may be refused as well."""
        later, slot = 0, int(at / SLOT_S)
        for number, count in reversed(self._slots):
            if number < slot:
                break
            later += count
        return self.count - later

    def wait_s(self, most: float, now: float) -> float:
        """Return in how many seconds fewer than ``most`` are counted; 0 for now."""
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
        """Return what follows the endpoint's name.

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
    """Estimates how many requests a minute an endpoint takes, where no header gives the quota.

    A quota is found by two minutes in a row in which the requests admitted before the last refusal equal the requests
    answered: when an endpoint is down, these differ. From then on no more requests are sent in any 60 seconds. Where
    refusals continue as before, or come while fewer requests are sent, they have another cause: the quota is dropped,
    and none is estimated for a while. From time to time a larger quota is tried, until some of it is refused. All times
    are monotonic, in seconds.
    """

    def __init__(self, policy: QuotaPolicy | None = None) -> None:
        self.policy = policy or QuotaPolicy()
        self.limit: float | None = None
        self._window: SlidingWindow | None = None
        self._delayed = self._trial = False
        self._since = self._until = self._estimated_at = self._dropped_until = 0.0
        self._answered = self._refused = 0
        self._admitted = self._admitted_before = self._before = self._least = 0.0
        self._last_good: float | None = None
        self._larger, self._rest, self._rested = self.policy.larger, 1, 0

    def wait_s(self, now: float) -> float:
        """Return in how many seconds another request may be sent; 0 for at once."""
        if self.limit is None or self._window is None:
            return 0.0
        wait_s = self._window.wait_s(self.limit, now)
        self._delayed = self._delayed or wait_s > 0
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
        policy = self.policy
        if now < self._dropped_until:
            return None
        if self._window is None:
            self._window, self._since = SlidingWindow(now), now
        self._window.drop(sent_at)
        if sent_at < self._estimated_at:
            return None
        self._refused += 1
        if now - sent_at < MINUTE_S / 2:  # what was sent a minute before is forgotten at the moment of its refusal
            self._admitted = self._window.before(sent_at) * MINUTE_S / (MINUTE_S - (now - sent_at))
        if self.limit is not None:
            if (
                self._last_good is not None
                and self._refused >= policy.too_many_refusals
                and self._refused > policy.too_many * self._answered
            ):
                self.limit, self._last_good = self._last_good, None
                self._larger, self._rest, self._rested = (
                    policy.larger,
                    min(2 * self._rest, policy.longest_rest),
                    0,
                )
            self.limit = max(self.limit - policy.decrease, self._least)
            self._until = now + min(policy.longest_pause_s, policy.pause_requests * MINUTE_S / self.limit)
        return self._judge(now)

    def _judge(self, now: float) -> QuotaFinding | None:
        policy = self.policy
        past, refused = now - self._since, self._refused
        share, rate = refused / (self._answered + refused), self._answered * MINUTE_S / max(past, SLOT_S)
        as_before = refused >= policy.limited_refusals and share > policy.helped * self._before
        if past < MINUTE_S and not (self._trial and past >= policy.trial_s and as_before):
            return None
        self._since, self._answered, self._refused = now, 0, 0
        delayed, self._delayed = self._delayed, False
        admitted, self._admitted = self._admitted, 0.0
        admitted_before, self._admitted_before = self._admitted_before, admitted if past < 2 * MINUTE_S else 0.0
        if past >= 2 * MINUTE_S:  # nothing was asked for a while
            return None
        if self.limit is None:
            same = (
                admitted
                and abs(admitted - admitted_before) <= policy.alike * admitted
                and policy.near * rate <= admitted <= rate / policy.near
            )
            if not same or share < policy.limited_share or refused < policy.limited_refusals:
                return None
            self._set_limit(admitted, share, now)
            return QuotaFinding(share, int(admitted), kept=True)
        if self._trial if as_before else refused >= policy.limited_refusals and not delayed:
            self.limit, self._window, self._dropped_until = None, None, now + policy.dropped_s
            return QuotaFinding(share, int(rate), kept=False)
        self._trial = False
        if as_before and rate >= policy.limited_refusals:
            self._set_limit(rate, share, now)  # it allows fewer now
        elif refused >= policy.limited_refusals and delayed:
            self._least = min(self._least, policy.least * self.limit)
        elif delayed:
            self._rested += 1
            self._last_good = None
            if self._rested >= self._rest:
                self._last_good = self.limit
                self.limit += self._larger * self.limit + 1
                self._larger = min(policy.larger_growth * self._larger, policy.largest)
        return None

    def _set_limit(self, limit: float, share: float, now: float) -> None:
        self.limit, self._before, self._trial, self._estimated_at = max(limit, 1.0), share, True, now
        self._least, self._last_good = self.policy.least * self.limit, None
