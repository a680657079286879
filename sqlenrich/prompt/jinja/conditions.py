"""``if`` as a statement and as an expression; ``and``, ``or`` and ``not``."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.prompt.ir.failures import fail_where, failure
from sqlenrich.prompt.ir.nodes import Column, Const, Expr, Fail
from sqlenrich.prompt.jinja.compiler import Compiler, expression, statement
from sqlenrich.prompt.jinja.printed_text import join, prints_nothing
from sqlenrich.prompt.jinja.scope import AlreadyReported, ErrorSymbol, Macro, Module, Scope, Symbol, UnreadableSymbol
from sqlenrich.prompt.values.heap import Heap, merge_heaps
from sqlenrich.prompt.values.value import ObjectRef, Static, Value, choose, truth


@expression(nodes.CondExpr)
def conditional(compiler: Compiler, node: nodes.CondExpr, scope: Scope) -> Value:
    """``a if test else b``; without ``else``, ``b`` is false and printed as nothing."""
    test = compiler.test(node.test, scope)
    with compiler.conditionally():
        orelse = compiler.value(node.expr2, scope) if node.expr2 is not None else Fail(blank=True)
    if isinstance(test, Const):
        return compiler.value(node.expr1, scope) if test.value else orelse
    with compiler.conditionally():
        return compiler.select(node, test, compiler.value(node.expr1, scope), orelse)


@expression(nodes.And, nodes.Or)
def operand(compiler: Compiler, node: nodes.And | nodes.Or, scope: Scope) -> Value:
    """``a or b``: one of the operands, not a boolean."""
    left = compiler.value(node.left, scope)
    test = truth(left)
    if isinstance(test, Const):
        keeps_left = bool(test.value) is isinstance(node, nodes.Or)
        return left if keeps_left else compiler.value(node.right, scope)
    with compiler.conditionally():
        right = compiler.value(node.right, scope)
    pair = (left, right) if isinstance(node, nodes.Or) else (right, left)
    return compiler.select(node, test, *pair)


@expression(nodes.Not)
def negated(compiler: Compiler, node: nodes.Not, scope: Scope) -> Value:
    """``not a``."""
    test = compiler.test(node, scope)
    return Static(test.value) if isinstance(test, Const) else test


@statement(nodes.If)
def if_statement(compiler: Compiler, node: nodes.If, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% if %}``, ``{% elif %}``, ``{% else %}``."""
    arms = [(compiler.test(node.test, scope), node.body)]
    with compiler.conditionally():
        arms += [(compiler.test(branch.test, scope), branch.body) for branch in node.elif_]
    before = compiler.heap.copy()
    otherwise, scope_else = compiler.statements(node.else_, scope)
    text, after = join(otherwise), scope_else
    for test, body in reversed(arms):
        heap_else, compiler.heap = compiler.heap, before.copy()
        then, scope_then = compiler.statements(body, scope)
        text = choose(test, join(then), text)
        after = _merged_scope(compiler, node, test, scope_then, after, heap_else)
    return [fail_where(failure(text), Const("")) if prints_nothing(text) else text], after


def _merged_scope(
    compiler: Compiler, node: nodes.Node, test: Expr, then: Scope, orelse: Scope, heap_else: Heap
) -> Scope:
    """Return the scope after two branches, and merge their heaps. The current heap is that of the first branch."""
    heap_then = compiler.heap
    if isinstance(test, Const):
        compiler.heap = heap_then if test.value else heap_else
        return then if test.value else orelse
    if heap_then.entries or heap_else.entries:
        select = lambda t, a, b: compiler.select(node, t, a, b)  # noqa: E731
        compiler.heap = merge_heaps(test, heap_then, heap_else, select)
        compiler.read |= compiler.heap.frozen - heap_then.frozen - heap_else.frozen
    if then is orelse:
        return then
    names: dict[str, Symbol] = {}
    for name in {**orelse.symbols, **then.symbols}:
        a, b = then.symbols.get(name), orelse.symbols.get(name)
        if a is b or a == b:
            names[name] = a if a is not None else Fail()
            continue
        if isinstance(a, Macro | Module | UnreadableSymbol) or isinstance(b, Macro | Module | UnreadableSymbol):
            names[name] = UnreadableSymbol(f'"{name}" is a macro for some rows only; define it before the condition')
            continue
        pair = (_value_after(compiler, name, *branch) for branch in ((a, heap_then), (b, heap_else)))
        names[name] = compiler.select(node, test, *pair)
    return Scope(names)


def _value_after(compiler: Compiler, name: str, value: Symbol | None, state: Heap) -> Value:
    """Return a name's value after a branch: the column of that name, or undefined, where the branch did not set it."""
    if isinstance(value, ObjectRef):
        compiler.heap.frozen |= state.reachable(value)
        compiler.read |= state.reachable(value)
    if isinstance(value, ErrorSymbol):
        raise AlreadyReported
    assert not isinstance(value, Macro | Module | UnreadableSymbol)
    if value is not None:
        return state.resolve(value)
    return Column(name, compiler.columns[name]) if name in compiler.columns else Fail()
