"""What runs left in a DuckDB database, opened to be read: the ledger's lines and the tables of an enrichment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, RunError, did_you_mean
from sqlenrich.core.json import canonical_json
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.relations import RELATIONS, REVIEWS, Relations, relations_of
from sqlenrich.runner.shared_request import ReadRequest, SharedRequest, read_request
from sqlenrich.spec.enrichment import RESERVED_COLUMNS, Enrichment
from sqlenrich.store.base import Snapshot
from sqlenrich.store.duckdb.files import database_path
from sqlenrich.store.ledger import COLUMNS, LEDGER
from sqlenrich.store.scratch import scratch_folder

if TYPE_CHECKING:
    import duckdb

VERSION = "was made by another version of sqlenrich: run it again (what is answered is not paid again)"
FORGOTTEN = "_sqlenrich_forgotten"
"""The table in which each forgetting is written down: numbers alone."""
FORGOTTEN_KINDS = ("rows", "answers")
"""The lines of it: rows of the last run by their code (NULL: accepted), answers by the run that asked them."""
FORGOTTEN_COLUMNS: Mapping[str, str] = {
    "forgotten_at": "TIMESTAMP",
    "name": "VARCHAR",
    "kind": "VARCHAR",
    "run_id": "VARCHAR",
    "code": "VARCHAR",
    "count": "BIGINT",
    "tokens_in": "BIGINT",
    "tokens_cached": "BIGINT",
    "tokens_out": "BIGINT",
    "uncounted": "BIGINT",
    "digest": "UHUGEINT",
}
FIRST_MEMORY_MIB, MOST_MEMORY_MIB = 128, 16_384
"""The memory of a report: its first limit is doubled where a statement needs more. Beyond it DuckDB uses the disk."""
THREADS = 4
ALL_RUNS, LAST_RUN = "", "last"
"""The rows of all runs, and the word for the newest run."""


@dataclass(frozen=True)
class RunLine:
    """A run's line of the ledger."""

    run_id: str
    name: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    report: Mapping[str, Any] | None
    """None where the run wrote none."""
    snapshot: Snapshot | None
    read: ReadRequest | None = None
    problem: str | None = None
    """Why a part of the line can't be read."""

    @property
    def request(self) -> SharedRequest | None:
        """What all requests of the run share; None where it is unknown."""
        return None if self.read is None else self.read.request

    @property
    def made_tables(self) -> bool:
        """Whether it made the tables of results; False where it was declined or failed before its first answer."""
        return bool(((self.report or {}).get("stored") or {}).get("tables", True))

    @property
    def responses(self) -> str:
        """The table of the run's answers."""
        named = None if self.snapshot is None else self.snapshot.responses
        return named or RELATIONS["responses"].format(self.name)


