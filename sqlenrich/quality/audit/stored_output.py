"""What runs left in a DuckDB database, opened to be read: the ledger's lines and the tables of an enrichment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.plan.plan import RESPONSES
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.runner.backends.base import Snapshot
from sqlenrich.runner.backends.duckdb.files import database_path
from sqlenrich.runner.backends.ledger import COLUMNS, LEDGER
from sqlenrich.runner.scratch import scratch_folder
from sqlenrich.runner.shared_request import ReadRequest, SharedRequest, read_request

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


@dataclass(frozen=True)
class RunLine:
    """A run's line of the ledger."""

    run_id: str
    name: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    report: Mapping[str, Any] | None
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
    """A database that is open to be read, and what the last run of an enrichment left in it."""

    db: duckdb.DuckDBPyConnection
    path: Path
    name: str
    lines: Mapping[str, RunLine] = field(repr=False)
    """The lines of all runs in the database by their ids, the oldest first."""

    @cached_property
    def last(self) -> RunLine:
        """The last run of the enrichment that made its tables. Raises ConfigError where there is none."""
        found = [line for line in self.lines.values() if line.name == self.name]
        if not found:
            raise ConfigError(f"{self.path} holds no run of {self.name}: run it first")
        made = [line for line in found if line.made_tables]
        return made[-1] if made else found[-1]

    @cached_property
    def tables(self) -> dict[str, str]:
        """The tables of the enrichment by role, quoted; only those that are there."""
        from sqlenrich.runner.backends.duckdb.database import name_parts, quote

        named = {role: form.format(self.name) for role, form in RELATIONS.items()} | {"responses": self.last.responses}
        quoted = {role: ".".join(map(quote, name_parts(name))) for role, name in named.items()}
        return {role: name for role, name in quoted.items() if self.columns(name) is not None}

    @property
    def request(self) -> SharedRequest:
        """What the requests of the last run share. Raises ConfigError where it is unknown."""
        if self.last.request is None:
            what = self.last.problem or f"its line {self.last.run_id} of {LEDGER} {VERSION}"
            raise ConfigError(f"{self.path} does not tell what the last run of {self.name} asked: {what}")
        return self.last.request

    def columns(self, table: str) -> dict[str, str] | None:
        """Give the columns of a table and their types; None where it is not there."""
        import duckdb

        try:
            return {str(row[0]): str(row[1]) for row in self.db.execute(f"DESCRIBE {table}").fetchall()}
        except duckdb.CatalogException:
            return None

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a query."""
        return self.db.execute(sql, list(values)).fetchall()

    def one(self, sql: str, *values: Any) -> Any:
        """Run a query and give the first value of its first row."""
        return self.rows(sql, *values)[0][0]


@contextmanager
def stored_output(name: str, output: str | Path) -> Iterator[StoredOutput]:
    """Open an output to read it. Raises ConfigError where there is no run of that name, or one of another version."""
    import duckdb

    from sqlenrich.runner.backends.duckdb.database import cannot_open, text

    path = database_path(Path(output))
    if not path.is_file():
        raise ConfigError(f"{output}: no run has written it")
    with scratch_folder() as folder:
        try:
            db = duckdb.connect(str(path), read_only=True)
        except duckdb.Error as error:
            raise cannot_open(path, error) from None
        try:
            db.execute(f"SET temp_directory = {text(str(folder))}")
            found = StoredOutput(db, path, name, read_ledger(db, path))
            check_version(found)
            yield found
        finally:
            db.close()


def read_ledger(db: duckdb.DuckDBPyConnection, path: Path) -> dict[str, RunLine]:
    """Give the lines of the ledger, the oldest first. Raises ConfigError where there is none of this version."""
    found = {str(row[0]) for row in db.execute(f"SELECT column_name FROM duckdb_columns() WHERE table_name = '{LEDGER}'"
                                               ).fetchall()}  # fmt: skip
    if not found:
        raise ConfigError(f"{path} holds no run of sqlenrich")
    if missing := [name for name in COLUMNS if name not in found]:
        raise ConfigError(f"{path}: {LEDGER} has no column {missing[0]}, for it {VERSION}")
    rows = db.execute(f"SELECT {', '.join(COLUMNS)} FROM {LEDGER} ORDER BY started_at, run_id").fetchall()
    return {str(row[0]): _line(*row) for row in rows}


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
