"""Failure conditions: for which rows evaluating an expression fails. Facts from other conditions simplify them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    OPERATIONS,
    TRUE,
    Concat,
    Const,
    Element,
    Exists,
    Expr,
    Fail,
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
    none_possible,
)


def failure(expr: Expr) -> Expr | None:
    """Return the condition that evaluating ``expr`` fails. None: it can't fail."""
    match expr:
        case Fail():
            return TRUE
        case Field(base, _, _):
            return any_of(failure(base), none_condition(base))
        case Map(array, item, position, body):
            inner = failure(body)
            each = None if inner is None else Exists(array, item, position, inner)
            return any_of(fails_or_none(array), each)
        case FlatMap(array, item, position, body):
            inner = fails_or_none(body)
            return any_of(fails_or_none(array), None if inner is None else Exists(array, item, position, inner))
        case Sort(array, item, by, _):
            inner = fails_or_none(by)
            if by.type == DOUBLE:
                inner = any_of(inner, Op("is_nan", (by,), BOOLEAN))
            each = None if inner is None else Exists(array, item, Var(f"{item.name}_at", BIGINT), inner)
            return any_of(fails_or_none(array), each)
        case Where(array, item, test) | Unique(array, item, test):
            inner = failure(test)
            each = None if inner is None else Exists(array, item, Var(f"{item.name}_at", BIGINT), inner)
            return any_of(fails_or_none(array), each)
        case Exists(array, _, _, _):
            return fails_or_none(array)
        case Element(array, index, inside, _):
            broken = any_of(fails_or_none(array), fails_or_none(index))
            return broken if inside else any_of(broken, out_of_range(array, index))
        case If(test, then, orelse):
            in_then, in_else = failure(then), failure(orelse)
            arms = None
            if in_then == TRUE and in_else is None:
                arms = test
            elif in_then is not None or in_else is not None:
                arms = branch(test, in_then or FALSE, in_else or FALSE)
            return any_of(failure(test), arms)
        case Switch(subject, arms):
            keys = tuple(Const(key) for key, _ in arms)
            unknown = Op("not", (Op("in", (subject, *keys), BOOLEAN),), BOOLEAN)
            broken = any_of(failure(subject), unknown)
            for key, value in arms:
                if (in_arm := failure(value)) is not None:
                    broken = any_of(broken, branch(Op("eq", (subject, Const(key)), BOOLEAN), in_arm, FALSE))
            return broken
        case Concat(parts):
            broken = None
            for part in parts:
                broken = any_of(broken, failure(part))
                broken = any_of(broken, none_condition(part))  # text + None fails; a printed part is never None
            return broken
        case Op(("and" | "or") as name, args, _):
            # Python evaluates no operand after the one that decides, so those can't fail.
            broken = failure(args[-1])
            for arg in reversed(args[:-1]):
                if broken is not None:
                    broken = branch(arg, broken, FALSE) if name == "and" else branch(arg, FALSE, broken)
                broken = any_of(failure(arg), broken)
            return broken
        case Op(name, args, _):
            kind = OPERATIONS[name]
            broken = None
            if kind == "partial":
                for arg in args:  # a failed argument whose SQL is not NULL
                    broken = any_of(broken, None if failure_without_null(arg) is None else failure(arg))
                return any_of(broken, is_none(expr))
            for arg in args:
                broken = any_of(broken, failure(arg))
                if kind == "strict":
                    broken = any_of(broken, none_condition(arg))
            return broken
    return None


def immediate_failure(expr: Expr) -> Expr | None:
    """Return the condition that evaluating ``expr`` fails at once. An undefined value fails later, when it is used."""
    match expr:
        case Fail(error, _):
            return TRUE if error else None
        case Field(base, _, _):
            return failure(base)
        case Switch(subject, _) | Op("character", (subject,), _):
            return failure(subject)
        case Element(array, index, _, strict):
            return any_of(fails_or_none(array) if strict else failure(array), failure(index))
        case If(test, then, orelse):
            in_then, in_else = immediate_failure(then), immediate_failure(orelse)
            if in_then is None and in_else is None:
                return failure(test)
            return failure(
                If(
                    test,
                    Const("") if in_then is None else If(in_then, Fail(True), Const("")),
                    Const("") if in_else is None else If(in_else, Fail(True), Const("")),
                )
            )
        case Map(array, item, position, body):
            inner = immediate_failure(body)
            return any_of(fails_or_none(array), None if inner is None else Exists(array, item, position, inner))
    return failure(expr)


def fail_where(broken: Expr | None, value: Expr) -> Expr:
    """Return a value that fails for the rows for which a condition holds."""
    return value if broken is None else If(broken, Fail(True), value)


def fails_or_none(expr: Expr) -> Expr | None:
    """Return the condition that a value fails or is None. None: neither is possible."""
    return any_of(failure(expr), none_condition(expr))


