"""What an expression can name, and how a tree becomes a typed node."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from tests.standins.snowflake.nodes import Node
from tests.standins.snowflake.parsing import name_of
from tests.standins.snowflake.values import SnowflakeError, SqlType

Row = dict[str, Any]


@dataclass(frozen=True)
class Relation:
    """Columns, and the rows for a row of the query around it."""

    columns: dict[str, SqlType]
    run: Callable[[Row], list[Row]]


@dataclass(frozen=True)
class Environment:
    """Relations by their names; how a subquery is compiled; what answers AI_COMPLETE: (text or object, error)."""

    relations: Mapping[str, Relation]
    compiled: Callable[[exp.Expr, Environment, Scope | None], Relation]
    ask: Callable[[str], tuple[Any, str | None]] | None = None
    functions: Mapping[str, Any] = field(default_factory=dict)
    """The functions that a script made, by their names."""


@dataclass(frozen=True)
class Scope:
    """What an expression can name: relations' columns, lambdas' parameters, the query around.

    ``grouped``: the columns that a grouped query may name. What is computed of several rows stands in each row under a
    key of its own: ``windows`` write it there, ``aggregates`` are kept by that key.
    """

    environment: Environment
    sources: dict[str, dict[str, SqlType]]
    lambdas: dict[str, SqlType] = field(default_factory=dict)
    outer: Scope | None = None
    grouped: set[str] | None = None
    windows: list[Callable[[list[Row]], None]] = field(default_factory=list)
    aggregates: dict[str, Callable[[list[Row]], Any]] = field(default_factory=dict)
    grouped_trees: dict[exp.Expr, tuple[str, SqlType]] = field(default_factory=dict)
    """The expressions of GROUP BY, each with the place of its value."""
    outer_names: set[str] = field(default_factory=set)
    """The columns of the query around that it names."""

    def find(self, tree: exp.Expr) -> tuple[str, SqlType]:
        """A column's place in a row and its type: the innermost query that has it."""
        name, table = name_of(tree), tree.args.get("table")
        only = None if table is None else name_of(table)
        found = [
            (f"{source}.{name}", columns[name])
            for source, columns in self.sources.items()
            if only in (None, source) and name in columns
        ]
        if len(found) > 1:
            raise SnowflakeError(f"ambiguous column name {name}")
        if found:
            if self.grouped is not None and found[0][0] not in self.grouped:
                raise SnowflakeError(f"{tree.sql('snowflake')} is not a valid group by expression")
            return found[0]
        if self.outer is None:
            raise SnowflakeError(f"invalid identifier {tree.sql('snowflake')}")
        place, kind = self.outer.find(tree)
        self.outer_names.add(place)
        return place, kind


BUILDERS: dict[type[exp.Expr], Callable[[Any, Scope], Node]] = {}
"""How each kind of tree becomes a node; the modules of expressions fill it."""

CALLS: dict[str, Callable[[Any, Scope], Node]] = {}
"""The functions that see their arguments' trees: lambdas, aggregates, the model's call."""


def node(tree: exp.Expr, scope: Scope) -> Node:
    """The typed node of a tree."""
    if scope.grouped_trees and tree in scope.grouped_trees:
        place, kind = scope.grouped_trees[tree]
        return Node(kind, operator.itemgetter(place))
    build = BUILDERS.get(type(tree))
    if build is None:
        raise SnowflakeError(f"not known: {type(tree).__name__}: {tree.sql('snowflake')[:200]}")
    return build(tree, scope)
