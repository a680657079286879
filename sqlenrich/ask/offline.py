"""The base of askers that send nothing: what a request to a server needs is nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlenrich.ask.model_choice import ModelChoice


class OfflineAsker:
    """The part of the :class:`~.asker.Asker` contract that is the same for answers without a request."""

    calls = retries = retryable = left = 0
    ended = False

    def check(self, choice: ModelChoice) -> None:
        """There is nothing to find out."""

    @contextmanager
    def open(self, choice: ModelChoice) -> Iterator[None]:  # noqa: ARG002
        """Return a context; nobody is asked."""
        yield

    def ask_first(self, *, answered: bool) -> None:
        """Nothing goes ahead of the others."""

    def limit_shares(self) -> dict[str, float]:
        """Return no share: no limit delays them."""
        return {}

    def stop(self) -> None:
        """Store nothing more."""
        self.ended = True

    def stopping(self) -> str:
        """Return what ends it after a stop."""
        return ""

    def waiting(self) -> str:
        """Return what it waits for."""
        return ""
