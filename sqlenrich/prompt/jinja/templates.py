"""Templates of other files and macros: folded where they are included, imported or called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError, did_you_mean
from sqlenrich.prompt.ir.nodes import Expr
from sqlenrich.prompt.jinja.scope import Macro, Module, Scope
from sqlenrich.prompt.reference import Place

if TYPE_CHECKING:
    from sqlenrich.prompt.jinja.compile import Statements


def used(s: Statements, tree: nodes.Template) -> Iterator[nodes.Template]:
    """The templates that a template includes or imports, and theirs."""
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
        assert isinstance(node, nodes.Include | nodes.Import | nodes.FromImport)
        if isinstance(node.template, nodes.Const) and node.template.value not in s.loaded:
            with suppress(PromptError):
                part = load(s, node)
                yield part
                yield from used(s, part)


def load(s: Statements, node: nodes.Include | nodes.Import | nodes.FromImport) -> nodes.Template:
    """Give another template, parsed."""
    if not isinstance(node.template, nodes.Const) or not isinstance(node.template.value, str):
        s.x.refuse(node, "the name of a template must be a constant text")
    name = node.template.value
    if name in s.loaded:
        return s.loaded[name]
    if s.x.env.loader is None:
        s.x.refuse(node, f'"{name}" can\'t be read: the prompt is no file, whose folder would hold it')
    try:
        text, _, _ = s.x.env.loader.get_source(s.x.env, name)
        s.loaded[name] = s.x.env.parse(text, name)
    except jinja2.TemplateNotFound:
        s.x.refuse(node, f'there is no "{name}" in the folder of the prompt')
    except jinja2.TemplateSyntaxError as error:
        s.x.refuse(node, f"{name}:{error.lineno}: {error.message}")
    return s.loaded[name]


def elsewhere(
    s: Statements, node: nodes.Include | nodes.Import | nodes.FromImport, scope: Scope
) -> tuple[list[Expr], Scope]:
    """The parts of another template and the scope after them."""
    tree = load(s, node)
    if s.x.depth > 20:
        s.x.refuse(node, "templates that include each other without end")
    before, place = s.tree, (s.x.source, s.x.first_line)
    assert isinstance(node.template, nodes.Const)
    s.x.source, s.x.first_line, s.x.depth = str(node.template.value), 1, s.x.depth + 1
    s.tree = tree
    try:
        return s.body(tree.body, scope)
    finally:
        s.tree = before
        (s.x.source, s.x.first_line), s.x.depth = place, s.x.depth - 1


def imported(s: Statements, node: nodes.Import | nodes.FromImport, scope: Scope) -> Scope:
    """Give the scope after an import."""
    before = s.x.state.made
    _, after = elsewhere(s, node, scope if node.with_context else Scope({}, bare=True))
    s.x.state.frozen |= s.x.state.made - before  # a module outlives the row, and so would its changes
    if isinstance(node, nodes.Import):
        return scope.bind(node.target, Module({n: v for n, v in after.names.items() if not n.startswith("_")}))
    for entry in node.names:
        name, alias = entry if isinstance(entry, tuple) else (entry, entry)
        if (found := after.names.get(name)) is None:
            s.x.refuse(node, f'the template has no macro "{name}"{did_you_mean(name, after.names)}')
        scope = scope.bind(alias, found)
    return scope


def macro_of(s: Statements, node: nodes.Macro, scope: Scope) -> Scope:
    """Give the scope after a macro."""
    later = set_after(node, s.tree)
    return scope.bind(node.name, Macro(node, scope, s.x.source, s.x.first_line, later))


def position(node: nodes.Node) -> tuple[int, int]:
    """Give the line and the column of a node."""
    return node.lineno, node.lineno.column if isinstance(node.lineno, Place) else 0


def set_after(node: nodes.Node, tree: nodes.Template) -> frozenset[str]:
    """Give the names that a template sets after a node, or goes through in a loop."""
    statements = list(tree.find_all(_SETTING))
    after = [s for s in statements if position(s) > position(node) and s not in list(node.find_all(type(s)))]
    names = {name.name for s in after for name in s.find_all(nodes.Name) if name.ctx in ("store", "param")}
    names |= {s.name for s in after if isinstance(s, nodes.Macro)}
    names |= {s.target for s in after if isinstance(s, nodes.Import)}
    imported = [name for s in after if isinstance(s, nodes.FromImport) for name in s.names]
    return frozenset(names | {name if isinstance(name, str) else name[1] for name in imported})


_SETTING = (nodes.Assign, nodes.AssignBlock, nodes.For, nodes.Macro, nodes.With, nodes.Import, nodes.FromImport)
