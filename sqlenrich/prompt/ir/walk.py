"""What an expression is made of: its parts, the columns and variables it reads, and the same with parts replaced."""

from __future__ import annotations

from collections.abc import Iterator

from sqlenrich.prompt.ir.nodes import (
    Column,
    Element,
    Exists,
    Expr,
    Field,
    FlatMap,
    If,
    Join,
    Map,
    Op,
    Pick,
    Sort,
    Unique,
    Var,
    Where,
)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Give the expressions that an expression is made of, without the variables it binds."""
    match expr:
        case Field(base, _, _):
            return (base,)
        case Op(_, args, _) | Join(args):
            return args
        case If(test, then, orelse):
            return (test, then, orelse)
        case Pick(subject, arms):
            return (subject, *(value for _, value in arms))
        case Map(array, _, _, body) | FlatMap(array, _, _, body) | Sort(array, _, body, _):
            return (array, body)
        case Where(array, _, body) | Unique(array, _, body):
            return (array, body)
        case Exists(array, _, _, body) | Element(array, body, _, _):
            return (array, body)
    return ()


def columns_of(expr: Expr) -> Iterator[str]:
    """Give the names of the columns that an expression reads, repeated as they occur."""
    if isinstance(expr, Column):
        yield expr.name
    for child in children(expr):
        yield from columns_of(child)


def variables_of(expr: Expr) -> set[Var]:
    """Give the variables of lambdas that an expression reads, its own ones too."""
    return {expr} if isinstance(expr, Var) else set().union(*map(variables_of, children(expr)))


def replaced(expr: Expr, by: dict[Expr, Expr]) -> Expr:
    """Give an expression with some of its parts replaced."""
    if (other := by.get(expr)) is not None:
        return other
    match expr:
        case Field(base, name, kind):
            return Field(replaced(base, by), name, kind)
        case Op(name, args, kind):
            return Op(name, tuple(replaced(arg, by) for arg in args), kind)
        case Join(parts):
            return Join(tuple(replaced(part, by) for part in parts))
        case If(test, then, orelse):
            return If(replaced(test, by), replaced(then, by), replaced(orelse, by))
        case Pick(subject, arms):
            return Pick(replaced(subject, by), tuple((key, replaced(value, by)) for key, value in arms))
        case Map(array, item, position, body):
            return Map(replaced(array, by), item, position, replaced(body, by))
        case FlatMap(array, item, position, body):
            return FlatMap(replaced(array, by), item, position, replaced(body, by))
        case Sort(array, item, key, descending):
            return Sort(replaced(array, by), item, replaced(key, by), descending)
        case Unique(array, item, key):
            return Unique(replaced(array, by), item, replaced(key, by))
        case Where(array, item, test):
            return Where(replaced(array, by), item, replaced(test, by))
        case Exists(array, item, position, test):
            return Exists(replaced(array, by), item, position, replaced(test, by))
        case Element(array, index, inside, strict):
            return Element(replaced(array, by), replaced(index, by), inside, strict)
    return expr
