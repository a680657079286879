"""Literals and names."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.prompt.ir.nodes import Column
from sqlenrich.prompt.jinja.compiler import Compiler, expression
from sqlenrich.prompt.jinja.scope import AlreadyReported, ErrorSymbol, Macro, Module, Scope, UnreadableSymbol
from sqlenrich.prompt.values import builtins
from sqlenrich.prompt.values.list_literals import list_value
from sqlenrich.prompt.values.value import GENERATOR, CompileError, MappingValue, Static, Storable, Value, is_generator


@expression(nodes.Const)
def constant(_compiler: Compiler, node: nodes.Const, _scope: Scope) -> Static:
    """A literal such as ``1`` or ``'text'``."""
    return Static(node.value)


@expression(nodes.TemplateData)
def template_data(_compiler: Compiler, node: nodes.TemplateData, _scope: Scope) -> Static:
    """The text between two tags."""
    return Static(node.data)


@expression(nodes.List, nodes.Tuple)
def list_or_tuple(compiler: Compiler, node: nodes.List | nodes.Tuple, scope: Scope) -> Value:
    """``[a, b]`` or ``(a, b)``."""
    return list_value([compiler.value(item, scope) for item in node.items], isinstance(node, nodes.Tuple))


@expression(nodes.Dict)
def mapping(compiler: Compiler, node: nodes.Dict, scope: Scope) -> Value:
    """``{key: value}``."""
    pairs = [(compiler.value(pair.key, scope), compiler.value(pair.value, scope)) for pair in node.items]
    if any(is_generator(value) for _, value in pairs):
        raise CompileError(f"keeping {GENERATOR}")
    if all(isinstance(part, Static) for pair in pairs for part in pair):
        return Static({k.value: v.value for k, v in pairs if isinstance(k, Static) and isinstance(v, Static)})
    if not all(isinstance(key, Static) for key, _ in pairs):
        raise CompileError("a mapping with keys that differ by row; use if and elif")
    return MappingValue(tuple((key.value, value) for key, value in pairs if isinstance(key, Static)))


@expression(nodes.Name)
def name(compiler: Compiler, node: nodes.Name, scope: Scope) -> Storable:
    """A name: of the template, else of a column, else of one of Jinja's global functions."""
    if (value := scope.symbols.get(node.name)) is not None:
        if isinstance(value, ErrorSymbol):
            raise AlreadyReported
        if isinstance(value, Macro | Module):
            raise CompileError(f'the macro "{node.name}" is a value only where it is called')
        if isinstance(value, UnreadableSymbol):
            raise CompileError(value.why)
        return value
    if node.name in compiler.columns and not scope.without_columns:
        return Column(node.name, compiler.columns[node.name])
    if node.name in compiler.env.globals:
        if node.name not in builtins.GLOBALS:
            raise CompileError(f'"{node.name}" is random or keeps a state; write the text out')
        return Static(compiler.env.globals[node.name])
    if scope.without_columns:
        raise CompileError(f'"{node.name}": an imported template sees no columns; pass it to the macro as an argument')
    if compiler.default is None:
        hint = did_you_mean(node.name, [*compiler.columns, *scope.symbols])
        raise CompileError(f'unknown column "{node.name}"{hint}; there are: {", ".join(compiler.columns) or "none"}')
    return Column(node.name, compiler.default)
