"""Progress: on a terminal one line that changes, elsewhere a log line now and then: silence looks like a hang."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TextIO

from sqlenrich.llm.messages import Answer
from sqlenrich.runner.observer import PlanLine, Stopper

LOG_EVERY_S, DRAW_EVERY_S = 10.0, 0.2
"""Between two lines where answers come: of a log, and on a terminal."""
QUIET_LOG_S, QUIET_DRAW_S = 30.0, 1.0
"""Between two lines where nothing comes."""
QUIET_S = 3.0
"""So long nothing is strange on a terminal."""
CLEAR = "\r\x1b[K"


class Progress:
    """Tells a person how a run goes; asks before the first call on a terminal unless ``yes``.

    As a context manager it also tells, from a thread of its own, what a run waits for that answers nothing.
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
        """Print the plan line, then ask where there is somebody to answer."""
        with self._lock:  # nothing else is written while the question stands there
            self.note(line.to_text())
            if line.calls and not self.yes and self.ask is not None and not self.ask("Send them?"):
                return False
            self.started = self.drawn = self.heard = time.monotonic()
            self.done, self.total = 0, line.calls  # a comparison tells it of two runs
            self.failures.clear()
            self._phase = "making the tables"
        return True

    def note(self, line: str) -> None:
        """Print a line."""
        with self._lock:
            self.clear()
            print(line, file=self.out, flush=True)

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count, and draw or log where it is time."""
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
        """Give in one line what takes so long."""
        client = self.stopper.client
        if client is None:
            return f"{self._phase}, {_clock(now - self.heard)}"
        return f"{self.done:,}/{self.total:,} answered, none for {_clock(now - self.heard)}: {client.waiting()}"

    def clear(self) -> None:
        """Take the changing line away."""
        with self._lock:
            if self._shown:
                print(CLEAR, end="", file=self.out, flush=True)
            self._shown = False

    def _draw(self, line: str, now: float) -> None:
        with self._lock:
            self.drawn = now
            if self.live:  # a longer line could not be taken away again
                line = CLEAR + line[: max(shutil.get_terminal_size().columns - 1, 20)]
            print(line, end="" if self.live else "\n", file=self.out, flush=True)
            self._shown = self.live

    def _watch(self) -> None:
        """Where nothing was told for a while, tell what is waited for."""
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
