"""Parsing, typing and running a query."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.snowflake import Snowflake
from sqlglot.errors import SqlglotError
from sqlglot.parsers.snowflake import SnowflakeParser
from sqlglot.tokenizer_core import TokenType

from tests.standins.snowflake.functions import FUNCTIONS, TYPED, Node, call, coerced, same, strict
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    DATE,
    EXACT,
    FLOAT,
    JSON_NULL,
    NULL,
    NUMBER,
    OBJECT,
    TIMESTAMP,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    SqlType,
    common,
    convert,
    equal,
    kind,
    order,
    to_scale,
)

Row = dict[str, Any]
Data = Mapping[str, tuple[Mapping[str, str], Sequence[Sequence[Any]]]]


class _Parser(SnowflakeParser):
    """Functions stay calls under the names they are written with; only CAST and TRY_CAST have a syntax of their own."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SnowflakeParser.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
    }


_DIALECT = Snowflake()
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def _constant(written: str) -> str:
    """A string constant as Snowflake reads it: ``''``, the escapes, a backslash before any other dropped."""

    def character(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        code = found[1] or found[2] or found[3]
        return chr(int(code, 8 if found[3] else 16)) if code else _ESCAPES.get(found[4], found[4])

    escape = r"''|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\\(.)"
    return re.sub(escape, character, written[1:-1], flags=re.DOTALL)


def parse(sql: str) -> exp.Query:
    """The tree of one query."""
    tokens = _DIALECT.tokenize(sql)
    for token in tokens:
        if token.token_type == TokenType.STRING and token.text != _constant(sql[token.start : token.end + 1]):
            raise SnowflakeError(f"the string constant {sql[token.start : token.end + 1][:200]} is read in two ways")
    try:
        statements = _Parser(dialect=_DIALECT).parse(tokens, sql)
    except SqlglotError as error:
        raise SnowflakeError(f"SQL compilation error: {error}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise SnowflakeError("one query expected")
    return statements[0]


_TYPES = {
    "TEXT": VARCHAR, "VARCHAR": VARCHAR, "CHAR": VARCHAR, "DOUBLE": FLOAT, "FLOAT": FLOAT, "BOOLEAN": BOOLEAN,
    "DATE": DATE, "TIMESTAMPNTZ": TIMESTAMP, "TIMESTAMP": TIMESTAMP, "VARIANT": VARIANT, "ARRAY": ARRAY,
    "OBJECT": OBJECT, "BIGINT": NUMBER, "INT": NUMBER, "SMALLINT": NUMBER,
}  # fmt: skip


def sql_type(written: exp.DataType) -> SqlType:
    """The type that a tree names."""
    sizes = [int(size.name) for size in written.expressions]
    if written.this == exp.DataType.Type.DECIMAL:
        precision, scale = ([*sizes, *(38, 0)[len(sizes) :]])[:2]
        return SqlType("NUMBER", scale, precision)
    if written.this.name not in _TYPES or sizes:
        raise SnowflakeError(f"unknown type {written.sql('snowflake')}")
    return _TYPES[written.this.name]


def name_of(node: exp.Expr) -> str:
    """A name as Snowflake stores it: upper case unless it is quoted."""
    identifier = node if isinstance(node, exp.Identifier) else node.this
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).upper()


@dataclass
class Relation:
    """Columns and rows."""

    columns: dict[str, SqlType]
    rows: list[Row]


@dataclass
class Scope:
    """What an expression can name: columns, the parameters of lambdas, and the relation's own name."""

    columns: dict[str, SqlType]
    relation: str
    lambdas: dict[str, SqlType] = field(default_factory=dict)


def stored(value: Any, type_: SqlType, missing: Any) -> Any:
    """A Python value in a column; a None inside of an array or object is what ``missing`` says."""
    if value is None:
        return None
    if type_.name == "NUMBER" and not isinstance(value, bool):
        return to_scale(value, type_.scale)
    if type_.name in ("ARRAY", "OBJECT", "VARIANT"):
        return _variant(value, missing)
    if type_.name == "FLOAT":
        return float(value)
    return value


def _variant(value: Any, missing: Any) -> Any:
    if isinstance(value, Mapping):
        parts = {str(name): _variant(item, missing) for name, item in value.items()}
        return {name: item for name, item in parts.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_variant(item, missing) for item in value]
    return missing if value is None else value


def rows(sql: str, tables: Data, missing: Any = JSON_NULL) -> list[tuple[Any, ...]]:
    """The rows of a query. A table's columns are written as in CREATE TABLE: name to type.

    ``missing`` is what a None inside of an array or object is: a JSON null, as in loaded JSON, or None, which is what
    a NULL becomes in ARRAY_CONSTRUCT.
    """
    relations = {}
    for name, (columns, content) in tables.items():
        typed = {
            name_of(exp.to_identifier(column) if column[0] != '"' else exp.parse_identifier(column, "snowflake")): (
                sql_type(exp.DataType.build(written, dialect="snowflake"))
            )
            for column, written in columns.items()
        }
        relations[name.upper()] = Relation(
            typed,
            [
                {key: stored(value, typed[key], missing) for key, value in zip(typed, row, strict=True)}
                for row in content
            ],
        )
    try:
        with localcontext(EXACT):
            made = _query(parse(sql), relations)
    except RecursionError:
        raise SnowflakeError("nested too deep for this stand-in") from None
    return [tuple(row.values()) for row in made.rows]


def _query(query: exp.Expr, relations: dict[str, Relation]) -> Relation:
    if isinstance(query, exp.Subquery):
        return _query(query.this, relations)
    known = {"expressions", "from_", "with_", "where", "kind", "hint", "limit", "operation_modifiers", "joins"}
    if not isinstance(query, exp.Select) or any(value for key, value in query.args.items() if key not in known):
        raise SnowflakeError(f"not known: {query.sql('snowflake')[:200]}")
    if query.args.get("joins") or query.args.get("limit"):
        raise SnowflakeError("not known: joins, LIMIT")
    relations = dict(relations)
    if with_ := query.args.get("with_"):
        for entry in with_.expressions:
            relations[name_of(entry.args["alias"].this)] = _query(entry.this, relations)
    source, name = _source(query, relations)
    scope = Scope(source.columns, name)
    kept = source.rows
    if where := query.args.get("where"):
        test = coerced(_node(where.this, scope), BOOLEAN, "WHERE").value
        kept = [row for row in kept if test(row)]
    nodes: dict[str, Node] = {}
    for number, item in enumerate(query.expressions):
        if isinstance(item, exp.Star):
            nodes |= {column: _node(exp.column(column, quoted=True), scope) for column in source.columns}
            continue
        alias = item.args.get("alias") if isinstance(item, exp.Alias) else None
        label = name_of(alias) if alias else name_of(item) if isinstance(item, exp.Column) else f"${number}"
        if label in nodes:
            raise SnowflakeError(f"duplicate column name {label}")
        nodes[label] = _node(item.this if alias else item, scope)
    columns = {label: node.type for label, node in nodes.items()}
    return Relation(columns, [{label: node.value(row) for label, node in nodes.items()} for row in kept])


def _source(query: exp.Select, relations: dict[str, Relation]) -> tuple[Relation, str]:
    from_ = query.args.get("from_")
    if from_ is None:
        return Relation({}, [{}]), ""
    table = from_.this
    alias = table.args.get("alias")
    if isinstance(table, exp.Subquery):
        return _query(table, relations), name_of(alias.this) if alias else ""
    name = name_of(table)
    if name not in relations:
        raise SnowflakeError(f"Object {name} does not exist")
    return relations[name], name_of(alias.this) if alias else name


# Expressions ----------------------------------------------------------------------------------------------------------


def _node(tree: exp.Expr, scope: Scope) -> Node:
    build = _NODES.get(type(tree))
    if build is None:
        raise SnowflakeError(f"not known: {type(tree).__name__}: {tree.sql('snowflake')[:200]}")
    return build(tree, scope)


def _always(made: SqlType, value: Any) -> Node:
    return Node(made, lambda _: value, value)


def _literal(tree: exp.Expr, scope: Scope) -> Node:
    if tree.args.get("is_string"):
        text = str(tree.this)
        return _always(VARCHAR, text)
    written = str(tree.this)
    if "e" in written.lower():
        number: Any = float(written)
        return _always(FLOAT, number)
    scale = len(written.partition(".")[2])
    exact = to_scale(Decimal(written), scale)
    return _always(SqlType("NUMBER", scale), exact)


def _boolean(tree: exp.Expr, scope: Scope) -> Node:
    return _always(BOOLEAN, bool(tree.this))


def _column(tree: exp.Expr, scope: Scope) -> Node:
    name = name_of(tree)
    table = tree.args.get("table")
    if table is None and name in scope.lambdas:
        key = f"->{name}"
        return Node(scope.lambdas[name], lambda row: row[key])
    if name not in scope.columns or (table is not None and name_of(table) != scope.relation):
        raise SnowflakeError(f"invalid identifier {tree.sql('snowflake')}")
    return Node(scope.columns[name], operator.itemgetter(name))


def _neg(tree: exp.Expr, scope: Scope) -> Node:
    value = _number(_node(tree.this, scope), "-")
    constant = None if value.constant is None else -value.constant
    return Node(value.type, strict(value.type, operator.neg, value).value, constant)


def _number(node: Node, what: str) -> Node:
    if node.type.name not in ("NUMBER", "FLOAT", "NULL"):
        raise SnowflakeError(f"{what}: {node.type} is no number; cast it")
    return node


def _arithmetic(run: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, Scope], Node]:
    def build(tree: exp.Expr, scope: Scope) -> Node:
        what = type(tree).__name__
        a, b = (_number(_node(tree.args[side], scope), what) for side in ("this", "expression"))
        if "FLOAT" in (a.type.name, b.type.name):
            return strict(FLOAT, lambda x, y: run(float(x), float(y)), a, b)
        scale = max(a.type.scale, b.type.scale)
        if isinstance(tree, exp.Mul):
            scale = min(a.type.scale + b.type.scale, max(a.type.scale, b.type.scale, 12))
        return strict(SqlType("NUMBER", scale), lambda x, y: to_scale(run(x, y), scale, what), a, b)

    return build


