"""The relations of a plan: symbols inside its queries, and the map from symbols to tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, SpecError, UnsupportedError
from sqlenrich.core.function_modes import Functions
from sqlenrich.core.functions import PREFIX, SharedFunction, called, digest
from sqlenrich.core.names import relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.engines import get_engine
from sqlenrich.spec.enrichment import Enrichment

RELATIONS = {
    "prompts": "{}_prompts",
    "pending": "{}_pending",
    "responses": "{}_responses",
    "lock": "{}_lock",
    "checked": "{}_checked",
    "enriched": "{}",
    "quarantine": "{}_quarantine",
    "evaluations": "{}_evaluations",
    "profiles": "{}_profiles",
    "weights": "{}_weights",
    "scores": "{}_scores",
}
"""The relations that a plan makes, and the pattern of each name: ``{}`` is the enrichment's name."""


REVIEWS = "{}_reviews"
"""The table of reviewers' verdicts, which no plan makes."""


def tables_named_after(name: str) -> tuple[str, ...]:
    """Return the tables that the runs and reviews of an enrichment of this name write."""
    return tuple(form.format(name) for form in (*RELATIONS.values(), REVIEWS))


def shared_table(name: str, other: str, *, folds_names: bool = True) -> str | None:
    """Return a table that two enrichments of different names would both write; None for none.

    ``folds_names``: the database ignores the case of tables' names.
    """
    theirs = {_folded(table, folds_names) for table in tables_named_after(other)}
    return next((table for table in tables_named_after(name) if _folded(table, folds_names) in theirs), None)


def check_names(names: Mapping[str, str]) -> None:
    """Refuse enrichments that would write each other's tables. ``names`` maps the place of each to its name.

    The case of names is ignored, as most databases do. Raises ConfigError.
    """
    for (place, name), (other_place, other) in combinations(names.items(), 2):
        if name != other and (table := shared_table(name, other)) is not None:
            case = " (most databases ignore the case of a name)" if name.lower() == other.lower() else ""
            raise ConfigError(f"{place} and {other_place} would both write the table {table}{case}; rename one of them")


def _folded(table: str, folds_names: bool) -> str:
    return table.lower() if folds_names else table


class Symbol(exp.Table):
    """A relation of a plan by its role (``source`` or a key of RELATIONS). It can't be printed before it is bound."""


def symbol(role: str, alias: str | None = None) -> Symbol:
    """Return a reference to the relation of a role."""
    table = Symbol(this=exp.to_identifier(role))
    if alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return table


@dataclass(frozen=True)
class Relations:
    """The table of each role on one engine. Roles without a table may not occur in a query."""

    engine: Engine
    tables: Mapping[str, exp.Table]
    functions: Functions = "inline"
    """Where the expressions that every enrichment repeats stand."""
    repeated: frozenset[str] | None = None
    """The functions to call; the expressions of others stand where they are needed. None: all."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the engine's name: its functions can't be pickled."""
        return _relations, (self.engine.name, dict(self.tables), self.functions, self.repeated)

    def table(self, role: str) -> exp.Table:
        """Return a new reference to the table of a role."""
        return self.tables[role].copy()

    def text(self, role: str) -> str:
        """Return the table of a role as the engine writes it."""
        return self.tables[role].sql(self.engine.dialect)

    def text_beside(self, role: str, suffix: str) -> str:
        """Return a table whose name is that of a role and a suffix, as the engine writes it."""
        table = self.table(role)
        table.this.set("this", table.name + suffix)
        return table.sql(self.engine.dialect)

    def bound(self, query: Sql) -> Sql:
        """Return a copy of a query in which each symbol is its table."""
        query = query.copy()
        for found in list(query.find_all(Symbol)):
            table = self.table(found.name)
            if alias := found.args.get("alias"):
                table.set("alias", alias)
            found.replace(table)
        return query if self.functions == "inline" else called(query, self.function)

    def function(self, function: SharedFunction) -> str | None:
        """Return the name of a shared function as the engine writes it; None where its expression is to stand.

        One that stays is in the schema of the results. The digest of its expression is in its name, so that another
        version of this package does not change what a script computes.
        """
        if self.repeated is not None and function.name not in self.repeated:
            return None
        name = PREFIX + function.name
        if self.functions == "temporary":
            return name
        schema = [part.sql(self.engine.dialect) for part in self.tables["enriched"].parts][:-1]
        return ".".join([*schema, f"{name}_{digest(self.sql(function.expression()))}"])

    def sql(self, query: Sql) -> str:
        """Print a query with the tables of this map."""
        return print_sql(self.engine, self.bound(query), copy=False)

    def line(self, query: Sql) -> str:
        """Print on one line a statement that nobody reads: it takes half the time."""
        return print_sql(self.engine, self.bound(query), pretty=False, copy=False)

    def renamed(self, names: Mapping[str, str]) -> Relations:
        """Return the same map with other tables for some roles. Raises ConfigError for an invalid name."""
        return replace(self, tables={**self.tables, **{role: _table(self.engine, n) for role, n in names.items()}})


def _relations(engine: str, tables: Mapping[str, exp.Table], *functions: Any) -> Relations:
    return Relations(get_engine(engine), tables, *functions)


