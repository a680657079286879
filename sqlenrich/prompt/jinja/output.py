"""Statements that print or only group others."""

from __future__ import annotations

from jinja2 import nodes

from sqlenrich.core.errors import PromptError
from sqlenrich.prompt.ir.nodes import Const, Expr
from sqlenrich.prompt.jinja.compiler import Compiler, statement
from sqlenrich.prompt.jinja.printed_text import guards
from sqlenrich.prompt.jinja.scope import AlreadyReported, Scope


@statement(nodes.Output)
def output(compiler: Compiler, node: nodes.Output, scope: Scope) -> tuple[list[Expr], Scope]:
    """Text and ``{{ values }}``."""
    parts: list[Expr] = []
    for child in node.nodes:
        compiler.pending = set(compiler.pending_outside)
        try:
            if isinstance(child, nodes.TemplateData):
                parts.append(Const(child.data))
            else:
                parts.append(compiler.printed(child, compiler.value(child, scope)))
        except PromptError as error_at:
            compiler.errors.append(error_at)
        except AlreadyReported:
            continue
    return parts, scope


@statement(nodes.ExprStmt)
def do(compiler: Compiler, node: nodes.ExprStmt, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% do value %}``."""
    return guards(compiler.value(node.node, scope)), scope


@statement(nodes.Scope, nodes.ScopedEvalContextModifier)
def inner_scope(
    compiler: Compiler, node: nodes.Scope | nodes.ScopedEvalContextModifier, scope: Scope
) -> tuple[list[Expr], Scope]:
    """Statements in a scope of their own."""
    return compiler.statements(node.body, scope)[0], scope
