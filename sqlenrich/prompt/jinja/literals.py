"""Literals and names."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.prompt.ir.nodes import Column
from sqlenrich.prompt.jinja.compiler import Compiler, expression
from sqlenrich.prompt.jinja.scope import Broken, Macro, Module, Reported, Scope, Unsure
from sqlenrich.prompt.values import functions
from sqlenrich.prompt.values.list_literals import list_of
from sqlenrich.prompt.values.values import ONCE, Known, Refusal, Stored, Table, Value, only_once


@expression(nodes.Const)
def constant(_compiler: Compiler, node: nodes.Const, _scope: Scope) -> Known:
    """A literal such as ``1`` or ``'text'``."""
    return Known(node.value)


@expression(nodes.TemplateData)
def template_data(_compiler: Compiler, node: nodes.TemplateData, _scope: Scope) -> Known:
    """The text between two tags."""
    return Known(node.data)


@expression(nodes.List, nodes.Tuple)
def list_or_tuple(compiler: Compiler, node: nodes.List | nodes.Tuple, scope: Scope) -> Value:
    """``[a, b]`` or ``(a, b)``."""
    return list_of([compiler.value(item, scope) for item in node.items], isinstance(node, nodes.Tuple))


@expression(nodes.Dict)
def mapping(compiler: Compiler, node: nodes.Dict, scope: Scope) -> Value:
    """``{key: value}``."""
    pairs = [(compiler.value(pair.key, scope), compiler.value(pair.value, scope)) for pair in node.items]
    if any(only_once(value) for _, value in pairs):
        raise Refusal(f"keeping {ONCE}")
    if all(isinstance(part, Known) for pair in pairs for part in pair):
        return Known({k.value: v.value for k, v in pairs if isinstance(k, Known) and isinstance(v, Known)})
    if not all(isinstance(key, Known) for key, _ in pairs):
        raise Refusal("a mapping whose keys differ by row; use if and elif")
    return Table(tuple((key.value, value) for key, value in pairs if isinstance(key, Known)))


@expression(nodes.Name)
def name(compiler: Compiler, node: nodes.Name, scope: Scope) -> Stored:
    """A name: of the template, else of a column, else of one of Jinja's global functions."""
    if (value := scope.names.get(node.name)) is not None:
        if isinstance(value, Broken):
            raise Reported
        if isinstance(value, Macro | Module):
            raise Refusal(f'the macro "{node.name}" is a value only where it is called')
        if isinstance(value, Unsure):
            raise Refusal(value.why)
        return value
    if node.name in compiler.columns and not scope.bare:
        return Column(node.name, compiler.columns[node.name])
    if node.name in compiler.env.globals:
        if node.name not in functions.GLOBALS:
            raise Refusal(f'"{node.name}" is random or keeps a state; write the text out')
        return Known(compiler.env.globals[node.name])
    if scope.bare:
        raise Refusal(f'"{node.name}": an imported template sees no columns; pass it to the macro as an argument')
    if compiler.default is None:
        hint = did_you_mean(node.name, [*compiler.columns, *scope.names])
        raise Refusal(f'unknown column "{node.name}"{hint}; there are: {", ".join(compiler.columns) or "none"}')
    return Column(node.name, compiler.default)
