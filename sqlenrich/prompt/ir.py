"""The typed text expressions that a Jinja template becomes, before any engine prints them.

An expression stands for a Python value of one row. In SQL it is NULL where that value is ``None`` and also where
computing it fails; :func:`none_possible` and :func:`failure` tell the two apart at compile time, so that a printed
``None`` becomes an empty text and a failure makes the whole prompt NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..types import BIGINT, BOOLEAN, STRING, Array, Scalar, Type


@dataclass(frozen=True, slots=True)
class Const:
    """A text, integer, boolean or None known at compile time."""

    value: str | int | bool | None

    def __eq__(self, other: object) -> bool:
        # 1 == True in Python, but they are printed differently.
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value

    @property
    def type(self) -> Type:
        """The type of the value; None counts as text."""
        if isinstance(self.value, bool):
            return BOOLEAN
        return BIGINT if isinstance(self.value, int) else STRING


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the row."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct. Asking a missing struct for one fails, as it does in Jinja."""

    base: Expr
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Op:
    """A function of an engine's table, by name. What it does with None stands in :data:`OPERATIONS`."""

    name: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class If:
    """``then`` where the boolean ``test`` holds, else ``orelse``."""

    test: Expr
    then: Expr
    orelse: Expr

    @property
    def type(self) -> Type:
        """The type of both arms; an arm that is a bare None takes the other's."""
        arm = self.orelse if self.then == Const(None) or isinstance(self.then, Fail) else self.then
        return arm.type


@dataclass(frozen=True, slots=True)
class Pick:
    """The value of the arm whose constant equals ``subject``; fails where there is none."""

    subject: Expr
    arms: tuple[tuple[str | int, Expr], ...]

    @property
    def type(self) -> Type:
        """The type of the arms."""
        return self.arms[0][1].type


@dataclass(frozen=True, slots=True)
class Join:
    """Printed parts, one after another: the text that Jinja writes."""

    parts: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        """Always text."""
        return STRING


@dataclass(frozen=True, slots=True)
class Fail:
    """What Jinja calls undefined: using it fails. With ``error``, computing it fails already.

    With ``blank`` it is what an ``if`` without ``else`` gives: false, and printed as nothing.
    """

    error: bool = False
    blank: bool = False

    @property
    def type(self) -> Type:
        """Counts as text."""
        return STRING


@dataclass(frozen=True, slots=True)
class Var:
    """The element at hand, or its position from 0, inside a :class:`Map`, :class:`Where` or :class:`Exists`."""

    name: str
    type: Type
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    """An array of ``body``, evaluated for each element ``item`` of an array at its ``position``."""

    array: Expr
    item: Var
    position: Var
    body: Expr

    @property
    def type(self) -> Type:
        """An array of the body's type."""
        return Array(self.body.type)


@dataclass(frozen=True, slots=True)
class Where:
    """The elements of an array for which ``test`` holds."""

    array: Expr
    item: Var
    test: Expr

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@dataclass(frozen=True, slots=True)
class Exists:
    """Whether ``test`` holds for an element of an array."""

    array: Expr
    item: Var
    position: Var
    test: Expr

    @property
    def type(self) -> Type:
        """Always boolean."""
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Element:
    """The element at a position from 0, from the end where it is negative. Undefined beyond the ends, where it can be.

    An index of None is undefined, ``first`` and ``last`` of None are an error: they are ``strict``.
    """

    array: Expr
    index: Expr
    inside: bool = False
    strict: bool = False

    @property
    def type(self) -> Type:
        """The type of the elements."""
        assert isinstance(self.array.type, Array)
        return self.array.type.item


Expr: TypeAlias = Const | Column | Field | Op | If | Pick | Join | Fail | Var | Map | Where | Exists | Element

TRUE, FALSE = Const(True), Const(False)

OPERATIONS: dict[str, str] = {
    # How an operation treats None. "strict": fails where an argument is None. "partial": strict, and may fail on
    # its own, its SQL being NULL exactly then. "total": never fails and never gives None.
    "upper": "partial",  # NULL for characters whose case an engine can't map
    "lower": "partial",  # NULL for characters whose case an engine can't map
    "capitalize": "partial",  # NULL for characters whose case an engine can't map
    "trim": "strict",
    "ltrim": "strict",
    "rtrim": "strict",
    "replace": "strict",
    "length": "strict",
    "substr": "strict",
    "greatest": "strict",
    "contains": "strict",
    "startswith": "strict",
    "endswith": "strict",
    "add": "strict",
    "subtract": "strict",
    "try_add": "partial",
    "try_subtract": "partial",
    "try_multiply": "partial",
    "try_negative": "partial",
    "lt": "strict",
    "lteq": "strict",
    "gt": "strict",
    "gteq": "strict",
    "text": "strict",
    "abs": "strict",
    "least": "strict",
    "array": "total",
    "or_empty": "total",
    "array_join": "strict",
    "array_slice": "strict",
    "sequence": "strict",
    "size": "strict",
    "split": "strict",
    "array_index": "partial",
    "text_index": "partial",
    "character": "partial",
    "int": "partial",
    "eq": "total",
    "in": "total",
    "is_none": "total",
    "truth": "total",
    "printed": "total",
    "not": "strict",
    "and": "strict",
    "or": "strict",
}


