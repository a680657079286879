"""The core of the template compiler: its state, and the dispatch from a node of Jinja's tree to the node's handler.

A handler compiles one kind of node. Its module registers it with :func:`expression` or :func:`statement`; to find the
handler of ``nodes.Filter``, search for ``@expression(nodes.Filter)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import jinja2
from jinja2 import nodes

from sqlenrich.core.errors import PromptError
from sqlenrich.core.types import BOOLEAN, Type
from sqlenrich.prompt.ir.failures import at_once, failure, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr, Op
from sqlenrich.prompt.jinja.printed_text import join, without_needless
from sqlenrich.prompt.jinja.scope import FILTERED_BLOCK, Broken, Reported, Scope
from sqlenrich.prompt.reference import Place as Written
from sqlenrich.prompt.reference import environment
from sqlenrich.prompt.values import arrays, functions
from sqlenrich.prompt.values.state import Cells, Place, State
from sqlenrich.prompt.values.texts import printable, printed, written
from sqlenrich.prompt.values.values import (
    Dynamic,
    Known,
    Lazy,
    Loop,
    Once,
    Ref,
    Refusal,
    Stored,
    Table,
    Value,
    choose,
    describe,
    lift,
    negate,
    same_type,
    truth,
)

MAX_PRINTED_PARTS = 20_000
"""The most parts that a template may print: loops over constants are unrolled."""
MAX_DEPTH = 20
"""The most macro calls and includes inside each other."""

ExpressionHandler: TypeAlias = "Callable[[Compiler, Any, Scope], Stored]"
"""Gives the value of a node in a scope."""
StatementHandler: TypeAlias = "Callable[[Compiler, Any, Scope], tuple[list[Expr], Scope]]"
"""Gives the parts that a node prints, and the scope after it."""
EXPRESSIONS: dict[type[nodes.Node], ExpressionHandler] = {}
STATEMENTS: dict[type[nodes.Node], StatementHandler] = {}
E = TypeVar("E", bound=ExpressionHandler)
S = TypeVar("S", bound=StatementHandler)


def expression(*kinds: type[nodes.Node]) -> Callable[[E], E]:
    """Register the handler of some kinds of expression."""

    def register(handler: E) -> E:
        EXPRESSIONS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def statement(*kinds: type[nodes.Node]) -> Callable[[S], S]:
    """Register the handler of some kinds of statement."""

    def register(handler: S) -> S:
        STATEMENTS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


class TooManyParts(Exception):  # noqa: N818 (ends the compilation: nothing after it is compiled)
    """A template prints more than :data:`MAX_PRINTED_PARTS` parts."""

    def __init__(self, error: PromptError) -> None:
        self.error = error


class Compiler:
    """The state of one compilation. Its methods raise PromptError, with a line, for what can't be compiled."""

    def __init__(
        self, columns: dict[str, Type], default: Type | None, source: str, first_line: int, folder: Path | None = None
    ) -> None:
        self.env = environment(folder)
        self.context = self.env.from_string("").new_context()
        self.columns, self.default = columns, default
        self.main_source = source
        self.source, self.first_line = source, first_line
        self.tree = nodes.Template([])
        """The template that is being compiled: the main one, or one that it includes or imports."""
        self.loaded: dict[str, nodes.Template] = {}
        self.names = arrays.Names(set(columns))
        self.mutable = False
        """Whether the template changes a list, a mapping or a namespace in place."""
        self.state, self.cells = State(), Cells()
        self.read: set[int] = set()
        self.read_entries: set[Place] = set()
        self.pending: set[int] = set()
        """The objects that the current statement has read: Python would see them change until it ends."""
        self.pending_outside: frozenset[int] = frozenset()
        self.conditional = 0
        """The number of conditions around the current expression that differ by row."""
        self.depth = 0
        self.printed_parts = 0
        self.problems: list[PromptError] = []
        self.lines: dict[Expr, int] = {}

    # Errors

    def refuse(self, node: nodes.Node, message: str) -> NoReturn:
        """Raise the error of a node."""
        raise self.problem(node.lineno, message) from None

    def problem(self, place: int | None, message: str) -> PromptError:
        """Give the error at a line of the current template."""
        line = self.first_line + (place or 1) - 1
        column = place.column if isinstance(place, Written) else None
        return PromptError(message, source=self.source, line=line, column=column)

    # Dispatch

    def statements(self, body: Iterable[nodes.Node], scope: Scope) -> tuple[list[Expr], Scope]:
        """Give the parts that some statements print, and the scope after them."""
        parts: list[Expr] = []
        for node in body:
            more: list[Expr] = []
            try:
                more, scope = self.statement(node, scope)
            except Refusal as refusal:
                self.problems.append(self.problem(node.lineno, str(refusal)))
                scope = _after_error(node, scope)
            except PromptError as problem:
                self.problems.append(problem)
                scope = _after_error(node, scope)
            except Reported:
                scope = _after_error(node, scope)
            parts.extend(more)
            self.printed_parts += len(more)
            if self.printed_parts > MAX_PRINTED_PARTS:
                message = f"the template prints over {MAX_PRINTED_PARTS} parts; shorten its loops"
                raise TooManyParts(self.problem(node.lineno, message))
        return without_needless(parts), scope

    def statement(self, node: nodes.Node, scope: Scope) -> tuple[list[Expr], Scope]:
        """Give the parts that a statement prints, and the scope after it."""
        self.pending = set(self.pending_outside)
        handler = STATEMENTS.get(type(node))
        if handler is None:
            name = type(node).__name__.lower()
            self.refuse(node, f'"{name}" is not compiled to SQL; write the text out, or prepare it in the source query')
        return handler(self, node, scope)

    def text(self, body: Iterable[nodes.Node], scope: Scope) -> Expr:
        """Give the text that some statements print."""
        return join(self.statements(body, scope)[0])

    def block(self, body: Iterable[nodes.Node], filters: nodes.Filter | None, scope: Scope) -> Value:
        """Give the text of a block, after its filters."""
        text = self.text(body, scope)
        value: Value = Known(text.value) if isinstance(text, Const) else written(text)
        return value if filters is None else self.value(filters, scope.bind(FILTERED_BLOCK, value))

    def value(self, node: nodes.Node, scope: Scope) -> Value:
        """Give the value of an expression."""
        try:
            return self.settled(self._expression(node, scope))
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def stored(self, node: nodes.Node, scope: Scope) -> Stored:
        """Give what a name can be bound to: a value, or a reference to a list or a mapping."""
        try:
            return self._expression(node, scope)
        except Refusal as refusal:
            self.refuse(node, str(refusal))

    def _expression(self, node: nodes.Node, scope: Scope) -> Stored:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            name = type(node).__name__.lower()
            raise Refusal(f'"{name}" is not compiled to SQL; prepare the value in the source query')
        return handler(self, node, scope)

    def test(self, node: nodes.Node, scope: Scope) -> Expr:
        """Give the boolean expression of a condition."""
        match node:
            case nodes.And() | nodes.Or():
                left = self.test(node.left, scope)
                with self.where_it_depends():
                    right = self.test(node.right, scope)
                return logical("and" if isinstance(node, nodes.And) else "or", left, right)
            case nodes.Not():
                return negate(self.test(node.node, scope))
        return truth(self.value(node, scope))

    @contextmanager
    def where_it_depends(self) -> Iterator[None]:
        """Compile what is evaluated for some rows only: it can't change an object, whose state would differ by row."""
        self.conditional += 1
        try:
            yield
        finally:
            self.conditional -= 1

    def settled(self, value: Stored) -> Value:
        """Give the current value of a reference, and note that it was read."""
        if isinstance(value, Ref):
            cells = self.state.reached(value)
            self.read |= cells
            self.pending |= cells
            self.read_entries |= {place for place in self.state.entries if place[0] == value.cell}
        return self.state.settled(value)

    # Values

    def printed(self, node: nodes.Node, value: Value) -> Expr:
        """Give the text that Jinja prints for a value."""
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
        if self.source == self.main_source:
            self.lines.setdefault(made, self.first_line + node.lineno - 1)
        return made

    def either(self, node: nodes.Node, test: Expr, then: Value, orelse: Value) -> Value:
        """Give ``then if test else orelse``."""
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

    def known(self, node: nodes.Node, compute: Callable[[], Any]) -> Known:
        """Give a value that no row changes, computed by Python now."""
        try:
            value = compute()
        except Exception as error:
            self.refuse(node, f"this fails for every row: {error}")
        if isinstance(value, jinja2.Undefined):
            self.refuse(node, f"this fails for every row: {value._undefined_message}")
        return Known(Once(value) if hasattr(value, "__next__") else value)

    def arguments(
        self, node: nodes.Filter | nodes.Test | nodes.Call, scope: Scope
    ) -> tuple[list[Value], dict[str, Value]]:
        """Give the arguments of a call by position and by name."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise Refusal("arguments given with * or **; write them out")
        args = [self.value(arg, scope) for arg in node.args or ()]
        return args, {str(pair.key): self.value(pair.value, scope) for pair in node.kwargs or ()}

    def apply(
        self, what: str, function: Callable[..., Expr], base: Expr, args: list[Value], keywords: dict[str, Value]
    ) -> Expr:
        """Apply a function of a table to a value of the row. ``what`` names it in errors."""
        if keywords == {"boolean": Known(True)} and function is functions.default:
            args, keywords = [*args, *keywords.values()], {}
        if keywords:
            raise Refusal(f"{what} with named arguments; give them by position")
        try:
            made = function(base, *args)
            # A filter that changes nothing must still fail for an undefined value.
            unused = made == base and function is not functions.default and failure(made) != at_once(made)
            return requiring(failure(made), made) if unused else made
        except TypeError:
            raise Refusal(f"{what} with {len(args)} arguments") from None


def logical(name: str, left: Expr, right: Expr) -> Expr:
    """Give ``left and right`` or ``left or right``, folded where an operand is constant."""
    decides = name == "or"
    if isinstance(left, Const):
        return left if bool(left.value) is decides else right
    if right == Const(not decides):
        return left
    return Op(name, (left, right), BOOLEAN)


def describe_value(value: Value) -> str:
    """Give the kind of a value in words."""
    if isinstance(value, Dynamic):
        return describe(value.type)
    if isinstance(value, Lazy):
        return "a map or a select; write |list after it"
    return "a mapping" if isinstance(value, Table | Loop) else "a list"


def _after_error(node: nodes.Node, scope: Scope) -> Scope:
    """Give the scope after a statement that can't be compiled: the names that it sets cause no further errors."""
    if isinstance(node, nodes.Assign | nodes.AssignBlock):
        for target in [node.target, *node.target.find_all(nodes.Name)]:
            if isinstance(target, nodes.Name):
                scope = scope.bind(target.name, Broken())
    return scope
