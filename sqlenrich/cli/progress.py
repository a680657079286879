"""Progress of a run: on a terminal one line that is updated, elsewhere a log line from time to time."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from sqlenrich.ask.observer import PlanLine, Stopper
from sqlenrich.cli import terminal
from sqlenrich.cli.signals import wait_for_answers
from sqlenrich.core.errors import SqlenrichError
from sqlenrich.llm.messages import Answer
from sqlenrich.runner.tally import Tally, clock

if TYPE_CHECKING:
    from sqlenrich.quality.evaluation.evaluation import Evaluation
    from sqlenrich.runner.report import Report

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


WARNINGS = ("too many refused", "stopped")
"""How the lines of a report begin that a person should look at."""


class Progress:
    """Shows a person how a run goes, and asks for confirmation before the first call unless ``yes``.

    As a context manager it also shows, from a thread of its own, what a run without answers waits for.
    """

    asks = True
    """Whether a person may be asked."""

    def __init__(self, out: TextIO, *, yes: bool, ask: Callable[[str], bool] | None, stopper: Stopper) -> None:
        self.out, self.yes, self.ask, self.stopper = out, yes, ask, stopper
        self.live = out.isatty()
        self.coloured = self.live and terminal.coloured()
        self.drawn = self.heard = time.monotonic()
        self.tally = Tally()
        self.kept = 0
        self._phase = "reading the rows"
        self._shown = False
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sqlenrich-progress", daemon=True)

    @classmethod
    def of_command(cls, *, yes: bool, waits: bool = False) -> Self:
        """Return the progress of a command on stderr. With ``waits`` a signal waits for the requests in flight."""
        ask = terminal.confirm if terminal.can_ask() and cls.asks else None
        progress = cls(sys.stderr, yes=yes, ask=ask, stopper=Stopper())
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
            self._announce(line)
            if line.calls and line.paid and not self.yes and self.ask is not None and not self.ask("Send them?"):
                return False
            self.drawn = self.heard = time.monotonic()
            self.tally.begin(line)  # a comparison has two runs
            self._phase = "making the tables"
        return True

    def _announce(self, line: PlanLine) -> None:
        self.note(line.to_text())

    def fail(self, error: SqlenrichError) -> bool:
        """Return whether the error is told here; else the command prints it."""
        del error
        return False

    def finish(self, report: Report) -> None:
        """Print the report."""
        self.clear()
        for line in report.to_text().splitlines():
            warns = self.coloured and line.startswith(WARNINGS)
            print(f"{terminal.WARNING}{line}{terminal.PLAIN}" if warns else line, file=self.out)
        self.out.flush()

    def evaluated(self, evaluation: Evaluation) -> None:
        """Print the evaluation before a run."""
        for line in evaluation.to_text(terminal.width(most=120)).splitlines():
            self.note(line)

    def note(self, line: str) -> None:
        """Print a line."""
        with self._lock:
            self.clear()
            print(line, file=self.out, flush=True)

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count the answers, and draw or log if it is due."""
        self.tally.answered(answers, total)
        self.kept += len(answers)
        self._draw_if_due()

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Take the refusals by reason."""
        self.tally.refused(reasons, estimated=estimated)

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Count the answers of a statement, and draw or log if it is due."""
        self.tally.progressed(answered, total, failed, tokens_in, tokens_out)
        self.kept += answered
        self._draw_if_due()

    def _draw_if_due(self) -> None:
        now = self.heard = time.monotonic()
        last = self.live and self.tally.done == self.tally.total
        if now - self.drawn >= (DRAW_EVERY_S if self.live else LOG_EVERY_S) or last:
            self._show(now)

    def line(self, now: float) -> str:
        """Return the state in one line: done, rate, time left, tokens, cost, failures by code."""
        return self.tally.head(now, stopping=self.stopper.requested) + self.tally.failed()

    def quiet_line(self, now: float) -> str:
        """Return in one line what a run without answers waits for."""
        client = self.stopper.client
        if client is None:
            return f"{self._phase}, {clock(now - self.heard)}"
        done = f"{self.tally.done:,}/{self.tally.total:,} answered"
        return f"{done}, none for {clock(now - self.heard)}: {client.waiting()}"

    def clear(self) -> None:
        """Remove the line of a terminal."""
        with self._lock:
            if self._shown:
                print(terminal.CLEAR_LINE, end="", file=self.out, flush=True)
            self._shown = False

    def _show(self, now: float, waiting: str | None = None) -> None:
        """Show the state, or what a run without answers waits for."""
        self._draw(waiting if waiting is not None else self.line(now), now)

    def _draw(self, line: str, now: float) -> None:
        with self._lock:
            self.drawn = now
            if self.live:  # a line that wraps could not be cleared
                line = terminal.CLEAR_LINE + self._painted(line[: terminal.width(least=21) - 1])
            print(line, end="" if self.live else "\n", file=self.out, flush=True)
            self._shown = self.live

    def _painted(self, line: str) -> str:
        """Return a line with its failures in colour."""
        failed = self.tally.failed().removeprefix(", ")
        before, found, after = line.partition(failed) if self.coloured and failed else (line, "", "")
        return f"{before}{terminal.WARNING}{found}{terminal.PLAIN}{after}" if found else line

    def _watch(self) -> None:
        """Show what is waited for if nothing was shown for a while."""
        every_s = QUIET_DRAW_S if self.live else QUIET_LOG_S
        while not self._over.wait(max(0.05, every_s - (time.monotonic() - self.drawn))):
            with self._lock:
                now = time.monotonic()
                if now - self.drawn >= every_s and not self._over.is_set():
                    early = self.live and now - self.heard < QUIET_S
                    self._show(now, None if early and self.tally.done else self.quiet_line(now))


class JsonLog(Progress):
    """The progress of a run as JSON, one line an event. It asks nothing."""

    asks = False

    def _announce(self, line: PlanLine) -> None:
        self._event("plan", **line.facts())

    def fail(self, error: SqlenrichError) -> bool:
        """Write the error."""
        self._event("error", kind=type(error).__name__, text=str(error))
        return True

    def evaluated(self, evaluation: Evaluation) -> None:
        """Write the evaluation before a run."""
        self._event("evaluation", exit_status=evaluation.exit_status, **evaluation.to_dict())

    def note(self, line: str) -> None:
        """Write a note."""
        self._event("note", text=line)

    def finish(self, report: Report) -> None:
        """Write the report."""
        self._event("report", exit_status=report.exit_status, **report.to_dict())

    def _show(self, now: float, waiting: str | None = None) -> None:
        with self._lock:
            self.drawn = now
            self._event("progress" if waiting is None else "waiting", waiting=waiting, **self.tally.facts(now))

    def _event(self, event: str, **facts: Any) -> None:
        told = {"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts}
        with self._lock:
            print(
                json.dumps({name: value for name, value in told.items() if name != "waiting" or value}, default=float),
                file=self.out,
                flush=True,
            )
