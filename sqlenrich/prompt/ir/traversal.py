"""Traversal of expressions: their children, the columns and variables that they read, and substitution."""

from __future__ import annotations

from collections.abc import Iterator

from sqlenrich.prompt.ir.nodes import (
    Column,
    Concat,
    Element,
    Exists,
    Expr,
    Field,
    FlatMap,
    If,
    Map,
    Op,
    Sort,
    Switch,
    Unique,
    Var,
    Where,
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct subexpressions of an expression, without the variables that it binds."""
    match expr:
        case Field(base, _, _):
            return (base,)
        case Op(_, args, _) | Concat(args):
            return args
        case If(test, then, orelse):
            return (test, then, orelse)
        case Switch(subject, arms):
            return (subject, *(value for _, value in arms))
        case Map(array, _, _, body) | FlatMap(array, _, _, body) | Sort(array, _, body, _):
            return (array, body)
        case Where(array, _, body) | Unique(array, _, body):
            return (array, body)
        case Exists(array, _, _, body) | Element(array, body, _, _):
            return (array, body)
    return ()


def columns_of(expr: Expr) -> Iterator[str]:
    """Return the names of the columns that an expression reads, once for each read."""
    if isinstance(expr, Column):
        yield expr.name
    for child in children(expr):
        yield from columns_of(child)


def variables_of(expr: Expr) -> set[Var]:
    """Return the variables that an expression reads, bound inside it or outside."""
    return {expr} if isinstance(expr, Var) else set().union(*map(variables_of, children(expr)))


def substitute(expr: Expr, by: dict[Expr, Expr]) -> Expr:
    """Return an expression with some of its subexpressions replaced."""
    if (other := by.get(expr)) is not None:
        return other
    match expr:
        case Field(base, name, kind):
            return Field(substitute(base, by), name, kind)
        case Op(name, args, kind):
            return Op(name, tuple(substitute(arg, by) for arg in args), kind)
        case Concat(parts):
            return Concat(tuple(substitute(part, by) for part in parts))
        case If(test, then, orelse):
            return If(substitute(test, by), substitute(then, by), substitute(orelse, by))
        case Switch(subject, arms):
            return Switch(substitute(subject, by), tuple((key, substitute(value, by)) for key, value in arms))
        case Map(array, item, position, body):
            return Map(substitute(array, by), item, position, substitute(body, by))
        case FlatMap(array, item, position, body):
            return FlatMap(substitute(array, by), item, position, substitute(body, by))
        case Sort(array, item, key, descending):
            return Sort(substitute(array, by), item, substitute(key, by), descending)
        case Unique(array, item, key):
            return Unique(substitute(array, by), item, substitute(key, by))
        case Where(array, item, test):
            return Where(substitute(array, by), item, substitute(test, by))
        case Exists(array, item, position, test):
            return Exists(substitute(array, by), item, position, substitute(test, by))
        case Element(array, index, inside, strict):
            return Element(substitute(array, by), substitute(index, by), inside, strict)
    return expr
