"""``{% set %}``, also of blocks, and ``{% with %}``."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.jinja.compiler import Compiler, statement
from sqlenrich.prompt.jinja.objects import copied, new_object, stored_value
from sqlenrich.prompt.jinja.printed_text import guards, without_needless
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values.loop_carried import new_updates
from sqlenrich.prompt.values.value import (
    GENERATOR,
    READ_IN_LOOP,
    ListValue,
    LoopAccumulated,
    LoopAssigned,
    LoopCarried,
    LoopUpdate,
    ObjectRef,
    Static,
    Storable,
    is_generator,
)


@statement(nodes.Assign)
def set_statement(compiler: Compiler, node: nodes.Assign, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% set name = value %}``."""
    made = new_object(compiler, node.node, scope) if compiler.mutable else None
    if made is not None:
        return guards(compiler.heap.load(made)), assign(compiler, node.target, made, scope)
    given = copied(compiler, node.node, scope) if compiler.mutable else compiler.value(node.node, scope)
    parts = [each.value for each in _added(compiler, node.target, given, scope)]
    after = assign(compiler, node.target, given, scope)
    return [guard for value in (given, *parts) for guard in guards(value)], after


def _added(compiler: Compiler, target: nodes.Node, given: Storable, scope: Scope) -> tuple[LoopUpdate, ...]:
    """Return the updates that an assignment adds to a loop-carried entry."""
    if not isinstance(target, nodes.NSRef) or not isinstance(owner := scope.symbols.get(target.name), ObjectRef):
        return ()
    return new_updates(compiler.heap.entries.get((owner.object_id, target.attr)), given)


@statement(nodes.AssignBlock)
def set_block(compiler: Compiler, node: nodes.AssignBlock, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% set name %}text{% endset %}``."""
    if not isinstance(node.target, nodes.Name):
        compiler.reject(node, "only a plain name can be set to a block; write {% set name %}...{% endset %}")
    text = compiler.block(node.body, node.filter, scope)
    return guards(text), scope.bind(node.target.name, text)


@statement(nodes.With)
def with_statement(compiler: Compiler, node: nodes.With, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% with name = value %}``."""
    inner, before = scope, []
    for target, value in zip(node.targets, node.values, strict=True):
        given = stored_value(compiler, value, scope)
        before += guards(given)
        inner = assign(compiler, target, given, inner)
    return without_needless([*before, *compiler.statements(node.body, inner)[0]]), scope


def assign(compiler: Compiler, target: nodes.Node, value: Storable, scope: Scope) -> Scope:
    """Return the scope after an assignment to a name, several names, or an attribute of a namespace."""
    if isinstance(target, nodes.NSRef):
        owner = scope.symbols.get(target.name)
        if not isinstance(owner, ObjectRef) or owner.kind != "namespace":
            compiler.reject(target, f'"{target.name}" is not a namespace')
        if compiler.conditional:
            message = "setting a namespace in a part that some rows do not evaluate; write {% if %} around it"
            compiler.reject(target, message)
        compiler.heap.store((owner.object_id, target.attr), value)
        return scope
    if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned):
        compiler.reject(target, READ_IN_LOOP)
    if is_generator(value):
        compiler.reject(target, f"keeping {GENERATOR}")
    if isinstance(target, nodes.Name):
        return scope.bind(target.name, value)
    if isinstance(target, nodes.Tuple):
        if isinstance(value, ObjectRef):
            value = compiler.resolve(value)
        if isinstance(value, Static):
            try:
                value = ListValue(tuple(Static(item) for item in value.value))
            except TypeError as error:
                compiler.reject(target, f"unpacking fails for every row: {error}")
        if isinstance(value, ListValue) and len(value.values) == len(target.items):
            for name, item in zip(target.items, value.values, strict=True):
                scope = assign(compiler, name, item, scope)
            return scope
    compiler.reject(target, "only plain names can be set; write {% set name = ... %}")
