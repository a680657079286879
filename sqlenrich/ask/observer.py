"""The observer of a run's progress, and the stopper that ends a run early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sqlenrich.core.plurals import counted
from sqlenrich.spec.prices import Price

if TYPE_CHECKING:
    from sqlenrich.llm.messages import Answer


@dataclass(frozen=True)
class PlanLine:
    """The announcement of a run before its first call."""

    rows: int
    distinct: int
    answered: int
    calls: int
    model: str
    where: str
    paid: bool = True
    """Whether the calls may cost money."""
    price: Price | None = None
    """The price of the model, where it is known."""
    currency: str = ""
    at_most: bool = False
    """Whether the calls may be fewer."""

    def facts(self) -> dict[str, Any]:
        """Return the announcement as JSON has it."""
        names = ("rows", "distinct", "answered", "calls", "model", "paid")
        where = self.where.strip().removeprefix("at ") or None
        most = {"at_most": True} if self.at_most else {}
        return {**{name: getattr(self, name) for name in names}, **most, "where": where}

    def to_text(self) -> str:
        """Return the announcement as one line."""
        most = "at most " if self.at_most else ""
        return (
            f"plan: {counted(self.rows, 'row')}, {counted(self.distinct, 'distinct request')}, "
            f"{self.answered:,} already answered, {most}{counted(self.calls, 'call')} to {self.model}{self.where}"
        )


class Observer(Protocol):
    """Receives the progress of a run."""

    def plan(self, _line: PlanLine, /) -> bool:
        """Receive the announcement. Give False to end the run before the first call."""

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Receive stored answers; ``total`` is the number of requests of this run."""

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Receive how many answers a warehouse has stored since the last time, and all failures and tokens so far."""

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Receive how many of the answers so far the checks refuse, by reason; ``estimated``: by a sample of them."""

    def note(self, line: str) -> None:
        """Receive a line of text for the user."""


class NullObserver:
    """An observer that shows nothing and declines nothing."""

    def plan(self, _line: PlanLine) -> bool:
        """Return True."""
        return True

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Do nothing."""

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Do nothing."""

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Do nothing."""

    def note(self, line: str) -> None:
        """Do nothing."""


class Asking(Protocol):
    """What asks a model now."""

    def stop(self) -> None:
        """Send nothing new and end; a second call abandons what is in flight. From any thread."""

    def stopping(self) -> str:
        """Tell what ends it after a stop."""

    def waiting(self) -> str:
        """Tell what it waits for."""


class Stopper:
    """Ends a run early, from a signal handler or another thread. Its answers are kept."""

    def __init__(self) -> None:
        self.requested = False
        self.client: Asking | None = None
        """What asks a model now."""

    @property
    def asking(self) -> bool:
        """Whether a model is asked now."""
        return self.client is not None

    def stopping(self) -> str:
        """Tell what ends the run after a stop."""
        return "" if self.client is None else self.client.stopping()

    def stop(self) -> None:
        """Send no new request and end; a second call abandons the requests in flight."""
        self.requested = True
        if (client := self.client) is not None:
            client.stop()

    def watch(self, client: Asking | None) -> None:
        """Set the client to stop; None for none."""
        self.client = client
        if client is not None and self.requested:
            client.stop()
