"""What runs of an enrichment left in a database: the ledger's lines and the tables, on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import column, relation
from sqlenrich.core.sql import Sql, cast, literal
from sqlenrich.core.types import STRING, Type
from sqlenrich.plan.relations import RELATIONS, REVIEWS, Relations, result_relations, symbol
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.enrichment import RESERVED_COLUMNS
from sqlenrich.store.database import Database
from sqlenrich.store.ledger import COLUMNS, LEDGER
from sqlenrich.store.run_line import RunLine, read_lines
from sqlenrich.store.shared_request import SharedRequest
from sqlenrich.store.values import read_value, shown_value

VERSION = "was made by another version of sqlenrich: run it again (what is answered is not paid again)"
ALL_RUNS, LAST_RUN = "", "last"
"""The rows of all runs, and the word for the newest run."""
LISTED = 500
"""The values that one condition lists."""
ROLES: Mapping[str, str] = {**RELATIONS, "reviews": REVIEWS}
"""The tables of an enrichment that people read, and the pattern of each name."""

HASHED: Mapping[str, str] = {
    "prompts": "request_hash",
    "responses": "request_hash",
    "checked": "request_hash",
    "enriched": "_request_hash",
    "quarantine": "_request_hash",
    "reviews": "request_hash",
}
"""The column of the request in each table that has one."""
ROW_ROLES = ("prompts", "checked", "enriched", "quarantine")
"""The tables that have rows of the source."""


@dataclass(frozen=True)
class Store:
    """An open database, and what runs of an enrichment left in it."""

    database: Database
    name: str
    """The enrichment's name."""
    contract: OutputContract
    output: str
    """The output as the caller named it."""
    _columns: dict[str, Mapping[str, Type | None]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The columns of each table that was looked for."""

    @property
    def engine(self) -> Engine:
        """The engine whose SQL the database runs."""
        return self.database.engine

    # Runs ------------------------------------------------------------------------------------------------------------

    @cached_property
    def lines(self) -> Mapping[str, RunLine]:
        """The lines of all runs in the database by their ids, the oldest first; none without a ledger."""
        return ledger_lines(self.database)

    @cached_property
    def runs(self) -> tuple[RunLine, ...]:
        """The runs of the enrichment, the oldest first."""
        return tuple(line for line in self.lines.values() if line.name == self.name)

    @cached_property
    def last(self) -> RunLine:
        """The last run of the enrichment that made its tables. Raises ConfigError where there is none."""
        if not self.runs:
            raise ConfigError(f"{self.database.home} holds no run of {self.name}: run it first")
        made = [line for line in self.runs if line.made_tables]
        return made[-1] if made else self.runs[-1]

    @cached_property
    def unpublished(self) -> RunLine | None:
        """A later run that made the prompts anew and left the results as they were."""
        later = self.runs[self.runs.index(self.last) + 1 :]
        return next((line for line in reversed(later) if line.snapshot is not None), None)

    @property
    def request(self) -> SharedRequest:
        """What the requests of the last run share. Raises ConfigError where it is unknown."""
        if self.last.request is None:
            what = self.last.problem or f"its line {self.last.run_id} of {LEDGER} {VERSION}"
            raise ConfigError(f"{self.database.home} does not tell what the last run of {self.name} asked: {what}")
        return self.last.request

    def run_id(self, named: str | None) -> str:
        """Return the id of a run by its name: an id, ``last``, or None for all runs. Raises ConfigError."""
        if named is None:
            return ALL_RUNS
        known = [run.run_id for run in self.runs]
        if named == LAST_RUN and known:
            return known[-1]
        if named not in known:
            shown = ", ".join(known[-3:]) or "none"
            raise ConfigError(f"{self.output} has no run {named} of {self.name}; the last ones are: {shown}")
        return named

    # Tables ----------------------------------------------------------------------------------------------------------

    def table(self, role: str) -> str:
        """Return the table of a role, as the engine writes it. The last run may have named that of the answers."""
        if role == "responses" and self.runs:
            return self.answers_of(self.last)
        return self.database.named(ROLES[role].format(self.name))

    def answers_of(self, run: RunLine) -> str:
        """Return the table of a run's answers, as the engine writes it."""
        return run.responses if "." in run.responses else self.database.named(run.responses)

    def has(self, role: str) -> bool:
        """Tell whether the table of a role is there."""
        return bool(self.columns(role))

    def columns(self, role: str) -> Mapping[str, Type | None]:
        """Return the columns of the table of a role and their types; none where it is not there."""
        if role not in self._columns:
            self._columns[role] = self.database.columns(self.table(role)) or {}
        return self._columns[role]

    @cached_property
    def relations(self) -> Relations:
        """The tables of the enrichment by role, for queries over symbols."""
        named = {role: self.table(role) for role in RELATIONS}
        return result_relations(self.name, self.engine, named).renamed({"reviews": self.table("reviews")})

    def rows(self, query: exp.Query) -> list[tuple[Any, ...]]:
        """Run a query over symbols and return its rows."""
        bound = self.relations.bound(query)
        assert isinstance(bound, exp.Query)
        return self.database.rows(bound)

    def number(self, query: exp.Query) -> int:
        """Run a query over symbols that gives one number; 0 for NULL."""
        return int(self.rows(query)[0][0] or 0)

    def among(self, query: exp.Select, name: Sql, values: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose column is one of some values, some hundred of them at a time."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(values), LISTED):
            listed = [literal(value) for value in values[start : start + LISTED]]
            found += self.rows(query.where(exp.In(this=name.copy(), expressions=listed)))
        return found

    def condition(self, where: str) -> exp.Expr:
        """Return a condition that a person wrote in the engine's SQL. Raises ConfigError where it can't be read."""
        try:
            return sqlglot.condition(where, dialect=self.engine.dialect)
        except sqlglot.errors.SqlglotError as error:
            raise ConfigError(f"where {where}: {str(error).splitlines()[0]}") from None

    def of_key(self, key: Mapping[str, str]) -> Sql:
        """Return the test that a row has a key, whose values are texts."""
        text = self.engine.sql_type(STRING)
        tests = (
            exp.EQ(this=cast(column(self.engine, name), text.copy()), expression=literal(value))
            for name, value in key.items()
        )
        return exp.and_(*tests)

    def sql(self, query: Sql) -> str:
        """Return a query as the engine writes it, for people."""
        return self.relations.sql(query)

    def reopened(self) -> Store:
        """Return the store as it is now: the lines of the ledger and the tables are read again."""
        return Store(self.database, self.name, self.contract, self.output)

    # Rows of results -------------------------------------------------------------------------------------------------

    @property
    def fields(self) -> list[str]:
        """The output fields."""
        return list(self.contract.readings)

    @cached_property
    def shown_columns(self) -> list[str]:
        """The key and the kept columns of the accepted rows."""
        own = {*self.contract.readings, *RESERVED_COLUMNS}
        return [name for name in self.columns("enriched") if name not in own]

    def answers(self, requests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the accepted answer of each of some requests, by field; a request without one is left out."""
        readings = self.contract.readings
        return {
            request: {name: read_value(value, kind) for (name, kind), value in zip(readings.items(), row, strict=True)}
            for request, row in self.first_rows("enriched", self.fields, requests).items()
        }

    def shown_rows(self, requests: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the key and the kept columns of the first accepted row of each of some requests."""
        names = self.shown_columns
        return {
            request: dict(zip(names, map(shown_value, row), strict=True))
            for request, row in self.first_rows("enriched", names, requests).items()
        }

    def prompts(self, requests: Sequence[str]) -> dict[str, str]:
        """Return the stored prompt of each of some requests; one whose prompt was not kept is left out."""
        if not self.has("prompts"):
            return {}
        found = exp.select("request_hash", "MIN(prompt)").from_(symbol("prompts")).where("prompt IS NOT NULL")
        rows = self.among(found.group_by("request_hash"), exp.column("request_hash"), requests)
        return {str(request): str(prompt) for request, prompt in rows}

    def first_rows(self, role: str, names: Sequence[str], requests: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return some columns of one row of each request, with the driver's values.

        It is the least row, so that each engine gives the same one.
        """
        columns = [column(self.engine, name) for name in ("_request_hash", *names)]
        found: dict[str, tuple[Any, ...]] = {}
        for request, *values in self.among(exp.select(*columns).from_(symbol(role)), columns[0], requests):
            row = tuple(values)
            if request not in found or _order(row) < _order(found[request]):
                found[str(request)] = row
        return found


def _order(row: tuple[Any, ...]) -> str:
    return str([shown_value(value) for value in row])


def ledger_lines(database: Database) -> dict[str, RunLine]:
    """Return the lines of all runs in a database by their ids, the oldest first; none without a ledger."""
    table = database.named(LEDGER)
    found = database.columns(table) or {}
    if not found:
        return {}
    listed = [column(database.engine, name) if name in found else exp.alias_(exp.Null(), name) for name in COLUMNS]
    return read_lines(database.rows(exp.select(*listed).from_(relation(database.engine, table))))


def stored_contract(database: Database, name: str) -> OutputContract | None:
    """Return the contract of the last run of a name; None where there is no run. No prompt file is needed."""
    known = [line.request for line in ledger_lines(database).values() if line.name == name and line.request is not None]
    return known[-1].contract if known else None
