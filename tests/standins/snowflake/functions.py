"""SQL functions that a script makes: typed parameters, an expression, a typed result.

https://docs.snowflake.com/en/sql-reference/sql/create-function and
.../developer-guide/udf/sql/udf-sql-scalar-functions, from memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tests.standins.snowflake.nodes import Node, coerced
from tests.standins.snowflake.parsing import name_of, parse, sql_type, table_name
from tests.standins.snowflake.scope import Row, Scope, node
from tests.standins.snowflake.values import SnowflakeError, SqlType


@dataclass(frozen=True)
class SqlFunction:
    """A function written in SQL."""

    parameters: Mapping[str, SqlType]
    returns: SqlType
    body: exp.Expr


def made(tree: exp.Create) -> tuple[str, SqlFunction]:
    """The name and the function of a CREATE FUNCTION whose text stands between two dollars."""
    properties = {type(each): each for each in (tree.args.get("properties") or exp.Properties()).expressions}
    given = {key for key, value in tree.args.items() if value} - {"this", "kind", "expression", "replace", "properties"}
    body = tree.expression
    returns = properties.get(exp.ReturnsProperty)
    unknown = given or set(properties) - {exp.TemporaryProperty, exp.ReturnsProperty}
    if unknown or not isinstance(body, exp.RawString) or returns is None or returns.args.get("is_table"):
        raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
    query = parse(f"SELECT (\n{body.name}\n) AS x")
    assert isinstance(query, exp.Select)
    (selected,) = query.selects
    parameters = {name_of(each): sql_type(each.args["kind"]) for each in tree.this.expressions}
    return table_name(tree.this.this), SqlFunction(parameters, sql_type(returns.this), selected.unalias())


def called(name: str, function: SqlFunction, arguments: list[Node], scope: Scope) -> Node:
    """A call: each argument is coerced to its parameter's type, the expression to the function's."""
    if len(arguments) != len(function.parameters):
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    kinds = function.parameters.items()
    given = {
        parameter: coerced(argument, kind, name).value
        for (parameter, kind), argument in zip(kinds, arguments, strict=True)
    }
    inner = replace(scope, sources={}, lambdas=dict(function.parameters), outer=None)
    body = coerced(node(function.body, inner), function.returns, name).value

    def value(row: Row) -> object:
        return body({f"->{parameter}": argument(row) for parameter, argument in given.items()})

    return Node(function.returns, value)
