"""Jinja's expressions to typed ones: constants are folded, what a row decides stays an expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError, did_you_mean
from sqlenrich.core.types import BOOLEAN, Array, Type
from sqlenrich.prompt.ir.failures import at_once, failure, requiring
from sqlenrich.prompt.ir.nodes import Column, Const, Expr, Fail, Op
from sqlenrich.prompt.jinja import calls, filters, lookups, operators
from sqlenrich.prompt.jinja.scope import Broken, Macro, Module, Reported, Scope, Unsure, list_of
from sqlenrich.prompt.reference import Place as Written
from sqlenrich.prompt.reference import environment
from sqlenrich.prompt.values import arrays, functions
from sqlenrich.prompt.values.state import Cells, Place, State, plus
from sqlenrich.prompt.values.texts import printable, printed
from sqlenrich.prompt.values.values import (
    ONCE,
    Changing,
    Dynamic,
    Growing,
    Known,
    Lazy,
    Loop,
    Once,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Table,
    Value,
    choose,
    describe,
    lift,
    negate,
    only_once,
    same_type,
    truth,
)


class Expressions:
    """Gives what an expression is worth in a scope. Raises PromptError with its line for what can't be compiled."""

    def __init__(
        self, columns: dict[str, Type], default: Type | None, source: str, first_line: int, folder: Path | None = None
    ) -> None:
        self.env = environment(folder)
        self.context = self.env.from_string("").new_context()
        self.columns, self.default = columns, default
        self.source, self.first_line = source, first_line
        self.file = source
        self.names = arrays.Names(set(columns))
        self.mutable = False
        self.state, self.cells = State(), Cells()
        self.read: set[int] = set()
        self.read_entries: set[Place] = set()
        self.pending: set[int] = set()
        """Cells that the statement at hand has read: Python would see them change until it ends."""
        self.pending_outside: frozenset[int] = frozenset()
        self.conditional = 0
        self.problems: list[PromptError] = []
        self.lines: dict[Expr, int] = {}
        self.render: Callable[[list[nodes.Node], Scope], Expr]
        self.depth = 0

    def refuse(self, node: nodes.Node, message: str) -> NoReturn:
        raise self.problem(node.lineno, message) from None

    def problem(self, place: int | None, message: str) -> PromptError:
        line = self.first_line + (place or 1) - 1
        column = place.column if isinstance(place, Written) else None
        return PromptError(message, source=self.source, line=line, column=column)

    def print(self, node: nodes.Expr, scope: Scope) -> Expr:
        if isinstance(node, nodes.TemplateData):
            return Const(node.data)
        return self.printed(node, self.value(node, scope))

    def printed(self, node: nodes.Node, value: Value) -> Expr:
        if isinstance(value, Known):
            if callable(value.value) and not isinstance(value.value, type):
                self.refuse(node, "printing a function; call it with ()")
            try:
                return Const("" if value.value is None else str(value.value))
            except Refusal as refusal:
                self.refuse(node, str(refusal))
        try:
            expr = lift(value)
        except Refusal as refusal:
            self.refuse(node, f"printing {refusal}")
        if not printable(expr):
            self.refuse(node, functions.unprintable(expr))
        made = printed(expr)
        if self.source == self.file:
            self.lines.setdefault(made, self.first_line + node.lineno - 1)
        return made

    def either(self, node: nodes.Node, test: Expr, then: Value, orelse: Value) -> Value:
        try:
            if isinstance(then, Dynamic):
                orelse = arrays.alike(orelse, then.type)
            elif isinstance(orelse, Dynamic):
                then = arrays.alike(then, orelse.type)
            elif arrays.is_list(then) and arrays.is_list(orelse):
                then, orelse = arrays.both(then, orelse)
            a, b = lift(then), lift(orelse)
        except Refusal as refusal:
            self.refuse(node, f"a choice by row between {refusal}")
        if not same_type(a, b):
            self.refuse(
                node,
                f"a value that is {describe(a.type)} for some rows and {describe(b.type)} for others; "
                "make both the same type, e.g. with |string",
            )
        return choose(test, a, b)

    def test(self, node: nodes.Node, scope: Scope) -> Expr:
        match node:
            case nodes.And() | nodes.Or():
                left = self.test(node.left, scope)
                with self.where_it_depends():
                    right = self.test(node.right, scope)
                return self.both("and" if isinstance(node, nodes.And) else "or", left, right)
            case nodes.Not():
                return negate(self.test(node.node, scope))
        return truth(self.value(node, scope))

    def both(self, name: str, left: Expr, right: Expr) -> Expr:
        decides = name == "or"
        if isinstance(left, Const):
            return left if bool(left.value) is decides else right
        if right == Const(not decides):
            return left
        return Op(name, (left, right), BOOLEAN)

    def value(self, node: nodes.Node, scope: Scope) -> Value:
        try:
            return self.settled(self.expression(node, scope))
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def stored(self, node: nodes.Node, scope: Scope) -> Stored:
        """What a name can be bound to: beside a value, a list or a mapping that is changed in place."""
        try:
            return self.expression(node, scope)
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def settled(self, value: Stored) -> Value:
        if isinstance(value, Ref):
            cells = self.state.reached(value)
            self.read |= cells
            self.pending |= cells
            self.read_entries |= {place for place in self.state.entries if place[0] == value.cell}
        return self.state.settled(value)

    def new_object(self, node: nodes.Node, scope: Scope) -> Ref | None:
        """A new list, mapping or namespace that the template may change; None for any other value."""
        pairs: list[tuple[Any, Stored]]
        match node:
            case nodes.List(items=items):
                kind, pairs = "list", [(None, list_of([self.kept(item, scope) for item in items], False))]
            case nodes.Dict(items=items):
                kind = "mapping"
                pairs = [(self.value(pair.key, scope), self.part(pair.value, scope)) for pair in items]
                if not all(isinstance(key, Known) for key, _ in pairs):
                    return None
                pairs = [(key.value, value) for key, value in pairs]
            case nodes.Call(node=nodes.Name(name="namespace"), args=[], dyn_args=None, dyn_kwargs=None):
                if "namespace" in scope.names or "namespace" in self.columns:
                    return None
                kind, pairs = "namespace", [(str(pair.key), self.part(pair.value, scope)) for pair in node.kwargs]
            case _:
                return None
        ref = Ref(self.cells.new(), kind)
        self.state.made |= {ref.cell}
        for key, value in pairs:
            self.state.entries[ref.cell, key] = value
        return ref

    def part(self, node: nodes.Node, scope: Scope) -> Stored:
        return self.new_object(node, scope) or self.copied(node, scope)

    def copied(self, node: nodes.Node, scope: Scope) -> Stored:
        """A value to keep: what it was copied from can't be changed in place any more."""
        before, self.read = self.read, set()
        given = self.stored(node, scope)
        if only_once(given):
            self.refuse(node, f"keeping {ONCE}")
        if isinstance(given, Changing | Growing | Replaced | Ref):
            self.read |= before | (self.state.reached(given) if isinstance(given, Ref) else set())
            return given
        text = isinstance(given, Known) and isinstance(given.value, str | int | float | None)
        if not text and (not isinstance(given, Dynamic) or isinstance(given.type, Array)):
            self.state.frozen |= self.read
        self.read |= before
        return given

    def kept(self, node: nodes.Node, scope: Scope) -> Value:
        """A value inside a new list, which holds what it is worth now."""
        given = self.copied(node, scope)
        if isinstance(given, Ref):
            self.state.frozen |= self.state.reached(given)
        return self.settled(given)

    def expression(self, node: nodes.Node, scope: Scope) -> Stored:
        match node:
            case nodes.Const():
                return Known(node.value)
            case nodes.TemplateData():
                return Known(node.data)
            case nodes.Name():
                return self.name(node, scope)
            case nodes.List() | nodes.Tuple():
                return list_of([self.value(item, scope) for item in node.items], isinstance(node, nodes.Tuple))
            case nodes.Dict():
                pairs = [(self.value(p.key, scope), self.value(p.value, scope)) for p in node.items]
                if any(only_once(v) for _, v in pairs):
                    raise Refusal(f"keeping {ONCE}")
                if all(isinstance(v, Known) for pair in pairs for v in pair):
                    return Known({k.value: v.value for k, v in pairs if isinstance(k, Known) and isinstance(v, Known)})
                if not all(isinstance(k, Known) for k, _ in pairs):
                    raise Refusal("a mapping whose keys differ by row; use if and elif")
                return Table(tuple((k.value, v) for k, v in pairs if isinstance(k, Known)))
            case nodes.CondExpr():
                test = self.test(node.test, scope)
                with self.where_it_depends():
                    orelse = self.value(node.expr2, scope) if node.expr2 is not None else Fail(blank=True)
                if isinstance(test, Const):
                    return self.value(node.expr1, scope) if test.value else orelse
                with self.where_it_depends():
                    return self.either(node, test, self.value(node.expr1, scope), orelse)
            case nodes.And() | nodes.Or():
                return operators.operand(self, node, scope)
            case nodes.Not():
                test = self.test(node, scope)
                return Known(test.value) if isinstance(test, Const) else test
            case nodes.Compare():
                return operators.compare(self, node, scope)
            case nodes.Concat():
                return operators.concat(self, node, scope)
            case nodes.Getattr():
                base = self.stored(node.node, scope)
                if isinstance(base, Ref):
                    return self.entry(base, node.attr, attribute=True)
                return lookups.attribute(self, node, self.settled(base), node.attr)
            case nodes.Getitem():
                return lookups.indexed(self, node, scope)
            case nodes.Filter():
                return filters.filtered(self, node, scope)
            case nodes.Test():
                return filters.tested(self, node, scope)
            case nodes.Call():
                return calls.called(self, node, scope)
            case nodes.Neg() | nodes.Pos():
                return operators.signed(self, node, self.value(node.node, scope))
            case nodes.BinExpr():
                left = self.stored(node.left, scope)
                if isinstance(node, nodes.Add) and isinstance(left, Changing | Growing):
                    return plus(left, self.value(node.right, scope))
                return operators.arithmetic(self, node, self.settled(left), self.value(node.right, scope))
        raise Refusal(f'"{type(node).__name__.lower()}" is not compiled to SQL; prepare the value in the source query')

    @contextmanager
    def where_it_depends(self) -> Iterator[None]:
        """What is computed for some rows only can't change a list or a mapping: its state would differ by row."""
        self.conditional += 1
        try:
            yield
        finally:
            self.conditional -= 1

    def entry(self, ref: Ref, name: Any, attribute: bool = False) -> Stored:
        """An entry of a mapping or a namespace."""
        self.read_entries.add((ref.cell, name))
        method = attribute and ref.kind == "mapping" and hasattr(dict, str(name))
        if method or str(name).startswith("__"):
            raise Refusal(f'".{name}" means a method of the mapping in Jinja; write ["{name}"]')
        for key, value in self.state.items(ref):
            if key == name and type(key) is type(name):
                return value
        raise Refusal(f"the mapping has no {name!r} here: this fails for every row")

    def name(self, node: nodes.Name, scope: Scope) -> Stored:
        if (value := scope.names.get(node.name)) is not None:
            if isinstance(value, Broken):
                raise Reported
            if isinstance(value, Macro | Module):
                raise Refusal(f'the macro "{node.name}" is a value only where it is called')
            if isinstance(value, Unsure):
                raise Refusal(value.why)
            return value
        if node.name in self.columns and not scope.bare:
            return Column(node.name, self.columns[node.name])
        if node.name in self.env.globals:
            if node.name not in functions.GLOBALS:
                raise Refusal(f'"{node.name}" is random or keeps a state; write the text out')
            return Known(self.env.globals[node.name])
        if scope.bare:
            raise Refusal(f'"{node.name}": an imported template sees no columns; pass it to the macro as an argument')
        if self.default is None:
            hint = did_you_mean(node.name, [*self.columns, *scope.names])
            raise Refusal(f'unknown column "{node.name}"{hint}; there are: {", ".join(self.columns) or "none"}')
        return Column(node.name, self.default)

    def arguments(
        self, node: nodes.Filter | nodes.Test | nodes.Call, scope: Scope
    ) -> tuple[list[Value], dict[str, Value]]:
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Refusal("arguments given with * or **; write them out")
        args = [self.value(arg, scope) for arg in node.args or ()]
        return args, {str(pair.key): self.value(pair.value, scope) for pair in node.kwargs or ()}

    def apply(
        self, what: str, function: Callable[..., Expr], base: Expr, args: list[Value], keywords: dict[str, Value]
    ) -> Expr:
        if keywords == {"boolean": Known(True)} and function is functions.default:
            args, keywords = [*args, *keywords.values()], {}
        if keywords:
            raise Refusal(f"{what} with named arguments; give them by position")
        try:
            made = function(base, *args)
            # What a filter leaves as it is must not be undefined either.
            unused = made == base and function is not functions.default and failure(made) != at_once(made)
            return requiring(failure(made), made) if unused else made
        except TypeError:
            raise Refusal(f"{what} with {len(args)} arguments") from None

    def known(self, node: nodes.Node, compute: Callable[[], Any]) -> Known:
        try:
            value = compute()
        except Exception as error:
            self.refuse(node, f"this fails for every row: {error}")
        if isinstance(value, jinja2.Undefined):
            self.refuse(node, f"this fails for every row: {value._undefined_message}")
        return Known(Once(value) if hasattr(value, "__next__") else value)

    def kind(self, value: Value) -> str:
        if isinstance(value, Dynamic):
            return describe(value.type)
        if isinstance(value, Lazy):
            return "a map or a select; write |list after it"
        return "a mapping" if isinstance(value, Table | Loop) else "a list"
