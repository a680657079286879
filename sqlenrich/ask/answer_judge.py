"""Answers judged in Python as they arrive: what a run tells of refusals, and whether it is worth going on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sqlenrich.core import runtime
from sqlenrich.schema import evaluate_checks
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import kept_nulls
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.run_settings import STOP_AFTER_REFUSED

if TYPE_CHECKING:  # "import sqlenrich" does not load the HTTP client
    from sqlenrich.llm.throttle.budget import Budget

CAP = "stop_after_refused"
"""The name of the cap that ends a run whose answers are all refused."""
SHOWN_CHARS = 200
_REFINED = {"length": "TRUNCATED", "content_filter": "REFUSED", "refusal": "REFUSED"}
"""The reason of a refused answer, by why its model stopped."""
_STRIDE = 7919


class Judgeable(Protocol):
    """What is judged of an answer."""

    @property
    def response(self) -> str | None:
        """Its text."""

    @property
    def call_error(self) -> str | None:
        """Why there is none."""

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped."""


class StoredAnswer(NamedTuple):
    """An answer that another process stored."""

    response: str | None
    call_error: str | None
    finish_reason: str | None


@dataclass(frozen=True)
class JudgePolicy:
    """When a run ends for its refused answers, and how many answers are judged."""

    stop_after: int | None = STOP_AFTER_REFUSED
    """The run ends where none of so many first answers is accepted; None or 0: never."""
    least: int = 256
    """So many first answers are judged, ..."""
    share: float = 0.02
    """... later ones as long as that takes less than this share of the time."""
    examples: int = 2
    """The refused answers that are kept to be shown."""


class AnswerJudge:
    """Judges answers by a contract, as the step ``checked`` does after the run. For one thread."""

    def __init__(self, contract: OutputContract, policy: JudgePolicy | None = None) -> None:
        self.policy = policy or JudgePolicy()
        self.answered = self.judged = self.accepted = 0
        self.examples: list[str] = []
        self._contract = contract
        self._keep_null = kept_nulls(contract.schema)
        self._refused: Counter[str] = Counter()
        self._began, self._spent = runtime.monotonic(), 0.0

    @property
    def missing(self) -> int:
        """The answers that must be judged before more requests than these are sent; 0: one was accepted."""
        return 0 if self.accepted else max(0, (self.policy.stop_after or 0) - self.judged)

    @property
    def refusals(self) -> dict[str, int]:
        """How many answers are refused, by reason: estimated by those that were judged."""
        scale = self.answered / self.judged if self.judged else 0.0
        return {code: round(count * scale) for code, count in self._refused.most_common()}

    @property
    def sampled(self) -> bool:
        """Whether not all answers were judged."""
        return self.judged < self.answered

    def see(self, answers: Sequence[Judgeable], of: int | None = None) -> None:
        """Judge answers, or some of them; ``of`` is how many there were where these are a part of them.

        A call that failed is no answer.
        """
        given = [answer for answer in answers if answer.call_error is None]
        self.answered += len(given) if of is None else max(len(given), of)
        began = runtime.monotonic()
        first = self.judged * _STRIDE % max(1, len(given))  # the first ones of each batch would be alike
        for answer in given[first:] + given[:first]:
            now = runtime.monotonic()
            if self.judged >= self.policy.least and self._spent + now - began > self.policy.share * (now - self._began):
                break
            self._judge(answer)
        self._spent += runtime.monotonic() - began

    def ends_run(self, budget: Budget | None, left: int) -> bool:
        """Whether the run ends here, with so many requests to go; it is recorded as the cap that was reached."""
        policy = self.policy
        if not policy.stop_after or self.accepted or self.judged < policy.stop_after or left <= 0:
            return False
        if budget is not None and budget.reached is None:
            budget.reached = CAP
        return True

    def told(self) -> Iterator[str]:
        """Return what a user is told of a run that ended for its refused answers."""
        yield f"none of the first {self.judged:,} answers is accepted, for instance:"
        yield from (f"  {example}" for example in self.examples)

    def _judge(self, answer: Judgeable) -> None:
        self.judged += 1
        text = repair(answer.response, self._contract.repairs, self._keep_null)
        failure = evaluate_checks(self._contract.checks, text)
        if failure is None:
            self.accepted += 1
            return
        code = _REFINED.get(answer.finish_reason or "", failure[0])
        self._refused[code] += 1
        if len(self.examples) < self.policy.examples:
            self.examples.append(f"{code}: {failure[1]}: {shortened(answer.response)}")


def shortened(text: str | None) -> str:
    """Return an answer on one line, cut for a message."""
    line = " ".join((text or "").split())
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"