@dataclass(frozen=True)
class StoredOutput:
    """A database that is open to be read, and what runs of an enrichment left in it."""

    db: duckdb.DuckDBPyConnection
    path: Path
    enrichment: Enrichment
    output: str
    """The output as the caller named it."""
    memory_mib: int | None = field(default=None, repr=False)
    """The limit that is doubled where a query needs more memory; None: DuckDB's own stays."""

    @property
    def name(self) -> str:
        """The enrichment's name."""
        return self.enrichment.name

    @cached_property
    def lines(self) -> Mapping[str, RunLine]:
        """The lines of all runs in the database by their ids, the oldest first; none without a ledger."""
        found = self.columns(LEDGER) or {}
        if not found:
            return {}
        listed = ", ".join(name if name in found else f"NULL AS {name}" for name in COLUMNS)
        rows = self.rows(f"SELECT {listed} FROM {LEDGER} ORDER BY started_at, run_id")
        return {str(row[0]): _line(*row) for row in rows}

    @cached_property
    def runs(self) -> tuple[RunLine, ...]:
        """The runs of the enrichment, the oldest first."""
        return tuple(line for line in self.lines.values() if line.name == self.name)

    @cached_property
    def last(self) -> RunLine:
        """The last run of the enrichment that made its tables. Raises ConfigError where there is none."""
        if not self.runs:
            raise ConfigError(f"{self.path} holds no run of {self.name}: run it first")
        made = [line for line in self.runs if line.made_tables]
        return made[-1] if made else self.runs[-1]

    @cached_property
    def unpublished(self) -> RunLine | None:
        """A later run that made the prompts anew and left the results as they were."""
        later = self.runs[self.runs.index(self.last) + 1 :]
        return next((line for line in reversed(later) if line.snapshot is not None), None)

    @property
    def request(self) -> SharedRequest:
        """What the requests of the last run share. Raises ConfigError where it is unknown."""
        if self.last.request is None:
            what = self.last.problem or f"its line {self.last.run_id} of {LEDGER} {VERSION}"
            raise ConfigError(f"{self.path} does not tell what the last run of {self.name} asked: {what}")
        return self.last.request

    # Tables -----------------------------------------------------------------------------------------------------------

    def table(self, role: str) -> str:
        """Give the table of a role, quoted. The answers may be in a table that the last run named."""
        from sqlenrich.store.duckdb.database import name_parts

        named = self.last.responses if role == "responses" and self.runs else _ROLES[role].format(self.name)
        return ".".join(map(self.quoted, name_parts(named)))

    @cached_property
    def tables(self) -> dict[str, str]:
        """The tables of the enrichment by role, quoted; only those that are there."""
        named = {role: self.table(role) for role in _ROLES}
        return {role: name for role, name in named.items() if self.columns(name) is not None}

    @cached_property
    def relations(self) -> Relations:
        """The tables of the enrichment by role, for the queries of a plan."""
        named = {"source": f"{self.name}_source", "responses": self.table("responses")}
        return relations_of(self.enrichment, get_engine("duckdb"), named)

    def columns(self, table: str) -> dict[str, str] | None:
        """Give the columns of a table, whose name is quoted, and their types; None where it is not there."""
        import duckdb

        try:
            return {str(row[0]): str(row[1]) for row in self.db.execute(f"DESCRIBE {table}").fetchall()}
        except duckdb.CatalogException:
            return None

    def quoted(self, name: str) -> str:
        """Give a table's or a column's name, quoted."""
        from sqlenrich.store.duckdb.database import quote

        return quote(name)

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Give the rows of a query, with more memory where it needs that and this is allowed. Raises RunError."""
        import duckdb

        limit = self.memory_mib
        while True:
            try:
                return self.db.execute(sql, list(values)).fetchall()
            except duckdb.OutOfMemoryException:
                if limit is None:
                    raise
                if (limit := 2 * limit) > MOST_MEMORY_MIB:
                    raise RunError(f"{self.output}: not enough memory to read the tables of {self.name}") from None
                self.db.execute(f"SET memory_limit = '{limit}MiB'")

    def one(self, sql: str, *values: Any) -> Any:
        """Give the first value of the first row of a query."""
        return self.rows(sql, *values)[0][0]

    # Rows of results --------------------------------------------------------------------------------------------------

    def run_id(self, named: str | None) -> str:
        """Give the id of a run by its name: an id, ``last``, or None for all runs. Raises ConfigError."""
        if named is None:
            return ALL_RUNS
        known = [run.run_id for run in self.runs]
        if named == LAST_RUN and known:
            return known[-1]
        if named not in known:
            shown = ", ".join(known[-3:]) or "none"
            raise ConfigError(f"{self.output} has no run {named} of {self.name}; the last ones are: {shown}")
        return named

    def accepted(self, run: str = ALL_RUNS) -> str:
        """Give the condition that an accepted row is of a run, as ``WHERE`` and a test; empty for all runs."""
        from sqlenrich.store.duckdb.database import text

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
        return [name for name in self.columns(self.table("enriched")) or () if name not in own]

    def answers(self, requests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Give the accepted answer of each of some requests, by field; a request without one is left out."""
        from sqlenrich.store.duckdb.database import text

        pairs = ", ".join(f"{text(name)}, {self.quoted(name)}" for name in self.fields)
        sql = (
            f"SELECT _request_hash, ANY_VALUE(CAST(json_object({pairs}) AS VARCHAR)) FROM {self.table('enriched')} "
            "WHERE _request_hash IN (SELECT UNNEST(?::VARCHAR[])) GROUP BY 1"
        )
        return {request: json.loads(answer) for request, answer in self.rows(sql, list(requests))}


_ROLES: Mapping[str, str] = {**RELATIONS, "reviews": REVIEWS}