def _divide(tree: exp.Expr, scope: Scope) -> Node:
    """The scale is that of the dividend and six more, at most 12 or its own."""
    a, b = (_number(_node(tree.args[side], scope), "/") for side in ("this", "expression"))
    floating = "FLOAT" in (a.type.name, b.type.name)
    scale = max(a.type.scale, min(a.type.scale + 6, 12))

    def quotient(x: Any, y: Any) -> Any:
        if y == 0:
            raise SnowflakeError("Division by zero")
        return float(x) / float(y) if floating else to_scale(Decimal(x) / Decimal(y), scale)

    return strict(FLOAT if floating else SqlType("NUMBER", scale), quotient, a, b)


def _compare(run: Callable[[Any, Any], bool]) -> Callable[[exp.Expr, Scope], Node]:
    def build(tree: exp.Expr, scope: Scope) -> Node:
        what = type(tree).__name__
        a, b = (_node(tree.args[side], scope) for side in ("this", "expression"))
        made = common([a.type, b.type], what)
        a, b = coerced(a, made, what), coerced(b, made, what)
        if made.name == "VARIANT":
            return strict(BOOLEAN, lambda x, y: _variants(run, x, y), a, b)
        if made.name in ("ARRAY", "OBJECT") and run not in (operator.eq, operator.ne):
            raise SnowflakeError(f"{what}: {made} has no order")
        if made.name in ("ARRAY", "OBJECT"):
            return strict(BOOLEAN, lambda x, y: equal(x, y) is (run is operator.eq), a, b)
        return strict(BOOLEAN, lambda x, y: run(order(x), order(y)), a, b)

    return build


