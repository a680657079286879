"""The models that a variable of dbt chooses between: what differs between their plans, as values by alias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.engine import Engine
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.dbt.jinja import string
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import Plan
from sqlenrich.plan.relations import symbol
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config

CONSTANT = "constant"
"""The value that precedes each prompt in its hash."""
PLACES: Mapping[str, str] = {"dataset": "model_dataset", "connection": "model_connection"}
"""What a variable of the project can replace in a call, and the macro of the package that reads the variable."""


def model_macro(enrichment: str) -> str:
    """Return the name of the macro that gives the values of the chosen model."""
    return f"{enrichment}__model"


def other_models(enrichment: Enrichment, engine: str, config: Config) -> list[str]:
    """Return the aliases of ``sqlenrich.toml`` that name a model of the engine, but for the file's own."""
    key = get_engine(engine).settings_key
    wrong = DEFAULT_ALIASES[enrichment.embedding is None]  # answers and vectors have different models
    found = (name for name in config.models if name not in (enrichment.model, wrong))
    return [name for name in found if config.model(name, key) is not None]


@dataclass
class Variants:
    """The plans of one engine by alias, first the file's own, and the values in which their queries differ."""

    engine: Engine
    macro: str
    plans: Mapping[str, Plan]
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By name: the SQL of each alias, in the order of ``plans``."""
    pieces: dict[str, str] = field(default_factory=dict)
    """By the name of a symbol: the Jinja in its place."""

    def forms(self, step: str, queries: Mapping[str, Sql]) -> list[tuple[str, Sql]]:
        """Return the queries of a step that differ by more than values, each with the condition that chooses it.

        Values that differ are symbols in them.
        """
        places: dict[str, list[Any]] = {}
        found: dict[str, list[str]] = {}
        trees = {alias: query.copy() for alias, query in queries.items()}
        for alias, tree in trees.items():
            _mark_places(self.engine, tree)
            leaves: list[Any] = []
            found.setdefault(repr(_shape(tree, leaves)), []).append(alias)
            places[alias] = leaves
        for aliases in found.values():
            self._parametrize(aliases, places)
        if len(found) == 1:
            return [("", trees[next(iter(trees))])]
        number = {alias: n for n, aliases in enumerate(found.values()) for alias in aliases}
        self.values[step] = tuple(str(number[alias]) for alias in self.plans)
        chosen = f"{self.macro}('{step}') | trim == "
        return [(f"{chosen}'{n}'", trees[aliases[0]]) for n, aliases in enumerate(found.values())]

    def _parametrize(self, aliases: list[str], places: Mapping[str, list[Any]]) -> None:
        """Replace the leaves of the first tree that differ in another by symbols."""
        first = aliases[0]
        for number, leaf in enumerate(places[first]):
            by_alias = {alias: places[alias][number] for alias in aliases}
            constant = isinstance(leaf, exp.Literal) and leaf.this == self.plans[first].constant
            place = leaf.meta.get("place")
            equal = all(one == leaf for one in by_alias.values())
            if equal and not constant and place is None:
                continue
            sql = {alias: print_sql(self.engine, one) for alias, one in by_alias.items()}
            if not constant and equal:
                if place is not None:
                    self._put(leaf, place, f"sqlenrich.{PLACES[place]}({string(sql[first])})")
                continue
            values = tuple(sql.get(alias, sql[first]) for alias in self.plans)
            name = self._name(leaf, values, constant=constant)
            self.values[name] = values
            called = f"{self.macro}('{name}')"
            self._put(leaf, name, called if place is None else f"sqlenrich.{PLACES[place]}({called})")

    def _name(self, leaf: Sql, values: tuple[str, ...], *, constant: bool) -> str:
        for name, known in self.values.items():
            if known == values:
                return name
        request = self.plans[next(iter(self.plans))].responses.request
        name = leaf.meta.get("place") or "value"
        if constant:
            name = CONSTANT
        elif isinstance(leaf, exp.Literal) and request is not None and leaf.this == request.model:
            name = "model"
        return name if name not in self.values else f"{name}{len(self.values)}"

    def _put(self, leaf: Sql, name: str, called: str) -> None:
        leaf.replace(symbol(name))
        self.pieces[name] = f"{{{{ {called} }}}}"

    def table(self) -> dict[str, dict[str, str]]:
        """Return the values by alias."""
        return {
            alias: {name: texts[number] for name, texts in self.values.items()}
            for number, alias in enumerate(self.plans)
        }


def _mark_places(engine: Engine, query: Sql) -> None:
    """Make one leaf of a remote model's dataset, and name it and the connection of a call by what they are."""
    for call in query.find_all(exp.GenerateText, exp.GenerateEmbedding):
        table = call.this
        parts = [table.args[key] for key in ("catalog", "db") if table.args.get(key)]
        if parts:
            dataset = exp.var(".".join(print_sql(engine, part) for part in parts))
            dataset.meta["place"] = "dataset"
            table.set("catalog", None)
            table.set("db", dataset)
    for argument in query.find_all(exp.Kwarg):
        if argument.this.name == "connection_id":
            argument.expression.meta["place"] = "connection"


def _shape(node: Any, leaves: list[Any]) -> Any:
    """Return the form of a tree without its leaves, and collect these in their order."""
    if isinstance(node, exp.Literal | exp.Identifier | exp.Var):
        leaves.append(node)
        return type(node).__name__
    if isinstance(node, exp.Expression):
        arguments = sorted((key, value) for key, value in node.args.items() if value not in (None, [], False))
        return type(node).__name__, [(key, _shape(value, leaves)) for key, value in arguments]
    return [_shape(one, leaves) for one in node] if isinstance(node, list) else repr(node)
