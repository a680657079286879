"""Values of several rows: aggregates and window functions.

https://docs.snowflake.com/en/sql-reference/functions-aggregation, .../functions-window, from memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tests.standins.snowflake.nodes import Node, same
from tests.standins.snowflake.scope import BUILDERS, CALLS, Row, Scope, node
from tests.standins.snowflake.values import NUMBER, SnowflakeError, SqlType, order


def _kept(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "COUNT": len,
    "MAX": lambda values: max(values, key=order, default=None),
    "MIN": lambda values: min(values, key=order, default=None),
    "SUM": lambda values: sum(values) if values else None,
}
"""Of the values that are not NULL."""


def aggregates(tree: exp.Expr, query: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregate functions of a query's own, those of its subqueries and windows aside."""
    for found in tree.find_all(exp.Anonymous):
        own = found.find_ancestor(exp.Select) is query and not isinstance(found.parent, exp.Window)
        if own and found.name.upper() in AGGREGATES:
            yield found


def _aggregated(tree: exp.Expr, scope: Scope) -> tuple[SqlType, Callable[[list[Row]], Any]]:
    """The type of an aggregate function, and its value for some rows."""
    name, arguments = tree.name.upper(), tree.expressions
    if name == "COUNT" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        return NUMBER, len
    distinct = name == "COUNT" and len(arguments) == 1 and isinstance(arguments[0], exp.Distinct)
    if distinct and len(arguments[0].expressions) == 1:
        counted = node(arguments[0].expressions[0], scope)
        return NUMBER, lambda rows: len({order(value) for value in _kept([counted.value(row) for row in rows])})
    if len(arguments) != 1 or isinstance(arguments[0], exp.Distinct):
        raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
    value = node(arguments[0], scope)
    if value.type.name in ("VARIANT", "ARRAY", "OBJECT") and name != "COUNT":
        raise SnowflakeError(f"{name}: values of the type {value.type} are not known here")
    if name == "SUM" and value.type.name not in ("NUMBER", "FLOAT"):
        raise SnowflakeError(f"SUM: {value.type} is no number; cast it")
    run = AGGREGATES[name]
    return NUMBER if name == "COUNT" else value.type, lambda rows: run(_kept([value.value(row) for row in rows]))


def _aggregate(tree: exp.Expr, scope: Scope) -> Node:
    if scope.grouped is None:
        raise SnowflakeError(f"the aggregate {tree.sql('snowflake')[:200]} has no group")
    made, of = _aggregated(tree, replace(scope, grouped=None))
    key = f"#{len(scope.aggregates)}"
    scope.aggregates[key] = of
    return Node(made, operator.itemgetter(key))


def _window(tree: exp.Expr, scope: Scope) -> Node:
    """ROW_NUMBER in an order, equal rows in reverse, as they may be numbered; an aggregate over a whole partition."""
    function, ordered = tree.this, tree.args.get("order")
    parts = [node(part, scope) for part in tree.args.get("partition_by") or ()]
    name = function.name.upper() if isinstance(function, exp.Anonymous) else ""
    if tree.args.get("spec") or (name == "ROW_NUMBER") is (ordered is None) or name not in {*AGGREGATES, "ROW_NUMBER"}:
        raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
    key = f"#w{len(scope.windows)}"
    if name == "ROW_NUMBER":
        terms = (
            [(node(term.this, scope), bool(term.args.get("desc")), term) for term in ordered.expressions]
            if ordered
            else []
        )
        made: SqlType = NUMBER
    else:
        made, of = _aggregated(function, scope)

    def number(rows: list[Row]) -> None:
        found = rows[::-1]
        for value, descending, term in reversed(terms):
            missing = [row for row in found if value.value(row) is None]
            others = [row for row in found if value.value(row) is not None]
            others.sort(key=lambda row: order(value.value(row)), reverse=descending)
            found = missing + others if term.args.get("nulls_first") else others + missing
        for place, row in enumerate(found, 1):
            row[key] = place

    def fill(rows: list[Row]) -> None:
        groups: list[tuple[list[Any], list[Row]]] = []
        for row in rows:
            values = [part.value(row) for part in parts]
            for known, members in groups:
                if all(same(a, b, part.type) for a, b, part in zip(known, values, parts, strict=True)):
                    members.append(row)
                    break
            else:
                groups.append((values, [row]))
        for _, members in groups:
            if name == "ROW_NUMBER":
                number(members)
                continue
            value = of(members)
            for row in members:
                row[key] = value

    scope.windows.append(fill)
    return Node(made, operator.itemgetter(key))


CALLS.update(dict.fromkeys(AGGREGATES, _aggregate))
BUILDERS[exp.Window] = _window
