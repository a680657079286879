"""The steps ``enriched`` and ``quarantine``: the rows of ``checked``, split by its one column ``_error``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql, literal
from sqlenrich.plan.references import References
from sqlenrich.spec.contract import OutputContract

CTE_NAMES = ("accepted",)
"""The names of the common table expressions inside the steps."""
OWN_COLUMNS = ("_request_hash", "_model", "_version", "_fingerprint", "_asked_at", "_truncated")
"""The columns of accepted rows beside those of the source and the output; the last one only with a limit that cuts."""


@dataclass(frozen=True)
class ResultsStep:
    """What the steps are made from. ``kept`` are columns of the source, ``recorded`` flags about the prompts."""

    contract: OutputContract
    engine: Engine
    names: References
    kept: tuple[str, ...]
    recorded: tuple[str, ...]
    unused_name: Callable[[str], str]
    """Gives a name that no column of the result tables has."""

    def enriched(self) -> Sql:
        """Return the SELECT of the accepted rows, one typed column per output property."""
        json, col, named, doc = self.engine.json, self.names.col, self.names.named, self.unused_name("doc")
        readings, get = self.contract.readings, json.get
        parsed = json.accepted(col("answer"))
        if json.members is not None:
            parsed, get = json.members(parsed, tuple(readings)), json.get_member or get
        accepted = exp.select(exp.Star(), named(parsed, doc), copy=False)
        accepted = accepted.from_(self.names.table("checked"), copy=False)
        accepted = accepted.where(exp.Is(this=col("_error"), expression=exp.Null()), copy=False)
        outputs = [named(self.engine.typed_column(get(col(doc), name), kind), name) for name, kind in readings.items()]
        return (
            exp.select(
                *(col(name) for name in self.kept),
                *outputs,
                named(col("request_hash"), "_request_hash"),
                col("_model"),
                named(self.names.text(self.contract.version), "_version"),
                named(literal(self.contract.fingerprint), "_fingerprint"),
                col("_asked_at"),
                *(col(name) for name in self.recorded),
                copy=False,
            )
            .from_(exp.to_table("accepted"), copy=False)
            .with_("accepted", as_=accepted, copy=False)
        )

    def quarantine(self) -> Sql:
        """Return the SELECT of the refused rows, each with its error code."""
        col = self.names.col
        names = (*self.kept, "_error", "_error_detail", "_repaired", "response", "prompt", "_attempts")
        return (
            exp.select(
                *(col(name) for name in names),
                self.names.named(col("request_hash"), "_request_hash"),
                col("_asked_at"),
                *(col(name) for name in self.recorded),
                copy=False,
            )
            .from_(self.names.table("checked"), copy=False)
            .where(exp.Not(this=exp.Is(this=col("_error"), expression=exp.Null())), copy=False)
        )
