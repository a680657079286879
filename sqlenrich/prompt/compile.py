"""A template's statements to one typed text expression: loops are unrolled, branches become choices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jinja2
from jinja2 import nodes

from ..errors import PromptError
from ..types import BIGINT, BOOLEAN, STRING, Array, Type
from . import arrays as arrays_
from .expressions import Expressions, Scope, join
from .ir import (
    Column,
    Const,
    Element,
    Expr,
    Fail,
    If,
    Map,
    Op,
    Var,
    Where,
    at_once,
    columns_of,
    failure,
    requiring,
)
from .values import Dynamic, Items, Known, Lazy, Loop, Refusal, Table, Value, Zip, choose, describe

MAX_PARTS = 20_000
"""Loops are unrolled; a template that prints more parts than this is refused instead of exploding."""


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
) -> Prompt:
    """Compile a template. Names that are not in ``vars`` are columns, of the type ``default`` where undeclared.

    With ``default=None`` an undeclared column is an error. ``source`` and ``first_line`` place the template in its
    file for messages. Raises :class:`~sqlenrich.PromptError` with the line and what to write instead.
    """
    expressions = Expressions(dict(columns or {}), default, source, first_line)
    try:
        tree = expressions.env.parse(template)
    except jinja2.TemplateSyntaxError as error:
        line = first_line + (error.lineno or 1) - 1
        raise PromptError(error.message or "syntax error", source=source, line=line) from None
    expressions.names = arrays_.Names({*expressions.columns, *(name.name for name in tree.find_all(nodes.Name))})
    parts, _ = _Statements(expressions).body(
        tree.body, Scope({name: Known(value) for name, value in (vars or {}).items()})
    )
    expr = join(parts)
    return Prompt(expr, tuple(dict.fromkeys(columns_of(expr))))


def guards(value: Value) -> list[Expr]:
    """Give empty texts that fail where a value that is set fails: Jinja computes it even where nothing reads it."""
    broken = [at_once(v) for v in parts_of(value) if isinstance(v, Dynamic)]
    return [requiring(condition, Const("")) for condition in broken if condition is not None]


def parts_of(value: Value) -> Iterator[Value]:
    """Give the values inside lists and mappings, or the value itself."""
    match value:
        case Items(values):
            for inner in values:
                yield from parts_of(inner)
        case Table(entries):
            for _, inner in entries:
                yield from parts_of(inner)
        case _:
            yield value


def without_needless(parts: list[Expr]) -> list[Expr]:
    """Leave out the guards that fail only where a part that is printed anyway fails."""
    kept = [part for part in parts if not is_guard(part)]
    if len(kept) == len(parts):
        return parts
    reasons = {reason for part in kept for reason in either_of(failure(part))}
    return [part for part in parts if not is_guard(part) or not reasons.issuperset(either_of(failure(part)))]


def is_guard(part: Expr) -> bool:
    """Tell whether a part prints nothing, but may fail."""
    return isinstance(part, If) and part.then == Fail(True) and part.orelse == Const("")


def either_of(condition: Expr | None) -> Iterator[Expr]:
    """Give the conditions of which one must hold."""
    match condition:
        case Op("or", args, _):
            for arg in args:
                yield from either_of(arg)
        case _ if condition is not None:
            yield condition


class _Statements:
    def __init__(self, expressions: Expressions) -> None:
        self.x = expressions
        self.printed_parts = 0

    # Statements ------------------------------------------------------------------------------------------------

    def body(self, statements: Iterable[nodes.Node], scope: Scope) -> tuple[list[Expr], Scope]:
        """Give the printed parts of some statements and the scope after them."""
        parts: list[Expr] = []
        for statement in statements:
            try:
                more, scope = self.statement(statement, scope)
            except Refusal as refusal:
                self.x.refuse(statement, str(refusal))
            parts.extend(more)
            self.printed_parts += len(more)
            if self.printed_parts > MAX_PARTS:
                self.x.refuse(statement, f"the template prints over {MAX_PARTS} parts; shorten its loops")
        return without_needless(parts), scope

    def statement(self, node: nodes.Node, scope: Scope) -> tuple[list[Expr], Scope]:
        match node:
            case nodes.Output():
                return [self.x.print(child, scope) for child in node.nodes], scope
            case nodes.If():
                return self.if_(node, scope)
            case nodes.For():
                return self.for_(node, scope), scope
            case nodes.Assign():
                given = self.x.value(node.node, scope)
                return guards(given), self.assign(node.target, given, scope)
            case nodes.AssignBlock(target=nodes.Name() as target, filter=None):
                text = join(self.body(node.body, scope)[0])
                broken = failure(text)
                before = [] if broken is None else [requiring(broken, Const(""))]
                return before, scope.bind(target.name, text)
            case nodes.With():
                inner, before = scope, []
                for left, value in zip(node.targets, node.values, strict=True):
                    given = self.x.value(value, scope)
                    before += guards(given)
                    inner = self.assign(left, given, inner)
                return without_needless([*before, *self.body(node.body, inner)[0]]), scope
            case nodes.Scope() | nodes.ScopedEvalContextModifier():
                return self.body(node.body, scope)[0], scope
        name = type(node).__name__.lower()
        self.x.refuse(node, f'"{name}" is not compiled to SQL; write the text out, or prepare it in the source query')

    def if_(self, node: nodes.If, scope: Scope) -> tuple[list[Expr], Scope]:
        arms = [(self.x.test(node.test, scope), node.body)]
        arms += [(self.x.test(branch.test, scope), branch.body) for branch in node.elif_]
        otherwise, scope_else = self.body(node.else_, scope)
        text, after = join(otherwise), scope_else
        for test, body in reversed(arms):
            then, scope_then = self.body(body, scope)
            text = choose(test, join(then), text)
            after = self.merge(node, test, scope_then, after)
        return [text], after

    def merge(self, node: nodes.Node, test: Expr, then: Scope, orelse: Scope) -> Scope:
        if then is orelse:
            return then
        if isinstance(test, Const):
            return then if test.value else orelse
        merged: dict[str, Value] = {}
        for name in {**orelse.names, **then.names}:
            a, b = then.names.get(name), orelse.names.get(name)
            if a is b or a == b:
                merged[name] = a if a is not None else Fail()
                continue
            merged[name] = self.x.either(node, test, self.free(name, a), self.free(name, b))
        return Scope(merged)

    def free(self, name: str, value: Value | None) -> Value:
        """Give a name's value in a branch that did not set it: the column of that name, else nothing."""
        if value is not None:
            return value
        return Column(name, self.x.columns[name]) if name in self.x.columns else Fail()

    def for_(self, node: nodes.For, scope: Scope) -> list[Expr]:
        if node.recursive:
            self.x.refuse(node, "a recursive loop is not compiled to SQL; write the levels out")
        iterable = self.x.value(node.iter, scope)
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
        if node.test is not None:
            values = [v for v in values if self.holds(node.test, self.assign(node.target, v, scope))]
        parts: list[Expr] = []
        for index, value in enumerate(values):
            loop: dict[str, Any] = {
                "index": index + 1,
                "index0": index,
                "revindex": len(values) - index,
                "revindex0": len(values) - index - 1,
                "first": index == 0,
                "last": index == len(values) - 1,
                "length": len(values),
                "cycle": lambda *choices, at=index: choices[at % len(choices)],
            }
            for name, neighbour in (("previtem", index - 1), ("nextitem", index + 1)):
                if 0 <= neighbour < len(values) and isinstance(near := values[neighbour], Known):
                    loop[name] = near.value
            inner = self.assign(node.target, value, scope).bind("loop", Known(loop))
            parts.extend(self.body(node.body, inner)[0])
        return [*guards(iterable), *(parts if values else self.body(node.else_, scope)[0])]

    def over_array(self, node: nodes.For, array: Expr, scope: Scope) -> list[Expr]:
        """A loop over an array of the row: the text of its body for each element, one after another."""
        if node.test is not None:
            item, position = self.x.names.fresh(array)
            test = self.x.test(node.test, self.assign(node.target, item, scope))
            array = Where(array, item, test)
        item, position = self.x.names.fresh(array)
        inner = self.assign(node.target, item, scope)
        return self.repeat(node, array, item, position, inner, scope)

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

    def repeat(self, node: nodes.For, array: Expr, item: Var, position: Var, inner: Scope, outer: Scope) -> list[Expr]:
        parts, _ = self.body(node.body, inner.bind("loop", Loop(array, position)))
        text = Op("array_join", (Map(array, item, position, join(parts)), Const("")), STRING)
        if not node.else_:
            return [text]
        empty = Op("eq", (arrays_.size(array), Const(0)), BOOLEAN)
        return [choose(empty, join(self.body(node.else_, outer)[0]), text)]

    def holds(self, node: nodes.Node, scope: Scope) -> bool:
        test = self.x.test(node, scope)
        if not isinstance(test, Const):
            self.x.refuse(node, "a loop filter that differs by row; put an if inside the loop")
        return bool(test.value)

    def assign(self, target: nodes.Node, value: Value, scope: Scope) -> Scope:
        if isinstance(value, Lazy | Zip):
            self.x.refuse(target, "a map, a select or a zip can be read only once; write |list after it")
        if isinstance(target, nodes.Name):
            return scope.bind(target.name, value)
        if isinstance(target, nodes.Tuple):
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
