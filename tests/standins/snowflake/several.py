"""Values of several rows: aggregates and window functions.

https://docs.snowflake.com/en/sql-reference/functions-aggregation, .../functions-window, from memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp

from tests.standins.snowflake.equality import Groups
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
    """ROW_NUMBER, NTILE and DENSE_RANK in an order; an aggregate over a partition, with an order over its rows.

    ROW_NUMBER numbers equal rows in reverse, as they may be numbered. An aggregate with an order has the frame that
    Snowflake takes where none is written: up to the current row and those equal to it.
    """
    function, ordered = tree.this, tree.args.get("order")
    parts = [node(part, scope) for part in tree.args.get("partition_by") or ()]
    name = function.name.upper() if isinstance(function, exp.Anonymous) else ""
    ranks = name in ("ROW_NUMBER", "NTILE", "DENSE_RANK")
    tiles = int(function.expressions[0].name) if name == "NTILE" else 1
    if tree.args.get("spec") or (ranks and ordered is None) or not (ranks or name in AGGREGATES):
        raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
    key = f"#w{len(scope.windows)}"
    terms = [(node(term.this, scope), term) for term in ordered.expressions] if ordered else []
    made, of = (NUMBER, len) if ranks else _aggregated(function, scope)

    def in_order(rows: list[Row]) -> list[list[Row]]:
        """Groups of equal rows."""
        found = rows[::-1]
        for value, term in reversed(terms):
            missing = [row for row in found if value.value(row) is None]
            others = [row for row in found if value.value(row) is not None]
            others.sort(key=lambda row: order(value.value(row)), reverse=bool(term.args.get("desc")))
            found = missing + others if term.args.get("nulls_first") else others + missing
        peers: list[list[Row]] = []
        for row in found:
            if peers and all(same(value.value(row), value.value(peers[-1][0]), value.type) for value, _ in terms):
                peers[-1].append(row)
            else:
                peers.append([row])
        return peers

    def fill(rows: list[Row]) -> None:
        groups = Groups([part.type for part in parts])
        for row in rows:
            groups.add([part.value(row) for part in parts], row)
        for members in groups.all:
            seen: list[Row] = []
            for rank, peers in enumerate(in_order(members) if terms else [members], 1):
                before = len(seen)
                seen += peers
                value = rank if name == "DENSE_RANK" else None if ranks else of(seen)
                for place, row in enumerate(peers, before + 1):
                    row[key] = {"ROW_NUMBER": place, "NTILE": _tile(place, len(members), tiles)}.get(name, value)

    scope.windows.append(fill)
    return Node(made, operator.itemgetter(key))


def _tile(place: int, rows: int, tiles: int) -> int:
    """The tile of a row: the first ones have a row more than the others."""
    size, larger = divmod(rows, tiles)
    if place <= larger * (size + 1):
        return (place - 1) // (size + 1) + 1
    return larger + (place - larger * (size + 1) - 1) // size + 1


CALLS.update(dict.fromkeys(AGGREGATES, _aggregate))
BUILDERS[exp.Window] = _window
