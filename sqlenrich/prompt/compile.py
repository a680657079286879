"""Compile a template to one typed text expression. Loops are unrolled or become maps; branches become conditionals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError
from sqlenrich.core.types import STRING, Type
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.ir.traversal import columns_of
from sqlenrich.prompt.jinja import (  # noqa: F401 (each registers its handlers)
    assignments,
    calls,
    conditions,
    filters,
    literals,
    lookups,
    loops,
    macros,
    operators,
    output,
    templates,
)
from sqlenrich.prompt.jinja.compiler import Compiler, TooManyParts
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values.bound_variables import VariableNames
from sqlenrich.prompt.values.builtins import MUTATING_METHODS
from sqlenrich.prompt.values.value import Static


@dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled template: its text expression and the columns it reads, in the order of first use."""

    expr: Expr
    columns: tuple[str, ...]
    lines: Mapping[Expr, int] = field(default_factory=dict, compare=False)
    """The line of the file that prints an expression first."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that decide whether a row has input."""
        return self.columns

    @property
    def printed(self) -> Expr:
        """What the template prints, for its layout."""
        return self.expr


def compile_prompt(
    template: str,
    *,
    columns: Mapping[str, Type] | None = None,
    vars: Mapping[str, Any] | None = None,
    default: Type | None = STRING,
    source: str = "prompt",
    first_line: int = 1,
    folder: Path | None = None,
) -> Prompt:
    """Compile a template. A name that is not in ``vars`` is a column; an undeclared one has the type ``default``.

    With ``default=None`` an undeclared column is an error. ``source`` and ``first_line`` place the template in its
    file for messages, ``folder`` is where included templates lie. Raises :class:`~sqlenrich.PromptError`, which holds
    every construct that can't be compiled, with line, column and what to write instead.
    """
    compiler = Compiler(dict(columns or {}), default, source, first_line, folder)
    try:
        tree = compiler.env.parse(template)
    except jinja2.TemplateSyntaxError as error:
        problem = compiler.error_at(error.lineno, error.message or "syntax error")
        problem.syntax = True
        raise problem from None
    compiler.tree = tree
    trees = [tree, *templates.used(compiler, tree)]
    names = {name.name for part in trees for name in part.find_all(nodes.Name)}
    compiler.variables = VariableNames({*compiler.columns, *names})
    compiler.mutable = any(map(_changes_values, trees))
    scope = Scope({name: Static(value) for name, value in (vars or {}).items()})
    try:
        expr = compiler.text(tree.body, scope)
    except TooManyParts as error:
        compiler.errors.append(error.error)
    if compiler.errors:
        found = {str(error_at): error_at for error_at in compiler.errors}
        raise PromptError.of(list(found.values()))
    return Prompt(expr, tuple(dict.fromkeys(columns_of(expr))), compiler.lines)


def _changes_values(tree: nodes.Template) -> bool:
    """Tell whether a template changes lists, mappings or namespaces in place."""
    methods = any(
        call.node.attr in MUTATING_METHODS for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Getattr)
    )
    return methods or any(name.name == "namespace" for name in tree.find_all(nodes.Name))
