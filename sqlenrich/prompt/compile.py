"""A template's statements to one typed text expression: loops are unrolled, branches become choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from ..errors import PromptError, did_you_mean
from ..types import BIGINT, BOOLEAN, STRING, Array, Type
from . import arrays as arrays_
from . import filters
from .expressions import Expressions
from .failures import at_once, either, either_of, failure, missing, requiring
from .functions import MUTATING
from .ir import Column, Const, Element, Exists, Expr, Fail, If, Join, Map, Op, Var, Where, columns_of
from .reference import Place
from .scope import Bound, Broken, Macro, Module, Reported, Scope, Unsure, join, parts_of
from .state import Place as Entry
from .state import State, added, after_loop, changed, merged
from .texts import written
from .values import (
    ONCE,
    READ_IN_LOOP,
    Changing,
    Dynamic,
    Growing,
    Items,
    Known,
    Lazy,
    Loop,
    Part,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Table,
    Value,
    Zip,
    choose,
    describe,
    only_once,
)

MAX_PARTS = 20_000
"""Loops are unrolled; a template that prints more parts than this is refused instead of exploding."""


class Turn:
    """The ``loop`` variable in one turn of a loop over constants."""

    def __init__(self, index: int, length: int) -> None:
        self.index0, self.index, self.length = index, index + 1, length
        self.revindex0, self.revindex = length - index - 1, length - index
        self.first, self.last = index == 0, index == length - 1

    def cycle(self, *choices: Any) -> Any:
        """Give one choice after another."""
        return choices[self.index0 % len(choices)]

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        raise Refusal('going through "loop" itself')

    def __repr__(self) -> str:
        return f"<LoopContext {self.index}/{self.length}>"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A compiled template: its text expression and the columns it reads, in the order of first use."""

    expr: Expr
    columns: tuple[str, ...]


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
    statements = _Statements(expressions)
    try:
        tree = expressions.env.parse(template)
    except jinja2.TemplateSyntaxError as error:
        raise expressions.problem(error.lineno, error.message or "syntax error") from None
    statements.tree = tree
    trees = [tree, *statements.used(tree)]
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
    return Prompt(expr, tuple(dict.fromkeys(columns_of(expr))))


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


def guards(value: Stored) -> list[Expr]:
    """Give empty texts that fail where a value that is set fails: Jinja computes it even where nothing reads it."""
    broken = [at_once(v) for v in parts_of(value) if isinstance(v, Dynamic)]
    return [requiring(condition, Const("")) for condition in broken if condition is not None]


def without_needless(parts: list[Expr]) -> list[Expr]:
    """Leave out the guards that fail only where a part that is printed anyway fails."""
    kept = [part for part in parts if not is_guard(part)]
    if len(kept) == len(parts):
        return parts
    reasons = {reason for part in kept for reason in either_of(failure(part))}
    return [part for part in parts if not is_guard(part) or not reasons.issuperset(either_of(failure(part)))]


def prints_nothing(text: Expr) -> bool:
    """Tell whether a text is empty for every row for which it does not fail."""
    match text:
        case If(_, then, orelse):
            return prints_nothing(then) and prints_nothing(orelse)
        case Join(parts):
            return all(prints_nothing(part) for part in parts)
    return text == Const("") or isinstance(text, Fail)


def is_guard(part: Expr) -> bool:
    """Tell whether a part prints nothing, but may fail."""
    return isinstance(part, If) and part.then == Fail(True) and part.orelse == Const("")


