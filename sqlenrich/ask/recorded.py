"""The asker of answers that are there already: it stores them as those of the run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from sqlenrich.ask.model_choice import ModelChoice
from sqlenrich.ask.offline import OfflineAsker
from sqlenrich.ask.progress import Progress
from sqlenrich.llm.messages import Answer, Request
from sqlenrich.llm.model import Traits
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.store.backend import Backend
from sqlenrich.store.base import Origin

STORED_AT_ONCE = 4096


class Recorded:
    """A model that is not asked: its answers are there."""

    traits = Traits()

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self) -> None:
        """Nothing is opened."""

    async def close(self) -> None:
        """Nothing is closed."""

    async def ask(self, request: Request) -> Answer:
        """Raise: there is no request without an answer."""
        raise NotImplementedError(request.request_hash)


def recorded_choice(model: ResolvedModel) -> ModelChoice:
    """Return the choice of a model whose answers are recorded."""
    return ModelChoice(Recorded(model.name), model, 1, "", model)


@dataclass
class RecordedAsker(OfflineAsker):
    """Stores recorded answers, further attempts of answered requests too. A request without one stays pending."""

    backend: Backend
    plan: Plan
    origin: Origin
    progress: Progress
    recorded: Iterable[Answer]

    def begin(self, call: Step, pending: int) -> None:  # noqa: ARG002
        """Begin a round."""
        self.left = max(pending, 1)

    def ask(self, most: int | None) -> None:  # noqa: ARG002
        """Store all answers."""
        answers = iter(self.recorded)
        while not self.ended and (batch := list(islice(answers, STORED_AT_ONCE))):
            self.backend.append(self.plan, batch, self.origin)
            self.progress.answered(batch)
            self.calls += sum(one.calls for one in batch)
            self.retries += sum(one.calls - 1 for one in batch)
        self.left = 0
