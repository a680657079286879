"""What every asker tells of its answers: they are counted, some are judged, and an observer is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.answer_judge import AnswerJudge, Judgeable
from sqlenrich.ask.observer import Observer
from sqlenrich.ask.served_models import ModelPin, served_of

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.messages import Answer
    from sqlenrich.llm.throttle.budget import Budget


@dataclass
class Progress:
    """The counts of a run, and whether its answers are worth going on."""

    observer: Observer
    judge: AnswerJudge
    pin: ModelPin | None = None
    """Which models may answer; None: any."""
    budget: Budget | None = None
    """What the model that is asked may use at most."""
    total: int = 0
    """The requests of all rounds."""
    stored: int = 0
    """The answers stored."""

    def ends_run(self) -> bool:
        """Return whether the first answers are all refused; it is recorded as the cap that was reached."""
        return self.judge.ends_run(self.budget, self.total - self.stored)

    def check_first(self, named: Iterable[Sequence[Any]]) -> None:
        """Check the models of the first answers: rows of model, served model, fingerprint, count. Raises RunError."""
        if self.pin is not None:
            self.pin.check_first(served_of(named))

    def answered(self, answers: Sequence[Answer]) -> None:
        """Count answers that are stored."""
        self.stored += len(answers)
        self._judge(answers, None)
        self.observer.answered(answers, self.total)

    def stored_elsewhere(
        self,
        new: int,
        sample: Sequence[Judgeable],
        *,
        failed: int,
        all_failed: int,
        tokens_in: int,
        tokens_out: int,
    ) -> None:
        """Count answers that this process has not seen, but for a sample.

        ``new`` answers came since the last call, ``failed`` of them failures; the other counts are of the whole run.
        """
        self.stored += new
        self._judge(sample, new - failed)
        self.observer.progressed(new, self.total, all_failed, tokens_in, tokens_out)

    def _judge(self, answers: Sequence[Judgeable], of: int | None) -> None:
        self.judge.see(answers, of)
        self.observer.refused(self.judge.refusals, estimated=self.judge.sampled)