class _Statements:
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

    def used(self, tree: nodes.Template) -> Iterator[nodes.Template]:
        """The templates that a template includes or imports, and theirs."""
        for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
            assert isinstance(node, nodes.Include | nodes.Import | nodes.FromImport)
            if isinstance(node.template, nodes.Const) and node.template.value not in self.loaded:
                with suppress(PromptError):
                    part = self.load(node)
                    yield part
                    yield from self.used(part)

    def load(self, node: nodes.Include | nodes.Import | nodes.FromImport) -> nodes.Template:
        if not isinstance(node.template, nodes.Const) or not isinstance(node.template.value, str):
            self.x.refuse(node, "the name of a template must be a constant text")
        name = node.template.value
        if name in self.loaded:
            return self.loaded[name]
        if self.x.env.loader is None:
            self.x.refuse(node, f'"{name}" can\'t be read: the prompt is no file, whose folder would hold it')
        try:
            text, _, _ = self.x.env.loader.get_source(self.x.env, name)
            self.loaded[name] = self.x.env.parse(text, name)
        except jinja2.TemplateNotFound:
            self.x.refuse(node, f'there is no "{name}" in the folder of the prompt')
        except jinja2.TemplateSyntaxError as error:
            self.x.refuse(node, f"{name}:{error.lineno}: {error.message}")
        return self.loaded[name]

    def elsewhere(
        self, node: nodes.Include | nodes.Import | nodes.FromImport, scope: Scope
    ) -> tuple[list[Expr], Scope]:
        """The parts of another template and the scope after them."""
        tree = self.load(node)
        if self.x.depth > 20:
            self.x.refuse(node, "templates that include each other without end")
        before, place = self.tree, (self.x.source, self.x.first_line)
        assert isinstance(node.template, nodes.Const)
        self.x.source, self.x.first_line, self.x.depth = str(node.template.value), 1, self.x.depth + 1
        self.tree = tree
        try:
            return self.body(tree.body, scope)
        finally:
            self.tree = before
            (self.x.source, self.x.first_line), self.x.depth = place, self.x.depth - 1

    def imported(self, node: nodes.Import | nodes.FromImport, scope: Scope) -> Scope:
        before = self.x.state.made
        _, after = self.elsewhere(node, scope if node.with_context else Scope({}, bare=True))
        self.x.state.frozen |= self.x.state.made - before  # a module outlives the row, and so would its changes
        if isinstance(node, nodes.Import):
            return scope.bind(node.target, Module({n: v for n, v in after.names.items() if not n.startswith("_")}))
        for entry in node.names:
            name, alias = entry if isinstance(entry, tuple) else (entry, entry)
            if (found := after.names.get(name)) is None:
                self.x.refuse(node, f'the template has no macro "{name}"{did_you_mean(name, after.names)}')
            scope = scope.bind(alias, found)
        return scope

    def macro(self, node: nodes.Macro, scope: Scope) -> Scope:
        later = set_after(node, self.tree)
        return scope.bind(node.name, Macro(node, scope, self.x.source, self.x.first_line, later))

    def statement(self, node: nodes.Node, scope: Scope) -> tuple[list[Expr], Scope]:
        self.x.pending = set(self.x.pending_outside)
        match node:
            case nodes.Output():
                return self.output(node, scope), scope
            case nodes.If():
                return self.if_(node, scope)
            case nodes.For():
                return self.for_(node, scope), scope
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
                return self.elsewhere(node, Scope(seen) if node.with_context else Scope({}, bare=True))[0], scope
            case nodes.Import() | nodes.FromImport():
                return [], self.imported(node, scope)
            case nodes.Macro():
                return [], self.macro(node, scope)
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
                names[name] = Unsure()
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

    def for_(self, node: nodes.For, scope: Scope) -> list[Expr]:
        if node.recursive:
            self.x.refuse(node, "a recursive loop is not compiled to SQL; write the levels out")
        before, self.x.read = self.x.read, set()
        iterable = self.x.value(node.iter, scope)
        over, self.x.read = self.x.read - self.x.state.frozen, set()
        self.x.state.frozen |= over
        parts = self.over(node, iterable, scope)
        self.x.state.frozen -= over - self.x.read  # what the body read it may have copied
        self.x.read |= before | over
        return parts

    def over(self, node: nodes.For, iterable: Value, scope: Scope) -> list[Expr]:
        if isinstance(iterable, Known):
            try:
                values: list[Value] = [Known(item) for item in iterable.value]
            except TypeError as error:
                self.x.refuse(node, f"the loop fails for every row: {error}")
        elif isinstance(iterable, Items):
            values = list(iterable.values)
        elif isinstance(iterable, Lazy):
            return self.over_array(node, iterable.array, scope)
        elif isinstance(iterable, Zip):
            return self.side_by_side(node, iterable, scope)
        elif isinstance(iterable, Loop | Table) or not isinstance(iterable.type, Array):
            what = "a mapping" if isinstance(iterable, Loop | Table) else describe(iterable.type)
            self.x.refuse(node, f"a loop over {what}; it must be an array")
        else:
            return self.over_array(node, iterable, scope)
        before, self.x.read_entries = self.x.state.copy(), set()
        if node.test is not None:
            with self.x.where_it_depends():
                values = [v for v in values if self.holds(node.test, self.assign(node.target, v, scope))]
        filtered_by = frozenset(self.x.read_entries)
        parts: list[Expr] = []
        for index, value in enumerate(values):
            loop = Turn(index, len(values))
            for name, neighbour in (("previtem", index - 1), ("nextitem", index + 1)):
                if 0 <= neighbour < len(values) and isinstance(near := values[neighbour], Known):
                    setattr(loop, name, near.value)
            inner = self.assign(node.target, value, scope).bind("loop", Known(loop))
            parts.extend(self.body(node.body, inner)[0])
        self.unread(changed(before, self.x.state), filtered_by)
        return [*guards(iterable), *(parts if values else self.body(node.else_, scope)[0])]

    def over_array(self, node: nodes.For, array: Expr, scope: Scope) -> list[Expr]:
        """A loop over an array of the row: the text of its body for each element, one after another."""
        self.x.read_entries = set()
        if node.test is not None:
            item, position = self.x.names.fresh(array)
            with self.x.where_it_depends():
                test = self.x.test(node.test, self.assign(node.target, item, scope))
            array = Where(array, item, test)
        filtered_by = frozenset(self.x.read_entries)
        item, position = self.x.names.fresh(array)
        inner = self.assign(node.target, item, scope)
        return self.repeat(node, array, item, position, inner, scope, filtered_by)

    def unread(self, places: list[Entry], filtered_by: Set[Entry]) -> None:
        """Jinja filters a loop while it runs: a filter can't read what the loop changes."""
        if filtered_by & set(places):
            raise Refusal("a loop filter that reads what the loop changes; put an if inside the loop")

    def side_by_side(self, node: nodes.For, lists: Zip, scope: Scope) -> list[Expr]:
        """A loop over zip(...): over the positions of the shortest list."""
        if node.test is not None:
            self.x.refuse(node, "a filtered loop over zip; put an if inside the loop")
        arrays = [arrays_.as_array(part) for part in lists.parts]
        shortest = arrays_.extreme("least", [arrays_.size(array) for array in arrays])
        positions = Op("sequence", (shortest,), Array(BIGINT))
        at, position = self.x.names.fresh(positions)
        elements = Items(tuple(Element(array, at, inside=True) for array in arrays))
        return self.repeat(node, positions, at, position, self.assign(node.target, elements, scope), scope)

    def repeat(
        self,
        node: nodes.For,
        array: Expr,
        item: Var,
        position: Var,
        inner: Scope,
        outer: Scope,
        filtered_by: Set[Entry] = frozenset(),
    ) -> list[Expr]:
        before = self.x.state.copy()
        inner = inner.bind("loop", Loop(array, position))
        parts, _ = self.body(node.body, inner)
        for cell, name in self.x.state.entries:
            if cell in before.made and (cell, name) not in before.entries:
                raise Refusal(f"a loop over an array that makes the entry {name!r}; set it before the loop")
        if places := changed(before, self.x.state):
            self.unread(places, filtered_by)
            parts = self.carry(node, array, item, position, inner, before, places)
        text = self.loop_text(array, item, position, join(parts))
        if not node.else_:
            return [text]
        empty = Op("eq", (arrays_.size(array), Const(0)), BOOLEAN)
        after, self.x.state = self.x.state, before.copy()
        nothing = join(self.body(node.else_, outer)[0])
        if after.entries:
            self.x.state = merged(empty, self.x.state, after, lambda t, a, b: self.x.either(node, t, a, b))
        return [choose(empty, nothing, text)]

    def loop_text(self, array: Expr, item: Var, position: Var, body: Expr) -> Expr:
        """The text of a loop; one that prints nothing only fails where its body does."""
        if prints_nothing(body):
            broken = failure(body)
            inside = None if broken is None else Exists(array, item, position, broken)
            return requiring(either(missing(array), inside), Const(""))
        return Op("array_join", (Map(array, item, position, body), Const("")), STRING)

    def carry(
        self,
        node: nodes.For,
        array: Expr,
        item: Var,
        position: Var,
        inner: Scope,
        before: State,
        places: list[Entry],
    ) -> list[Expr]:
        """The body's parts once more, with what it changes unknown, and the state after the loop."""
        loop = self.x.cells.new()
        self.x.state = before.copy()
        for place in places:
            self.x.state.entries[place] = Changing(place, loop)
        start = self.x.state.copy()
        parts, _ = self.body(node.body, inner)
        turn, self.x.state = self.x.state, before.copy()
        self.x.state.frozen |= turn.frozen & before.made
        if set(changed(start, turn)) - set(places):
            raise Refusal("a loop over an array that changes different values in each turn")
        either = lambda t, a, b: self.x.either(node, t, a, b)  # noqa: E731
        for place in places:
            after, first = turn.entries[place], before.entries[place]
            if isinstance(first, Ref):
                self.x.state.frozen |= before.reached(first)
                self.x.read |= before.reached(first)
                first = before.read(first)
            self.x.state.entries[place] = after_loop(self.x.names, array, item, position, first, after, either)
        return parts

    def holds(self, node: nodes.Node, scope: Scope) -> bool:
        test = self.x.test(node, scope)
        if not isinstance(test, Const):
            self.x.refuse(node, "a loop filter that differs by row; put an if inside the loop")
        return bool(test.value)

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
