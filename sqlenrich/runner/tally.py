"""What a run has done so far, as a line for people and as facts for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlenrich.ask.observer import PlanLine
from sqlenrich.core import runtime
from sqlenrich.spec.prices import Price, money

if TYPE_CHECKING:
    from sqlenrich.llm.messages import Answer

SURE_ANSWERS, SURE_S = 20, 10.0
"""A time left is told after so many answers, or after so many seconds: the first answers say little of the rate."""


class Tally:
    """Counts the answers of a run: how many, how fast, their tokens and cost, and the failures that they show."""

    def __init__(self) -> None:
        self.started = runtime.monotonic()
        self.done = self.total = 0
        self.tokens_in = self.tokens_cached = self.tokens_out = 0
        self.uncounted = False
        """Whether an answer has no token counts: the cost is then unknown."""
        self.failures: Counter[str] = Counter()
        self._estimated = False
        self.price: Price | None = None
        self.currency = ""

    def begin(self, line: PlanLine) -> None:
        """Begin to count after the announcement of a run."""
        self.__init__()  # type: ignore[misc]
        self.total, self.price, self.currency = line.calls, line.price, line.currency

    def answered(self, answers: Sequence[Answer], total: int) -> None:
        """Count some answers."""
        self.total = total
        self.done += len(answers)
        for answer in answers:
            self.tokens_in += answer.tokens_in or 0
            self.tokens_cached += answer.tokens_cached or 0
            self.tokens_out += answer.tokens_out or 0
            counted = answer.tokens_in is not None and answer.tokens_out is not None
            self.uncounted |= answer.call_error is None and not counted
            self.failures["CALL_ERROR"] += answer.call_error is not None

    def progressed(self, answered: int, total: int, failed: int, tokens_in: int, tokens_out: int) -> None:
        """Count the answers of a statement; failures and tokens are those of the run so far."""
        self.total, self.tokens_in, self.tokens_out = total, tokens_in, tokens_out
        self.done += answered
        if failed:
            self.failures["CALL_ERROR"] = failed

    def refused(self, reasons: Mapping[str, int], *, estimated: bool) -> None:
        """Take the refusals of all answers so far, by reason."""
        calls = self.failures["CALL_ERROR"]
        self.failures = Counter(reasons) + Counter({"CALL_ERROR": calls})
        self._estimated = estimated

    @property
    def cost(self) -> float | None:
        """The cost so far; None where the model has no price, and where an answer has no token counts."""
        if self.price is None or self.uncounted:
            return None
        return self.price.cost(self.tokens_in, self.tokens_cached, self.tokens_out)

    def rate(self, now: float) -> float:
        """Return the answers per second."""
        return self.done / max(now - self.started, 1e-9)

    def head(self, now: float, *, stopping: bool = False) -> str:
        """Return the state in words: done, rate, time left, tokens, cost."""
        rate = self.rate(now)
        parts = [f"{self.done:,}/{self.total:,} answered"]
        parts.append(f"{rate:,.0f}/s" if rate >= 1 or not rate else f"{60 * rate:,.0f}/min")
        if stopping:
            parts.append("stopping")
        elif rate and (self.done >= SURE_ANSWERS or now - self.started >= SURE_S):
            parts.append(f"{clock((self.total - self.done) / rate)} left")
        if self.tokens_in or self.tokens_out:
            parts.append(f"{self.tokens_in:,} tokens in, {self.tokens_out:,} out")
        if (cost := self.cost) is not None:
            parts.append(f"{money(cost)} {self.currency}")
        return ", ".join(parts)

    def failed(self) -> str:
        """Return the failures by code, as the end of a line."""
        return "".join(
            f", {'about ' if self._estimated and code != 'CALL_ERROR' else ''}{count:,} {code}"
            for code, count in self.failures.most_common()
            if count
        )

    def facts(self, now: float) -> dict[str, Any]:
        """Return the state as JSON has it. What is unknown is None."""
        rate = self.rate(now)
        return {
            "answered": self.done,
            "total": self.total,
            "per_second": round(rate, 3),
            "seconds_left": round((self.total - self.done) / rate, 1) if rate else None,
            "tokens_in": self.tokens_in,
            "tokens_cached": self.tokens_cached,
            "tokens_out": self.tokens_out,
            "cost": self.cost,
            "currency": self.currency or None,
            "failures": dict(+self.failures),
        }


def clock(seconds: float) -> str:
    """Return a time as minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
