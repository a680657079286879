"""Templates of other files: included, or imported for their macros."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError, did_you_mean
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.jinja.compiler import MAX_DEPTH, Compiler, statement
from sqlenrich.prompt.jinja.scope import Module, Scope


def used(compiler: Compiler, tree: nodes.Template) -> Iterator[nodes.Template]:
    """Return the templates that a template includes or imports, directly or not."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
        assert isinstance(node, nodes.Include | nodes.Import | nodes.FromImport)
        if isinstance(node.template, nodes.Const) and node.template.value not in compiler.loaded:
            with suppress(PromptError):
                part = load(compiler, node)
                yield part
                yield from used(compiler, part)


def load(compiler: Compiler, node: nodes.Include | nodes.Import | nodes.FromImport) -> nodes.Template:
    """Load and parse another template."""
    if not isinstance(node.template, nodes.Const) or not isinstance(node.template.value, str):
        compiler.reject(node, "the name of a template must be a constant text")
    name = node.template.value
    if name in compiler.loaded:
        return compiler.loaded[name]
    if compiler.env.loader is None:
        instead = "it must lie in the folder of the prompt's file, and this prompt has no file"
        compiler.reject(node, f'"{name}" can\'t be read: {instead}')
    try:
        text, _, _ = compiler.env.loader.get_source(compiler.env, name)
        compiler.loaded[name] = compiler.env.parse(text, name)
    except jinja2.TemplateNotFound:
        compiler.reject(node, f'there is no "{name}" in the folder of the prompt')
    except jinja2.TemplateSyntaxError as error:
        compiler.reject(node, f"{name}:{error.lineno}: {error.message}")
    return compiler.loaded[name]


def compile_template(
    compiler: Compiler, node: nodes.Include | nodes.Import | nodes.FromImport, scope: Scope
) -> tuple[list[Expr], Scope]:
    """Compile another template. Give its printed parts and the scope after it."""
    tree = load(compiler, node)
    if compiler.depth > MAX_DEPTH:
        compiler.reject(node, "templates that include each other endlessly")
    before, place = compiler.tree, (compiler.source, compiler.first_line)
    assert isinstance(node.template, nodes.Const)
    compiler.source, compiler.first_line, compiler.depth = str(node.template.value), 1, compiler.depth + 1
    compiler.tree = tree
    try:
        return compiler.statements(tree.body, scope)
    finally:
        compiler.tree = before
        (compiler.source, compiler.first_line), compiler.depth = place, compiler.depth - 1


@statement(nodes.Include)
def include(compiler: Compiler, node: nodes.Include, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% include 'file' %}``."""
    seen = Scope({name: value for name, value in scope.symbols.items() if name != "loop"})
    return compile_template(compiler, node, seen if node.with_context else Scope({}, without_columns=True))[0], scope


@statement(nodes.Import, nodes.FromImport)
def imported(compiler: Compiler, node: nodes.Import | nodes.FromImport, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% import 'file' as name %}`` and ``{% from 'file' import name %}``."""
    before = compiler.heap.allocated
    _, after = compile_template(compiler, node, scope if node.with_context else Scope({}, without_columns=True))
    compiler.heap.frozen |= compiler.heap.allocated - before  # Jinja keeps a module between rows
    if isinstance(node, nodes.Import):
        return [], scope.bind(node.target, Module({n: v for n, v in after.symbols.items() if not n.startswith("_")}))
    for entry in node.names:
        name, alias = entry if isinstance(entry, tuple) else (entry, entry)
        if (found := after.symbols.get(name)) is None:
            compiler.reject(node, f'the template has no macro "{name}"{did_you_mean(name, after.symbols)}')
        scope = scope.bind(alias, found)
    return [], scope
