"""``sqlenrich audit``: what was asked and answered, rebuilt from what a run stored, and what does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.exit_status import EXIT_DONE, EXIT_OVER_LIMIT
from sqlenrich.core.plurals import counted
from sqlenrich.core.result import Result
from sqlenrich.quality.opened_store import open_store
from sqlenrich.runner.place import Output, PlaceOptions
from sqlenrich.runner.setup import Setup, set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config

if TYPE_CHECKING:  # a name needs no driver
    from sqlenrich.quality.audit.problems import NotRebuilt, Problem
    from sqlenrich.quality.audit.trail import Trail
    from sqlenrich.store.duckdb.tables import StoredOutput

MEMORY_MIB = 1024
"""DuckDB's first limit of memory: all rows are read, sorted and joined, and what needs more goes to the disk."""


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """What an audit found. Of one row it has the trail; of all rows the counts."""

    name: str
    output: str
    rows: int
    answers: int
    runs: int
    problems: tuple[Problem, ...]
    """What does not hold."""
    not_rebuilt: tuple[NotRebuilt, ...] = ()
    """What can't be rebuilt, and why."""
    trails: tuple[Trail, ...] = ()
    """One for each row of the key that was asked for."""

    @property
    def holds(self) -> bool:
        """Whether nothing was found that does not hold."""
        return not self.problems

    @property
    def exit_status(self) -> int:
        """The command's exit status: 0, or 3 where something does not hold."""
        return EXIT_DONE if self.holds else EXIT_OVER_LIMIT

    def to_dict(self) -> dict[str, Any]:
        """Return the facts by name."""
        return {
            "name": self.name,
            "output": self.output,
            "rows": self.rows,
            "answers": self.answers,
            "runs": self.runs,
            "holds": self.holds,
            "problems": [problem._asdict() for problem in self.problems],
            "not_rebuilt": [one._asdict() for one in self.not_rebuilt],
            "trails": [asdict(trail) for trail in self.trails],
        }

    def to_text(self) -> str:
        """Return the audit for a terminal."""
        lines = [line for trail in self.trails for line in (*trail.lines(), "")]
        if not self.trails:
            lines.append(
                f"{self.name} in {self.output}: {counted(self.rows, 'row')}, {counted(self.answers, 'answer')} of "
                f"{counted(self.runs, 'run')}"
            )
        lines += [one.to_text() for one in self.not_rebuilt]
        lines += [problem.to_text() for problem in self.problems]
        whole = (
            "the audit holds" if self.holds else f"the audit does not hold: {counted(len(self.problems), 'problem')}"
        )
        return "\n".join([*lines, whole])


def audit(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    row: Mapping[str, Any] | None = None,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Audit:
    """Rebuild what was asked and answered from ``output``: what a run wrote, or a place that ``options`` name.

    With ``row``, a key's columns and their values, it gives the trail of each row of that key: prompt, request body as
    sent, attempts, repairs, verdict, reviews. Without, all rows are checked: counts, hashes, what was sent, the values
    as their answers give them, tokens and cost. It needs neither the input nor the prompt file as it was, and changes
    nothing. The rows of a warehouse or of Spark are copied to a temporary file of this machine and checked there.
    Raises ConfigError where there is no run, no such row, or a table of another version.
    """
    setup = set_up("audit", PlaceOptions, options, enrichment, output=output, config=config)
    from sqlenrich.quality.audit.checks import CHECKS, ledger_problems, not_rebuilt, pin_problems
    from sqlenrich.quality.audit.rebuilt_requests import make_views

    with _stored(setup, row) as (stored, key):
        if key is not None:
            return _audit_of_row(stored, stored.output, key)
        make_views(stored)
        if stored.unpublished is not None:  # the prompts and the results are not those of one run
            return Audit(stored.name, stored.output, *_counts(stored), tuple(ledger_problems(stored)), ())
        problems = (
            *(problem for check in CHECKS for problem in check(stored)),
            *pin_problems(stored, setup.enrichment.pin_model),
        )
        return Audit(stored.name, stored.output, *_counts(stored), problems, tuple(not_rebuilt(stored)))


@contextmanager
def _stored(setup: Setup, row: Mapping[str, Any] | None) -> Iterator[tuple[StoredOutput, dict[str, str] | None]]:
    """Open the tables as DuckDB reads them, a copy of those that are elsewhere; with the key of a row as texts."""
    from sqlenrich.quality.row_key import checked_key
    from sqlenrich.store.duckdb.copied import copied_output
    from sqlenrich.store.duckdb.tables import DuckDBTables, StoredOutput

    with open_store(setup, memory_mib=MEMORY_MIB) as store:
        if isinstance(store.database, DuckDBTables):
            stored = StoredOutput(store.database, store.name, store.contract, store.output)
            stored.check_version()
            yield stored, None if row is None else checked_key(store, row)
            return
        key = None if row is None else checked_key(store, row)
        with copied_output(store, key) as stored:
            stored.check_version()
            yield stored, key


def _audit_of_row(stored: StoredOutput, output: str, key: Mapping[str, str]) -> Audit:
    from sqlenrich.quality.audit.checks import answer_problems, hash_problems, ledger_problems, value_problems
    from sqlenrich.quality.audit.rebuilt_requests import make_views
    from sqlenrich.quality.audit.trail import key_test, trails

    test = key_test(stored, key)
    make_views(stored, test)
    rows, answers, runs = _counts(stored)
    if not rows:
        shown = ", ".join(f"{name}={value}" for name, value in key.items())
        raise ConfigError(f"{stored.path} has no row {shown} of {stored.name}")
    found = [*ledger_problems(stored), *hash_problems(stored), *answer_problems(stored), *value_problems(stored, test)]
    return Audit(stored.name, output, rows, answers, runs, tuple(found), trails=tuple(trails(stored)))


def _counts(stored: StoredOutput) -> tuple[int, int, int]:
    """Return the rows, the answers to their requests, and the runs that gave these."""
    from sqlenrich.quality.audit.rebuilt_requests import PROMPTS, RESPONSES

    answers, runs = stored.fetch(f"SELECT count(*), count(DISTINCT run_id) FROM {RESPONSES}")[0]
    return int(stored.one(f"SELECT count(*) FROM {PROMPTS}")), int(answers), int(runs)
