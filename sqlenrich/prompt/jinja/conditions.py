"""``if`` as a statement and as an expression; ``and``, ``or`` and ``not``."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.prompt.ir.failures import failure, requiring
from sqlenrich.prompt.ir.nodes import Column, Const, Expr, Fail
from sqlenrich.prompt.jinja.compiler import Compiler, expression, statement
from sqlenrich.prompt.jinja.printed_text import join, prints_nothing
from sqlenrich.prompt.jinja.scope import Bound, Broken, Macro, Module, Reported, Scope, Unsure
from sqlenrich.prompt.values.state import State, merged
from sqlenrich.prompt.values.values import Known, Ref, Value, choose, truth


@expression(nodes.CondExpr)
def conditional(compiler: Compiler, node: nodes.CondExpr, scope: Scope) -> Value:
    """``a if test else b``; without ``else``, ``b`` is false and printed as nothing."""
    test = compiler.test(node.test, scope)
    with compiler.where_it_depends():
        orelse = compiler.value(node.expr2, scope) if node.expr2 is not None else Fail(blank=True)
    if isinstance(test, Const):
        return compiler.value(node.expr1, scope) if test.value else orelse
    with compiler.where_it_depends():
        return compiler.either(node, test, compiler.value(node.expr1, scope), orelse)


@expression(nodes.And, nodes.Or)
def operand(compiler: Compiler, node: nodes.And | nodes.Or, scope: Scope) -> Value:
    """``a or b``: one of the operands, not a boolean."""
    left = compiler.value(node.left, scope)
    test = truth(left)
    if isinstance(test, Const):
        keeps_left = bool(test.value) is isinstance(node, nodes.Or)
        return left if keeps_left else compiler.value(node.right, scope)
    with compiler.where_it_depends():
        right = compiler.value(node.right, scope)
    pair = (left, right) if isinstance(node, nodes.Or) else (right, left)
    return compiler.either(node, test, *pair)


@expression(nodes.Not)
def negated(compiler: Compiler, node: nodes.Not, scope: Scope) -> Value:
    """``not a``."""
    test = compiler.test(node, scope)
    return Known(test.value) if isinstance(test, Const) else test


@statement(nodes.If)
def if_statement(compiler: Compiler, node: nodes.If, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% if %}``, ``{% elif %}``, ``{% else %}``."""
    arms = [(compiler.test(node.test, scope), node.body)]
    with compiler.where_it_depends():
        arms += [(compiler.test(branch.test, scope), branch.body) for branch in node.elif_]
    before = compiler.state.copy()
    otherwise, scope_else = compiler.statements(node.else_, scope)
    text, after = join(otherwise), scope_else
    for test, body in reversed(arms):
        state_else, compiler.state = compiler.state, before.copy()
        then, scope_then = compiler.statements(body, scope)
        text = choose(test, join(then), text)
        after = _merged_scope(compiler, node, test, scope_then, after, state_else)
    return [requiring(failure(text), Const("")) if prints_nothing(text) else text], after


def _merged_scope(
    compiler: Compiler, node: nodes.Node, test: Expr, then: Scope, orelse: Scope, state_else: State
) -> Scope:
    """Give the scope after two branches, and merge the state, which is that of the first branch before."""
    state_then = compiler.state
    if isinstance(test, Const):
        compiler.state = state_then if test.value else state_else
        return then if test.value else orelse
    if state_then.entries or state_else.entries:
        either = lambda t, a, b: compiler.either(node, t, a, b)  # noqa: E731
        compiler.state = merged(test, state_then, state_else, either)
        compiler.read |= compiler.state.frozen - state_then.frozen - state_else.frozen
    if then is orelse:
        return then
    names: dict[str, Bound] = {}
    for name in {**orelse.names, **then.names}:
        a, b = then.names.get(name), orelse.names.get(name)
        if a is b or a == b:
            names[name] = a if a is not None else Fail()
            continue
        if isinstance(a, Macro | Module | Unsure) or isinstance(b, Macro | Module | Unsure):
            names[name] = Unsure(f'"{name}" is a macro for some rows only; define it before the condition')
            continue
        pair = (_value_after(compiler, name, *branch) for branch in ((a, state_then), (b, state_else)))
        names[name] = compiler.either(node, test, *pair)
    return Scope(names)


def _value_after(compiler: Compiler, name: str, value: Bound | None, state: State) -> Value:
    """Give a name's value after a branch: the column of that name, or undefined, where the branch did not set it."""
    if isinstance(value, Ref):
        compiler.state.frozen |= state.reached(value)
        compiler.read |= state.reached(value)
    if isinstance(value, Broken):
        raise Reported
    assert not isinstance(value, Macro | Module | Unsure)
    if value is not None:
        return state.settled(value)
    return Column(name, compiler.columns[name]) if name in compiler.columns else Fail()
