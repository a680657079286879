"""Queries inside of expressions: EXISTS, and a query as a value.

https://docs.snowflake.com/en/user-guide/querying-subqueries, from memory.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from tests.standins.snowflake.nodes import Node
from tests.standins.snowflake.scope import BUILDERS, Row, Scope
from tests.standins.snowflake.values import BOOLEAN, SnowflakeError


def _exists(tree: exp.Expr, scope: Scope) -> Node:
    relation = scope.environment.compiled(tree.this, scope.environment, scope)
    return Node(BOOLEAN, lambda row: bool(relation.run(row)))


def _value(tree: exp.Expr, scope: Scope) -> Node:
    """The one value of a query: NULL where it has no row."""
    relation = scope.environment.compiled(tree.this, scope.environment, scope)
    if len(relation.columns) != 1:
        raise SnowflakeError("a subquery as a value has one column")
    ((label, kind),) = relation.columns.items()

    def value(row: Row) -> Any:
        found = relation.run(row)
        if len(found) > 1:
            raise SnowflakeError("Single-row subquery returns more than one row.")
        return found[0][label] if found else None

    return Node(kind, value)


BUILDERS |= {exp.Exists: _exists, exp.Subquery: _value}
