"""Progress on a terminal as one line that changes, elsewhere as a log line every 10 seconds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TextIO

from .llm.messages import Answer
from .run import PlanLine

LOG_EVERY_S = 10.0
DRAW_EVERY_S = 0.2


class Progress:
    """Tells a person how a run goes; asks before the first call on a terminal unless ``yes``."""

    def __init__(self, out: TextIO, *, yes: bool, ask: Callable[[str], bool] | None) -> None:
        self.out, self.yes, self.ask = out, yes, ask
        self.live = out.isatty()
        self.started = self.drawn = 0.0
        self.done = 0
        self.failures: Counter[str] = Counter()

    def plan(self, line: PlanLine, /) -> bool:
        """Print the plan line, then ask where there is somebody to answer."""
        self.clear()
        print(line.to_text(), file=self.out)
        if line.calls and not self.yes and self.ask is not None and not self.ask("Send them?"):
            return False
        self.started = self.drawn = time.monotonic()
        self.done = 0  # a comparison tells it of two runs
        self.failures.clear()
        return True

    def note(self, line: str) -> None:
        """Print a line."""
        self.clear()
        print(line, file=self.out)

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count, and draw or log where it is time."""
        self.done += len(answers)
        for answer in answers:
            if answer.call_error is not None:
                self.failures["CALL_ERROR"] += 1
            elif not (answer.response or "").strip():
                self.failures["NO_RESPONSE"] += 1
            elif answer.finish_reason == "length":
                self.failures["TRUNCATED"] += 1
            elif answer.finish_reason in ("refusal", "content_filter"):
                self.failures["REFUSED"] += 1
        now = time.monotonic()
        if now - self.drawn < (DRAW_EVERY_S if self.live else LOG_EVERY_S) and not (self.live and self.done == total):
            return
        self.drawn = now
        line = self.line(total, now)
        if self.live:
            print(f"\r\x1b[K{line}", end="", file=self.out, flush=True)
        else:
            print(line, file=self.out, flush=True)

    def line(self, total: int, now: float) -> str:
        """Give the state in one line: done, rate, time left, failures by code."""
        rate = self.done / max(now - self.started, 1e-9)
        left = (total - self.done) / rate if rate else 0.0
        failures = "".join(f", {count:,} {code}" for code, count in self.failures.most_common())
        return f"{self.done:,}/{total:,} answered, {rate:,.0f}/s, {_clock(left)} left{failures}"

    def clear(self) -> None:
        """Take the changing line away."""
        if self.live and self.done:
            print("\r\x1b[K", end="", file=self.out, flush=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
