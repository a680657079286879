"""References to the relations and columns of a plan's queries, as one engine names them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column, identifier
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.plan.relations import Symbol, symbol


@dataclass(frozen=True)
class References:
    """Builds references for one engine; relations are symbols."""

    engine: Engine

    def table(self, role: str, alias: str | None = None) -> Symbol:
        """Give a reference to the relation of a role."""
        return symbol(role, alias)

    def col(self, name: str, table: str | None = None) -> exp.Column:
        """Give a reference to a column."""
        return column(self.engine, name, table)

    def named(self, value: Sql, name: str) -> Sql:
        """Give a value under a name."""
        if isinstance(value, exp.Column) and value.name == name:
            return value
        return exp.Alias(this=value, alias=identifier(self.engine, name))

    def null(self, kind: Type) -> Sql:
        """Give a NULL of a type."""
        return exp.Cast(this=exp.Null(), to=self.engine.sql_type(kind))