@contextmanager
def stored_output(
    enrichment: Enrichment, output: str | Path, *, memory_mib: int | None = None
) -> Iterator[StoredOutput]:
    """Open what runs of an enrichment wrote, to read it. Raises ConfigError where no run has written it.

    With ``memory_mib`` DuckDB begins with this limit of memory; without, with its own.
    """
    import duckdb

    from sqlenrich.store.duckdb.database import cannot_open, reason

    path = database_path(Path(output))
    if not path.is_file():
        raise ConfigError(f"{output}: no run has written it; run {enrichment.place} with --output {output} first")
    with scratch_folder() as folder:
        config: dict[str, str | bool | int | float | list[str]] = {"temp_directory": str(folder)}
        if memory_mib is not None:
            config |= {"memory_limit": f"{memory_mib}MiB", "threads": THREADS}
        try:
            db = duckdb.connect(str(path), read_only=True, config=config)
        except duckdb.Error as error:
            raise cannot_open(path, error) from None
        try:
            db.execute("SET TimeZone = 'UTC'")
            # It goes to stdout, which is for data. In a notebook without ipywidgets it is off, and may not be set.
            if db.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
                db.execute("SET enable_progress_bar = false")
            yield StoredOutput(db, path, enrichment, str(output), memory_mib)
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            raise ConfigError(
                f"{output}: the tables of {enrichment.name} don't fit {enrichment.place}: {reason(error)}; run it "
                "again with this version first"
            ) from None
        finally:
            db.close()


@contextmanager
def stored_results(enrichment: Enrichment, output: str | Path) -> Iterator[StoredOutput]:
    """Open an output to read its results, in little memory. Raises ConfigError where it has none."""
    with stored_output(enrichment, output, memory_mib=FIRST_MEMORY_MIB) as stored:
        if "enriched" not in stored.tables:
            names = {str(name) for (name,) in stored.rows("SELECT table_name FROM information_schema.tables")}
            known = sorted(name for name in names if f"{name}_quarantine" in names)
            raise ConfigError(
                f"{output} has no results of {enrichment.name}; it has those of: {', '.join(known) or 'none'}"
            )
        yield stored


def _line(
    run_id: str,
    name: str,
    started: datetime,
    ended: datetime | None,
    status: str,
    report: str | None,
    snapshot: str | None,
    request: str | None,
) -> RunLine:
    problems = []
    facts, made, read = None, None, None
    try:
        facts = None if report is None else dict(json.loads(report))
    except (ValueError, TypeError):
        problems.append("its report is no JSON")
    try:
        made = None if snapshot is None else Snapshot(**json.loads(snapshot))
    except (ValueError, TypeError):
        problems.append("its snapshot can't be read")
    try:
        read = None if request is None else read_request(request)
    except ValueError as error:
        problems.append(f"its request: {error}")
    return RunLine(run_id, name, started, ended, status, facts, made, read, "; ".join(problems) or None)


def check_version(stored: StoredOutput) -> None:
    """Refuse tables of another version, and an output without the tables of a run. Raises ConfigError."""
    ledger = stored.columns(LEDGER)
    if ledger is None:
        raise ConfigError(f"{stored.path} holds no run of sqlenrich")
    if missing := [name for name in COLUMNS if name not in ledger]:
        raise ConfigError(f"{stored.path}: {LEDGER} has no column {missing[0]}, for it {VERSION}")
    _ = stored.last
    tables = stored.tables
    for role in ("responses", "checked", "enriched", "quarantine"):
        if role not in tables:
            raise ConfigError(
                f"{stored.path} has no table {RELATIONS[role].format(stored.name)}: "
                f"the last run of {stored.name} made none; run it again"
            )
    answers = stored.columns(tables["responses"]) or {}
    if missing := [name for name in RESPONSES if name not in answers]:
        raise ConfigError(f"{stored.path}: {tables['responses']} has no column {missing[0]}, for it {VERSION}")


def checked_key(stored: StoredOutput, row: Mapping[str, Any]) -> dict[str, str]:
    """Give the key of a row as texts. Raises ConfigError for a column that is no part of the key."""
    key = stored.request.key
    if not row:
        raise ConfigError(f"which row? Give a value of its key: {', '.join(f'--row {name}=...' for name in key)}")
    for name in row:
        if name not in key:
            raise ConfigError(f'"{name}"{did_you_mean(name, key)} is no column of the key, which is {", ".join(key)}')
    return {name: str(value) for name, value in row.items()}


def answer_hash(answer: Mapping[str, Any]) -> str:
    """Give what identifies an answer: a verdict counts as long as the row's answer has this hash."""
    return hashlib.sha256(canonical_json(answer).encode()).hexdigest()
