"""Which models answered: what a run's answers say of the model that gave them, and the pin of the header."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from sqlenrich.core.errors import RunError
from sqlenrich.plan.plan import Plan
from sqlenrich.store import queries
from sqlenrich.store.backend import Backend

SHOWN = 3
"""The fingerprints of one model that are named."""


class Served(NamedTuple):
    """How many answers one model gave. ``model`` and ``fingerprint`` are None where the answers name none."""

    asked: str
    """The model that was asked."""
    model: str | None
    fingerprint: str | None
    answers: int

    @property
    def name(self) -> str:
        """The model that answered, as ``_model`` has it."""
        return self.model or self.asked


def served_in_run(backend: Backend, plan: Plan, run_id: str) -> tuple[Served, ...]:
    """Return the models that gave the answers of a run."""
    return served_of(backend.read(plan, queries.served(run_id)))


def served_of(rows: Iterable[Sequence[Any]]) -> tuple[Served, ...]:
    """Return the rows of the query, in the same order on every engine: by the models' names."""
    found = [Served(str(asked), model, fingerprint, int(answers)) for asked, model, fingerprint, answers in rows]
    return tuple(sorted(found, key=lambda one: (one.asked, one.model or "", one.fingerprint or "")))


def changes(served: Sequence[Served]) -> tuple[str, ...]:
    """Return a line for each model whose answers name several models, or several fingerprints of one model."""
    lines = []
    for asked in dict.fromkeys(one.asked for one in served):
        own = [one for one in served if one.asked == asked]
        if len({one.model for one in own if one.model is not None}) > 1:
            lines.append(f"warning: {asked} was answered by several models: {_counted(own)}")
    for asked, model in dict.fromkeys((one.asked, one.model) for one in served):
        own = [one for one in served if (one.asked, one.model) == (asked, model) and one.fingerprint is not None]
        if len(own) > 1:
            own.sort(key=lambda one: -one.answers)
            named = ", ".join(f"{one.fingerprint} {one.answers:,}" for one in own[:SHOWN])
            more = f", {len(own) - SHOWN:,} more" if len(own) > SHOWN else ""
            lines.append(f"{own[0].name} answered with {len(own):,} system fingerprints: {named}{more}")
    return tuple(lines)


def _counted(served: Iterable[Served]) -> str:
    counts: dict[str, int] = {}
    for one in served:
        counts[one.name] = counts.get(one.name, 0) + one.answers
    return ", ".join(f"{name} {answers:,}" for name, answers in counts.items())


@dataclass(frozen=True)
class ModelPin:
    """Which models may answer: one of a name or a pattern, or, for True, the one that answered first."""

    wanted: str | bool
    asked: str
    """The model of the prompt file. A name or a pattern is about its answers alone, not about those of ``escalate``."""
    earlier: tuple[str, ...] = ()
    """The models of the stored answers to the same requests."""

    def problem(self, served: Sequence[Served]) -> str:
        """Return what does not hold of some answers; empty where all hold."""
        if isinstance(self.wanted, str):
            own = [one for one in served if one.asked == self.asked and not fnmatchcase(one.name, self.wanted)]
            return f"pin_model is {self.wanted}, but other models answered: {_counted(own)}" if own else ""
        for asked in dict.fromkeys(one.asked for one in served):
            own = [one for one in served if one.asked == asked and one.model is not None]
            if len({one.model for one in own}) > 1:
                return f"pin_model allows one model, but several answered: {_counted(own)}"
        return ""

    def check_first(self, served: Sequence[Served]) -> None:
        """Check the first answers of a run, before the others are asked. Raises RunError."""
        own = [one for one in served if one.asked == self.asked]
        names = list(dict.fromkeys(one.name for one in own))
        if isinstance(self.wanted, str):
            wrong = [name for name in names if not fnmatchcase(name, self.wanted)]
            if wrong:
                raise RunError(
                    f"{self.asked} is answered by {', '.join(wrong)}, and pin_model is {self.wanted}: "
                    "ask the pinned model by its own name, or change pin_model"
                )
            return
        wrong = [one.model for one in own if one.model is not None and self.earlier and one.model not in self.earlier]
        if wrong:
            raise RunError(
                f"{self.asked} is answered by {wrong[0]}, the stored answers are of {', '.join(self.earlier)}: write "
                f"pin_model: {wrong[0]} and give other --responses to ask all rows again, or a pattern of both names"
            )


def pin_of(wanted: str | bool, backend: Backend, plan: Plan) -> ModelPin:
    """Return the pin of a run, once its prompts are made."""
    if isinstance(wanted, str):
        return ModelPin(wanted, plan.model)
    stored = served_in_table(backend, plan)
    return ModelPin(
        wanted,
        plan.model,
        tuple(dict.fromkeys(one.model for one in stored if one.asked == plan.model and one.model is not None)),
    )


def served_in_table(backend: Backend, plan: Plan) -> tuple[Served, ...]:
    """Return the models that gave the stored answers to the requests of the prompts, whichever run asked."""
    return served_of(backend.read(plan, queries.served()))
