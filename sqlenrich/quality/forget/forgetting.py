"""How rows are forgotten: chosen, left out of a copy of the database and of the output files, and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.quality.forget.database_copy import COPY, copied
from sqlenrich.quality.forget.forgotten import Forgotten
from sqlenrich.quality.forget.forgotten_rows import LEVELS, LINES, ForgottenRows
from sqlenrich.quality.row_key import checked_key
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.answer_journal import TABLE, without_journal
from sqlenrich.store.duckdb.database import Database, Policy, quote, text
from sqlenrich.store.duckdb.files import Outputs, check_replaceable, outputs_of, quarantine_file, write_rows
from sqlenrich.store.duckdb.tables import DuckDBTables, StoredOutput, forgotten_types
from sqlenrich.store.forgotten_lines import FORGOTTEN

MEMORY_MIB = 4096
"""The memory of the copy; what does not fit is on the disk until the end."""


def forget_rows(
    enrichment: Enrichment,
    output: str | Path | Sequence[str | Path],
    *,
    row: Mapping[str, Any] | None = None,
    where: str | None = None,
    before: date | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Forget the rows of one choice; see :func:`.forget.forget`."""
    outputs = outputs_of(output)
    if not outputs.database.is_file():
        raise ConfigError(f"{outputs}: no run has written it")
    with Database(outputs.database, Policy(memory_mib=MEMORY_MIB)) as database:
        stored = StoredOutput(
            DuckDBTables(database.db, outputs.database, str(outputs)), enrichment.name, enrichment, str(outputs)
        )
        stored.check_version()
        chosen = ForgottenRows(stored)
        if row is not None:
            chosen.choose_by_key(checked_key(stored, row))
        elif where is not None:
            chosen.choose_by_condition(where)
        elif before is not None:
            chosen.choose_before(before)
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
        chosen.make_levels()
        if stored.one(f"SELECT count(*) FROM {LEVELS}"):
            remaining[f"{quote('main')}.{stored.table('profiles')}"] = chosen.profile_lines
        with without_journal(outputs.database, partial(_answered, stored)), copied(database, remaining):
            _write_lines(stored)
            for file in files:  # before the database: a command that was killed finds the rows again
                _write_file(stored, file)
    return replace(result, files=tuple(map(str, files)))


def output_files(stored: StoredOutput, outputs: Outputs) -> tuple[list[Path], list[str]]:
    """Return the files that hold rows of the results, and a note for each that no run wrote as it is now."""
    folder, notes = stored.path.resolve().parent, []
    named = [path.resolve() for path in outputs.written]
    for line in stored.lines.values():
        if line.name == stored.name and line.snapshot is not None:
            named += [(folder / file).resolve() for file in line.snapshot.outputs]
    found = []
    for path in dict.fromkeys(named):
        if not path.is_file():
            continue
        if _is_own(stored, path):
            found.append(path)
        else:
            notes.append(f"{path} holds rows that no run on {stored.path} wrote: it stays as it is")
    return found, notes


def _is_own(stored: StoredOutput, file: Path) -> bool:
    """Tell whether all rows of a file are of requests that the database knows: another output may have its name."""
    try:
        check_replaceable(file)
        rows = _READERS[file.suffix.lower()].format(text(str(file)))
        known = f"SELECT request_hash FROM {stored.tables['checked']} UNION FROM (SELECT request_hash FROM "
        known += f"{stored.tables['responses']})"
        strange = f"_request_hash IS NOT NULL AND _request_hash <> '' AND _request_hash NOT IN (FROM ({known}) WHERE "
        return not stored.one(f"SELECT count(*) FROM {rows} WHERE {strange} request_hash IS NOT NULL)")
    except (ConfigError, duckdb.Error):
        return file.stat().st_size == 0


_READERS = {
    ".csv": "read_csv({}, header = true, all_varchar = true)",
    ".parquet": "read_parquet({})",
    ".jsonl": "read_json({}, format = 'newline_delimited')",
    ".ndjson": "read_json({}, format = 'newline_delimited')",
}
"""How the rows of each kind of output file are read."""


def _write_file(stored: StoredOutput, file: Path) -> None:
    """Write the rows that stay to an output file, and remove what a killed export left beside it."""
    refused = file.stem.endswith("_quarantine") and quarantine_file(_accepted_file(file)) == file
    name = f"{stored.name}_quarantine" if refused else stored.name
    query = f"SELECT * FROM {COPY}.main.{quote(name)}"
    kinds = {str(row[0]): str(row[1]) for row in stored.fetch(f"DESCRIBE {query}")}
    nested = [column for column, kind in kinds.items() if kind.endswith("]") or kind.startswith("STRUCT")]
    for left in file.parent.glob(f".{file.name}.????????.tmp"):
        left.unlink(missing_ok=True)

    def execute(sql: str) -> None:
        stored.db.execute(sql)

    write_rows(execute, query, file, nested)


def _accepted_file(file: Path) -> Path:
    return file.with_name(f"{file.stem.removesuffix('_quarantine')}{file.suffix}")


def _answered(stored: StoredOutput) -> set[tuple[str, int]]:
    """Return the requests and attempts that a gateway has written into the tables."""
    if stored.described(TABLE) is None:
        return set()
    return {(str(hash_), int(attempt)) for hash_, attempt in stored.fetch(f"SELECT request_hash, attempt FROM {TABLE}")}


def _write_lines(stored: StoredOutput) -> None:
    """Write into the copy what was forgotten."""
    kinds = ", ".join(f"{name} {kind}" for name, kind in forgotten_types().items())
    stored.db.execute(f"CREATE TABLE IF NOT EXISTS {COPY}.main.{FORGOTTEN} ({kinds})")
    stored.db.execute(f"INSERT INTO {COPY}.main.{FORGOTTEN} FROM {LINES}")


def _others(database: Path) -> list[str]:
    """Return a note for each other database of sqlenrich beside this one: it may hold the same texts."""
    folder = database.resolve().parent
    hidden = folder if folder.name == ".sqlenrich" else folder / ".sqlenrich"
    found = sorted(path for path in hidden.glob("*.duckdb") if path.resolve() != database.resolve())
    return [f"{path} may hold answers about the same rows: it stays as it is" for path in found]
