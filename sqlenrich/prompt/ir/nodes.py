"""The intermediate representation: the typed expressions that a Jinja template compiles to, the same for all engines.

An expression stands for a Python value of one row. In SQL it is NULL where that value is ``None`` and also where
computing it fails; :func:`none_possible` and :func:`failure` tell the two apart at compile time, so that a printed
``None`` becomes an empty text and a failure makes the whole prompt NULL.
"""

from __future__ import annotations

from typing import TypeAlias

from sqlenrich.core.nodes import Node, node
from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Type


@node
class Const(Node):
    """A text, number, boolean or None known at compile time."""

    value: str | int | float | bool | None

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are printed differently.
        return isinstance(other, Const) and repr(self.value) == repr(other.value)

    __hash__ = Node.__hash__

    @property
    def type(self) -> Type:
        """The type of the value; None counts as text."""
        if isinstance(self.value, bool):
            return BOOLEAN
        return BIGINT if isinstance(self.value, int) else DOUBLE if isinstance(self.value, float) else STRING


@node
class Column(Node):
    """A column of the row."""

    name: str
    type: Type


@node
class Field(Node):
    """A field of a struct. A field of None fails, as it does in Jinja."""

    base: Expr
    name: str
    type: Type


@node
class Op(Node):
    """A function of an engine, by name. :data:`OPERATIONS` says how it treats None."""

    name: str
    args: tuple[Expr, ...]
    type: Type


@node
class If(Node):
    """``then`` where the boolean ``test`` holds, else ``orelse``."""

    test: Expr
    then: Expr
    orelse: Expr

    @property
    def type(self) -> Type:
        """The type of both arms. None alone takes the type of the other arm."""
        arm = self.orelse if self.then == Const(None) or isinstance(self.then, Fail) else self.then
        return arm.type


@node
class Switch(Node):
    """The value of the arm whose constant equals ``subject``. Fails where no constant does."""

    subject: Expr
    arms: tuple[tuple[str | int, Expr], ...]

    @property
    def type(self) -> Type:
        """The type of the arms."""
        return self.arms[0][1].type


@node
class Concat(Node):
    """Printed parts, one after another."""

    parts: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        """Always text."""
        return STRING


@node
class Fail(Node):
    """Jinja's undefined value: using it fails. With ``error``, evaluating it fails.

    With ``blank`` it is the value of an ``if`` without ``else``: false, and printed as nothing.
    """

    error: bool = False
    blank: bool = False

    @property
    def type(self) -> Type:
        """Counts as text."""
        return STRING


@node
class Var(Node):
    """A bound variable: the current element of an array, or its position from 0."""

    name: str
    type: Type
    nullable: bool = False


@node
class Map(Node):
    """An array of ``body``, evaluated for each element ``item`` of an array at its ``position``."""

    array: Expr
    item: Var
    position: Var
    body: Expr

    @property
    def type(self) -> Type:
        """An array of the body's type."""
        return Array(self.body.type)


@node
class FlatMap(Node):
    """The arrays ``body``, evaluated for each element of an array, concatenated."""

    array: Expr
    item: Var
    position: Var
    body: Expr

    @property
    def type(self) -> Type:
        """The type of the body."""
        return self.body.type


@node
class Sort(Node):
    """The elements of an array in the order of ``key``. The sort is stable, also where it is ``descending``."""

    array: Expr
    item: Var
    key: Expr
    descending: bool

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Unique(Node):
    """The elements of an array without those whose ``key`` occurred before. No key may be None."""

    array: Expr
    item: Var
    key: Expr

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Where(Node):
    """The elements of an array for which ``test`` holds."""

    array: Expr
    item: Var
    test: Expr

    @property
    def type(self) -> Type:
        """The type of the array."""
        return self.array.type


@node
class Exists(Node):
    """Whether ``test`` holds for at least one element of an array."""

    array: Expr
    item: Var
    position: Var
    test: Expr

    @property
    def type(self) -> Type:
        """Always boolean."""
        return BOOLEAN


@node
class Element(Node):
    """The element at a position from 0; a negative position counts from the end. Undefined out of range.

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


Expr: TypeAlias = (
    Const
    | Column
    | Field
    | Op
    | If
    | Switch
    | Concat
    | Fail
    | Var
    | Map
    | FlatMap
    | Sort
    | Unique
    | Where
    | Exists
    | Element
)

TRUE, FALSE = Const(True), Const(False)

OPERATIONS: dict[str, str] = {
    # How an operation treats None. "strict": fails where an argument is None. "partial": strict, and can fail for
    # other arguments; its SQL is NULL exactly where it fails. "total": never fails and never gives None.
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
    "double_add": "partial",
    "double_subtract": "partial",
    "double_multiply": "partial",
    "double_divide": "partial",
    "double_abs": "strict",
    "double": "strict",
    "exact_double": "partial",
    "modulo": "strict",
    "floor_divide": "partial",
    "is_nan": "strict",
    "year": "strict",
    "month": "strict",
    "day": "strict",
    "hour": "strict",
    "minute": "strict",
    "second": "strict",
    "matches": "strict",
    "round": "partial",
    "round_decimal": "strict",
    "decimal": "total",
    "floor": "partial",
    "ceil": "partial",
    "truncated": "partial",
    "float": "partial",
    "fixed": "partial",
    "strip_zeros": "strict",
    "text_double": "partial",
    "least": "strict",
    "array": "total",
    "or_empty": "total",
    "array_join": "strict",
    "array_concat": "strict",
    "array_slice": "strict",
    "sum": "partial",
    "translate": "strict",
    "cut_word": "strict",
    "sequence": "strict",
    "size": "strict",
    "split": "strict",
    "array_index": "partial",
    "text_index": "partial",
    "character": "partial",
    "written": "strict",
    "picked": "partial",
    "interleaved": "strict",
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
        case Switch(_, arms):
            return any(none_possible(value) for _, value in arms)
    return False


def none_inside(array: Expr) -> bool:
    """Tell whether an array can hold None among its elements."""
    match array:
        case Map(_, _, _, body):
            return none_possible(body)
        case FlatMap(_, _, _, body):
            return none_inside(body)
        case Where(inner, _, _) | Sort(inner, _, _, _) | Unique(inner, _, _):
            return none_inside(inner)
        case Op("array_concat", arrays, _):
            return any(none_inside(array) for array in arrays)
        case Op("array", values, _):
            return any(none_possible(value) for value in values)
        case Op(("array_slice" | "or_empty"), (inner, *_), _):
            return none_inside(inner)
        case Op(("split" | "sequence"), _, _):
            return False
        case If(_, then, orelse):
            return none_inside(then) or none_inside(orelse)
    return True
