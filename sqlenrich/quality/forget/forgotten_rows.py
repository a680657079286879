"""What is forgotten: chosen rows, the requests that only they have, and the answers to these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import duckdb

from sqlenrich.core.errors import ConfigError
from sqlenrich.plan.drift import MARKS
from sqlenrich.plan.profiles import OWN_FIELDS, PROFILES
from sqlenrich.quality.audit.trail import key_test
from sqlenrich.quality.forget.forgotten import FORGOTTEN_LEVEL
from sqlenrich.store import queries
from sqlenrich.store.duckdb.answers_digest import ANSWERS_DIGEST
from sqlenrich.store.duckdb.database import quote, reason, text
from sqlenrich.store.duckdb.tables import StoredOutput, forgotten_types
from sqlenrich.store.forgotten_lines import FORGOTTEN_COLUMNS
from sqlenrich.store.store import ROW_ROLES

ROWS, HASHES, LINES, LEVELS = (f"sqlenrich_forget_{name}" for name in ("rows", "hashes", "lines", "levels"))
"""Temporary tables: the rows to forget, the requests that go with them, the lines that tell of it, and the levels of
profiles that go."""
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
    def holds_evaluations(self) -> bool:
        """Whether it has a line for each evaluated row and field."""
        return set(self.columns) >= {"evaluation", "row_key", "label", "answer"}

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
        return (*self.stored.request.contract.key, *self.stored.request.contract.keep)

    @cached_property
    def tables(self) -> list[Table]:
        """All tables of the database with a column of request hashes."""
        found = self.stored.fetch(
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
        """Return the query of the rows of a table that stay, in their order."""
        return f"SELECT {columns} FROM {table.place} AS t {self._joined(table, 'ANTI')}"

    def gone(self, table: Table, columns: str = "*") -> str:
        """Return the query of the rows of a table that go."""
        return f"SELECT {columns} FROM {table.place} AS t {self._joined(table, 'SEMI')}"

    def _joined(self, table: Table, kind: str) -> str:
        hashed = f"t.{table.hashed}"
        if table in self.own:
            pairs = [(f"t.{quote(name)}", f"f.{quote(name)}") for name in self.kept]
            same = (f"{mine} IS NOT DISTINCT FROM {theirs}" for mine, theirs in (*pairs, (hashed, "f.request_hash")))
            return f"{kind} JOIN {ROWS} AS f ON {' AND '.join(same)}"
        if table.holds_evaluations and quote(table.name) == self.stored.tables.get("evaluations"):
            # An evaluation of another prompt asked about the same row under another hash.
            of_request = f"{hashed} IN (SELECT request_hash FROM {HASHES} WHERE NOT shared)"
            goes = f"COALESCE({of_request}, FALSE) OR {self._of_a_key()}"
            return f"WHERE {goes}" if kind == "SEMI" else f"WHERE NOT ({goes})"
        return f"{kind} JOIN (FROM {HASHES} WHERE NOT shared) AS f ON {hashed} = f.request_hash"

    def _of_a_key(self) -> str:
        """Return the test that a line of an evaluation is of the key of a forgotten row. Row numbers name no row."""
        key = self.stored.request.contract.key
        if key in ((), ("_row",)):
            return "FALSE"
        # Rows of one key have a number after it.
        written = "regexp_replace(t.row_key, '} [0-9]+$', '}')"
        same = (f"json_extract_string({written}, {_at(name)}) = CAST(r.{quote(name)} AS VARCHAR)" for name in key)
        return f"EXISTS (FROM {ROWS} AS r WHERE {' AND '.join(same)})"

    def make_levels(self) -> None:
        """Make the table of the levels of profiles that are texts of forgotten answers and of no other answer."""
        db, stored = self.stored.db, self.stored
        db.execute(f"CREATE OR REPLACE TEMP TABLE {LEVELS} (field VARCHAR, level VARCHAR)")
        profiles = stored.tables.get("profiles")
        if profiles is None:
            return
        listed = [
            (field, str(value))
            for line in stored.lines.values()
            if line.name == stored.name and line.request is not None
            for field, form in line.request.contract.schema["properties"].items()
            for value in (*(form.get("enum") or ()), *([form["const"]] if "const" in form else ()))
        ]
        fields = [str(field) for (field,) in stored.fetch(f"SELECT DISTINCT field FROM {profiles}")]
        for field in (name for name in fields if name not in (*OWN_FIELDS, MARKS)):
            db.execute(
                f"INSERT INTO {LEVELS} SELECT DISTINCT field, level FROM {profiles} WHERE field = {text(field)} "
                f"AND level IN ({self._texts(field, self.gone)})"
            )
            for name, value in listed:
                if name == field:
                    db.execute(f"DELETE FROM {LEVELS} WHERE field = ? AND level = ?", [name, value])
            if stored.one(f"SELECT count(*) FROM {LEVELS} WHERE field = ?", field):
                kept = self._texts(field, self.remaining)
                db.execute(f"DELETE FROM {LEVELS} WHERE field = {text(field)} AND level IN ({kept})")

    def _texts(self, field: str, rows: Callable[[Table, str], str]) -> str:
        """Return the query of the texts of a field: those of accepted rows, and those that answers give."""
        parts = []
        for table in self.tables:
            if table.holds_answers:
                # What a repair would read is not known here: the whole text of such an answer is looked through.
                value = f"CASE WHEN json_valid(response) THEN json_extract_string(response, {_at(field)}) END"
                parts.append(f"SELECT {value} AS value FROM ({rows(table, 't.response')})")
                level = f"SELECT DISTINCT level FROM {self.stored.tables['profiles']} WHERE field = {text(field)}"
                others = f"SELECT response FROM ({rows(table, 't.response')}) WHERE NOT json_valid(response)"
                parts.append(f"SELECT level AS value FROM ({level}) SEMI JOIN ({others}) ON contains(response, level)")
            elif table in self.own and quote(table.name) == self.stored.tables["enriched"] and field in table.columns:
                column = f"t.{quote(field)}"
                parts.append(f"SELECT CAST(value AS VARCHAR) AS value FROM ({rows(table, f'{column} AS value')})")
        return f"SELECT value FROM ({' UNION ALL '.join(parts)}) WHERE value IS NOT NULL"

    def profile_lines(self, columns: str) -> str:
        """Return the query of the lines of profiles, in which the levels that go have one name."""
        listed = [
            f"CASE WHEN (field, level) IN (SELECT (field, level) FROM {LEVELS}) THEN {text(FORGOTTEN_LEVEL)} "
            "ELSE level END AS level"
            if name == quote("level")
            else name
            for name in map(quote, PROFILES)
        ]
        return f"SELECT {columns} FROM (SELECT {', '.join(listed)} FROM {self.stored.tables['profiles']})"

    def make_lines(self) -> None:
        """Make the lines that tell what is forgotten: numbers alone, no text and no hash."""
        stored = self.stored
        names = ", ".join(FORGOTTEN_COLUMNS)
        db = stored.db
        kinds = ", ".join(f"{name} {kind}" for name, kind in forgotten_types().items())
        db.execute(f"CREATE OR REPLACE TEMP TABLE {LINES} ({kinds})")
        now = "now() AT TIME ZONE 'UTC'"
        checked = next(table for table in self.own if quote(table.name) == stored.tables["checked"])
        db.execute(
            f"INSERT INTO {LINES} SELECT {now}, {text(stored.name)}, 'rows', {text(stored.last.run_id)}, _error, "
            f"count(*), NULL, NULL, NULL, NULL, NULL FROM ({self.gone(checked, '_error')}) GROUP BY _error"
        )
        for table in self.tables:
            if table.holds_answers:
                sums = ", ".join(("count(*)", *queries.TOKENS.values(), queries.UNCOUNTED, ANSWERS_DIGEST))
                db.execute(
                    f"INSERT INTO {LINES} ({names}) SELECT {now}, {text(table.name)}, 'answers', run_id, NULL, {sums} "
                    f"FROM ({self.gone(table)}) GROUP BY run_id"
                )

    def counts(self) -> dict[str, int]:
        """Return what is forgotten: rows, answers; what stays: shared requests, answers of no row."""
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
        """Return the tables of which rows go."""
        return [table for table in self.tables if self.stored.one(f"SELECT count(*) FROM ({self.gone(table, '1')})")]


def _at(name: str) -> str:
    """Return the path of a field in JSON, as a text of SQL."""
    return text(f'$."{name}"')


_COUNTED = ("rows", "answers")
