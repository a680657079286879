"""A template's statements to one typed text expression: loops are unrolled, branches become choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError
from sqlenrich.core.types import STRING, Type
from sqlenrich.prompt.ir.failures import failure, requiring
from sqlenrich.prompt.ir.nodes import Column, Const, Expr, Fail
from sqlenrich.prompt.ir.walk import columns_of
from sqlenrich.prompt.jinja import filters, loops, templates
from sqlenrich.prompt.jinja.expressions import Expressions
from sqlenrich.prompt.jinja.scope import (
    Bound,
    Broken,
    Macro,
    Module,
    Reported,
    Scope,
    Unsure,
    guards,
    join,
    prints_nothing,
    without_needless,
)
from sqlenrich.prompt.values import arrays as arrays_
from sqlenrich.prompt.values.functions import MUTATING
from sqlenrich.prompt.values.state import State, added, merged
from sqlenrich.prompt.values.texts import written
from sqlenrich.prompt.values.values import (
    ONCE,
    READ_IN_LOOP,
    Changing,
    Growing,
    Items,
    Known,
    Part,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Value,
    choose,
    only_once,
)

MAX_PARTS = 20_000
"""Loops are unrolled; a template that prints more parts than this is refused instead of exploding."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled template: its text expression and the columns it reads, in the order of first use."""

    expr: Expr
    columns: tuple[str, ...]
    lines: Mapping[Expr, int] = field(default_factory=dict, compare=False)
    """Where the file prints a value first."""


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
    """Compile a template. Names that are not in ``vars`` are columns, of the type ``default`` where undeclared.

    With ``default=None`` an undeclared column is an error. ``source`` and ``first_line`` place the template in its
    file for messages, ``folder`` is where included templates lie. Raises :class:`~sqlenrich.PromptError`, which holds
    every construct that can't be compiled, with line, column and what to write instead.
    """
    expressions = Expressions(dict(columns or {}), default, source, first_line, folder)
    statements = Statements(expressions)
    try:
        tree = expressions.env.parse(template)
    except jinja2.TemplateSyntaxError as error:
        raise expressions.problem(error.lineno, error.message or "syntax error") from None
    statements.tree = tree
    trees = [tree, *templates.used(statements, tree)]
    names = {name.name for part in trees for name in part.find_all(nodes.Name)}
    expressions.names = arrays_.Names({*expressions.columns, *names})
    expressions.mutable = any(map(_changes_values, trees))
    scope = Scope({name: Known(value) for name, value in (vars or {}).items()})
    try:
        parts, _ = statements.body(tree.body, scope)
    except TooLong as error:
        parts = []
        expressions.problems.append(error.problem)
    if expressions.problems:
        found = {str(problem): problem for problem in expressions.problems}
        raise PromptError.of(list(found.values()))
    expr = join(parts)
    return Prompt(expr, tuple(dict.fromkeys(columns_of(expr))), expressions.lines)


class TooLong(Exception):  # noqa: N818 (ends the compilation at once: nothing after it could be told)
    """A template that prints more parts than it may."""

    def __init__(self, problem: PromptError) -> None:
        self.problem = problem


def _changes_values(tree: nodes.Template) -> bool:
    """Tell whether a template changes lists, mappings or namespaces in place."""
    methods = any(
        call.node.attr in MUTATING for call in tree.find_all(nodes.Call) if isinstance(call.node, nodes.Getattr)
    )
    return methods or any(name.name == "namespace" for name in tree.find_all(nodes.Name))


