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
from sqlenrich.prompt.ir.failures import fail_where, failure, immediate_failure
from sqlenrich.prompt.ir.nodes import Const, Expr, Op
from sqlenrich.prompt.jinja.printed_text import join, without_needless
from sqlenrich.prompt.jinja.scope import FILTERED_BLOCK, AlreadyReported, ErrorSymbol, Scope
from sqlenrich.prompt.reference import SourceLine, environment
from sqlenrich.prompt.values import arrays, printing, undefined
from sqlenrich.prompt.values.bound_variables import VariableNames
from sqlenrich.prompt.values.heap import Heap, Ids, Slot
from sqlenrich.prompt.values.printing import materialized, printable, printed
from sqlenrich.prompt.values.value import (
    CompileError,
    Dynamic,
    Generator,
    LoopVariable,
    MappingValue,
    ObjectRef,
    Static,
    StaticGenerator,
    Storable,
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

ExpressionHandler: TypeAlias = "Callable[[Compiler, Any, Scope], Storable]"
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
        self.variables = VariableNames(set(columns))
        self.mutable = False
        """Whether the template changes a list, a mapping or a namespace in place."""
        self.heap, self.ids = Heap(), Ids()
        self.read: set[int] = set()
        self.read_entries: set[Slot] = set()
        self.pending: set[int] = set()
        """The objects that the current statement has read. It can't change them: Python may print the change."""
        self.pending_outside: frozenset[int] = frozenset()
        self.conditional = 0
        """The number of conditions around the current expression that differ by row."""
        self.depth = 0
        self.printed_parts = 0
        self.errors: list[PromptError] = []
        self.lines: dict[Expr, int] = {}

    # Errors

    def reject(self, node: nodes.Node, message: str) -> NoReturn:
        """Raise the error of a node."""
        raise self.error_at(node.lineno, message) from None

    def error_at(self, line: int | None, message: str) -> PromptError:
        """Return the error at a line of the current template."""
        column = line.column if isinstance(line, SourceLine) else None
        return PromptError(message, source=self.source, line=self.first_line + (line or 1) - 1, column=column)

    # Dispatch

    def statements(self, body: Iterable[nodes.Node], scope: Scope) -> tuple[list[Expr], Scope]:
        """Return the parts that some statements print, and the scope after them."""
        parts: list[Expr] = []
        for node in body:
            more: list[Expr] = []
            try:
                more, scope = self.statement(node, scope)
            except CompileError as error:
                self.errors.append(self.error_at(node.lineno, str(error)))
                scope = _after_error(node, scope)
            except PromptError as error_at:
                self.errors.append(error_at)
                scope = _after_error(node, scope)
            except AlreadyReported:
                scope = _after_error(node, scope)
            parts.extend(more)
            self.printed_parts += len(more)
            if self.printed_parts > MAX_PRINTED_PARTS:
                message = f"the template prints over {MAX_PRINTED_PARTS} parts; shorten its loops"
                raise TooManyParts(self.error_at(node.lineno, message))
        return without_needless(parts), scope

    def statement(self, node: nodes.Node, scope: Scope) -> tuple[list[Expr], Scope]:
        """Return the parts that a statement prints, and the scope after it."""
        self.pending = set(self.pending_outside)
        handler = STATEMENTS.get(type(node))
        if handler is None:
            name = type(node).__name__.lower()
            self.reject(node, f'"{name}" is not compiled to SQL; write the text out, or prepare it in the source query')
        return handler(self, node, scope)

    def text(self, body: Iterable[nodes.Node], scope: Scope) -> Expr:
        """Return the text that some statements print."""
        return join(self.statements(body, scope)[0])

    def block(self, body: Iterable[nodes.Node], filters: nodes.Filter | None, scope: Scope) -> Value:
        """Return the text of a block, after its filters."""
        text = self.text(body, scope)
        value: Value = Static(text.value) if isinstance(text, Const) else materialized(text)
        return value if filters is None else self.value(filters, scope.bind(FILTERED_BLOCK, value))

    def value(self, node: nodes.Node, scope: Scope) -> Value:
        """Return the value of an expression."""
        try:
            return self.resolve(self._expression(node, scope))
        except CompileError as error:
            self.reject(node, str(error))

    def stored(self, node: nodes.Node, scope: Scope) -> Storable:
        """Return what a name can be bound to: a value, or a reference to a list or a mapping."""
        try:
            return self._expression(node, scope)
        except CompileError as error:
            self.reject(node, str(error))

    def _expression(self, node: nodes.Node, scope: Scope) -> Storable:
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            name = type(node).__name__.lower()
            raise CompileError(f'"{name}" is not compiled to SQL; prepare the value in the source query')
        return handler(self, node, scope)

    def test(self, node: nodes.Node, scope: Scope) -> Expr:
        """Return the boolean expression of a condition."""
        match node:
            case nodes.And() | nodes.Or():
                left = self.test(node.left, scope)
                with self.conditionally():
                    right = self.test(node.right, scope)
                return logical("and" if isinstance(node, nodes.And) else "or", left, right)
            case nodes.Not():
                return negate(self.test(node.node, scope))
        return truth(self.value(node, scope))

    @contextmanager
    def conditionally(self) -> Iterator[None]:
        """Compile a part that some rows do not evaluate. It can't change an object, which would then differ by row."""
        self.conditional += 1
        try:
            yield
        finally:
            self.conditional -= 1

    def resolve(self, value: Storable) -> Value:
        """Return the current value of a reference, and note that it was read."""
        if isinstance(value, ObjectRef):
            ids = self.heap.reachable(value)
            self.read |= ids
            self.pending |= ids
            self.read_entries |= {slot for slot in self.heap.entries if slot[0] == value.object_id}
        return self.heap.resolve(value)

    # Values

    def printed(self, node: nodes.Node, value: Value) -> Expr:
        """Return the text that Jinja prints for a value."""
        if isinstance(value, Static):
            if callable(value.value) and not isinstance(value.value, type):
                self.reject(node, "printing a function; call it with ()")
            try:
                return Const("" if value.value is None else str(value.value))
            except CompileError as error:
                self.reject(node, str(error))
        try:
            expr = lift(value)
        except CompileError as error:
            self.reject(node, f"printing {error}")
        if not printable(expr):
            self.reject(node, printing.unprintable(expr))
        made = printed(expr)
        if self.source == self.main_source:
            self.lines.setdefault(made, self.first_line + node.lineno - 1)
        return made

    def select(self, node: nodes.Node, test: Expr, then: Value, orelse: Value) -> Value:
        """Return ``then if test else orelse``."""
        try:
            if isinstance(then, Dynamic):
                orelse = arrays.as_array_like(orelse, then.type)
            elif isinstance(orelse, Dynamic):
                then = arrays.as_array_like(then, orelse.type)
            elif arrays.is_list(then) and arrays.is_list(orelse):
                then, orelse = arrays.as_same_arrays(then, orelse)
            a, b = lift(then), lift(orelse)
        except CompileError as error:
            self.reject(node, f"a choice by row between {error}")
        if not same_type(a, b):
            self.reject(
                node,
                f"a value that is {describe(a.type)} for some rows and {describe(b.type)} for others; "
                "make both the same type, e.g. with |string",
            )
        return choose(test, a, b)

    def fold(self, node: nodes.Node, compute: Callable[[], Any]) -> Static:
        """Fold a constant expression. An error in it is an error for every row."""
        try:
            value = compute()
        except Exception as error:
            self.reject(node, f"this fails for every row: {error}")
        if isinstance(value, jinja2.Undefined):
            self.reject(node, f"this fails for every row: {value._undefined_message}")
        return Static(StaticGenerator(value) if hasattr(value, "__next__") else value)

    def arguments(
        self, node: nodes.Filter | nodes.Test | nodes.Call, scope: Scope
    ) -> tuple[list[Value], dict[str, Value]]:
        """Return the arguments of a call by position and by name."""
        if node.dyn_args is not None or node.dyn_kwargs is not None:
            raise CompileError("arguments given with * or **; write them out")
        args = [self.value(arg, scope) for arg in node.args or ()]
        return args, {str(pair.key): self.value(pair.value, scope) for pair in node.kwargs or ()}

    def apply(
        self, what: str, function: Callable[..., Expr], base: Expr, args: list[Value], keywords: dict[str, Value]
    ) -> Expr:
        """Apply a function of a table to a value of the row. ``what`` names it in errors."""
        if keywords == {"boolean": Static(True)} and function is undefined.default:
            args, keywords = [*args, *keywords.values()], {}
        if keywords:
            raise CompileError(f"{what} with named arguments; give them by position")
        try:
            made = function(base, *args)
            # A filter that changes nothing must still fail for an undefined value.
            unused = made == base and function is not undefined.default and failure(made) != immediate_failure(made)
            return fail_where(failure(made), made) if unused else made
        except TypeError:
            raise CompileError(f"{what} with {len(args)} arguments") from None


def logical(name: str, left: Expr, right: Expr) -> Expr:
    """Return ``left and right`` or ``left or right``, folded where an operand is constant."""
    decides = name == "or"
    if isinstance(left, Const):
        return left if bool(left.value) is decides else right
    if right == Const(not decides):
        return left
    return Op(name, (left, right), BOOLEAN)


def describe_value(value: Value) -> str:
    """Return the kind of a value in words."""
    if isinstance(value, Dynamic):
        return describe(value.type)
    if isinstance(value, Generator):
        return "a map or a select; write |list after it"
    return "a mapping" if isinstance(value, MappingValue | LoopVariable) else "a list"


def _after_error(node: nodes.Node, scope: Scope) -> Scope:
    """Return the scope after a statement that can't be compiled: the names that it sets cause no further errors."""
    if isinstance(node, nodes.Assign | nodes.AssignBlock):
        for target in [node.target, *node.target.find_all(nodes.Name)]:
            if isinstance(target, nodes.Name):
                scope = scope.bind(target.name, ErrorSymbol())
    return scope
