"""Quotas from the rate headers of responses: what remains of each, and when it is reset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from sqlenrich.core import runtime
from sqlenrich.llm.throttle.leaky_bucket import LeakyBucket

HORIZON_S = 60.0
"""The longest time over which a quota is spread, and the longest wait: after it one request finds out."""
SHARE = 0.97
MOVES_AFTER_S = 5.0
KINDS = ("requests", "tokens", "input_tokens", "output_tokens")

_OPENAI, _ANTHROPIC = "x-ratelimit-{what}-{name}", "anthropic-ratelimit-{name}-{what}"
# Kind, and the names of the headers for what is left, the limit, and when it is whole again. The first found counts.
_NAMES = tuple(
    (kind, *(form.format(what=what, name=kind.replace("_", "-")) for what in ("remaining", "limit", "reset")))
    for form, kind in (
        (_OPENAI, "requests"),
        (_OPENAI, "tokens"),
        *((_ANTHROPIC, kind) for kind in KINDS),
        ("ratelimit-{what}", "requests"),
        ("x-ratelimit-{what}", "requests"),
    )
)
_TOLD = frozenset({left for _, left, _, _ in _NAMES} | {"ratelimit"})
"""The headers without which a response tells of no quota."""
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII)
_SCALE = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_ITEM = re.compile(r";\s*([rt])=(\d{1,15})", re.ASCII)
_EPOCH_S, _EPOCH_MS = 1e9, 1e12


class Quota(NamedTuple):
    """Of one quota: how much is left, in how many seconds it is whole again, and how much that is, where quota."""

    remaining: float
    reset_s: float
    limit: float | None = None


def read_quotas(headers: Mapping[str, str]) -> dict[str, Quota]:
    """Return what an answer's headers (names in lower case) tell of each quota. What can't be read is not quota."""
    if _TOLD.isdisjoint(headers):
        return {}
    found: dict[str, Quota] = {}
    for kind, left_name, limit_name, reset_name in _NAMES:
        if (left_text := headers.get(left_name)) is not None and kind not in found:
            left, reset_s = _number(left_text), _seconds(headers.get(reset_name, ""), headers.get("date"))
            limit = _number(headers.get(limit_name, ""))
            # A limit of 0 in an answer says nothing, and neither do 0 units that are reset in 0 seconds.
            if left is not None and reset_s is not None and limit != 0 and (left or reset_s):
                found[kind] = Quota(left, reset_s, limit)
    if "requests" not in found and (field := headers.get("ratelimit")) is not None:
        policies = [dict(_ITEM.findall(policy)) for policy in field.split(",")]
        tight = [Quota(float(one["r"]), float(one["t"])) for one in policies if len(one) == len("rt")]
        tight = [quota for quota in tight if quota.remaining or quota.reset_s]
        if tight:
            found["requests"] = min(tight, key=lambda quota: quota.remaining)
    return found


def _number(text: str) -> float | None:
    # Some give a limit for each of several windows: "100, 100;w=60".
    first = text.partition(",")[0].strip()
    return float(first) if _NUMBER.fullmatch(first) else None


def _seconds(text: str, date: str | None) -> float | None:
    """Return the seconds until a reset, written as a number, as a duration of Go, or as a time."""
    text = text.strip()
    if (number := _number(text)) is not None:
        if number < _EPOCH_S:
            return number
        return max(number / (1_000 if number >= _EPOCH_MS else 1) - _clock(date).timestamp(), 0.0)
    if text and (parts := _DURATION.fullmatch(text)):
        return sum(scale * float(part) for scale, part in zip(_SCALE, parts.groups(), strict=True) if part)
    try:
        at = datetime.fromisoformat(text)
        return max((at.replace(tzinfo=at.tzinfo or UTC) - _clock(date)).total_seconds(), 0.0)
    except (ValueError, OverflowError):
        return None


def _clock(date: str | None) -> datetime:
    """Return the endpoint's own time: clocks differ."""
    try:
        at = parsedate_to_datetime(date) if date else runtime.now()
    except (ValueError, OverflowError):
        at = runtime.now()
    return at.replace(tzinfo=at.tzinfo or UTC)


