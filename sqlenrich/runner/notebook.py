"""The progress of a run in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.observer import NullObserver, Observer, PlanLine
from sqlenrich.runner.tally import Tally

if TYPE_CHECKING:
    from sqlenrich.llm.messages import Answer

SHOW_EVERY_S = 0.5
"""Seconds between two updates of the progress."""


def default_observer() -> Observer:
    """Return the observer of a run without one: in a notebook it shows the progress, elsewhere nothing."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if "IPKernelApp" not in getattr(shell, "config", ()):
        return NullObserver()
    try:
        import IPython.display  # noqa: F401
    except ImportError:
        return NullObserver()
    return NotebookObserver()


class NotebookObserver:
    """Shows the announcement, the notes and a line of progress below a cell, which it replaces as the run goes on."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.lines: list[str] = []
        self._shown = 0.0
        self._handle: Any = None

    def plan(self, line: PlanLine, /) -> bool:
        """Show the announcement. A cell can't ask."""
        self.tally.begin(line)
        self.note(line.to_text())
        return True

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count the answers, and show the progress if it is due."""
        self.tally.answered(answers, total)
        self._show_if_due()

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Take the refusals by reason."""
        self.tally.refused(reasons, estimated=estimated)

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Count the answers of a statement, and show the progress if it is due."""
        self.tally.progressed(answered, total, failed, tokens_in, tokens_out)
        self._show_if_due()

    def note(self, line: str) -> None:
        """Show a line."""
        self.lines.append(line)
        self._show(time.monotonic())

    def _show_if_due(self) -> None:
        now = time.monotonic()
        if now - self._shown >= SHOW_EVERY_S or self.tally.done == self.tally.total:
            self._show(now)

    def _show(self, now: float) -> None:
        from IPython.display import HTML, display

        self._shown = now
        state = [self.tally.head(now) + self.tally.failed()] if self.tally.done else []
        shown = HTML(f"<pre>{escape(chr(10).join((*self.lines, *state)))}</pre>")
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)
