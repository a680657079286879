"""Operators: comparisons, arithmetic, ``~``, ``and`` and ``or`` as values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.failures import missing, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.jinja.scope import Scope, elements, join, list_of
from sqlenrich.prompt.values import arrays, functions, numbers
from sqlenrich.prompt.values.comparisons import KNOWN, contained, equal, ordered
from sqlenrich.prompt.values.state import tilde
from sqlenrich.prompt.values.values import (
    Changing,
    Dynamic,
    Growing,
    Items,
    Known,
    Lazy,
    Refusal,
    Stored,
    Value,
    lift,
    negate,
    truth,
)

if TYPE_CHECKING:
    from sqlenrich.prompt.jinja.expressions import Expressions

ARITHMETIC: dict[type[nodes.BinExpr], tuple[str, Callable[[Any, Any], Any]]] = {
    nodes.Add: ("add", operator.add),
    nodes.Sub: ("subtract", operator.sub),
    nodes.Mul: ("multiply", operator.mul),
    nodes.Div: ("/", operator.truediv),
    nodes.FloorDiv: ("//", operator.floordiv),
    nodes.Mod: ("%", operator.mod),
    nodes.Pow: ("**", operator.pow),
}
ROW_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": numbers.add,
    "subtract": numbers.subtract,
    "multiply": numbers.multiply,
    "/": numbers.divide,
    "//": numbers.whole_division("//"),
    "%": numbers.whole_division("%"),
}


def operand(x: Expressions, node: nodes.And | nodes.Or, scope: Scope) -> Value:
    """``a or b`` is worth one of its operands, not a boolean."""
    left = x.value(node.left, scope)
    test = truth(left)
    if isinstance(test, Const):
        keeps_left = bool(test.value) is isinstance(node, nodes.Or)
        return left if keeps_left else x.value(node.right, scope)
    with x.where_it_depends():
        right = x.value(node.right, scope)
    pair = (left, right) if isinstance(node, nodes.Or) else (right, left)
    return x.either(node, test, *pair)


def compare(x: Expressions, node: nodes.Compare, scope: Scope) -> Value:
    """Give a comparison, chained or not."""
    left = x.value(node.expr, scope)
    result: Expr | None = None
    for operand in node.ops:
        with nullcontext() if result is None else x.where_it_depends():
            right = x.value(operand.expr, scope)
        test = comparison(x, operand.op, left, right)
        result = test if result is None else x.both("and", result, test)
        left = right
    if result is None:
        raise Refusal("an empty comparison")
    return Known(result.value) if isinstance(result, Const) else result


def comparison(x: Expressions, name: str, left: Value, right: Value) -> Expr:
    """Give ``left == right`` and its kin by name."""
    if name in ("eq", "ne") and Known([]) in (left, right):
        array = left if right == Known([]) else right
        if isinstance(array, Dynamic) and isinstance(array.type, Array):
            if not arrays.is_python_list(array):
                raise Refusal("comparing a range with a list, which it never equals; write |list after it")
            empty = arrays.equals_empty(array)
            return empty if name == "eq" else negate(empty)
    if isinstance(right, Lazy):
        right = right.array
    if name in ("in", "notin") and isinstance(right, Dynamic) and isinstance(right.type, Array):
        inside = arrays.contains(x.names, right, left)
        return inside if name == "in" else negate(inside)
    if name in ("eq", "ne"):
        return equal(left, right) if name == "eq" else negate(equal(left, right))
    if name in ("in", "notin"):
        found = contained(left, right)
        return found if name == "in" else negate(found)
    if isinstance(left, Known) and isinstance(right, Known):
        try:
            return Const(KNOWN[name](left.value, right.value))
        except TypeError as error:
            raise Refusal(f"this fails for every row: {error}") from None
    return ordered(name, lift(left), lift(right))


def concat(x: Expressions, node: nodes.Concat, scope: Scope) -> Stored:
    """Give ``a ~ b``."""
    first = x.stored(node.nodes[0], scope)
    if isinstance(first, Changing | Growing):
        return tilde(first, [lift(x.value(child, scope)) for child in node.nodes[1:]])
    values = [x.settled(first), *(x.value(child, scope) for child in node.nodes[1:])]
    if all(isinstance(value, Known) for value in values):
        return Known("".join(str(v.value) for v in values if isinstance(v, Known)))
    return join(functions.soft_text(lift(value)) for value in values)


def signed(x: Expressions, node: nodes.Neg | nodes.Pos, value: Value) -> Value:
    """Give ``-value`` or ``+value``."""
    sign = operator.neg if isinstance(node, nodes.Neg) else operator.pos
    if isinstance(value, Known):
        return x.known(node, lambda: sign(value.value))
    number = lift(value)
    negated = numbers.negative(number)
    return negated if isinstance(node, nodes.Neg) else requiring(missing(number), number)


def arithmetic(x: Expressions, node: nodes.BinExpr, left: Value, right: Value) -> Value:
    """Give ``left + right`` and its kin."""
    name, function = ARITHMETIC[type(node)]
    if isinstance(left, Known) and isinstance(right, Known):
        return x.known(node, lambda: function(left.value, right.value))
    if name == "add" and arrays.is_list(left) and arrays.is_list(right):
        if not all(map(arrays.is_python_list, (left, right))):
            raise Refusal("adding to a tuple; write a list")
        both = [*elements(left), *elements(right)]
        return list_of(both, False)
    if name == "add" and any(isinstance(v, Dynamic) and isinstance(v.type, Array) for v in (left, right)):
        kind = next(v.type for v in (left, right) if isinstance(v, Dynamic))
        if not all(map(arrays.is_python_list, (left, right))):
            raise Refusal("adding to what is no list, which fails; write |list after a range or a tuple")
        return arrays.concatenated([arrays.as_array(arrays.alike(part, kind)) for part in (left, right)])
    if name == "%" and isinstance(left, Known) and isinstance(left.value, str):
        values = right.values if isinstance(right, Items) and isinstance(node.right, nodes.Tuple) else [right]
        return join(numbers.percent(left.value, list(values), functions.soft_text))
    if (compute := ROW_ARITHMETIC.get(name)) is None:
        raise Refusal(f'"{node.operator}" on row values; compute it in the source query')
    return compute(lift(left), lift(right))
