"""Templates of queries: SQL text with places for expressions, for every engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import DOUBLE


def filled_query(
    engine: Engine, statement: str, places: Mapping[str, Sql], source: str, rows: exp.Select
) -> exp.Select:
    """Return a query from its template: its columns named as in ``places`` are these expressions.

    It begins with WITH; ``rows`` is its first common table expression, of the name ``source``. DOUBLE is the engine's
    type of that name.
    """
    query = _parsed(statement).copy()
    for node in list(query.find_all(exp.Column, exp.DataType)):
        if isinstance(node, exp.Column) and not node.table and node.name in places:
            node.replace(places[node.name].copy())
        elif isinstance(node, exp.DataType) and node.is_type(exp.DataType.Type.DOUBLE):
            node.replace(engine.sql_type(DOUBLE))
    alias = exp.TableAlias(this=exp.to_identifier(source))
    query.args["with_"].expressions.insert(0, exp.CTE(this=rows, alias=alias))
    return query


@cache
def _parsed(statement: str) -> exp.Select:
    parsed = sqlglot.parse_one(statement)
    assert isinstance(parsed, exp.Select)
    for ordered in parsed.find_all(exp.Ordered):  # nothing ordered is NULL
        ordered.set("nulls_first", not ordered.args.get("desc"))
    return parsed