def _variants(run: Callable[[Any, Any], bool], x: Any, y: Any) -> bool:
    if run in (operator.eq, operator.ne):
        return equal(x, y) is (run is operator.eq)
    if kind(x) != kind(y):
        raise SnowflakeError(f"the order of {x!r} and {y!r} is not known here")
    return run(order(x), order(y))


def _concat(tree: exp.Expr, scope: Scope) -> Node:
    parts = [coerced(_node(part, scope), VARCHAR, "||") for part in tree.flatten(unnest=False)]
    return strict(VARCHAR, lambda *texts: "".join(texts), *parts)


def _and(tree: exp.Expr, scope: Scope) -> Node:
    return _connect(tree, scope, stop=False)


def _or(tree: exp.Expr, scope: Scope) -> Node:
    return _connect(tree, scope, stop=True)


def _connect(tree: exp.Expr, scope: Scope, *, stop: bool) -> Node:
    tests = [coerced(_node(part, scope), BOOLEAN, type(tree).__name__).value for part in tree.flatten(unnest=False)]

    def value(row: Row) -> bool | None:
        unknown = False
        for test in tests:
            found: bool | None = test(row)
            if found is stop:
                return stop
            unknown = unknown or found is None
        return None if unknown else not stop

    return Node(BOOLEAN, value)


