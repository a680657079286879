"""SQL functions that a script makes: the analyzer checks each, and a call gives way to its expression.

The wheel's evaluator keeps no function from one statement to the next. A call becomes a subquery over one row of its
arguments, which have the parameters' types: each is evaluated once, and no name of the caller is seen in the body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.standins.googlesql.errors import GoogleSQLError
from tests.standins.googlesql.syntax import Edit, Node, path_of, place_of, splice

if TYPE_CHECKING:
    from tests.standins.googlesql.analyzer import GoogleSQL
    from tests.standins.googlesql.catalog import Schema


@dataclass(frozen=True)
class SqlFunction:
    """A function written in SQL: the names and types of its parameters, its expression and the type it returns."""

    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str

    def call(self, arguments: list[str]) -> str:
        """The expression that stands for a call."""
        if len(arguments) != len(self.parameters):
            raise GoogleSQLError(f"a function of {len(self.parameters)} arguments is called with {len(arguments)}")
        fields = ", ".join(f"{name} {type_}" for name, type_ in self.parameters)
        row = f"STRUCT<{fields}>(" + ", ".join(f"{argument}\n" for argument in arguments) + ")"
        return f"(SELECT CAST(({self.body}\n) AS {self.returns}) FROM UNNEST([{row}]))"


Functions = dict[str, SqlFunction]
"""By their dotted names in lower case."""


def create(oracle: GoogleSQL, raw: bytes, statement: Node, schema: Schema, functions: Functions) -> None:
    """Keep the function that a CREATE FUNCTION makes. Raises where the analyzer refuses it."""
    declaration, body = statement.get("function_declaration"), statement.get("sql_function_body")
    returns, listing = statement.get("return_type"), declaration.get("parameters") if declaration else None
    name = declaration.get("name") if declaration else None
    expression = body.get("expression") if body else None
    if name is None or returns is None or expression is None or listing is None:
        raise GoogleSQLError("not emulated: a function without RETURNS or AS", *place_of(raw, statement.start))

    def text(node: Node) -> str:
        return raw[node.start : node.end].decode()

    parameters = []
    for each in listing.children:
        named, type_ = each.get("name"), each.get("type")
        if named is None or type_ is None:
            raise GoogleSQLError("not emulated: a parameter without a name or a type", *place_of(raw, each.start))
        parameters.append((text(named), text(type_)))
    key, replaces = ".".join(path_of(name)).lower(), bool(statement.value("is_or_replace"))
    if key in functions and not replaces:
        raise GoogleSQLError(f"Already Exists: Function {key}")
    end = body.end if body else statement.end
    whole, (checked,) = oracle.parse(raw[statement.start : end].decode())
    oracle.analyze_statement(*expanded(oracle, whole, checked, functions), schema)
    functions[key] = SqlFunction(tuple(parameters), text(returns), text(expression))


def expanded(oracle: GoogleSQL, raw: bytes, statement: Node, functions: Functions) -> tuple[bytes, Node]:
    """A statement with each call of a function replaced, and its text; functions may call each other."""
    while calls := [node for node in statement.walk() if node.kind == "FunctionCall" and _name(node) in functions]:
        call = next(one for one in calls if not any(one.holds(other) for other in calls if other is not one))
        arguments = [raw[node.start : node.end].decode() for node in call.all("arguments")]
        edit = Edit(call.start, call.end, functions[_name(call)].call(arguments).encode())
        raw, _ = splice(raw, statement.start, statement.end, [edit])
        _, (statement,) = oracle.parse(raw.decode())
    return raw, statement


def _name(call: Node) -> str:
    function = call.get("function")
    return ".".join(path_of(function)).lower() if function is not None and function.kind == "PathExpression" else ""
