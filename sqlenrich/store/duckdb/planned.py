"""The requests of a run that is planned, from files and databases: prompts in a scratch database, answers read-only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.sql import Sql, case, literal
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.store import queries
from sqlenrich.store.duckdb.backend import DuckDBBackend
from sqlenrich.store.duckdb.database import INPUT, cannot_open, name_parts, quote, text

OUTPUT = "sqlenrich_output"
KEPT_BELOW = "01"
"""Prompts with a lower hash, one in 256, are kept as texts: a sample that need not be rendered again."""


class ScratchRequests:
    """The requests of a plan in a scratch database, and the answers that ``stored_in`` holds in ``table``."""

    def __init__(self, backend: DuckDBBackend, plan: Plan, stored_in: Path | None, table: str) -> None:
        self.backend, self.plan = backend, plan
        self.found = self._attach_answers(stored_in, table)
        prompts = plan.step("prompts")
        below = exp.LT(this=exp.column("request_hash"), expression=literal(KEPT_BELOW))
        kept = exp.alias_(case((below, exp.column("prompt", "step"))), "kept")
        backend.run_step(replace(prompts, query=queries.lengths(backend.engine, prompts).select(kept)))
        backend.refresh(plan, plan.responses)

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over ``prompts``, ``pending`` and ``responses``. A prompt there is the number of its bytes."""
        return self.backend.rows(self.plan, query)

    def sample(self, count: int) -> list[str]:
        """Return the prompts of the lowest pending hashes: the kept texts, or else rendered again from the source."""
        lowest = exp.select("request_hash").from_(symbol("pending")).order_by("request_hash").limit(count)
        hashes = [str(row[0]) for row in self.rows(lowest)]
        prompts = self.plan.step("prompts")
        column, rows = ("kept", symbol("prompts")) if hashes[-1] < KEPT_BELOW else ("prompt", queries.rows_of(prompts))
        wanted = exp.In(this=exp.column("request_hash"), expressions=[literal(one) for one in hashes])
        query = exp.select(f"ANY_VALUE({column})").from_(rows).where(wanted).group_by("request_hash")
        return [str(prompt) for (prompt,) in self.backend.read(self.plan, query)]

    def counted(self, count: int) -> tuple[list[tuple[int, int]], str | None]:  # noqa: ARG002
        """DuckDB has no model, and so no function that counts its tokens."""
        return [], None

    def _attach_answers(self, stored_in: Path | None, table: str) -> bool:
        """Create ``responses`` as a view of the stored answers, read-only; give whether a table of them exists."""
        database, step = self.backend.database, self.plan.responses
        query: Sql = step.query  # of no rows
        found = False
        if stored_in is not None and stored_in.is_file():
            attached = database.rows("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL")
            place = INPUT if stored_in.resolve() in {Path(path).resolve() for (path,) in attached} else OUTPUT
            if place == OUTPUT:
                try:
                    database.execute(f"ATTACH {text(str(stored_in))} AS {OUTPUT} (READ_ONLY)")
                except duckdb.Error as error:
                    raise cannot_open(stored_in, error) from None
            schema, name = ["main", *name_parts(table)][-2:]
            columns = database.columns(".".join(map(quote, (place, schema, name))))
            if columns and set(step.columns) - set(columns):
                raise ConfigError(f"{stored_in}: {table} is no table of answers of this version of sqlenrich")
            if found := bool(columns):
                query = exp.select("*").from_(exp.table_(name, schema, place, quoted=True))
        view = exp.Create(this=symbol("responses"), kind="VIEW", expression=query.copy())
        database.execute(self.plan.relations.sql(view))
        return found
