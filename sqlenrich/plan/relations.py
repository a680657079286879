"""The relations of a plan: symbols inside its queries, and the map from symbols to tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, SpecError, UnsupportedError
from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.engines import get_engine
from sqlenrich.spec.enrichment import Enrichment

RELATIONS = {
    "prompts": "{}_prompts",
    "pending": "{}_pending",
    "responses": "{}_responses",
    "checked": "{}_checked",
    "enriched": "{}",
    "quarantine": "{}_quarantine",
}
"""The relations that a plan makes, and the pattern of each name: ``{}`` is the enrichment's name."""


class Symbol(exp.Table):
    """A relation of a plan by its role (``source`` or a key of RELATIONS). It can't be printed before it is bound."""


def symbol(role: str, alias: str | None = None) -> Symbol:
    """Give a reference to the relation of a role."""
    table = Symbol(this=exp.to_identifier(role))
    if alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return table


@dataclass(frozen=True)
class Relations:
    """The table of each role on one engine. Roles without a table may not occur in a query."""

    engine: Engine
    tables: Mapping[str, exp.Table]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the engine's name: its functions can't be pickled."""
        return _relations, (self.engine.name, dict(self.tables))

    def table(self, role: str) -> exp.Table:
        """Give a new reference to the table of a role."""
        return self.tables[role].copy()

    def text(self, role: str) -> str:
        """Give the table of a role as the engine writes it."""
        return self.tables[role].sql(self.engine.dialect)

    def bound(self, query: Sql) -> Sql:
        """Give a copy of a query in which each symbol is its table."""
        query = query.copy()
        for found in list(query.find_all(Symbol)):
            table = self.table(found.name)
            if alias := found.args.get("alias"):
                table.set("alias", alias)
            found.replace(table)
        return query

    def sql(self, query: Sql) -> str:
        """Print a query with the tables of this map."""
        return print_sql(self.engine, self.bound(query))

    def renamed(self, names: Mapping[str, str]) -> Relations:
        """Give the same map with other tables for some roles. Raises ConfigError for an invalid name."""
        return Relations(self.engine, {**self.tables, **{role: _table(self.engine, n) for role, n in names.items()}})


def _relations(engine: str, tables: Mapping[str, exp.Table]) -> Relations:
    return Relations(get_engine(engine), tables)


def relations_of(enrichment: Enrichment, engine: Engine, given: Mapping[str, str]) -> Relations:
    """Give the tables of an enrichment's roles. ``given`` replaces default names.

    The role ``source`` is absent where the header has a query and none is given. Raises
    :class:`~sqlenrich.ConfigError` for two relations of one name, :class:`~sqlenrich.SpecError` for a missing source,
    :class:`~sqlenrich.UnsupportedError` for a name that the engine does not allow.
    """
    unknown = sorted(set(given) - {"source", *RELATIONS})
    if unknown:
        raise ConfigError(f"no step is called {', '.join(unknown)}; there are: source, {', '.join(RELATIONS)}")
    names = {role: given.get(role, form.format(enrichment.name)) for role, form in RELATIONS.items()}
    source = given.get("source", enrichment.source)
    if source is not None:
        names["source"] = source
    elif enrichment.query is None:
        raise SpecError(enrichment.place, ['no source: write "source: schema.table" in the header, or give one'])
    tables = {role: _table(engine, name) for role, name in names.items()}
    for table in tables.values():
        for part in table.parts:
            check_name(engine, part.name)
    seen: dict[str, str] = {}
    for role, table in tables.items():
        printed = table.sql(engine.dialect)
        other = seen.setdefault(printed.lower(), role)
        if other != role:
            raise ConfigError(f"{role} and {other} are the same table {printed}; name one differently")
    return Relations(engine, tables)


def check_name(engine: Engine, name: str) -> None:
    """Refuse a name that the engine does not allow. Raises UnsupportedError."""
    if problem := "contains NUL" if "\0" in name else engine.name_problem(name):
        raise UnsupportedError(engine.name, f'the name "{name}" {problem}', "rename it, e.g. in a source query")


def _table(engine: Engine, name: str) -> exp.Table:
    try:
        return relation(engine, name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