def none_possible(expr: Expr) -> bool:
    """Tell whether a successful evaluation can give None."""
    match expr:
        case Const(value):
            return value is None
        case Column() | Field():
            return True
        case Var(_, _, nullable):
            return nullable
        case Element(array, _, _, _):
            return none_inside(array)
        case If(_, then, orelse):
            return none_possible(then) or none_possible(orelse)
        case Pick(_, arms):
            return any(none_possible(value) for _, value in arms)
    return False


def none_inside(array: Expr) -> bool:
    """Tell whether an array can hold None among its elements."""
    match array:
        case Map(_, _, _, body):
            return none_possible(body)
        case Where(inner, _, _):
            return none_inside(inner)
        case Op("array", values, _):
            return any(none_possible(value) for value in values)
        case Op(("array_slice" | "or_empty"), (inner, *_), _):
            return none_inside(inner)
        case Op(("split" | "sequence"), _, _):
            return False
        case If(_, then, orelse):
            return none_inside(then) or none_inside(orelse)
    return True


def failure(expr: Expr) -> Expr | None:
    """Give the boolean expression that holds where evaluating ``expr`` fails, or None where it can't fail."""
    match expr:
        case Fail():
            return TRUE
        case Field(base, _, _):
            return either(failure(base), is_none(base) if none_possible(base) else None)
        case Map(array, item, position, body):
            inner = failure(body)
            each = None if inner is None else Exists(array, item, position, inner)
            return either(missing(array), each)
        case Where(array, item, test):
            inner = failure(test)
            each = None if inner is None else Exists(array, item, Var(f"{item.name}_at", BIGINT), inner)
            return either(missing(array), each)
        case Exists(array, _, _, _):
            return missing(array)
        case Element(array, index, inside, _):
            broken = either(missing(array), missing(index))
            return broken if inside else either(broken, beyond(array, index))
        case If(test, then, orelse):
            in_then, in_else = failure(then), failure(orelse)
            arms = None
            if in_then == TRUE and in_else is None:
                arms = test
            elif in_then is not None or in_else is not None:
                arms = If(test, in_then or FALSE, in_else or FALSE)
            return either(failure(test), arms)
        case Pick(subject, arms):
            keys = tuple(Const(key) for key, _ in arms)
            unknown = Op("not", (Op("in", (subject, *keys), BOOLEAN),), BOOLEAN)
            broken = either(failure(subject), unknown)
            for key, value in arms:
                if (in_arm := failure(value)) is not None:
                    broken = either(broken, If(Op("eq", (subject, Const(key)), BOOLEAN), in_arm, FALSE))
            return broken
        case Join(parts):
            broken = None
            for part in parts:
                broken = either(broken, failure(part))
                if none_possible(part):  # as in text + None; what is printed is never None
                    broken = either(broken, is_none(part))
            return broken
        case Op(("and" | "or") as name, args, _):
            # Python stops at the first operand that decides: what follows can't fail then.
            broken = failure(args[-1])
            for arg in reversed(args[:-1]):
                if broken is not None:
                    broken = If(arg, broken, FALSE) if name == "and" else If(arg, FALSE, broken)
                broken = either(failure(arg), broken)
            return broken
        case Op(name, args, _):
            kind = OPERATIONS[name]
            if kind == "partial":
                return is_none(expr)
            broken = None
            for arg in args:
                broken = either(broken, failure(arg))
                if kind == "strict" and none_possible(arg):
                    broken = either(broken, is_none(arg))
            return broken
    return None


def at_once(expr: Expr) -> Expr | None:
    """Give the condition that computing ``expr`` fails: not where it is only undefined, an error once it is used."""
    match expr:
        case Fail(error, _):
            return TRUE if error else None
        case Field(base, _, _):
            return failure(base)
        case Pick(subject, _) | Op("character", (subject,), _):
            return failure(subject)
        case Element(array, index, _, strict):
            return either(missing(array) if strict else failure(array), failure(index))
        case If(test, then, orelse):
            in_then, in_else = at_once(then), at_once(orelse)
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
            inner = at_once(body)
            return either(missing(array), None if inner is None else Exists(array, item, position, inner))
    return failure(expr)