def relations_of(enrichment: Enrichment, engine: Engine, given: Mapping[str, str]) -> Relations:
    """Return the tables of an enrichment's roles. ``given`` replaces default names.

    The role ``source`` is absent where the header has a query and none is given. Raises
    :class:`~sqlenrich.ConfigError` for two relations of one name, :class:`~sqlenrich.SpecError` for a missing source,
    :class:`~sqlenrich.UnsupportedError` for a name that the engine does not allow.
    """
    source = given.get("source", enrichment.source)
    if source is None and enrichment.query is None:
        raise SpecError(enrichment.place, ['no source: write "source: schema.table" in the header, or give one'])
    found = result_relations(enrichment.name, engine, {**given, **({} if source is None else {"source": source})})
    read = [found.tables["source"]] if source is not None else _tables_of(enrichment.query, engine)
    _check_sources(read, found.tables, engine)
    return found


def result_relations(name: str, engine: Engine, given: Mapping[str, str]) -> Relations:
    """Return the tables of the roles of an enrichment of this name, of ``source`` only where it is given.

    Raises as :func:`relations_of` does.
    """
    unknown = sorted(set(given) - {"source", *RELATIONS})
    if unknown:
        raise ConfigError(f"no step is called {', '.join(unknown)}; there are: source, {', '.join(RELATIONS)}")
    names = {role: given.get(role, form.format(name)) for role, form in RELATIONS.items()}
    if "source" in given:
        names["source"] = given["source"]
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


def with_functions(relations: Relations, functions: Functions) -> Relations:
    """Return the relations for queries that call functions. Raises UnsupportedError if the engine can't make them."""
    syntax = relations.engine.functions
    if functions != "inline" and syntax is None:
        raise UnsupportedError(relations.engine.name, f"functions: {functions}", "write inline")
    unqualified = len(list(relations.tables["enriched"].parts)) == 1
    if functions == "installed" and syntax is not None and syntax.needs_schema and unqualified:
        raise UnsupportedError(
            relations.engine.name,
            "a function that stays without its dataset",
            "name the dataset of the results, by a target or by relations, or write temporary",
        )
    return replace(relations, functions=functions)


def _tables_of(query: str | None, engine: Engine) -> list[exp.Table]:
    """Return the tables that a source query reads; none of a text that is no query, which is refused elsewhere."""
    try:
        tree = sqlglot.parse_one(query or "", read=engine.dialect)
    except sqlglot.errors.SqlglotError:
        return []
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    found = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)]
    return [table for table in found if table.args.get("db") or table.name.lower() not in named]


def source_notes(enrichment: Enrichment, relations: Relations) -> list[str]:
    """Return a line for the head of a script where a source is a made table in one schema, which its guards tell."""
    engine, tables = relations.engine, relations.tables
    read = [tables["source"]] if "source" in tables else _tables_of(enrichment.query, engine)
    return [
        f"Needs: a current schema without the source {_shown(source, engine)}: there it would be the {role} table"
        for source, role, table in _same_names(read, tables)
        if len(source.parts) > len(table.parts)
    ]


def _check_sources(read: Sequence[exp.Table], tables: Mapping[str, exp.Table], engine: Engine) -> None:
    """Refuse a source that is a table that the plan makes, or that is one in the schema of the results.

    A source with more parts than the result may be it in one schema alone, where a script's guards find it.
    Raises ConfigError.
    """
    for source, role, table in _same_names(read, tables):
        if len(source.parts) <= len(table.parts):
            raise ConfigError(
                f"the source {_shown(source, engine)} may be the {role} table {_shown(table, engine)} that a run "
                "writes: the current schema decides; write the source with its schema, or rename the prompt file"
            )


def _same_names(
    read: Sequence[exp.Table], tables: Mapping[str, exp.Table]
) -> Iterator[tuple[exp.Table, str, exp.Table]]:
    """Return the sources and made tables of one name: names are compared by the parts that both have."""
    for source, (role, table) in product(read, tables.items()):
        ours, theirs = ([part.name.lower() for part in reversed(each.parts)] for each in (table, source))
        if role != "source" and all(a == b for a, b in zip(ours, theirs, strict=False)):
            yield source, role, table


def _shown(table: exp.Table, engine: Engine) -> str:
    return ".".join(part.sql(engine.dialect) for part in table.parts)


def check_name(engine: Engine, name: str) -> None:
    """Refuse a name that the engine does not allow. Raises UnsupportedError."""
    if problem := "contains NUL" if "\0" in name else engine.name_problem(name):
        raise UnsupportedError(engine.name, f'the name "{name}" {problem}', "rename it, e.g. in a source query")


def check_column(engine: Engine, name: str) -> None:
    """Refuse a key or kept column that the result tables can't have. Raises UnsupportedError."""
    problem = (engine.column_problem or engine.name_problem)(name)
    if problem is not None:
        raise UnsupportedError(
            engine.name,
            f'the name "{name}" {problem}',
            f'give it another name in the header, as in columns: {{name: {{from: "{name}"}}}}',
        )


def _table(engine: Engine, name: str) -> exp.Table:
    try:
        return relation(engine, name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
