"""References to the relations and columns of a plan's queries, as one engine names them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Dialect, exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import column, identifier
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import STRING, Type
from sqlenrich.plan.relations import Symbol, symbol


@dataclass(frozen=True)
class References:
    """Builds references for one engine; relations are symbols."""

    engine: Engine

    def table(self, role: str, alias: str | None = None) -> Symbol:
        """Return a reference to the relation of a role."""
        return symbol(role, alias)

    def col(self, name: str, table: str | None = None) -> exp.Column:
        """Return a reference to a column."""
        return column(self.engine, name, table)

    def named(self, value: Sql, name: str) -> Sql:
        """Return a value under a name."""
        if isinstance(value, exp.Column) and value.name == name:
            return value
        return exp.Alias(this=value, alias=identifier(self.engine, name))

    def null(self, kind: Type) -> Sql:
        """Return a NULL of a type."""
        return exp.Cast(this=exp.Null(), to=self.engine.sql_type(kind))

    def text(self, value: str | None) -> Sql:
        """Return a text as a literal; None as a NULL of its type."""
        return self.null(STRING) if value is None else literal(value)

    def asked(self) -> Sql:
        """Return the condition that a row of ``responses`` answers a request of this run."""
        hashes = exp.select(self.col("request_hash"), copy=False).from_(self.table("prompts"), copy=False)
        return exp.In(this=self.col("request_hash"), query=hashes.subquery(copy=False))

    def ordered(self, value: Sql, *, desc: bool = False) -> exp.Ordered:
        """Order by a value that is never NULL: the engine's own place for NULL is left unsaid."""
        ordering = Dialect.get_or_raise(self.engine.dialect).NULL_ORDERING
        first = ordering == ("nulls_are_large" if desc else "nulls_are_small")
        return exp.Ordered(this=value, desc=desc or None, nulls_first=first)
