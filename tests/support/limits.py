"""The limits of a vendor: so many requests and tokens in a sliding window."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.support.faults import error


def _openai(kind: str, limit: int, left: int, whole_s: float, _: float) -> str:
    """As OpenAI writes them: durations until all of it is left."""
    minutes, seconds = divmod(whole_s, 60)
    reset = f"{seconds:.3f}s" if seconds >= 1 or minutes else f"{seconds * 1000:.0f}ms"
    reset = f"{minutes:.0f}m{reset}" if minutes else reset
    values = {"limit": limit, "remaining": left, "reset": reset}
    return "".join(f"x-ratelimit-{name}-{kind}: {value}\r\n" for name, value in values.items())


def _anthropic(kind: str, limit: int, left: int, whole_s: float, _: float) -> str:
    """As Anthropic writes them: moments at which all of it is left."""
    at = datetime.now(UTC) + timedelta(seconds=math.ceil(whole_s))
    values = {"limit": limit, "remaining": left, "reset": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
    return "".join(f"anthropic-ratelimit-{kind}-{name}: {value}\r\n" for name, value in values.items())


def _ietf(kind: str, limit: int, left: int, _: float, more_s: float) -> str:
    """As many gateways write them: whole seconds until more is left."""
    if kind != "requests":
        return ""
    return f"ratelimit-limit: {limit}\r\nratelimit-remaining: {left}\r\nratelimit-reset: {math.ceil(more_s)}\r\n"


TELLS: dict[str, Callable[[str, int, int, float, float], str]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "ietf": _ietf,
}


class Window:
    """At most ``rpm`` requests and ``tpm`` tokens (0 = any number) in each ``window_s`` seconds."""

    def __init__(self, rpm: int = 0, tpm: int = 0, window_s: float = 60.0) -> None:
        self.rpm, self.tpm, self.window_s = rpm, tpm, window_s
        self.taken: deque[tuple[float, int]] = deque()
        self.tokens = 0

    def clear(self) -> None:
        """Forget what was taken in."""
        self.taken.clear()
        self.tokens = 0

    def admit(self, now: float, tokens: int) -> float:
        """Take a request in and give 0, or give the seconds until it fits: infinity where it never does."""
        while self.taken and self.taken[0][0] <= now - self.window_s:
            self.tokens -= self.taken.popleft()[1]
        wait = self._wait(now, tokens)
        if wait == 0.0:
            self.taken.append((now, tokens))
            self.tokens += tokens
        return wait

    def _wait(self, now: float, tokens: int) -> float:
        if self.tpm and tokens > self.tpm:
            return math.inf
        requests_over = len(self.taken) + 1 - self.rpm if self.rpm else 0
        tokens_over = self.tokens + tokens - self.tpm if self.tpm else 0
        if requests_over <= 0 and tokens_over <= 0:
            return 0.0
        for at, size in self.taken:
            requests_over -= 1
            tokens_over -= size
            if requests_over <= 0 and tokens_over <= 0:
                return max(at + self.window_s - now, 1e-3)
        raise AssertionError("a request that fits an empty window fits once all others left it")

    def told(self, now: float, style: str) -> str:
        """Return the header lines that tell how much is left, in a vendor's style."""
        whole_s, more_s = (
            (at + self.window_s - now for at in (self.taken[-1][0], self.taken[0][0])) if self.taken else (0.0, 0.0)
        )
        used = {"requests": (self.rpm, len(self.taken)), "tokens": (self.tpm, self.tokens)}
        return "".join(
            TELLS[style](kind, limit, limit - taken, whole_s, more_s) for kind, (limit, taken) in used.items() if limit
        )

    def refusal(self, wait: float) -> tuple[int, str, bytes]:
        """Return the answer to a request that must wait: its status, header lines and body, as OpenAI writes them."""
        if math.isinf(wait):
            return 429, "", error(f"Request too large: Limit {self.tpm} tokens", "tokens", code="rate_limit_exceeded")
        text = f"Rate limit reached. Please try again in {wait:.3f}s."
        head = f"retry-after: {math.ceil(wait)}\r\nretry-after-ms: {math.ceil(wait * 1000)}\r\n"
        return 429, head, error(text, "requests", code="rate_limit_exceeded")
