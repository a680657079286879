"""The tiles of a report: a question each, with its answer, or with the command that would measure it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlenrich.core.plurals import counted
from sqlenrich.quality.report.facts import Accuracy, Answers, RunFigures, Table
from sqlenrich.quality.review.estimate import ReviewEstimate
from sqlenrich.quality.review.review import share_text
from sqlenrich.runner.drift import Drift
from sqlenrich.spec.cascade import Cascade
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.prices import money

Status = Literal["good", "bad", "told", "unmeasured"]
"""``told`` is a figure for which nobody set a limit."""
WORDS = {"good": "✓ holds", "bad": "✗ does not hold", "told": "measured, no limit set", "unmeasured": "not measured"}


@dataclass(frozen=True)
class Tile:
    """A question about a table of answers. ``command`` would measure what is not measured."""

    question: str
    status: Status
    figure: str
    detail: str = ""
    command: str = ""

    @property
    def word(self) -> str:
        """The status in words."""
        return WORDS[self.status]


@dataclass(frozen=True)
class Commands:
    """The commands that measure what is not measured yet."""

    file: str
    output: str

    def of(self, command: str, *options: str) -> str:
        """Return a command line."""
        return shlex.join(("sqlenrich", command, self.file, *options))


def tiles(
    enrichment: Enrichment,
    output: str,
    *,
    runs: Sequence[RunFigures],
    table: Table,
    answers: Sequence[Answers],
    accuracy: Accuracy | None,
    review: ReviewEstimate,
    drift: Drift | str,
) -> tuple[Tile, ...]:
    """Return the tiles in their order. ``drift`` is that of the newest run, or why it has none."""
    command = Commands(enrichment.place, output)
    return (
        _accounted(runs, table, command),
        _accurate(enrichment, accuracy, command),
        _wrong(review, command),
        _moved(enrichment, answers, drift, command),
        _refused(enrichment, table),
        *([] if enrichment.cascade is None else [_agreement(enrichment.cascade, runs, command)]),
        _cost(runs, command),
    )


def _accounted(runs: Sequence[RunFigures], table: Table, command: Commands) -> Tile:
    question = "Is every row accounted for?"
    rows_in = table.rows_in
    if rows_in is None and runs:  # the prompts were not kept: the run counted them
        told = runs[-1].number("rows_in")
        rows_in = None if told is None else int(told)
    if rows_in is None:
        again = command.of("run", "--output", command.output)
        return Tile(question, "unmeasured", counted(table.rows, "row"), "no run tells how many rows came in", again)
    detail = f"{table.accepted:,} accepted + {sum(table.refused.values()):,} refused"
    if rows_in != table.rows:
        return Tile(question, "bad", f"{table.rows:,} of {counted(rows_in, 'row')}", detail)
    pending = table.refused.get("NOT_ASKED", 0)
    if pending:
        return Tile(question, "bad", f"{counted(pending, 'row')} not asked yet", "run the same command again")
    return Tile(question, "good", counted(rows_in, "row"), detail)


def _accurate(enrichment: Enrichment, accuracy: Accuracy | None, command: Commands) -> Tile:
    question = "Are labelled rows right?"
    if accuracy is None:
        truth = () if enrichment.quality.evaluate.truth else ("--truth", "labels.csv")
        measured = command.of("evaluate", *truth, "--output", command.output)
        return Tile(question, "unmeasured", "–", "no evaluation is stored", measured)
    required = enrichment.quality.evaluate.require
    missed = [one.text for field in accuracy.fields for one in field.unmet(required)]
    known = {field.field for field in accuracy.fields}
    missed += [f"{one.text} (no labels)" for one in required if one.field not in known]
    worst = min(accuracy.fields, key=lambda field: field.share)
    low, high = worst.interval
    figure = f"{100 * worst.share:.1f} % of {worst.field}"
    detail = f"the least of {counted(len(accuracy.fields), 'field')}, {100 * low:.0f}–{100 * high:.0f} %, "
    detail += f"of {counted(worst.rows, 'labelled row')}"
    if not required:
        return Tile(question, "told", figure, detail)
    if missed:
        return Tile(question, "bad", figure, f"not met: {', '.join(missed)}")
    return Tile(question, "good", figure, f"{detail}; {counted(len(required), 'requirement')} met")


def _wrong(review: ReviewEstimate, command: Commands) -> Tile:
    question = "What share is wrong?"
    if review.whole is None or review.whole.found.estimate is None:
        measured = command.of("review", "--output", command.output, "--sheet", "review.html")
        return Tile(question, "unmeasured", "–", "nobody has judged a row", measured)
    share, interval, rows = share_text(review.whole.found)
    of = counted(review.whole.found.rows, "accepted row")
    return Tile(question, "told", share, f"{interval}: {rows} of {of}; {counted(review.requests, 'answer')} judged")


NO_PROFILE = "no profile of an earlier run is stored"


def _moved(enrichment: Enrichment, answers: Sequence[Answers], drift: Drift | str, command: Commands) -> Tile:
    question = "Have the answers moved?"
    measured = [(moved, one.field) for one in answers if (moved := one.moved) is not None]
    if not measured or isinstance(drift, str):
        needed = command.of("drift", "--output", command.output)
        return Tile(question, "unmeasured", "–", drift if isinstance(drift, str) else NO_PROFILE, needed)
    moved, field = max(measured)
    figure = f"{100 * moved:.1f} of 100 rows"
    detail = f"{field} moved most, of {counted(len(measured), 'field')}"
    detail += f"; {drift.sigma:.1f} σ for all fields together"
    if not enrichment.quality.drift.alarms:
        return Tile(question, "told", figure, detail)
    return Tile(question, "bad" if drift.alarms else "good", figure, f"{detail}; {drift.verdict().partition(':')[0]}")


def _refused(enrichment: Enrichment, table: Table) -> Tile:
    question = "How many rows are refused?"
    share = table.refused_share
    if share is None:
        return Tile(question, "unmeasured", "–", "no row was asked")
    figure, most = f"{100 * share:.2f} %", enrichment.max_quarantine
    reasons = ", ".join(f"{code} {rows:,}" for code, rows in list(table.refused.items())[:3])
    detail = reasons or "none"
    if share == 1:
        return Tile(question, "bad", "all rows", detail)
    if most is None:
        return Tile(question, "told", figure, detail)
    limit = f"max_quarantine {100 * most:g} %"
    return Tile(question, "good" if share <= most else "bad", figure, f"{limit}; {detail}")


def _agreement(cascade: Cascade, runs: Sequence[RunFigures], command: Commands) -> Tile:
    question = "Do the models of the cascade agree?"
    known = [run.told["cascade"] for run in runs if run.told.get("cascade")]
    if not known or (known[-1]["sample"] is None and cascade.threshold is None):
        again = command.of("run", "--output", command.output)
        return Tile(question, "unmeasured", "–", "no run has certified a threshold yet", again)
    facts = known[-1]
    asked = f"{facts['second']} answered {counted(facts['requests'], 'request')}"
    if facts["sample"] is None:
        return Tile(question, "unmeasured", "–", f"the header gives the threshold {facts['threshold']:g}; {asked}")
    sample = counted(facts["sample"], "sampled row") + (" of another value" if facts.get("otherwise") else "")
    if not facts["certified"]:
        figure = f"{100 * facts['equal'] / max(facts['sample'], 1):.1f} %"
        return Tile(question, "told", figure, f"of {sample}: nothing is certified; {asked}")
    bound = f"{facts['column']} up to" if facts.get("column") else "from"
    detail = f"of {sample}; at least {100 * facts['target']:g} % certified {bound} {facts['threshold']:g}; {asked}"
    return Tile(question, "good", f"{100 * facts['agreement']:.1f} %", detail)


def _cost(runs: Sequence[RunFigures], command: Commands) -> Tile:
    question = "What did it cost?"
    known = [run.spent for run in runs if run.spent is not None]
    tokens = sum(run.tokens for run in runs)
    unknown = [run for run in runs if run.spent is None]
    if not any(one.cost for one in known) and (unknown or not known):
        detail = f"{counted(tokens, 'token')}, and no prices"
        measured = command.of("report", "--output", command.output, "--prices", "prices.toml")
        return Tile(question, "unmeasured", "–", detail, measured)
    currencies = sorted({one.currency for one in known})
    sums = " + ".join(
        f"{money(sum(one.cost for one in known if one.currency == each))} {each}".strip() for each in currencies
    )
    detail = f"{counted(tokens, 'token')} in {counted(len(runs), 'run')}"
    if unknown:
        left = sum(run.tokens for run in unknown)
        detail += f"; unknown for {counted(len(unknown), 'run')} of {counted(left, 'token')}"
    if computed := [one.prices_as_of for one in known if one.prices_as_of is not None]:
        detail += f"; {counted(len(computed), 'run')} (*) by prices of {max(computed)}"
    return Tile(question, "told", sums, detail)
