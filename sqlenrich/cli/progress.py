"""Progress of a run: on a terminal one line that is updated, elsewhere a log line from time to time."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TextIO

from sqlenrich.cli import terminal
from sqlenrich.cli.signals import wait_for_answers
from sqlenrich.llm.messages import Answer
from sqlenrich.runner.observer import PlanLine, Stopper

LOG_EVERY_S = 10.0
"""Seconds between two lines of a log while answers arrive."""
DRAW_EVERY_S = 0.2
"""Seconds between two updates of a terminal's line while answers arrive."""
QUIET_LOG_S = 30.0
"""Seconds between two lines of a log while no answer arrives."""
QUIET_DRAW_S = 1.0
"""Seconds between two updates of a terminal's line while no answer arrives."""
QUIET_S = 3.0
"""Seconds without an answer after which a terminal's line names what the run waits for."""


class Progress:
    """Shows a person how a run goes, and asks for confirmation before the first call unless ``yes``.

    As a context manager it also shows, from a thread of its own, what a run without answers waits for.
    """

    def __init__(self, out: TextIO, *, yes: bool, ask: Callable[[str], bool] | None, stopper: Stopper) -> None:
        self.out, self.yes, self.ask, self.stopper = out, yes, ask, stopper
        self.live = out.isatty()
        self.started = self.drawn = self.heard = time.monotonic()
        self.done = self.total = self.kept = 0
        self.failures: Counter[str] = Counter()
        self._phase = "reading the rows"
        self._shown = False
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sqlenrich-progress", daemon=True)

    @classmethod
    def of_command(cls, *, yes: bool, waits: bool = False) -> Self:
        """Give the progress of a command on stderr. With ``waits`` a signal waits for the requests in flight."""
        progress = cls(sys.stderr, yes=yes, ask=terminal.confirm if terminal.can_ask() else None, stopper=Stopper())
        if waits:
            wait_for_answers(progress.stopper, lambda: progress.kept > 0)
        return progress

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self.clear()

    def plan(self, line: PlanLine, /) -> bool:
        """Print the plan line, then ask for confirmation if a person can answer."""
        with self._lock:  # nothing else is written while the question is open
            self.note(line.to_text())
            if line.calls and not self.yes and self.ask is not None and not self.ask("Send them?"):
                return False
            self.started = self.drawn = self.heard = time.monotonic()
            self.done, self.total = 0, line.calls  # a comparison has two runs
            self.failures.clear()
            self._phase = "making the tables"
        return True

    def note(self, line: str) -> None:
        """Print a line."""
        with self._lock:
            self.clear()
            print(line, file=self.out, flush=True)

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count the answers, and draw or log if it is due."""
        self.total = total
        self.done += len(answers)
        self.kept += len(answers)
        for answer in answers:
            if answer.call_error is not None:
                self.failures["CALL_ERROR"] += 1
            elif not (answer.response or "").strip():
                self.failures["NO_RESPONSE"] += 1
            elif answer.finish_reason == "length":
                self.failures["TRUNCATED"] += 1
            elif answer.finish_reason in ("refusal", "content_filter"):
                self.failures["REFUSED"] += 1
        now = self.heard = time.monotonic()
        if now - self.drawn >= (DRAW_EVERY_S if self.live else LOG_EVERY_S) or (self.live and self.done == total):
            self._draw(self.line(now), now)

    def line(self, now: float) -> str:
        """Give the state in one line: done, rate, time left, failures by code."""
        rate = self.done / max(now - self.started, 1e-9)
        shown = f"{rate:,.0f}/s" if rate >= 1 or not rate else f"{60 * rate:,.0f}/min"
        left = f", {_clock((self.total - self.done) / rate)} left" if rate else ""
        failures = "".join(f", {count:,} {code}" for code, count in self.failures.most_common())
        return f"{self.done:,}/{self.total:,} answered, {shown}{left}{failures}"

    def quiet_line(self, now: float) -> str:
        """Give in one line what a run without answers waits for."""
        client = self.stopper.client
        if client is None:
            return f"{self._phase}, {_clock(now - self.heard)}"
        return f"{self.done:,}/{self.total:,} answered, none for {_clock(now - self.heard)}: {client.waiting()}"

    def clear(self) -> None:
        """Remove the line of a terminal."""
        with self._lock:
            if self._shown:
                print(terminal.CLEAR_LINE, end="", file=self.out, flush=True)
            self._shown = False

    def _draw(self, line: str, now: float) -> None:
        with self._lock:
            self.drawn = now
            if self.live:  # a line that wraps could not be cleared
                line = terminal.CLEAR_LINE + line[: terminal.width(least=21) - 1]
            print(line, end="" if self.live else "\n", file=self.out, flush=True)
            self._shown = self.live

    def _watch(self) -> None:
        """Show what is waited for if nothing was shown for a while."""
        every_s = QUIET_DRAW_S if self.live else QUIET_LOG_S
        while not self._over.wait(max(0.05, every_s - (time.monotonic() - self.drawn))):
            with self._lock:
                now = time.monotonic()
                if now - self.drawn >= every_s and not self._over.is_set():
                    early = self.live and now - self.heard < QUIET_S
                    self._draw(self.line(now) if early and self.done else self.quiet_line(now), now)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
