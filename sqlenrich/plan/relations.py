"""The relations of an enrichment on one engine: what they are called, and references to them and to their columns."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, SpecError, UnsupportedError
from sqlenrich.core.names import column, identifier, relation
from sqlenrich.core.sql import Sql
from sqlenrich.spec.enrichment import Enrichment

RELATIONS = {
    "prompts": "{}_prompts",
    "pending": "{}_pending",
    "responses": "{}_responses",
    "checked": "{}_checked",
    "enriched": "{}",
    "quarantine": "{}_quarantine",
}
"""The relations of an enrichment and how they are named after it."""


class Relations:
    """The source and the steps' relations; ``given`` names those that are not the defaults.

    Raises :class:`~sqlenrich.ConfigError` for relations that clash, :class:`~sqlenrich.UnsupportedError` for a name
    that the engine can't hold.
    """

    def __init__(self, enrichment: Enrichment, engine: Engine, given: Mapping[str, str]) -> None:
        self.e, self.engine = enrichment, engine
        self.tables = self._tables(given)

    def _tables(self, given: Mapping[str, str]) -> dict[str, exp.Table]:
        unknown = sorted(set(given) - {"source", *RELATIONS})
        if unknown:
            raise ConfigError(f"no step is called {', '.join(unknown)}; there are: source, {', '.join(RELATIONS)}")
        names = {step: given.get(step, form.format(self.e.name)) for step, form in RELATIONS.items()}
        source = given.get("source", self.e.source)
        if source is not None:
            names["source"] = source
        elif self.e.query is None:
            raise SpecError(self.e.place, ['no source: write "source: schema.table" in the header, or give one'])
        tables: dict[str, exp.Table] = {}
        for step, name in names.items():
            try:
                tables[step] = relation(self.engine, name)
            except ValueError as error:
                raise ConfigError(str(error)) from None
            for part in tables[step].parts:
                self.check_name(part.name)
        seen: dict[str, str] = {}
        for step, table in tables.items():
            other = seen.setdefault(table.sql(self.engine.dialect).lower(), step)
            if other != step:
                raise ConfigError(
                    f"{step} and {other} are the same table {table.sql(self.engine.dialect)}; name one differently"
                )
        return tables

    def check_name(self, name: str) -> None:
        """Refuse a name that the engine can't hold."""
        if problem := "holds NUL" if "\0" in name else self.engine.name_problem(name):
            raise UnsupportedError(
                self.engine.name, f'the name "{name}" {problem}', "rename it, e.g. in a source query"
            )

    def text(self, step: str) -> str:
        """Give the relation of a step as the engine writes it."""
        return self.tables[step].sql(self.engine.dialect)

    def table(self, step: str, alias: str | None = None) -> exp.Table:
        """Give a reference to the relation of a step."""
        table = self.tables[step].copy()
        if alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        return table

    def col(self, name: str, table: str | None = None) -> exp.Column:
        """Give a reference to a column."""
        return column(self.engine, name, table)

    def named(self, value: Sql, name: str) -> Sql:
        """Give a value under a name."""
        if isinstance(value, exp.Column) and value.name == name:
            return value
        return exp.Alias(this=value, alias=identifier(self.engine, name))