def requiring(broken: Expr | None, value: Expr) -> Expr:
    """Give a value that fails where a condition holds."""
    return value if broken is None else If(broken, Fail(True), value)


def missing(expr: Expr) -> Expr | None:
    """Give the condition that a value fails or is None."""
    return either(failure(expr), is_none(expr) if none_possible(expr) else None)


def beyond(array: Expr, index: Expr) -> Expr:
    """Give the condition that an index lies beyond the ends of an array."""
    size = Op("size", (array,), BIGINT)
    if isinstance(index, Const) and isinstance(index.value, int):
        needed = index.value + 1 if index.value >= 0 else -index.value
        return Op("lt", (size, Const(needed)), BOOLEAN)
    after = Op("gteq", (index, size), BOOLEAN)
    before = Op("lt", (index, Op("subtract", (Const(0), size), BIGINT)), BOOLEAN)  # the sum may need over 64 bits
    return Op("or", (after, before), BOOLEAN)


def null_on_failure(expr: Expr) -> bool:
    """Tell whether the SQL of ``expr`` is NULL at least where evaluating it fails."""
    match expr:
        case If(_, then, orelse):
            return null_on_failure(then) and null_on_failure(orelse)
        case Pick(_, arms):
            return all(null_on_failure(value) for _, value in arms)
        case Join(parts):
            return all(null_on_failure(part) for part in parts)
        case Map() | Where() | Exists():
            return failure(expr) is None
        case Element(array, index, _, _):
            return null_on_failure(array) and null_on_failure(index)
        case Op(name, args, _):
            if name not in ("and", "or") and OPERATIONS[name] in ("strict", "partial"):
                return all(null_on_failure(arg) for arg in args)
            return failure(expr) is None
    return True


def is_none(expr: Expr) -> Expr:
    """Give the test whether a value is None (or failed)."""
    return Op("is_none", (expr,), BOOLEAN)


def either(a: Expr | None, b: Expr | None) -> Expr | None:
    """Give ``a or b`` for two conditions, either of which may be absent."""
    if a is None or b is None or a == b:
        return a if b is None else b
    if TRUE in (a, b):
        return TRUE
    return Op("or", (a, b), BOOLEAN)


def columns_of(expr: Expr) -> Iterator[str]:
    """Give the names of the columns that an expression reads, repeated as they occur."""
    match expr:
        case Column(name, _):
            yield name
        case Field(base, _, _):
            yield from columns_of(base)
        case Op(_, args, _) | Join(args):
            for arg in args:
                yield from columns_of(arg)
        case If(test, then, orelse):
            for part in (test, then, orelse):
                yield from columns_of(part)
        case Pick(subject, arms):
            yield from columns_of(subject)
            for _, value in arms:
                yield from columns_of(value)
        case Map(array, _, _, body) | Where(array, _, body) | Exists(array, _, _, body) | Element(array, body, _, _):
            yield from columns_of(array)
            yield from columns_of(body)


def variables_of(expr: Expr) -> set[Var]:
    """Give the variables of lambdas that an expression reads, its own ones too."""
    match expr:
        case Var():
            return {expr}
        case Field(base, _, _):
            return variables_of(base)
        case Op(_, args, _) | Join(args):
            return set().union(*map(variables_of, args))
        case If(test, then, orelse):
            return variables_of(test) | variables_of(then) | variables_of(orelse)
        case Pick(subject, arms):
            return variables_of(subject).union(*(variables_of(value) for _, value in arms))
        case Map(array, _, _, body) | Where(array, _, body) | Exists(array, _, _, body) | Element(array, body, _, _):
            return variables_of(array) | variables_of(body)
    return set()


def printed(expr: Expr) -> Expr:
    """Give the text that Jinja prints for a value of a printable type: NULL in SQL only where it fails."""
    if isinstance(expr, Const):
        return Const("" if expr.value is None else str(expr.value))
    if isinstance(expr, Fail) and expr.blank:
        return Const("")
    if isinstance(expr, If):
        return If(expr.test, printed(expr.then), printed(expr.orelse))
    if isinstance(expr, Pick):
        return Pick(expr.subject, tuple((key, printed(value)) for key, value in expr.arms))
    if none_possible(expr):
        return Op("printed", (expr,), STRING)
    return expr if expr.type == STRING else Op("text", (expr,), STRING)


def blank_possible(expr: Expr) -> bool:
    """Tell whether a value can be that of an ``if`` without ``else``."""
    if isinstance(expr, If):
        return blank_possible(expr.then) or blank_possible(expr.orelse)
    return isinstance(expr, Fail) and expr.blank


def printable(value: Type) -> bool:
    """Tell whether every engine prints a type as Python does."""
    return isinstance(value, Scalar) and value.name in ("string", "bigint", "boolean", "date")
