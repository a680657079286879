"""Rows in an in-memory DuckDB, and the text of a template for each of them: by its SQL, and by Jinja."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

import sqlenrich as se
from sqlenrich.core.types import parse_type
from sqlenrich.engines.duckdb.text import sql_type
from tests.support.in_memory import insert

Row = Mapping[str, Any]


class PromptTable:
    """A table with the columns ``columns``, as an enrichment declares them; ``vars`` are the template's constants."""

    def __init__(self, columns: Mapping[str, Any], rows: Sequence[Row], vars: Mapping[str, Any] | None = None) -> None:
        self.columns, self.rows, self.vars = columns, rows, vars or {}
        self.connection = duckdb.connect()
        types = ", ".join(f"{name} {sql_type(parse_type(kind)).sql('duckdb')}" for name, kind in columns.items())
        self.connection.execute(f"CREATE TABLE source (_number BIGINT, {types})")
        values = [[number, *(row[name] for name in columns)] for number, row in enumerate(rows)]
        insert(self.connection, "source", values)

    def sql(self, template: str, engine: str = "duckdb") -> str:
        """Compile a template."""
        return se.prompt_sql(template, engine, columns=self.columns, vars=self.vars)

    def by_sql(self, template: str) -> list[str | None]:
        """Return the text of each row by the template's SQL."""
        found = self.connection.execute(f"SELECT ({self.sql(template)}) FROM source ORDER BY _number").fetchall()
        return [text for (text,) in found]

    def by_jinja(self, template: str) -> list[str | None]:
        """Return the text of each row by Jinja, None where the template fails for the row."""
        return [self._rendered(template, row) for row in self.rows]

    def _rendered(self, template: str, row: Row) -> str | None:
        try:
            return se.render_prompt(template, row, self.vars)
        except se.PromptError:
            return None
