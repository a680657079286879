"""Compiles the steps that check stored answers by a contract. They need no prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type
from sqlenrich.plan.checked_step import CheckedStep
from sqlenrich.plan.model import engine_of
from sqlenrich.plan.plan import Step
from sqlenrich.plan.references import References
from sqlenrich.plan.relations import Relations, result_relations
from sqlenrich.plan.results_step import ResultsStep
from sqlenrich.plan.unused_names import UnusedNames
from sqlenrich.spec.contract import OutputContract

ASKED: Mapping[str, Type] = {"prompt": STRING, "request_hash": STRING}
"""The columns of ``prompts`` and ``checked`` behind those of the source."""
_VERDICT: Mapping[str, Type] = {"_error": STRING, "_error_detail": STRING, "_repaired": BOOLEAN}
_ANSWER: Mapping[str, Type] = {"response": STRING, "answer": STRING, "_attempts": BIGINT, "_model": STRING}
_ORIGIN: Mapping[str, Type] = {"_model": STRING, "_version": STRING, "_fingerprint": STRING}
_SHOWN: Mapping[str, Type] = {"response": STRING, "prompt": STRING, "_attempts": BIGINT}
_HASHED: Mapping[str, Type] = {"_request_hash": STRING}
_WHEN: Mapping[str, Type] = {"_asked_at": TIMESTAMP}


def compile_checking(
    name: str,
    contract: OutputContract,
    engine: str,
    relations: Mapping[str, str],
    *,
    tells_values: bool = False,
    types: Mapping[str, Type | None] | None = None,
) -> tuple[Step, Step, Step]:
    """Compile the steps ``checked``, ``enriched``, ``quarantine`` of an enrichment of this name.

    ``relations`` replaces the default names of tables. ``tells_values``: ``prompts`` says which value does not fit its
    declared type. ``types`` are those of kept columns, where row checks read them; None is an unknown one. Raises
    ConfigError for two relations of one name.
    """
    target = engine_of(contract, engine, asked_by_client=True)
    kept = dict.fromkeys((*contract.key, *contract.keep), STRING)
    tables = result_relations(name, target, relations)
    unused = UnusedNames((*kept, *contract.output_columns))
    known = {name: (types or {}).get(name) for name in kept}
    return Checking(contract, target, tables, kept, unused, tells_values=tells_values, known=known).steps()


@dataclass(frozen=True)
class Checking:
    """The steps that check answers. ``kept`` are the columns of the source with their types."""

    contract: OutputContract
    engine: Engine
    tables: Relations
    kept: Mapping[str, Type]
    unused: UnusedNames
    tells_values: bool = False
    known: Mapping[str, Type | None] | None = None
    """The types of the columns, as far as they are known; None: all are."""
    model: str | None = None
    """The model whose answers alone are checked; None: all answers are."""

    @property
    def recorded(self) -> dict[str, Type]:
        """The flags about prompts that the results keep."""
        return {} if self.contract.limit is None else dict.fromkeys(self.contract.limit.recorded, BOOLEAN)

    def steps(self) -> tuple[Step, Step, Step]:
        """Return ``checked``, ``enriched`` and ``quarantine``."""
        names, kept = References(self.engine), tuple(self.kept)
        shared = (self.contract, self.engine, names, kept, tuple(self.recorded), self.unused.name)
        results, checked = (
            ResultsStep(*shared),
            CheckedStep(
                *shared,
                tells_values=self.tells_values,
                types=self.kept if self.known is None else self.known,
                model=self.model,
            ),
        )
        last = {**_WHEN, **self.recorded}
        return (
            self._step("checked", {**ASKED, **_ANSWER, **_WHEN, **_VERDICT, **self.recorded}, checked.sql()),
            self._step("enriched", {**self.contract.output_columns, **_HASHED, **_ORIGIN, **last}, results.enriched()),
            self._step("quarantine", {**_VERDICT, **_SHOWN, **_HASHED, **last}, results.quarantine()),
        )

    def _step(self, name: str, columns: Mapping[str, Type], query: Sql) -> Step:
        return Step(name, "table", {**self.kept, **columns}, self.unused.rename_ctes(query), self.tables)
