"""Who is told how a run goes, and who may end it early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlenrich.runner.report import counted

if TYPE_CHECKING:
    from sqlenrich.llm.client import Client
    from sqlenrich.llm.messages import Answer


@dataclass(frozen=True)
class PlanLine:
    """What a run is about to do, told before the first call."""

    rows: int
    distinct: int
    answered: int
    calls: int
    model: str
    where: str

    def to_text(self) -> str:
        """Give the one line."""
        return (
            f"plan: {counted(self.rows, 'row')}, {counted(self.distinct, 'distinct request')}, "
            f"{self.answered:,} already answered, {counted(self.calls, 'call')} to {self.model}{self.where}"
        )


class Observer(Protocol):
    """Who is told how a run goes: the command line's progress, or nobody."""

    def plan(self, _line: PlanLine, /) -> bool:
        """The run is about to start; False ends it before the first call."""

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Some answers were stored; ``total`` is how many this run is to get."""

    def note(self, line: str) -> None:
        """Something worth a line."""


class Silent:
    """An observer that says nothing and agrees to everything."""

    def plan(self, _line: PlanLine) -> bool:
        """Agree."""
        return True

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Say nothing."""

    def note(self, line: str) -> None:
        """Say nothing."""


class Stopper:
    """A way to end a run early from a signal handler or another thread: what was answered is kept."""

    def __init__(self) -> None:
        self.requested = False
        self.client: Client | None = None
        """Who asks a model now."""

    @property
    def asking(self) -> bool:
        """Whether a model is asked now."""
        return self.client is not None

    def stop(self) -> None:
        """Ask nothing new and end; a second call abandons what is in flight."""
        self.requested = True
        if (client := self.client) is not None:
            client.stop()

    def watch(self, client: Client | None) -> None:
        """Tell which client to stop."""
        self.client = client
        if client is not None and self.requested:
            client.stop()
