"""What every enrichment computes in the same way: calls that are printed as the whole expression or as a function."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlenrich.core.sql import Sql, func
from sqlenrich.core.types import Type

PREFIX = "sqlenrich_"
"""How the names of all functions begin."""


@dataclass(frozen=True)
class FunctionSyntax:
    """How an engine makes a function of an expression.

    The statements have the places ``{name}``, ``{parameters}``, ``{returns}`` and ``{body}``: lines with a comment and
    the expression.
    """

    temporary: str
    """The statement for a function that ends with the session."""
    installed: str
    """The statement for a function that stays."""
    json_type: str = ""
    """The type of a parsed JSON value."""
    typed: bool = True
    """Whether parameters have types."""
    in_update: bool = True
    """Whether an UPDATE may call the functions."""
    needs_schema: bool = False
    """Whether a function that stays must be called with its schema."""


@dataclass(frozen=True)
class SharedFunction:
    """An expression over its parameters. Called, it gives a :class:`SharedCall`."""

    name: str
    """The name without :data:`PREFIX`."""
    parameters: Mapping[str, Type | None] = field(hash=False)
    """Types by names; None for a parsed JSON value. A body has no name of its own that is a parameter's."""
    returns: Type | None
    body: Callable[..., Sql] = field(hash=False, compare=False)
    """From the arguments to the expression, which reads nothing else."""
    about: str = ""
    """What it gives, for the reader of a script."""
    always: bool = False
    """Whether a script makes the function where it calls it once, too."""

    def __call__(self, *arguments: Sql) -> Sql:
        """Return a call."""
        return SharedCall(
            this=PREFIX + self.name, expressions=[argument.copy() for argument in arguments], definition=self
        )

    def expression(self) -> Sql:
        """Return the expression over the parameters."""
        return self.body(*map(exp.column, self.parameters))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the expression: a function of Python may not be pickled."""
        body = _Body(tuple(self.parameters), self.expression())
        return SharedFunction, (self.name, dict(self.parameters), self.returns, body, self.about, self.always)


@dataclass(frozen=True)
class _Body:
    """A body as its expression over the parameters."""

    parameters: tuple[str, ...]
    tree: Sql

    def __call__(self, *arguments: Sql) -> Sql:
        given = dict(zip(self.parameters, arguments, strict=True))

        def replaced(node: Sql) -> Sql:
            named = isinstance(node, exp.Column) and not node.table and node.name in given
            return given[node.name].copy() if named else node

        return self.tree.transform(replaced)


class SharedCall(exp.Anonymous):
    """A call of a shared function. It can't be printed before :func:`inlined` or :func:`called` replaced it."""

    @property
    def definition(self) -> SharedFunction:
        """The function."""
        found: SharedFunction = self.args["definition"]
        return found


_SAFE = (exp.Paren, exp.Anonymous, exp.Alias, exp.Coalesce, exp.If, exp.Case, exp.Select, exp.Lambda, exp.Array)
"""Nodes beside which an expression needs no parentheses."""


def inlined(tree: Sql) -> Sql:
    """Return the tree with each call replaced by its expression. The tree itself is changed."""
    return _replaced(tree, _expression)


def called(tree: Sql, name_of: Callable[[SharedFunction], str | None]) -> Sql:
    """Return the tree with each call as a call of a function, by the name as the engine writes it. Changes the tree.

    A function without a name is replaced by its expression.
    """

    def made(call: SharedCall) -> Sql:
        name = name_of(call.definition)
        return _expression(call) if name is None else func(name, *call.expressions)

    return _replaced(tree, made)


def _expression(call: SharedCall) -> Sql:
    made = call.definition.body(*call.expressions)
    bare = isinstance(call.parent, _SAFE) or call.parent is None
    return exp.Paren(this=made) if isinstance(made, exp.Binary | exp.Not) and not bare else made


def _replaced(tree: Sql, made: Callable[[SharedCall], Sql]) -> Sql:
    left = [tree]
    while left:
        node = left.pop()
        if not isinstance(node, SharedCall):
            left.extend(node.iter_expressions())
            continue
        new = made(node)
        if node is tree:
            tree = new
        else:
            node.replace(new)
        left.append(new)
    return tree


def functions_of(tree: Sql) -> Iterator[SharedFunction]:
    """Return the functions that a tree calls, each after those that it calls itself; some more than once."""
    for call in tree.find_all(SharedCall):
        yield from functions_of(call.definition.expression())
        yield call.definition


def digest(printed: str) -> str:
    """Return what tells two functions of one name apart: six digits of the digest of the printed expression."""
    return hashlib.sha256(printed.encode()).hexdigest()[:6]
