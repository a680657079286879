"""What is forgotten: chosen rows, the requests that only they have, and the answers to these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.quality.audit.checks import TOKENS
from sqlenrich.quality.audit.trail import key_test
from sqlenrich.quality.stored_output import FORGOTTEN_COLUMNS, StoredOutput
from sqlenrich.runner.backends import queries
from sqlenrich.runner.backends.duckdb.answers_digest import ANSWERS_DIGEST
from sqlenrich.runner.backends.duckdb.database import quote, reason, text

ROWS, HASHES, LINES = (f"sqlenrich_forget_{name}" for name in ("rows", "hashes", "lines"))
"""Temporary tables: the rows to forget, the requests that go with them, and the lines that tell of it."""
ROW_ROLES = ("prompts", "checked", "enriched", "quarantine")
_ANSWER_COLUMNS = {"request_hash", "attempt", "sent_hash", "response", "asked_at"}


@dataclass(frozen=True)
class Table:
    """A table of the database with a column of request hashes."""

    schema: str
    name: str
    columns: tuple[str, ...]

    @property
    def place(self) -> str:
        """The table, quoted."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    @property
    def hashed(self) -> str:
        """The column of the request hash."""
        return "request_hash" if "request_hash" in self.columns else "_request_hash"

    @property
    def holds_answers(self) -> bool:
        """Whether it keeps answers: one row an attempt."""
        return set(self.columns) >= _ANSWER_COLUMNS

    @property
    def holds_rows(self) -> bool:
        """Whether it has one row for each row of a source."""
        return "attempt" not in self.columns and (self.hashed == "_request_hash" or "prompt" in self.columns)


