"""Repairs that are off and would accept refused answers: they cost nothing, and asking again does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp, select

from sqlenrich.core.plurals import counted
from sqlenrich.core.sql import literal
from sqlenrich.plan.relations import symbol
from sqlenrich.schema import evaluate_checks
from sqlenrich.schema.checks.json_text import repair
from sqlenrich.schema.checks.repairs import REPAIRS, kept_nulls
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.enrichment import Enrichment

if TYPE_CHECKING:
    from sqlenrich.plan.plan import Plan
    from sqlenrich.store.backend import Backend

TRIED = 1_000
"""The refused rows that are tried, at most."""
WITHOUT_TEXT = ("NO_INPUT", "BAD_PROMPT", "NOT_ASKED", "CALL_ERROR", "UNREADABLE", "NO_RESPONSE")
"""The reasons of rows whose answer no repair could mend."""


@dataclass(frozen=True)
class RepairAdvice:
    """Which repairs would accept refused rows, and how many of those that were tried."""

    place: str
    """The prompt file."""
    declared: tuple[str, ...]
    rows: Mapping[tuple[str, ...], int]
    tried: int
    refused: int
    """The refused rows with an answer."""

    def lines(self, *, stored: bool = True) -> list[str]:
        """Return a line for each repair, or for repairs that are needed together; ``stored``: the answers are kept."""
        then = ", then run again; stored answers are not paid twice" if stored else ""
        of = f"{self.tried:,} of {counted(self.refused, 'refused row')} tried"
        if self.tried == self.refused:
            of = counted(self.refused, "refused row")
        told = []
        for repairs, rows in self.rows.items():
            what = f"the repair {repairs[0]} is" if len(repairs) == 1 else f"the repairs {' and '.join(repairs)} are"
            wanted = ", ".join(name for name in REPAIRS if name in (*self.declared, *repairs))
            told.append(
                f"{what} off and would accept {rows:,} of {of}: write repairs: [{wanted}] in {self.place}{then}"
            )
        return told


def repair_advice(
    contract: OutputContract, place: str, texts: Iterable[str | None], refused: int | None = None
) -> RepairAdvice:
    """Try the repairs that are off on refused answers, one after another, then all together.

    ``refused`` is the number of refused rows, where the texts are those of a part of them.
    """
    off = [name for name in REPAIRS if name not in contract.repairs]
    sets = [(name,) for name in off] + ([tuple(off)] if len(off) > 1 else [])
    rows: Counter[tuple[str, ...]] = Counter()
    tried = 0
    if contract.embedding is None:
        keep_null = kept_nulls(contract.schema)
        for text in texts:
            tried += 1
            for added in sets:
                repaired = repair(text, (*contract.repairs, *added), keep_null)
                if repaired != text and evaluate_checks(contract.checks, repaired) is None:
                    rows[_needed(contract, text, added, keep_null)] += 1
                    break
    found = dict(rows.most_common())
    return RepairAdvice(place, contract.repairs, found, tried, tried if refused is None else refused)


def _needed(
    contract: OutputContract, text: str | None, added: tuple[str, ...], keep_null: frozenset[str]
) -> tuple[str, ...]:
    """Return those of some repairs that a text needs."""
    for name in added if len(added) > 1 else ():
        fewer = tuple(one for one in added if one != name)
        if evaluate_checks(contract.checks, repair(text, (*contract.repairs, *fewer), keep_null)) is None:
            return _needed(contract, text, fewer, keep_null)
    return added


def advice_of(
    backend: Backend, plan: Plan, enrichment: Enrichment, reasons: Mapping[str, int] | None = None
) -> RepairAdvice | None:
    """Return the advice for the refused rows in ``checked``; ``reasons`` counts them, where that is known."""
    if enrichment.embedding is not None:
        return None
    has_text = exp.Not(this=exp.In(this=exp.column("_error"), expressions=[literal(code) for code in WITHOUT_TEXT]))
    rows = select().from_(symbol("checked")).where("_error IS NOT NULL", has_text)
    if reasons is None:
        refused = int(backend.read(plan, rows.select("COUNT(*)"))[0][0])
    else:
        refused = sum(count for code, count in reasons.items() if code not in WITHOUT_TEXT)
    if not refused:
        return None
    found: Sequence[tuple[str | None]] = backend.read(plan, rows.select("response").limit(TRIED))
    return repair_advice(enrichment, enrichment.place, (text for (text,) in found), refused)