class Statements:
    """Gives the printed parts of statements and the scope after them."""

    def __init__(self, expressions: Expressions) -> None:
        self.x = expressions
        self.printed_parts = 0
        self.loaded: dict[str, nodes.Template] = {}
        self.tree = nodes.Template([])
        expressions.render = lambda body, scope: join(self.body(body, scope)[0])

    # Statements ------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[nodes.Node], scope: Scope) -> tuple[list[Expr], Scope]:
        """Give the printed parts of some statements and the scope after them."""
        parts: list[Expr] = []
        for statement in statements:
            more: list[Expr] = []
            try:
                more, scope = self.statement(statement, scope)
            except Refusal as refusal:
                self.x.problems.append(self.x.problem(statement.lineno, str(refusal)))
                scope = self.broken(statement, scope)
            except PromptError as problem:
                self.x.problems.append(problem)
                scope = self.broken(statement, scope)
            except Reported:
                scope = self.broken(statement, scope)
            parts.extend(more)
            self.printed_parts += len(more)
            if self.printed_parts > MAX_PARTS:
                message = f"the template prints over {MAX_PARTS} parts; shorten its loops"
                raise TooLong(self.x.problem(statement.lineno, message))
        return without_needless(parts), scope

    def broken(self, statement: nodes.Node, scope: Scope) -> Scope:
        """The scope after a statement that could not be compiled: what it sets is not complained about again."""
        if isinstance(statement, nodes.Assign | nodes.AssignBlock):
            for target in [statement.target, *statement.target.find_all(nodes.Name)]:
                if isinstance(target, nodes.Name):
                    scope = scope.bind(target.name, Broken())
        return scope

    def statement(self, node: nodes.Node, scope: Scope) -> tuple[list[Expr], Scope]:
        self.x.pending = set(self.x.pending_outside)
        match node:
            case nodes.Output():
                return self.output(node, scope), scope
            case nodes.If():
                return self.if_(node, scope)
            case nodes.For():
                return loops.looped(self, node, scope), scope
            case nodes.Assign():
                return self.set(node, scope)
            case nodes.ExprStmt():
                return guards(self.x.value(node.node, scope)), scope
            case nodes.AssignBlock(target=nodes.Name() as target):
                text = self.block(node.body, node.filter, scope)
                return guards(text), scope.bind(target.name, text)
            case nodes.FilterBlock():
                text = self.block(node.body, node.filter, scope)
                return [self.x.printed(node, text)], scope
            case nodes.Include():
                seen = {name: value for name, value in scope.names.items() if name != "loop"}
                return templates.elsewhere(self, node, Scope(seen) if node.with_context else Scope({}, bare=True))[
                    0
                ], scope
            case nodes.Import() | nodes.FromImport():
                return [], templates.imported(self, node, scope)
            case nodes.Macro():
                return [], templates.macro_of(self, node, scope)
            case nodes.With():
                inner, before = scope, []
                for left, value in zip(node.targets, node.values, strict=True):
                    given = (self.x.part if self.x.mutable else self.x.copied)(value, scope)
                    before += guards(given)
                    inner = self.assign(left, given, inner)
                return without_needless([*before, *self.body(node.body, inner)[0]]), scope
            case nodes.Scope() | nodes.ScopedEvalContextModifier():
                return self.body(node.body, scope)[0], scope
        name = type(node).__name__.lower()
        self.x.refuse(node, f'"{name}" is not compiled to SQL; write the text out, or prepare it in the source query')

    def output(self, node: nodes.Output, scope: Scope) -> list[Expr]:
        parts: list[Expr] = []
        for child in node.nodes:
            self.x.pending = set(self.x.pending_outside)
            try:
                parts.append(self.x.print(child, scope))
            except PromptError as problem:
                self.x.problems.append(problem)
            except Reported:
                continue
        return parts

    def block(self, body: list[nodes.Node], filtered: nodes.Filter | None, scope: Scope) -> Value:
        """The text of a block, through its filters."""
        text = join(self.body(body, scope)[0])
        value: Value = Known(text.value) if isinstance(text, Const) else written(text)
        return value if filtered is None else filters.filtered(self.x, filtered, scope, value)

    def set(self, node: nodes.Assign, scope: Scope) -> tuple[list[Expr], Scope]:
        made = self.x.new_object(node.node, scope) if self.x.mutable else None
        if made is not None:
            return guards(self.x.state.read(made)), self.assign(node.target, made, scope)
        given = self.x.copied(node.node, scope) if self.x.mutable else self.x.value(node.node, scope)
        parts = [part.value for part in self.added(node.target, given, scope)]
        after = self.assign(node.target, given, scope)
        return [guard for value in (given, *parts) for guard in guards(value)], after

    def added(self, target: nodes.Node, given: Stored, scope: Scope) -> tuple[Part, ...]:
        """What an assignment adds to an entry that a loop builds up."""
        if not isinstance(target, nodes.NSRef) or not isinstance(owner := scope.names.get(target.name), Ref):
            return ()
        return added(self.x.state.entries.get((owner.cell, target.attr)), given)

    def if_(self, node: nodes.If, scope: Scope) -> tuple[list[Expr], Scope]:
        arms = [(self.x.test(node.test, scope), node.body)]
        with self.x.where_it_depends():
            arms += [(self.x.test(branch.test, scope), branch.body) for branch in node.elif_]
        before = self.x.state.copy()
        otherwise, scope_else = self.body(node.else_, scope)
        text, after = join(otherwise), scope_else
        for test, body in reversed(arms):
            state_else, self.x.state = self.x.state, before.copy()
            then, scope_then = self.body(body, scope)
            text = choose(test, join(then), text)
            after = self.merge(node, test, scope_then, after, state_else)
        return [requiring(failure(text), Const("")) if prints_nothing(text) else text], after

    def merge(self, node: nodes.Node, test: Expr, then: Scope, orelse: Scope, state_else: State) -> Scope:
        """The names and the state after two branches; the state at hand is that of the first."""
        state_then = self.x.state
        if isinstance(test, Const):
            self.x.state = state_then if test.value else state_else
            return then if test.value else orelse
        if state_then.entries or state_else.entries:
            either = lambda t, a, b: self.x.either(node, t, a, b)  # noqa: E731
            self.x.state = merged(test, state_then, state_else, either)
            self.x.read |= self.x.state.frozen - state_then.frozen - state_else.frozen
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
            names[name] = self.x.either(node, test, self.free(name, a, state_then), self.free(name, b, state_else))
        return Scope(names)

    def free(self, name: str, value: Bound | None, state: State) -> Value:
        """Give a name's value in a branch that did not set it: the column of that name, else nothing."""
        if isinstance(value, Ref):
            self.x.state.frozen |= state.reached(value)
            self.x.read |= state.reached(value)
        if isinstance(value, Broken):
            raise Reported
        assert not isinstance(value, Macro | Module | Unsure)
        if value is not None:
            return state.settled(value)
        return Column(name, self.x.columns[name]) if name in self.x.columns else Fail()

    def assign(self, target: nodes.Node, value: Stored, scope: Scope) -> Scope:
        if isinstance(target, nodes.NSRef):
            owner = scope.names.get(target.name)
            if not isinstance(owner, Ref) or owner.kind != "namespace":
                self.x.refuse(target, f'"{target.name}" is no namespace here')
            if self.x.conditional:
                self.x.refuse(target, "setting a namespace where a condition decides; write {% if %} around it")
            self.x.state.write((owner.cell, target.attr), value)
            return scope
        if isinstance(value, Changing | Growing | Replaced):
            self.x.refuse(target, READ_IN_LOOP)
        if only_once(value):
            self.x.refuse(target, f"keeping {ONCE}")
        if isinstance(target, nodes.Name):
            return scope.bind(target.name, value)
        if isinstance(target, nodes.Tuple):
            if isinstance(value, Ref):
                value = self.x.settled(value)
            if isinstance(value, Known):
                try:
                    value = Items(tuple(Known(item) for item in value.value))
                except TypeError as error:
                    self.x.refuse(target, f"unpacking fails for every row: {error}")
            if isinstance(value, Items) and len(value.values) == len(target.items):
                for name, item in zip(target.items, value.values, strict=True):
                    scope = self.assign(name, item, scope)
                return scope
        self.x.refuse(target, "only plain names can be set; write {% set name = ... %}")
