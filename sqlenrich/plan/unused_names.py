"""Names inside the steps' queries that no column of the result tables and no source has."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from sqlenrich.core.sql import Sql
from sqlenrich.plan.checked_step import CTE_NAMES as CHECKED_CTE_NAMES
from sqlenrich.plan.prompts_step import CTE_NAMES as PROMPTS_CTE_NAMES
from sqlenrich.plan.results_step import CTE_NAMES as RESULTS_CTE_NAMES
from sqlenrich.plan.source_columns import WRITTEN

CTE_NAMES = frozenset(("asked", *RESULTS_CTE_NAMES, *CHECKED_CTE_NAMES, *PROMPTS_CTE_NAMES))
"""The names of the common table expressions inside the steps, and their aliases."""


class UnusedNames:
    """Gives names that are not ``taken``: those of the user's columns and sources, in any case of letters."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {name.lower() for name in taken}

    def name(self, name: str) -> str:
        """Return the name, with underscores appended until it is not taken."""
        while name in self._taken:
            name += "_"
        return name

    def rename_ctes(self, query: Sql) -> Sql:
        """Rename common table expressions that have a name of the user's, in place.

        BigQuery would read them instead of a column, Snowflake instead of a source. What the user wrote stays.
        """
        for node in query.walk(prune=lambda node: WRITTEN in node.meta):
            if WRITTEN in node.meta or not isinstance(node, exp.TableAlias | exp.Table | exp.Column):
                continue
            name = node.args.get("table" if isinstance(node, exp.Column) else "this")
            if isinstance(name, exp.Identifier) and name.this in CTE_NAMES and not node.args.get("db"):
                name.set("this", self.name(name.this))
        return query