class QuotaBucket:
    """Spreads one quota from rate headers over the time until its reset.

    A fixed window is reset at one time: what remains is spread over the time until then. A bucket that refills
    continuously moves its reset time: it gives its limit over that time, again and again. ``spent`` is in each call the
    total that was ever sent to the endpoint, in the quota's units.
    """

    def __init__(self) -> None:
        self.limit: float | None = None
        self._left = self._at = self._reset_at = self._spent = 0.0
        self._known = self._compared = self._moves = self._bounded = False
        self._none_left = self._wrong = False
        self._anchor = (-math.inf, 0.0, 0.0, 0.0)
        self._filled = 0.0
        self._leaky_bucket = LeakyBucket()

    def observe(self, quota: Quota, spent: float, now: float, *, admitted: bool = False) -> None:
        """Record the quota of a response. ``spent``: the total up to its request; ``admitted``: HTTP 200."""
        if self._wrong or (self._known and spent < self._spent):
            return  # the headers are wrong, or the response is older than the last one
        if admitted and quota.limit is None and quota.remaining <= 0 and self._none_left and spent > self._spent:
            # Nothing remained, and a request was admitted all the same.
            self._wrong, self._known = True, False
            return
        self._none_left = admitted and quota.remaining <= 0
        reset_at = now + quota.reset_s
        since, reset_before, left_before, spent_before = self._anchor
        past = now - since
        if past >= MOVES_AFTER_S:
            if past <= HORIZON_S:
                self._compared = True
                filled = max(quota.remaining - left_before + spent - spent_before, 0.0) / past
                claimed = ((quota.limit or 0.0) - quota.remaining) / max(quota.reset_s, 1e-3)
                self._moves = reset_at - reset_before > past / 2 or filled > claimed / 2 > 0
                self._filled += (filled - self._filled) / 2
            self._anchor = (now, reset_at, quota.remaining, spent)
        self._set(quota.remaining, quota.reset_s, spent, now)
        self.limit = quota.limit

    def wait_s(self, units: float, spent: float, now: float) -> float:
        """Return the seconds until these units may be sent; 0: now."""
        if not self._known:
            return 0.0
        if now >= self._reset_at:
            # After a reset time beyond the horizon, one request finds out whether the quota is still used up.
            whole = units if self._bounded or not self.limit else self.limit
            # Where much remained, the next window may be as long as the last one.
            ample = not self._bounded and self.limit is not None and self._left >= self.limit / 2
            self._set(max(whole, units), self._reset_at - self._at if ample else HORIZON_S, spent, now)
        refill = self._refill()
        left = self._left + refill * (now - self._at) - (spent - self._spent)
        until = self._reset_at - now
        missing = (units if self.limit is None else min(units, self.limit)) - left
        if missing > 1e-6 and not self._compared and until > (soon := self._at + MOVES_AFTER_S - now):
            # Nothing remains, and whether the bucket refills is unknown: one request finds out.
            if soon > 0:
                return soon
            self._left, self._at = self._left + missing, now
        elif missing > 1e-6:
            return max(min(missing / refill, until) if refill else until, 1e-3)
        return self._leaky_bucket.wait_s(units, self._rate(left, until), now)

    def take(self, units: float) -> None:
        """Record that these units are sent."""
        if self._known:
            self._leaky_bucket.take(units)

    def _set(self, left: float, reset_s: float, spent: float, now: float) -> None:
        self._bounded = reset_s > HORIZON_S
        self._left, self._at, self._spent = left, now, spent
        self._reset_at = now + min(reset_s, HORIZON_S)
        self._known = True

    def _refill(self) -> float:
        if not (self._moves and self.limit):
            return 0.0
        # Some give the time until the whole, others until the next unit: only the refill that was seen is used.
        seen = max(self._filled, self.limit / HORIZON_S)
        return min(max(self.limit - self._left, 0.0) / max(self._reset_at - self._at, 1e-3), seen)

    def _rate(self, left: float, until: float) -> float:
        rate = left / max(until, 1e-3)
        if self._moves and self.limit:
            whole = self.limit / max(self._reset_at - self._at, 1e-3)
            rate = max(rate, SHARE * min(whole, max(self._filled, self.limit / HORIZON_S)))
        return rate
