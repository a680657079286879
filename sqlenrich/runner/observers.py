"""The observers of a run that is given none: a cell of a notebook, or else a log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.observer import Observer, PlanLine
from sqlenrich.runner.tally import Tally

if TYPE_CHECKING:
    from sqlenrich.llm.messages import Answer

LOGGER = logging.getLogger("sqlenrich")


def default_observer() -> Observer:
    """Return the observer of a run without one: in a notebook it shows the progress, elsewhere it logs."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if "IPKernelApp" not in getattr(shell, "config", ()):
        return LogObserver()
    try:
        import IPython.display  # noqa: F401
    except ImportError:
        return LogObserver()
    return NotebookObserver()


class LogObserver:
    """Logs the announcement, the notes and from time to time the progress, by the logger ``sqlenrich``."""

    every_s = 10.0
    """Seconds between two lines or pictures of the progress."""

    def __init__(self) -> None:
        self.tally = Tally()
        self._shown = time.monotonic()

    def plan(self, line: PlanLine, /) -> bool:
        """Tell the announcement. Nobody can be asked."""
        self.tally.begin(line)
        self.note(line.to_text())
        return True

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count the answers, and tell the progress if it is due."""
        self.tally.answered(answers, total)
        self._show_if_due()

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Take the refusals by reason."""
        self.tally.refused(reasons, estimated=estimated)

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Count the answers of a statement, and tell the progress if it is due."""
        self.tally.progressed(answered, total, failed, tokens_in, tokens_out)
        self._show_if_due()

    def note(self, line: str) -> None:
        """Log a line; a warning as one."""
        LOGGER.log(logging.WARNING if line.startswith("warning") else logging.INFO, "%s", line)

    def _show_if_due(self) -> None:
        now = time.monotonic()
        if now - self._shown >= self.every_s or self.tally.done == self.tally.total:
            self._shown = now
            self._show(self.tally.head(now) + self.tally.failed())

    def _show(self, state: str) -> None:
        LOGGER.info("%s", state)


class NotebookObserver(LogObserver):
    """Shows the announcement, the notes and a line of progress below a cell, which it replaces as the run goes on."""

    every_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._handle: Any = None

    def note(self, line: str) -> None:
        """Show a line."""
        self.lines.append(line)
        self._show(self.tally.head(time.monotonic()) + self.tally.failed() if self.tally.done else "")

    def _show(self, state: str) -> None:
        from IPython.display import HTML, display

        shown = HTML(f"<pre>{escape(chr(10).join((*self.lines, *filter(None, (state,)))))}</pre>")
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)
