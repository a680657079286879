"""``sqlenrich forget``: the texts of chosen rows are deleted from the database of a run and from its output files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.report import counted
from sqlenrich.spec.enrichment import Enrichment


@dataclass(frozen=True)
class Forgotten:
    """What was deleted, and what stays."""

    name: str
    output: str
    rows: int
    answers: int
    shared: int
    """Requests of forgotten rows that other rows have too: their answers stay."""
    orphans: int
    """Answers that stay though no row has them any more: of an earlier input or prompt."""
    files: tuple[str, ...] = ()
    """The output files that were written again."""
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    def to_json(self) -> str:
        """Give the facts as one line of JSON."""
        return json.dumps(asdict(self))

    def to_text(self) -> str:
        """Give the facts for a terminal."""
        done = "to forget" if self.dry_run else "forgotten"
        lines = [f"{counted(self.rows, 'row')} and {counted(self.answers, 'answer')} of {self.name} {done}"]
        if self.shared:
            what = counted(self.shared, "request")
            lines.append(f"{what} stays with its answers: other rows have the same text" if self.shared == 1 else
                         f"{what} stay with their answers: other rows have the same text")  # fmt: skip
        if self.orphans:
            lines.append(
                f"{counted(self.orphans, 'answer')} of rows that an earlier input or prompt had cannot be told apart: "
                "--before DAY forgets them"
            )
        lines += [f"  -> {file}" for file in ((self.output,) if self.rows or self.answers else ())]
        lines += [f"  -> {file}" for file in self.files if file != self.output]
        return "\n".join([*lines, *self.notes])


def forget(
    enrichment: Enrichment,
    *,
    output: str | Path | Sequence[str | Path],
    row: Mapping[str, Any] | None = None,
    where: str | None = None,
    before: date | str | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Delete the texts of rows from ``output``: the database of a run, and the files that its runs wrote.

    The rows are those of the key ``row``; those that meet ``where``, a condition in DuckDB's SQL over the tables of
    results; or those whose last answer came ``before`` a day in UTC, with all answers of that age. An answer that
    other rows share stays. The database is copied to a new file that takes its place, so that no deleted byte is left
    in it; killed at any moment it is the old file or the new one. Run it again after it was killed. The input is not
    changed: a run over it asks its rows anew. Raises ConfigError where there is no run, no such row, or a table of
    another version, and RunError where another process has the database open.
    """
    from sqlenrich.quality.forgetting import forget_rows

    if sum(choice is not None for choice in (row, where, before)) != 1:
        raise ConfigError("which rows? Give one of --row, --where and --before")
    return forget_rows(enrichment.name, output, row=row, where=where, before=_day(before), dry_run=dry_run)


def _day(written: date | str | None) -> date | None:
    """Give a day. Raises ConfigError for a text that is none."""
    if written is None or isinstance(written, date):
        return written
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise ConfigError(f'"{written}" is no day: write it as 2026-11-30') from None
