"""The contract of who asks: requests of a call go out, and their answers are stored as they come."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.plan.plan import Step

PREFLIGHT_REQUESTS = 6
"""The requests that go to an endpoint ahead of the others, at most."""


class Asker(Protocol):
    """Asks the pending requests of a call and stores the answers. It counts each in :class:`~.progress.Progress`.

    A failed request is an answer with ``call_error``. Requests may be left open: they are pending still. Use it from
    one thread; ``stop``, ``stopping`` and ``waiting`` are called from any.
    """

    @property
    def calls(self) -> int:
        """The requests that were sent, or may have been, retries included."""

    @property
    def retries(self) -> int:
        """Those of ``calls`` that repeat a request of the same round."""

    @property
    def retryable(self) -> int:
        """The answers of the round that are failures which may pass."""

    @property
    def left(self) -> int:
        """The requests of the round that were not given out yet."""

    @property
    def ended(self) -> bool:
        """Whether nothing more is asked: it was stopped, or a cap is reached."""

    def check(self, choice: ModelChoice) -> None:
        """Find out, before any table is made, whether it can ask. Raises RunError."""

    def open(self, choice: ModelChoice) -> AbstractContextManager[object]:
        """Return a context in which the model can be asked."""

    def begin(self, call: Step, pending: int) -> None:
        """Begin a round: all pending requests of a call, each once."""

    def ask_first(self, *, answered: bool) -> None:
        """Ask a few requests of the round, which tell whether the others are worth it.

        ``answered``: the model answered them before. Raises RunError where all fail for a reason that is not theirs, or
        where a model answers that ``pin_model`` does not allow.
        """

    def ask(self, most: int | None) -> None:
        """Ask further requests of the round. For None the asker chooses how many.

        ``most`` is a bound for the first call of a round. A later call may ask all that are left.
        """

    def limit_shares(self) -> dict[str, float]:
        """Return the share of the asking time in which each limit delayed requests; empty where it is unknown."""

    def stop(self) -> None:
        """Ask nothing new and end; a second call abandons what is in flight."""

    def stopping(self) -> str:
        """Return what ends it after a stop, for a person."""

    def waiting(self) -> str:
        """Return what it waits for, for a person."""
