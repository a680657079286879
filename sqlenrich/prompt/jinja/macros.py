"""Macros: their definition, and their text for some arguments."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from sqlenrich.prompt.ir.failures import any_of, disjuncts, fail_where, failure, immediate_failure
from sqlenrich.prompt.ir.nodes import Const, Expr, Fail
from sqlenrich.prompt.jinja.compiler import MAX_DEPTH, Compiler, statement
from sqlenrich.prompt.jinja.objects import stored_value
from sqlenrich.prompt.jinja.printed_text import parts_of
from sqlenrich.prompt.jinja.scope import Macro, Module, Scope, UnreadableSymbol
from sqlenrich.prompt.reference import SourceLine
from sqlenrich.prompt.values.printing import materialized
from sqlenrich.prompt.values.value import CompileError, Dynamic, Static, Storable, Value

_SETTING = (nodes.Assign, nodes.AssignBlock, nodes.For, nodes.Macro, nodes.With, nodes.Import, nodes.FromImport)


@statement(nodes.Macro)
def macro(compiler: Compiler, node: nodes.Macro, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% macro name(arguments) %}``."""
    later = set_after(node, compiler.tree)
    return [], scope.bind(node.name, Macro(node, scope, compiler.source, compiler.first_line, later))


def called_macro(node: nodes.Expr, scope: Scope) -> Macro | None:
    """Return the macro that is called, None for another function."""
    found: Any = None
    if isinstance(node, nodes.Name):
        found = scope.symbols.get(node.name)
    elif isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        module = scope.symbols.get(node.node.name)
        found = module.symbols.get(node.attr) if isinstance(module, Module) else None
    return found if isinstance(found, Macro) else None


def expand_macro(compiler: Compiler, macro: Macro, node: nodes.Call, scope: Scope) -> Value:
    """Return the text of a macro for its arguments."""
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise CompileError("arguments given with * or **; write them out")
    names = [arg.name for arg in macro.node.args]
    given: dict[str, Storable] = {}
    for place, arg in enumerate(node.args):
        if place >= len(names):
            raise CompileError(f'the macro "{macro.node.name}" takes {len(names)} arguments')
        given[names[place]] = stored_value(compiler, arg, scope)
    for pair in node.kwargs:
        if pair.key not in names or pair.key in given:
            raise CompileError(f'the macro "{macro.node.name}" has no argument "{pair.key}" left')
        given[pair.key] = stored_value(compiler, pair.value, scope)
    if compiler.depth > MAX_DEPTH:
        raise CompileError(f'the macro "{macro.node.name}" calls itself endlessly')
    place_of = compiler.source, compiler.first_line
    compiler.source, compiler.first_line, compiler.depth = macro.source, macro.first_line, compiler.depth + 1
    pending, outside = set(compiler.pending), compiler.pending_outside
    compiler.pending_outside = frozenset(pending)
    try:
        inner = macro.scope.bind(macro.node.name, macro)
        for name in macro.set_later:
            why = f'the macro reads "{name}", which is set after it; pass it as an argument'
            inner = inner.bind(name, UnreadableSymbol(why))
        first_default = len(names) - len(macro.node.defaults)
        for place, name in enumerate(names):
            if name not in given and place >= first_default:
                default = macro.node.defaults[place - first_default]
                given[name] = stored_value(compiler, default, inner)
            inner = inner.bind(name, given.get(name, Fail()))
        for read in macro.node.find_all(nodes.Name):
            if read.name in ("caller", "varargs", "kwargs"):
                compiler.reject(read, f'"{read.name}" of a macro; name its arguments')
        text = compiler.text(macro.node.body, inner)
    finally:
        (compiler.source, compiler.first_line), compiler.depth = place_of, compiler.depth - 1
        compiler.pending, compiler.pending_outside = pending, outside
    fails = set(disjuncts(failure(text)))
    broken: Expr | None = None
    for value in given.values():  # evaluated even if the macro does not read it
        for reason in (immediate_failure(each) for each in parts_of(value) if isinstance(each, Dynamic)):
            if reason is not None and not fails.issuperset(disjuncts(reason)):
                broken = any_of(broken, reason)
    text = fail_where(broken, text)
    return Static(text.value) if isinstance(text, Const) else materialized(text)


def position(node: nodes.Node) -> tuple[int, int]:
    """Return the line and the column of a node."""
    return node.lineno, node.lineno.column if isinstance(node.lineno, SourceLine) else 0


def set_after(node: nodes.Node, tree: nodes.Template) -> frozenset[str]:
    """Return the names that a template sets after a node, loop targets included."""
    statements = list(tree.find_all(_SETTING))
    after = [s for s in statements if position(s) > position(node) and s not in list(node.find_all(type(s)))]
    names = {name.name for s in after for name in s.find_all(nodes.Name) if name.ctx in ("store", "param")}
    names |= {s.name for s in after if isinstance(s, nodes.Macro)}
    names |= {s.target for s in after if isinstance(s, nodes.Import)}
    imported = [name for s in after if isinstance(s, nodes.FromImport) for name in s.names]
    return frozenset(names | {name if isinstance(name, str) else name[1] for name in imported})