def _not(tree: exp.Expr, scope: Scope) -> Node:
    return strict(BOOLEAN, operator.not_, coerced(_node(tree.this, scope), BOOLEAN, "NOT"))


def _is(tree: exp.Expr, scope: Scope) -> Node:
    """IS NULL: a JSON null is not NULL."""
    if not isinstance(tree.expression, exp.Null):
        raise SnowflakeError(f"not known: {tree.sql('snowflake')}")
    value = _node(tree.this, scope).value
    return Node(BOOLEAN, lambda row: value(row) is None)


def _same(negated: bool) -> Callable[[exp.Expr, Scope], Node]:
    def build(tree: exp.Expr, scope: Scope) -> Node:
        a, b = (_node(tree.args[side], scope) for side in ("this", "expression"))
        made = common([a.type, b.type], "IS DISTINCT FROM")
        first, second = coerced(a, made, "IS").value, coerced(b, made, "IS").value
        return Node(BOOLEAN, lambda row: same(first(row), second(row), made) is not negated)

    return build


def _in(tree: exp.Expr, scope: Scope) -> Node:
    if not tree.expressions:
        raise SnowflakeError("IN: only a list of values is known here")
    values = [_node(part, scope) for part in (tree.this, *tree.expressions)]
    made = common([value.type for value in values], "IN")
    sought, *listed = (coerced(value, made, "IN").value for value in values)

    def value(row: Row) -> bool | None:
        wanted = sought(row)
        if wanted is None:
            return None
        found = [each(row) for each in listed]
        if any(each is not None and same(wanted, each, made) for each in found):
            return True
        return None if None in found else False

    return Node(BOOLEAN, value)


def _between(tree: exp.Expr, scope: Scope) -> Node:
    value, low, high = (_node(tree.args[part], scope) for part in ("this", "low", "high"))
    made = common([value.type, low.type, high.type], "BETWEEN")
    parts = [coerced(part, made, "BETWEEN") for part in (value, low, high)]
    return strict(BOOLEAN, lambda x, a, b: order(a) <= order(x) <= order(b), *parts)


def _test(tree: exp.Expr, arm: exp.Expr) -> exp.Expr:
    """The condition of an arm; beside an operand a NULL matches nothing."""
    return arm.this if tree.this is None else exp.EQ(this=tree.this.copy(), expression=arm.this.copy())


def _case(tree: exp.Expr, scope: Scope) -> Node:
    arms = [(_node(_test(tree, arm), scope), _node(arm.args["true"], scope)) for arm in tree.args["ifs"]]
    default = tree.args.get("default")
    other = _node(default, scope) if default is not None else _always(NULL, None)
    made = common([then.type for _, then in arms] + [other.type], "CASE")
    ready = [(coerced(test, BOOLEAN, "CASE").value, coerced(then, made, "CASE").value) for test, then in arms]
    last = coerced(other, made, "CASE").value

    def value(row: Row) -> Any:
        for test, then in ready:
            if test(row):
                return then(row)
        return last(row)

    return Node(made, value)