def none_condition(expr: Expr) -> Expr | None:
    """Return the condition that a value that does not fail is None. None: it never is."""
    if isinstance(expr, If):
        then, orelse = none_condition(expr.then), none_condition(expr.orelse)
        return None if then is orelse is None else branch(expr.test, then or FALSE, orelse or FALSE)
    return is_none(expr) if none_possible(expr) else None


def out_of_range(array: Expr, index: Expr) -> Expr:
    """Return the condition that an index lies beyond the ends of an array."""
    size = Op("size", (array,), BIGINT)
    if isinstance(index, Const) and isinstance(index.value, int):
        needed = index.value + 1 if index.value >= 0 else -index.value
        return Op("lt", (size, Const(needed)), BOOLEAN)
    after = Op("gteq", (index, size), BOOLEAN)
    before = Op("lt", (index, Op("subtract", (Const(0), size), BIGINT)), BOOLEAN)  # the sum may need over 64 bits
    return Op("or", (after, before), BOOLEAN)


def failure_without_null(expr: Expr) -> Expr | None:
    """Return the condition that ``expr`` fails and its SQL may not be NULL. None: its SQL is NULL wherever it fails."""
    match expr:
        case If(test, then, orelse):
            in_then, in_else = failure_without_null(then), failure_without_null(orelse)
            return any_of(None, branch(test, in_then or FALSE, in_else or FALSE)) if in_then or in_else else None
        case Switch(subject, arms):
            return _any(map(failure_without_null, (subject, *(value for _, value in arms))))
        case Field(base, _, _):
            return failure_without_null(base)
        case Concat(args):
            return _any(map(failure_without_null, args))
        case Element(array, index, _, _):
            return _any(map(failure_without_null, (array, index)))
        case Op(name, args, _) if name not in ("and", "or") and OPERATIONS[name] in ("strict", "partial"):
            return _any(map(failure_without_null, args))
        case Map() | FlatMap() | Sort() | Unique() | Where() | Exists() | Op():
            return failure(expr)
    return None


def _any(conditions: Iterable[Expr | None]) -> Expr | None:
    found: Expr | None = None
    for condition in conditions:
        found = any_of(found, condition)
    return found


def is_none(expr: Expr) -> Expr:
    """Return the condition that a value is None or failed."""
    return Op("is_none", (expr,), BOOLEAN)


def any_of(a: Expr | None, b: Expr | None) -> Expr | None:
    """Return ``a or b``; None never holds. ``b`` is simplified by the fact that ``a`` does not hold."""
    a, b = (None if part == FALSE else part for part in (a, b))
    if a is None or b is None or a == b:
        return a if b is None else b
    if TRUE in (a, b):
        return TRUE
    rest = assuming(b, facts_of(a, False))
    if isinstance(rest, Const):
        return TRUE if rest.value else a
    return Op("or", (a, rest), BOOLEAN)


def disjuncts(condition: Expr | None) -> Iterator[Expr]:
    """Return the conditions that ``or`` connects."""
    match condition:
        case Op("or", args, _):
            for arg in args:
                yield from disjuncts(arg)
        case _ if condition is not None:
            yield condition


def facts_of(condition: Expr, holds: bool) -> dict[Expr, bool]:
    """Return the facts that follow where a condition holds, or does not hold."""
    match condition:
        case Op("not", (inner,), _):
            return facts_of(inner, not holds)
        case Op(name, args, _) if name == ("and" if holds else "or"):
            return {fact: known for arg in args for fact, known in facts_of(arg, holds).items()}
    return {condition: holds}


def assuming(condition: Expr, facts: dict[Expr, bool]) -> Expr:
    """Simplify a condition by facts."""
    if (known := facts.get(condition)) is not None:
        return TRUE if known else FALSE
    match condition:
        case Op("or", (a, b), _):
            return any_of(assuming(a, facts), assuming(b, facts)) or FALSE
        case Op("and", (a, b), _):
            first = assuming(a, facts)
            return branch(first, assuming(b, facts), FALSE)
        case Op("not", (inner,), _):
            rest = assuming(inner, facts)
            return Const(not rest.value) if isinstance(rest, Const) else Op("not", (rest,), BOOLEAN)
        case If(test, then, orelse):
            return branch(assuming(test, facts), assuming(then, facts), assuming(orelse, facts))
    return condition


def branch(test: Expr, then: Expr, orelse: Expr) -> Expr:
    """Return the condition ``then if test else orelse``."""
    if isinstance(test, Const):
        return then if test.value else orelse
    then, orelse = assuming(then, facts_of(test, True)), assuming(orelse, facts_of(test, False))
    if then == orelse:
        return then
    if orelse == FALSE:
        return test if then == TRUE else Op("and", (test, then), BOOLEAN)
    if then == TRUE:
        return any_of(test, orelse) or FALSE
    if then == FALSE:
        inverse = Op("not", (test,), BOOLEAN)
        return inverse if orelse == TRUE else Op("and", (inverse, orelse), BOOLEAN)
    return If(test, then, orelse)
