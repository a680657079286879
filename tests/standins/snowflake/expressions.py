"""Expressions: a tree becomes a typed node, coerced as Snowflake's table of conversions has it and nowhere else.

https://docs.snowflake.com/en/sql-reference/data-type-conversion, .../operators-arithmetic (scales; read again),
.../functions/filter, .../transform and .../reduce (lambdas, from memory).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tests.standins.snowflake import arrays, functions, numbers, texts, variants
from tests.standins.snowflake.equality import HASHED
from tests.standins.snowflake.nodes import TYPED, Node, call, coerced, same, strict
from tests.standins.snowflake.parsing import name_of, sql_type
from tests.standins.snowflake.scope import BUILDERS, CALLS, Row, Scope, node
from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    FLOAT,
    JSON_NULL,
    NULL,
    OBJECT,
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

FAMILIES = (arrays, numbers, texts, variants)
"""The modules that register functions."""


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
    if tree.args.get("table") is None and name in scope.lambdas:
        return Node(scope.lambdas[name], operator.itemgetter(f"->{name}"))
    key, made = scope.find(tree)
    return Node(made, operator.itemgetter(key))


def _neg(tree: exp.Expr, scope: Scope) -> Node:
    value = _number(node(tree.this, scope), "-")
    constant = None if value.constant is None else -value.constant
    return Node(value.type, strict(value.type, operator.neg, value).value, constant)


def _number(node: Node, what: str) -> Node:
    if node.type.name not in ("NUMBER", "FLOAT", "NULL"):
        raise SnowflakeError(f"{what}: {node.type} is no number; cast it")
    return node


def _arithmetic(run: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, Scope], Node]:
    def build(tree: exp.Expr, scope: Scope) -> Node:
        what = type(tree).__name__
        a, b = (_number(node(tree.args[side], scope), what) for side in ("this", "expression"))
        if "FLOAT" in (a.type.name, b.type.name):
            return strict(FLOAT, lambda x, y: run(float(x), float(y)), a, b)
        scale = max(a.type.scale, b.type.scale)
        if isinstance(tree, exp.Mul):
            scale = min(a.type.scale + b.type.scale, max(a.type.scale, b.type.scale, 12))
        return strict(SqlType("NUMBER", scale), lambda x, y: to_scale(run(x, y), scale, what), a, b)

    return build


def _divide(tree: exp.Expr, scope: Scope) -> Node:
    """The scale is that of the dividend and six more, at most 12 or its own."""
    a, b = (_number(node(tree.args[side], scope), "/") for side in ("this", "expression"))
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
        a, b = (node(tree.args[side], scope) for side in ("this", "expression"))
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
    parts = [coerced(node(part, scope), VARCHAR, "||") for part in tree.flatten(unnest=False)]
    return strict(VARCHAR, lambda *texts: "".join(texts), *parts)


def _and(tree: exp.Expr, scope: Scope) -> Node:
    return _connect(tree, scope, stop=False)


def _or(tree: exp.Expr, scope: Scope) -> Node:
    return _connect(tree, scope, stop=True)


def _connect(tree: exp.Expr, scope: Scope, *, stop: bool) -> Node:
    tests = [coerced(node(part, scope), BOOLEAN, type(tree).__name__).value for part in tree.flatten(unnest=False)]

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
    return strict(BOOLEAN, operator.not_, coerced(node(tree.this, scope), BOOLEAN, "NOT"))


def _is(tree: exp.Expr, scope: Scope) -> Node:
    """IS NULL: a JSON null is not NULL."""
    if not isinstance(tree.expression, exp.Null):
        raise SnowflakeError(f"not known: {tree.sql('snowflake')}")
    value = node(tree.this, scope).value
    return Node(BOOLEAN, lambda row: value(row) is None)


def _same(negated: bool) -> Callable[[exp.Expr, Scope], Node]:
    def build(tree: exp.Expr, scope: Scope) -> Node:
        a, b = (node(tree.args[side], scope) for side in ("this", "expression"))
        made = common([a.type, b.type], "IS DISTINCT FROM")
        first, second = coerced(a, made, "IS").value, coerced(b, made, "IS").value
        return Node(BOOLEAN, lambda row: same(first(row), second(row), made) is not negated)

    return build


def _in(tree: exp.Expr, scope: Scope) -> Node:
    if (query := tree.args.get("query")) is not None:
        relation = scope.environment.compiled(query, scope.environment, scope)
        ((label, selected),) = relation.columns.items()
        values = [node(tree.this, scope), Node(selected, operator.itemgetter(label))]
    else:
        values = [node(part, scope) for part in (tree.this, *tree.expressions)]
    made = common([value.type for value in values], "IN")
    sought, *listed = (coerced(value, made, "IN").value for value in values)
    hashed = query is not None and made.name in HASHED
    known: tuple[Any, Collection[Any]] = (None, ())

    def all_of(row: Row) -> Collection[Any]:
        """The values; those of a query that gave the same rows before are as they were."""
        nonlocal known
        if query is None:
            return [each(row) for each in listed]
        rows = relation.run(row)
        if rows is not known[0]:
            values = [listed[0](one) for one in rows]
            known = rows, set(values) if hashed else values
        return known[1]

    def value(row: Row) -> bool | None:
        wanted, found = sought(row), all_of(row)
        if wanted is None:
            return None if found else False
        if wanted in found if hashed else any(each is not None and same(wanted, each, made) for each in found):
            return True
        return None if None in found else False

    return Node(BOOLEAN, value)


def _between(tree: exp.Expr, scope: Scope) -> Node:
    value, low, high = (node(tree.args[part], scope) for part in ("this", "low", "high"))
    made = common([value.type, low.type, high.type], "BETWEEN")
    parts = [coerced(part, made, "BETWEEN") for part in (value, low, high)]
    return strict(BOOLEAN, lambda x, a, b: order(a) <= order(x) <= order(b), *parts)


def _test(tree: exp.Expr, arm: exp.Expr) -> exp.Expr:
    """The condition of an arm; beside an operand a NULL matches nothing."""
    return arm.this if tree.this is None else exp.EQ(this=tree.this.copy(), expression=arm.this.copy())


def _case(tree: exp.Expr, scope: Scope) -> Node:
    arms = [(node(_test(tree, arm), scope), node(arm.args["true"], scope)) for arm in tree.args["ifs"]]
    default = tree.args.get("default")
    other = node(default, scope) if default is not None else _always(NULL, None)
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
    value = node(tree.this, scope)
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
    if name in CALLS:
        return CALLS[name](tree, scope)
    if (function := scope.environment.functions.get(name)) is not None:
        return functions.called(name, function, [node(argument, scope) for argument in tree.expressions], scope)
    return call(name, [node(argument, scope) for argument in tree.expressions])


def _lambda(tree: exp.Expr, scope: Scope, types: Sequence[SqlType], what: str) -> tuple[Node, list[str]]:
    if not isinstance(tree, exp.Lambda) or len(tree.expressions) != len(types):
        raise SnowflakeError(f"{what}: a lambda of {len(types)} arguments is needed")
    names = [name_of(parameter) for parameter in tree.expressions]
    inner = replace(scope, lambdas=scope.lambdas | dict(zip(names, types, strict=True)))
    return node(tree.this, inner), [f"->{name}" for name in names]


def _higher(tree: exp.Expr, scope: Scope) -> Node:
    """A lambda over an array: its argument is a VARIANT; NULL for NULL; FILTER keeps what is TRUE."""
    name, arguments = tree.name.upper(), tree.expressions
    array = coerced(node(arguments[0], scope), ARRAY, name).value
    if name == "REDUCE":
        start = node(arguments[1], scope)
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


def _modulo(tree: exp.Expr, scope: Scope) -> Node:
    return TYPED["MOD"]("%", [_number(node(tree.args[side], scope), "%") for side in ("this", "expression")])


def _like(tree: exp.Expr, scope: Scope) -> Node:
    """``%`` and ``_`` alone; the whole text, line breaks included."""

    def run(text: str, written: str) -> bool:
        if "\\" in written:
            raise SnowflakeError("LIKE: an escape is not known here")
        parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in written)
        return re.fullmatch("".join(parts), text, re.DOTALL) is not None

    return strict(
        BOOLEAN, run, *(coerced(node(tree.args[side], scope), VARCHAR, "LIKE") for side in ("this", "expression"))
    )


def _extract(tree: exp.Expr, scope: Scope) -> Node:
    """``value:name.name[0]``: GET_PATH."""
    steps: list[str | int] = []
    for part in tree.expression.expressions[1:]:
        if not isinstance(part.this, str | int):
            raise SnowflakeError(f"not known: {tree.sql('snowflake')[:200]}")
        steps.append(part.this)
    value = node(tree.this, scope)
    if value.type.name not in ("VARIANT", "OBJECT", "ARRAY"):
        raise SnowflakeError(f"no element of {value.type}")
    return strict(VARIANT, lambda found: variants.follow(found, steps), value)


def _object(tree: exp.Expr, scope: Scope) -> Node:
    """``{'name': value}``: a NULL is kept as a JSON null, which the documentation leaves open."""
    pairs = [(str(pair.this.this), node(pair.expression, scope).value) for pair in tree.expressions]

    def value(row: Row) -> dict[str, Any]:
        found = {name: part(row) for name, part in pairs}
        return {name: JSON_NULL if part is None else part for name, part in found.items()}

    return Node(OBJECT, value)


def _array(tree: exp.Expr, scope: Scope) -> Node:
    """``[value, ...]``: as ARRAY_CONSTRUCT."""
    return TYPED["ARRAY_CONSTRUCT"]("[]", [node(part, scope) for part in tree.expressions])


BUILDERS |= {
    exp.Literal: _literal,
    exp.Boolean: _boolean,
    exp.Null: lambda *_: _always(NULL, None),
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Paren: lambda tree, scope: node(tree.this, scope),
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
    exp.Mod: _modulo,
    exp.Like: _like,
    exp.JSONExtract: _extract,
    exp.Struct: _object,
    exp.Array: _array,
}
CALLS |= {"TRANSFORM": _higher, "FILTER": _higher, "REDUCE": _higher}