def _cast(tree: exp.Expr, scope: Scope) -> Node:
    value = _node(tree.this, scope)
    target = BOOLEAN if isinstance(tree, exp.ToBoolean) else sql_type(tree.args["to"])
    if not isinstance(tree, exp.TryCast | exp.ToBoolean):
        return coerced(value, target, "CAST", cast=True)
    if value.type.name not in ("VARCHAR", "NULL"):
        raise SnowflakeError(f"TRY_CAST: a text is needed, not {value.type}")

    def tried(row: Row) -> Any:
        try:
            return convert(value.value(row), value.type, target)
        except SnowflakeError:
            return None

    return Node(target, tried)


def _call(tree: exp.Expr, scope: Scope) -> Node:
    name = tree.name.upper()
    if name in ("TRANSFORM", "FILTER", "REDUCE"):
        return _higher(name, tree.expressions, scope)
    return call(name, [_node(argument, scope) for argument in tree.expressions])


def _lambda(tree: exp.Expr, scope: Scope, types: Sequence[SqlType], what: str) -> tuple[Node, list[str]]:
    if not isinstance(tree, exp.Lambda) or len(tree.expressions) != len(types):
        raise SnowflakeError(f"{what}: a lambda of {len(types)} arguments is needed")
    names = [name_of(parameter) for parameter in tree.expressions]
    inner = Scope(scope.columns, scope.relation, scope.lambdas | dict(zip(names, types, strict=True)))
    return _node(tree.this, inner), [f"->{name}" for name in names]


def _higher(name: str, arguments: list[exp.Expr], scope: Scope) -> Node:
    """A lambda over an array: its argument is a VARIANT; NULL for NULL; FILTER keeps what is TRUE."""
    array = coerced(_node(arguments[0], scope), ARRAY, name).value
    if name == "REDUCE":
        start = _node(arguments[1], scope)
        body, (total, item) = _lambda(arguments[2], scope, [start.type, VARIANT], name)
        step = coerced(body, start.type, name).value

        def reduced(row: Row) -> Any:
            values = array(row)
            result = start.value(row)
            for value in values or ():
                result = step({**row, total: result, item: value})
            return None if values is None else result

        return Node(start.type, reduced)
    body, (item,) = _lambda(arguments[1], scope, [VARIANT], name)
    if name == "FILTER":
        body = coerced(body, BOOLEAN, name)
    each = body.value

    def made(row: Row) -> Any:
        values = array(row)
        if values is None:
            return None
        inner = dict(row)
        found = []
        for value in values:
            inner[item] = value
            result = each(inner)
            if name == "TRANSFORM":
                found.append(result)
            elif result:
                found.append(value)
        return found

    return Node(ARRAY, made)


_NODES: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Node]] = {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: lambda *_: _always(NULL, None),
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Paren: lambda tree, scope: _node(tree.this, scope),
    exp.Neg: _neg,
    exp.Add: _arithmetic(operator.add),
    exp.Sub: _arithmetic(operator.sub),
    exp.Mul: _arithmetic(operator.mul),
    exp.Div: _divide,
    exp.EQ: _compare(operator.eq),
    exp.NEQ: _compare(operator.ne),
    exp.LT: _compare(operator.lt),
    exp.LTE: _compare(operator.le),
    exp.GT: _compare(operator.gt),
    exp.GTE: _compare(operator.ge),
    exp.DPipe: _concat,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.NullSafeEQ: _same(negated=False),
    exp.NullSafeNEQ: _same(negated=True),
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.ToBoolean: _cast,  # how sqlglot reads TRY_CAST(... AS BOOLEAN)
    exp.Anonymous: _call,
}

__all__ = ["FUNCTIONS", "TYPED", "parse", "rows"]
