"""What a Jinja expression is worth at compile time: known, a list of values, or an expression over the row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..types import BIGINT, BOOLEAN, STRING, Array, Scalar, Struct, Type, type_json
from .ir import (
    FALSE,
    TRUE,
    Column,
    Const,
    Element,
    Exists,
    Expr,
    Fail,
    Field,
    If,
    Join,
    Map,
    Op,
    Pick,
    Var,
    Where,
    blank_possible,
    failure,
    is_none,
    none_possible,
)


@dataclass(frozen=True, slots=True)
class Known:
    """A Python value that no row changes."""

    value: Any

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are printed differently, in lists too.
        return isinstance(other, Known) and self.value == other.value and repr(self.value) == repr(other.value)


@dataclass(frozen=True, slots=True)
class Items:
    """A list literal that holds at least one value of the row."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping literal that holds at least one value of the row."""

    entries: tuple[tuple[Any, Value], ...]


@dataclass(frozen=True, slots=True)
class Zip:
    """Several lists side by side, as long as the shortest; at least one is of the row."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Lazy:
    """What map, select and their kin give: it can be read once, and has no length."""

    array: Expr


@dataclass(frozen=True, slots=True)
class Loop:
    """The ``loop`` variable inside a loop over an array of the row."""

    array: Expr
    position: Var


Value: TypeAlias = Known | Items | Table | Zip | Lazy | Loop | Expr
Dynamic = (Const, Column, Field, Op, If, Pick, Join, Fail, Var, Map, Where, Exists, Element)


class Refusal(Exception):  # noqa: N818 (not an error by itself: the compiler adds the place and raises PromptError)
    """Why a construct can't be compiled, and what to write instead."""


def lift(value: Value) -> Expr:
    """Give a value as an expression. Raises :class:`Refusal` for lists, mappings and floats."""
    if isinstance(value, Known):
        if value.value is None or isinstance(value.value, str | bool | int):
            return Const(value.value)
        if isinstance(value.value, float):
            raise Refusal("a float constant beside a row value; write it as text or as an integer")
        raise Refusal(f"a {type(value.value).__name__} where one value is needed; join it or index it")
    if isinstance(value, Items | Zip):
        raise Refusal("a list where one value is needed; join it or index it")
    if isinstance(value, Lazy):
        raise Refusal("what map and select give can be read only once; write |list after it")
    if isinstance(value, Table | Loop):
        raise Refusal("a mapping where one value is needed; index it")
    return value


def describe(value: Type) -> str:
    """Give a type as a person would write it."""
    written = type_json(value)
    return written if isinstance(written, str) else str(written)


def truth(value: Value) -> Expr:
    """Give the boolean expression of Python's ``bool(value)``."""
    if isinstance(value, Known):
        return TRUE if value.value else FALSE
    if isinstance(value, Items | Table | Loop):
        return TRUE
    if isinstance(value, Zip):
        raise Refusal("whether a zip is empty; test one of its lists")
    if isinstance(value, Lazy):
        raise Refusal("whether a map or a select is empty; write |list after it")
    match value:
        case Const(constant):
            return TRUE if constant else FALSE
        case If(test, then, orelse):
            return choose(test, truth(then), truth(orelse))
        case Fail(_, blank):
            return FALSE if blank else value
    if value.type == BOOLEAN and not none_possible(value):
        return value
    return Op("truth", (value,), BOOLEAN)


def negate(test: Expr) -> Expr:
    """Give ``not test``."""
    match test:
        case Const(constant):
            return Const(not constant)
        case Op("not", (inner,), _):
            return inner
    return Op("not", (test,), BOOLEAN)


def choose(test: Expr, then: Expr, orelse: Expr) -> Expr:
    """Give ``then if test else orelse``, folded where the test is known or both arms are equal."""
    if isinstance(test, Const):
        return then if test.value else orelse
    if isinstance(test, Fail):
        return test
    if then == orelse and failure(test) is None:
        return then
    if then == TRUE and orelse == FALSE:
        return test
    if then == FALSE and orelse == TRUE:
        return negate(test)
    return If(test, then, orelse)


