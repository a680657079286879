"""The tables of an enrichment in an output database, opened to be read, and what its ledger tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError
from sqlenrich.core.json import canonical_json
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.runner.backends.duckdb.files import database_path
from sqlenrich.runner.backends.ledger import LEDGER
from sqlenrich.runner.scratch import scratch_folder
from sqlenrich.spec.enrichment import RESERVED_COLUMNS, Enrichment

if TYPE_CHECKING:
    import duckdb

MEMORY_MIB, MEMORY_MOST_MIB = 128, 16_384
"""The memory of DuckDB, which doubles where a statement needs more; beyond it, it uses the disk."""
THREADS = 4
ALL_RUNS, LAST_RUN = "", "last"
"""The rows of all runs, and the word for the newest run."""
NULL_STRATUM = "(none)"
"""How a stratum of NULL is called."""


@dataclass(frozen=True)
class LedgerRun:
    """A line of the ledger. ``report`` and ``snapshot`` are empty where the run did not write them."""

    run_id: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    report: Mapping[str, Any]
    snapshot: Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """The tables of one enrichment in an open database."""

    db: duckdb.DuckDBPyConnection
    enrichment: Enrichment
    place: str
    """The output as the caller named it."""

    def table(self, role: str) -> str:
        """Give the table of a role, quoted. The answers may be in a table that the last run named."""
        return self.quoted(self.table_name(role))

    def table_name(self, role: str) -> str:
        """Give the name of the table of a role."""
        if role == "responses" and self.runs and (shared := self.runs[-1].snapshot.get("responses")):
            return str(shared)
        return RELATIONS[role].format(self.enrichment.name)

    def quoted(self, name: str) -> str:
        """Give a table's or a column's name, quoted."""
        from sqlenrich.runner.backends.duckdb.database import quote

        return quote(name)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Give the rows of a query. Raises RunError with one line where the tables don't fit it."""
        import duckdb

        from sqlenrich.runner.backends.duckdb.database import reason

        limit = MEMORY_MIB
        try:
            while True:
                try:
                    return self.db.execute(sql, list(parameters)).fetchall()
                except duckdb.OutOfMemoryException:
                    if (limit := 2 * limit) > MEMORY_MOST_MIB:
                        raise
                    self.db.execute(f"SET memory_limit = '{limit}MiB'")
        except duckdb.OutOfMemoryException:
            raise RunError(f"{self.place}: not enough memory to read the tables of {self.enrichment.name}") from None
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            raise ConfigError(
                f"{self.place}: the tables of {self.enrichment.name} don't fit {self.enrichment.place}: "
                f"{reason(error)}; run it again with this version first"
            ) from None

    @cached_property
    def tables(self) -> frozenset[str]:
        """The names of all tables and views."""
        found = self.db.execute("SELECT table_name FROM information_schema.tables").fetchall()
        return frozenset(str(name) for (name,) in found)

    def columns(self, table: str) -> list[str]:
        """Give the columns of a table; none where it is not there."""
        if table not in self.tables:
            return []
        return [str(row[0]) for row in self.db.execute(f"DESCRIBE {self.quoted(table)}").fetchall()]

    @cached_property
    def runs(self) -> tuple[LedgerRun, ...]:
        """The runs of the enrichment, the oldest first."""
        if LEDGER not in self.tables:
            return ()
        found = self.db.execute(
            f"SELECT run_id, started_at, ended_at, status, report, snapshot FROM {LEDGER} WHERE name = ? "
            "ORDER BY started_at, run_id",
            [self.enrichment.name],
        ).fetchall()
        return tuple(LedgerRun(*facts, *(json.loads(text) if text else {} for text in texts)) for *facts, texts in (
            (*row[:4], row[4:]) for row in found
        ))  # fmt: skip

    def run_id(self, named: str | None) -> str:
        """Give the id of a run by its name: an id, ``last``, or None for all runs. Raises ConfigError."""
        if named is None:
            return ALL_RUNS
        known = [run.run_id for run in self.runs]
        if named == LAST_RUN and known:
            return known[-1]
        if named not in known:
            shown = ", ".join(known[-3:]) or "none"
            raise ConfigError(f"{self.place} has no run {named} of {self.enrichment.name}; the last ones are: {shown}")
        return named

    def accepted(self, run: str = ALL_RUNS) -> str:
        """Give the condition that an accepted row is of a run, as ``WHERE`` and a test; empty for all runs."""
        from sqlenrich.runner.backends.duckdb.database import text

        if run == ALL_RUNS:
            return ""
        asked = f"SELECT request_hash FROM {self.table('responses')} WHERE run_id = {text(run)}"
        return f" WHERE _request_hash IN ({asked})"

    @property
    def fields(self) -> list[str]:
        """The output fields."""
        return list(self.enrichment.readings)

    @cached_property
    def shown_columns(self) -> list[str]:
        """The key and the kept columns of the accepted rows."""
        own = {*self.enrichment.readings, *RESERVED_COLUMNS}
        return [name for name in self.columns(self.table_name("enriched")) if name not in own]

    def answer_json(self) -> str:
        """Give the SQL of a row's answer as one JSON text."""
        from sqlenrich.runner.backends.duckdb.database import text

        pairs = ", ".join(f"{text(name)}, {self.quoted(name)}" for name in self.fields)
        return f"CAST(json_object({pairs}) AS VARCHAR)"

    def answers(self, requests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Give the accepted answer of each of some requests, by field; a request without one is left out."""
        sql = (
            f"SELECT _request_hash, ANY_VALUE({self.answer_json()}) FROM {self.table('enriched')} "
            "WHERE _request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
        )
        return {request: json.loads(answer) for request, answer in self.rows(sql, [list(requests)])}


@contextmanager
def opened(enrichment: Enrichment, output: str | Path) -> Iterator[Stored]:
    """Open the output of an enrichment to read it. Raises ConfigError where no run has written it."""
    import duckdb

    from sqlenrich.runner.backends.duckdb.database import cannot_open

    database = database_path(Path(output))
    if not database.is_file():
        raise ConfigError(f"{output}: no run has written it; run {enrichment.place} with --output {output} first")
    with scratch_folder() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{MEMORY_MIB}MiB", "temp_directory": str(folder), "threads": THREADS,
        }  # fmt: skip
        try:
            db = duckdb.connect(str(database), read_only=True, config=config)
        except duckdb.Error as error:
            raise cannot_open(database, error) from None
        try:
            if db.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
                db.execute("SET enable_progress_bar = false")  # it goes to stdout, which is for data
            stored = Stored(db, enrichment, str(output))
            if stored.table_name("enriched") not in stored.tables:
                known = sorted(one for one in stored.tables if f"{one}_quarantine" in stored.tables)
                raise ConfigError(
                    f"{output} has no results of {enrichment.name}; it has those of: {', '.join(known) or 'none'}"
                )
            yield stored
        finally:
            db.close()


def answer_hash(answer: Mapping[str, Any]) -> str:
    """Give what identifies an answer: a verdict counts as long as the row's answer has this hash."""
    import hashlib

    return hashlib.sha256(canonical_json(answer).encode()).hexdigest()
