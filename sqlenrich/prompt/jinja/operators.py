"""Operators: comparisons, arithmetic, and ``~``."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from jinja2 import nodes

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.failures import fail_where, fails_or_none
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.jinja.compiler import Compiler, expression, logical
from sqlenrich.prompt.jinja.printed_text import join
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays, numbers, printing
from sqlenrich.prompt.values.comparison_operators import comparison
from sqlenrich.prompt.values.list_literals import elements, list_value
from sqlenrich.prompt.values.loop_carried import accumulate_sum, accumulate_text
from sqlenrich.prompt.values.value import (
    CompileError,
    Dynamic,
    ListValue,
    LoopAccumulated,
    LoopCarried,
    Static,
    Storable,
    Value,
    lift,
)

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


@expression(nodes.Compare)
def compare(compiler: Compiler, node: nodes.Compare, scope: Scope) -> Value:
    """``a == b``, ``a < b <= c``, ``a in b``."""
    left = compiler.value(node.expr, scope)
    result: Expr | None = None
    for operand in node.ops:
        with nullcontext() if result is None else compiler.conditionally():
            right = compiler.value(operand.expr, scope)
        test = comparison(compiler.variables, operand.op, left, right)
        result = test if result is None else logical("and", result, test)
        left = right
    if result is None:
        raise CompileError("an empty comparison")
    return Static(result.value) if isinstance(result, Const) else result


@expression(nodes.Concat)
def concat(compiler: Compiler, node: nodes.Concat, scope: Scope) -> Storable:
    """``a ~ b``."""
    first = compiler.stored(node.nodes[0], scope)
    if isinstance(first, LoopCarried | LoopAccumulated):
        return accumulate_text(first, [lift(compiler.value(child, scope)) for child in node.nodes[1:]])
    values = [compiler.resolve(first), *(compiler.value(child, scope) for child in node.nodes[1:])]
    if all(isinstance(value, Static) for value in values):
        return Static("".join(str(v.value) for v in values if isinstance(v, Static)))
    return join(printing.to_str(lift(value)) for value in values)


@expression(nodes.Neg, nodes.Pos)
def signed(compiler: Compiler, node: nodes.Neg | nodes.Pos, scope: Scope) -> Value:
    """``-value`` and ``+value``."""
    value = compiler.value(node.node, scope)
    sign = operator.neg if isinstance(node, nodes.Neg) else operator.pos
    if isinstance(value, Static):
        return compiler.fold(node, lambda: sign(value.value))
    number = lift(value)
    negated = numbers.negative(number)
    return negated if isinstance(node, nodes.Neg) else fail_where(fails_or_none(number), number)


@expression(*ARITHMETIC)
def binary(compiler: Compiler, node: nodes.BinExpr, scope: Scope) -> Storable:
    """``left + right`` and the like."""
    left = compiler.stored(node.left, scope)
    if isinstance(node, nodes.Add) and isinstance(left, LoopCarried | LoopAccumulated):
        return accumulate_sum(left, compiler.value(node.right, scope))
    return arithmetic(compiler, node, compiler.resolve(left), compiler.value(node.right, scope))


def arithmetic(compiler: Compiler, node: nodes.BinExpr, left: Value, right: Value) -> Value:
    """Return ``left + right`` and the other operators on two values."""
    name, function = ARITHMETIC[type(node)]
    if isinstance(left, Static) and isinstance(right, Static):
        return compiler.fold(node, lambda: function(left.value, right.value))
    if name == "add" and arrays.is_list(left) and arrays.is_list(right):
        if not all(map(arrays.is_python_list, (left, right))):
            raise CompileError("adding to a tuple; write a list")
        both = [*elements(left), *elements(right)]
        return list_value(both, False)
    if name == "add" and any(isinstance(v, Dynamic) and isinstance(v.type, Array) for v in (left, right)):
        kind = next(v.type for v in (left, right) if isinstance(v, Dynamic))
        if not all(map(arrays.is_python_list, (left, right))):
            raise CompileError("adding a list to a range or a tuple, which fails; write |list after it")
        return arrays.concatenated([arrays.as_array(arrays.as_array_like(part, kind)) for part in (left, right)])
    if name == "%" and isinstance(left, Static) and isinstance(left.value, str):
        values = right.values if isinstance(right, ListValue) and isinstance(node.right, nodes.Tuple) else [right]
        return join(numbers.percent(left.value, list(values), printing.to_str))
    if (compute := ROW_ARITHMETIC.get(name)) is None:
        raise CompileError(f'"{node.operator}" on row values; compute it in the source query')
    return compute(lift(left), lift(right))