def same_type(a: Expr, b: Expr) -> bool:
    """Tell whether two arms can share one SQL column: equal types, or one of them a bare None."""
    return any(arm == Const(None) or isinstance(arm, Fail) for arm in (a, b)) or a.type == b.type


def equal(a: Value, b: Value) -> Expr:
    """Give ``a == b`` as Python decides it: None equals only None, text never equals a number."""
    if isinstance(a, Known) and isinstance(b, Known):
        return TRUE if a.value == b.value else FALSE
    left, right = lift(a), lift(b)
    if isinstance(left, Const) and not isinstance(right, Const):
        left, right = right, left
    if blank_possible(left) or blank_possible(right):
        return unlike_blank(left, right)
    if right == Const(None):
        return is_none(left) if none_possible(left) else needing(left, FALSE)
    if isinstance(left, If):
        return choose(left.test, equal(left.then, right), equal(left.orelse, right))
    if left.type != right.type:
        # True == 1 in Python; other types never compare equal.
        if left.type == BOOLEAN and isinstance(right, Const) and right.value in (0, 1) and right.type == BIGINT:
            return equal(left, Const(bool(right.value)))
        if {left.type, right.type} == {BOOLEAN, BIGINT}:
            raise Refusal("comparing a boolean with an integer; write the test out with if and else")
        if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
            scalars = {STRING, BIGINT, BOOLEAN}
            if left.type in scalars and right.type in scalars:
                return unlike(left, right)
        raise Refusal(f"comparing {describe(left.type)} with {describe(right.type)}")
    if isinstance(left.type, Array | Struct):
        raise Refusal("comparing arrays or structs; compare their elements")
    return Op("eq", (left, right), BOOLEAN)


def unlike(left: Expr, right: Expr) -> Expr:
    """Give ``left == right`` for values of different types: only two None are equal."""
    result: Expr = FALSE
    if none_possible(left) and none_possible(right):
        result = Op("and", (is_none(left), is_none(right)), BOOLEAN)
    return needing(left, needing(right, result))


def unlike_blank(left: Expr, right: Expr) -> Expr:
    """Give ``left == right`` where one may be what an ``if`` without ``else`` gives: that equals nothing else."""
    if not blank_possible(left):
        left, right = right, left
    if isinstance(left, If):
        return choose(left.test, equal(left.then, right), equal(left.orelse, right))
    if isinstance(right, If) and blank_possible(right):
        return choose(right.test, equal(left, right.then), equal(left, right.orelse))
    return TRUE if left == right else needing(right, FALSE)


def needing(operand: Expr, result: Expr) -> Expr:
    """Give ``result``, failing where computing ``operand`` fails: Jinja computes it even where it decides nothing."""
    return result if failure(operand) is None else If(is_none(operand), result, result)


def contained(item: Value, container: Value) -> Expr:
    """Give ``item in container``."""
    if isinstance(item, Known) and isinstance(container, Known):
        return TRUE if item.value in container.value else FALSE
    if isinstance(container, Known) and isinstance(container.value, Mapping):
        container = Known(list(container.value))
    if isinstance(container, Known) and isinstance(container.value, list | tuple | set | range):
        container = Items(tuple(Known(element) for element in container.value))
    if isinstance(container, Items):
        subject = lift(item)
        simple = subject.type == STRING and not blank_possible(subject)
        if all(isinstance(v, Known) and type(v.value) is str for v in container.values) and simple:
            if not container.values:
                return FALSE
            return Op("in", (subject, *(lift(v) for v in container.values)), BOOLEAN)
        found: Expr = FALSE
        for element in reversed(container.values):
            found = choose(equal(subject, element), TRUE, found)
        return found
    left, right = lift(item), lift(container)
    if right.type == STRING and left.type == STRING:
        return Op("contains", (right, left), BOOLEAN)
    raise Refusal(f"looking for {describe(left.type)} in {describe(right.type)}; it must be text in text")