@dataclass(frozen=True)
class ForgottenRows:
    """The choice of what is forgotten in an open database."""

    stored: StoredOutput

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The columns of the source that each table of rows has."""
        return (*self.stored.request.key, *self.stored.request.keep)

    @cached_property
    def tables(self) -> list[Table]:
        """All tables of the database with a column of request hashes."""
        found = self.stored.rows(
            "SELECT schema_name, table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
            "SEMI JOIN duckdb_tables() AS t USING (table_oid, database_name, schema_name, table_name) "
            "WHERE database_name = current_database() GROUP BY ALL ORDER BY ALL"
        )
        tables = [Table(schema, name, tuple(columns)) for schema, name, columns in found]
        return [table for table in tables if {"request_hash", "_request_hash"} & set(table.columns)]

    @cached_property
    def own(self) -> list[Table]:
        """The tables of rows of the enrichment."""
        places = {self.stored.tables[role] for role in ROW_ROLES if role in self.stored.tables}
        return [table for table in self.tables if quote(table.name) in places and table.schema == "main"]

    def choose_by_key(self, key: Mapping[str, str]) -> None:
        """Choose the rows of a key."""
        test = key_test(self.stored, key)
        self._choose(lambda table: f"SELECT * FROM {table.place} WHERE {test}")

    def choose_by_condition(self, where: str) -> None:
        """Choose the rows that meet a condition in DuckDB's SQL, over the tables that have its columns.

        Raises ConfigError where no table has them.
        """
        failures: list[duckdb.Error] = []

        def chosen(table: Table) -> str | None:
            try:
                return self.stored.db.table(f"main.{quote(table.name)}").filter(where).sql_query()
            except duckdb.Error as error:
                failures.append(error)
                return None

        if not self._choose(chosen):
            raise ConfigError(f"where {where}: {reason(failures[0])}")

    def choose_before(self, day: date) -> None:
        """Choose the requests whose last answer came before a day in UTC, and the rows that have them."""
        answers = self.stored.tables["responses"]
        old = (
            f"SELECT request_hash FROM {answers} GROUP BY request_hash "
            f"HAVING max(asked_at) < {text(day.isoformat())}::TIMESTAMP"
        )
        self._choose(lambda table: f"SELECT * FROM {table.place} WHERE {table.hashed} IN ({old})", f" UNION {old}")

    def _choose(self, query: Callable[[Table], str | None], more: str = "") -> bool:
        """Make the tables of the rows and of the requests; give whether any table of rows could be asked."""
        parts = [
            f"SELECT {', '.join(map(quote, self.kept))}, {table.hashed} AS request_hash FROM ({sql})"
            for table in self.own
            if (sql := query(table)) is not None
        ]
        if not parts:
            return False
        db = self.stored.db
        db.execute(f"CREATE OR REPLACE TEMP TABLE {ROWS} AS {' UNION '.join(parts)}")
        db.execute(
            f"CREATE OR REPLACE TEMP TABLE {HASHES} AS SELECT request_hash, FALSE AS shared FROM "
            f"(SELECT request_hash FROM {ROWS}{more}) WHERE request_hash IS NOT NULL GROUP BY request_hash"
        )
        for table in self.tables:
            if table.holds_rows:
                mine = table in self.own
                rows = self.remaining(table, table.hashed) if mine else f"SELECT {table.hashed} FROM {table.place}"
                db.execute(f"UPDATE {HASHES} SET shared = TRUE WHERE request_hash IN ({rows})")
        return True

    def remaining(self, table: Table, columns: str = "*") -> str:
        """Give the query of the rows of a table that stay, in their order."""
        return f"SELECT {columns} FROM {table.place} AS t {self._joined(table, 'ANTI')}"

    def gone(self, table: Table, columns: str = "*") -> str:
        """Give the query of the rows of a table that go."""
        return f"SELECT {columns} FROM {table.place} AS t {self._joined(table, 'SEMI')}"

    def _joined(self, table: Table, kind: str) -> str:
        hashed = f"t.{table.hashed}"
        if table in self.own:
            pairs = [(f"t.{quote(name)}", f"f.{quote(name)}") for name in self.kept]
            same = (f"{mine} IS NOT DISTINCT FROM {theirs}" for mine, theirs in (*pairs, (hashed, "f.request_hash")))
            return f"{kind} JOIN {ROWS} AS f ON {' AND '.join(same)}"
        return f"{kind} JOIN (FROM {HASHES} WHERE NOT shared) AS f ON {hashed} = f.request_hash"

    def make_lines(self) -> None:
        """Make the lines that tell what is forgotten: numbers alone, no text and no hash."""
        stored = self.stored
        names = ", ".join(FORGOTTEN_COLUMNS)
        db = stored.db
        kinds = ", ".join(f"{name} {kind}" for name, kind in FORGOTTEN_COLUMNS.items())
        db.execute(f"CREATE OR REPLACE TEMP TABLE {LINES} ({kinds})")
        now = "now() AT TIME ZONE 'UTC'"
        checked = next(table for table in self.own if quote(table.name) == stored.tables["checked"])
        db.execute(
            f"INSERT INTO {LINES} SELECT {now}, {text(stored.name)}, 'rows', {text(stored.last.run_id)}, _error, "
            f"count(*), NULL, NULL, NULL, NULL, NULL FROM ({self.gone(checked, '_error')}) GROUP BY _error"
        )
        for table in self.tables:
            if table.holds_answers:
                sums = ", ".join(("count(*)", *TOKENS.values(), queries.UNCOUNTED, ANSWERS_DIGEST))
                db.execute(
                    f"INSERT INTO {LINES} ({names}) SELECT {now}, {text(table.name)}, 'answers', run_id, NULL, {sums} "
                    f"FROM ({self.gone(table)}) GROUP BY run_id"
                )

    def counts(self) -> dict[str, int]:
        """Give what is forgotten: rows, answers; what stays: shared requests, answers of no row."""
        stored = self.stored
        held = " UNION ALL ".join(f"SELECT {one.hashed} AS h FROM {one.place}" for one in self.tables if one.holds_rows)
        sums = {kind: f"SELECT coalesce(sum(count), 0) FROM {LINES} WHERE kind = '{kind}'" for kind in _COUNTED}
        found: dict[str, Any] = {kind: stored.one(sql) for kind, sql in sums.items()}
        found["shared"] = stored.one(f"SELECT count(*) FROM {HASHES} WHERE shared")
        found["orphans"] = stored.one(
            f"SELECT count(*) FROM {stored.tables['responses']} WHERE request_hash NOT IN "
            f"(SELECT h FROM ({held}) WHERE h IS NOT NULL) AND request_hash NOT IN (SELECT request_hash FROM {HASHES})"
        )
        return {name: int(value) for name, value in found.items()}

    def changed(self) -> list[Table]:
        """Give the tables of which rows go."""
        return [table for table in self.tables if self.stored.one(f"SELECT count(*) FROM ({self.gone(table, '1')})")]


_COUNTED = ("rows", "answers")
