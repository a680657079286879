"""``sqlenrich forget``: the texts of chosen rows are deleted from the database of a run and from its output files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.quality.audit import checked_key
from sqlenrich.quality.database_copy import COPY, copied
from sqlenrich.quality.forgotten_rows import LINES, ForgottenRows
from sqlenrich.quality.stored_output import FORGOTTEN, FORGOTTEN_COLUMNS, StoredOutput, check_version, read_ledger
from sqlenrich.runner.backends.duckdb.database import Database, Policy, quote
from sqlenrich.runner.backends.duckdb.files import Outputs, check_replaceable, outputs_of, quarantine_file, write_rows
from sqlenrich.runner.report import counted
from sqlenrich.spec.enrichment import Enrichment

MEMORY_MIB = 4096
"""The memory of the copy; what does not fit is on the disk until the end."""


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
    outputs, day = outputs_of(output), _checked_choice(row, where, before)
    if not outputs.database.is_file():
        raise ConfigError(f"{outputs}: no run has written it")
    with Database(outputs.database, Policy(memory_mib=MEMORY_MIB)) as database:
        stored = StoredOutput(
            database.db, outputs.database, enrichment.name, read_ledger(database.db, outputs.database)
        )
        check_version(stored)
        chosen = ForgottenRows(stored)
        if row is not None:
            chosen.choose_by_key(checked_key(stored, row))
        elif where is not None:
            chosen.choose_by_condition(where)
        else:
            assert day is not None
            chosen.choose_before(day)
        chosen.make_lines()
        counts = chosen.counts()
        if row is not None and not counts["rows"]:
            shown = ", ".join(f"{name}={value}" for name, value in row.items())
            raise ConfigError(f"{stored.path} has no row {shown} of {stored.name}")
        files, notes = output_files(stored, outputs)
        result = Forgotten(
            stored.name,
            str(outputs),
            counts["rows"],
            counts["answers"],
            counts["shared"],
            counts["orphans"],
            notes=(*notes, *_others(stored.path)),
            dry_run=dry_run,
        )
        if dry_run or not (counts["rows"] or counts["answers"]):
            return result
        remaining: dict[str, Callable[[str], str]] = {}
        for table in chosen.changed():
            remaining[table.place] = partial(chosen.remaining, table)
        with copied(database, remaining):
            _write_lines(stored)
            for file in files:  # before the database: a command that was killed finds the rows again
                _write_file(stored, file)
    return replace(result, files=tuple(map(str, files)))


def _checked_choice(row: Mapping[str, Any] | None, where: str | None, before: date | str | None) -> date | None:
    """Give the day of ``before``. Raises ConfigError unless exactly one choice is given."""
    if sum(one is not None for one in (row, where, before)) != 1:
        raise ConfigError("which rows? Give one of --row, --where and --before")
    if before is None or isinstance(before, date):
        return before
    try:
        return date.fromisoformat(before)
    except ValueError:
        raise ConfigError(f'"{before}" is no day: write it as 2026-11-30') from None


def output_files(stored: StoredOutput, outputs: Outputs) -> tuple[list[Path], list[str]]:
    """Give the files that hold rows of the results, and a note for each that no run wrote as it is now."""
    folder, notes = stored.path.resolve().parent, []
    named = [path.resolve() for path in outputs.written]
    for line in stored.lines.values():
        if line.name == stored.name and line.snapshot is not None:
            named += [(folder / file).resolve() for file in line.snapshot.outputs]
    found = []
    for path in dict.fromkeys(named):
        if not path.is_file():
            continue
        try:
            check_replaceable(path)
        except ConfigError:
            notes.append(f"{path} was written by a run and is another file now: it stays as it is")
        else:
            found.append(path)
    return found, notes


def _write_file(stored: StoredOutput, file: Path) -> None:
    """Write the rows that stay to an output file, and remove what a killed export left beside it."""
    refused = file.stem.endswith("_quarantine") and quarantine_file(_accepted_file(file)) == file
    name = f"{stored.name}_quarantine" if refused else stored.name
    query = f"SELECT * FROM {COPY}.main.{quote(name)}"
    kinds = {str(row[0]): str(row[1]) for row in stored.rows(f"DESCRIBE {query}")}
    nested = [column for column, kind in kinds.items() if kind.endswith("]") or kind.startswith("STRUCT")]
    for left in file.parent.glob(f".{file.name}.????????.tmp"):
        left.unlink(missing_ok=True)

    def execute(sql: str) -> None:
        stored.db.execute(sql)

    write_rows(execute, query, file, nested)


def _accepted_file(file: Path) -> Path:
    return file.with_name(f"{file.stem.removesuffix('_quarantine')}{file.suffix}")


def _write_lines(stored: StoredOutput) -> None:
    """Write into the copy what was forgotten."""
    kinds = ", ".join(f"{name} {kind}" for name, kind in FORGOTTEN_COLUMNS.items())
    stored.db.execute(f"CREATE TABLE IF NOT EXISTS {COPY}.main.{FORGOTTEN} ({kinds})")
    stored.db.execute(f"INSERT INTO {COPY}.main.{FORGOTTEN} FROM {LINES}")


def _others(database: Path) -> list[str]:
    """Give a note for each other database of sqlenrich beside this one: it may hold the same texts."""
    folder = database.resolve().parent
    hidden = folder if folder.name == ".sqlenrich" else folder / ".sqlenrich"
    found = sorted(path for path in hidden.glob("*.duckdb") if path.resolve() != database.resolve())
    return [f"{path} may hold answers about the same rows: it stays as it is" for path in found]
