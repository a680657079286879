"""The rounds of a run, the same for every asker: preflight, repeats, stops and counts."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.ask.asker import Asker
from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.observer import Stopper
from sqlenrich.ask.progress import Progress
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.store.backend import Backend


@dataclass
class Rounds:
    """Asks the pending requests of calls by one asker. A round asks each of them once."""

    asker: Asker
    backend: Backend
    plan: Plan
    stopper: Stopper
    progress: Progress
    repeats: int = 0
    """The requests of further rounds: each repeats one that failed."""

    @property
    def calls(self) -> int:
        """The requests sent, retries included."""
        return self.asker.calls

    @property
    def retries(self) -> int:
        """The requests sent again."""
        return self.asker.retries + self.repeats

    def ask(self, choice: ModelChoice, call: Step, pending: int, *, repeat: bool, answered: bool = False) -> None:
        """Ask the pending relation; with ``repeat`` again while a failure is pending that may pass.

        ``answered``: the model answered these requests before.
        """
        asker = self.asker
        self.progress.budget = choice.budget
        if choice.budget is not None and choice.price is not None:
            choice.budget.price = choice.price.exact  # models of one run may share a budget
        self.stopper.watch(asker)
        try:
            with asker.open(choice):
                self._round(call, pending, preflight=answered or not self.progress.stored, answered=answered)
                while repeat and asker.retryable and not asker.ended:
                    if not (pending := self.backend.refresh(self.plan, call, None, ordered=choice.prefix_order)):
                        break
                    before = asker.calls - asker.retries
                    self._round(call, pending, preflight=False)
                    self.repeats += asker.calls - asker.retries - before
        finally:
            self.stopper.watch(None)

    def _round(self, call: Step, pending: int, *, preflight: bool, answered: bool = False) -> None:
        asker, judge = self.asker, self.progress.judge
        self.progress.total += pending
        asker.begin(call, pending)
        if preflight and not asker.ended:
            asker.ask_first(answered=answered)
        while asker.left and not asker.ended:
            asker.ask(judge.missing or None)  # no more is paid for until one answer is accepted
