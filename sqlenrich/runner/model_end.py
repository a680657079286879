"""Until when a vendor serves a model: what the warehouse tells, else what its pages told."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import RunError
from sqlenrich.core.printer import print_sql

_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class ModelEnd:
    """What is known of a model's life."""

    model: str
    status: str
    """The vendor's word for its stage; empty where the warehouse tells none."""
    day: str
    """The day on which it may end, ``YYYY-MM-DD``; empty for an unknown one."""
    source: str
    fact: str
    """The fact of the engine by which it is known."""

    @property
    def has_ended(self) -> bool:
        """Whether the day has come."""
        return self.day != "" and date.fromisoformat(self.day) <= datetime.now(UTC).date()

    def to_text(self) -> str:
        """Return it as one sentence."""
        status = f" is {self.status}" if self.status else ""
        end = f" may end on {self.day}" if self.day else ""
        return f"{self.model}{' and'.join(part for part in (status, end) if part)} ({self.source})"


def model_end(engine: Engine, model: str, rows: Callable[[str], Sequence[Sequence[Any]]]) -> ModelEnd | None:
    """Return what the warehouse tells of a model, else the day in the engine's facts; None where neither is known."""
    if engine.models is not None:
        try:
            listed = rows(print_sql(engine, engine.models(), pretty=False))
        except RunError:  # a role may not list them
            listed = []
        for name, status, *more in listed:
            if str(name).lower() == model.lower():
                days = [found[0] for value in more if (found := _DAY.match(str(value)))]
                return ModelEnd(model, str(status), days[-1] if days else "", "told by the warehouse", "models")
    known = engine.end_of(model)
    return None if known is None else ModelEnd(model, "", known.value, f"as of {known.read_on}", "ends")
