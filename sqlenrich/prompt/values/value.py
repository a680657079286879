"""Values at compile time: static ones, literals that hold values of the row, and expressions over the row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from sqlenrich.core.nodes import Node, node
from sqlenrich.core.types import BOOLEAN, Array, Struct, Type, type_json
from sqlenrich.prompt.ir.failures import failure
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Column,
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


@node
class Static(Node):
    """A Python value that is the same for all rows."""

    value: Any

    def __eq__(self, other: object) -> bool:
        # 1 == True == 1.0 in Python, but they are printed differently, in lists too.
        if not isinstance(other, Static):
            return False
        return self.value is other.value or (self.value == other.value and repr(self.value) == repr(other.value))

    __hash__ = Node.__hash__


@node
class ListValue(Node):
    """A list literal, or a tuple, that holds at least one value of the row."""

    values: tuple[Value, ...]
    is_tuple: bool = False


@node
class MappingValue(Node):
    """A mapping literal that holds at least one value of the row."""

    entries: tuple[tuple[Any, Value], ...]


@node
class ZipValue(Node):
    """Python's ``zip`` of several lists, of which at least one is of the row."""

    parts: tuple[Value, ...]


@node
class Generator(Node):
    """The result of map, select and similar filters: it can be read once and has no length."""

    array: Expr


@node
class LoopVariable(Node):
    """The ``loop`` variable inside a loop over an array of the row."""

    array: Expr
    position: Var


@node
class ObjectRef(Node):
    """A reference to a list, a mapping or a namespace that the template changes in place: the heap has its entries."""

    object_id: int
    kind: str


@node
class LoopCarried(Node):
    """An entry of the heap inside a loop that changes it: its value is unknown until the loop ends."""

    slot: tuple[int, Any]
    loop: int


@node
class LoopUpdate(Node):
    """An addition to a loop-carried value where ``test`` holds: an ``item``, a ``list``, a ``text`` or a ``number``."""

    test: Expr
    value: Value
    kind: str


@node
class LoopAccumulated(Node):
    """A :class:`LoopCarried` value and the additions of one iteration."""

    slot: tuple[int, Any]
    loop: int
    parts: tuple[LoopUpdate, ...]


@node
class LoopAssigned(Node):
    """A :class:`LoopCarried` value that one iteration assigns, where ``test`` holds."""

    slot: tuple[int, Any]
    loop: int
    test: Expr
    value: Storable


Value: TypeAlias = Static | ListValue | MappingValue | ZipValue | Generator | LoopVariable | Expr
Storable: TypeAlias = Value | ObjectRef | LoopCarried | LoopAccumulated | LoopAssigned
"""What a name or an entry of the heap can hold."""
Dynamic = (Const, Column, Field, Op, If, Switch, Concat, Fail, Var, Map, FlatMap, Sort, Unique, Where, Exists, Element)


class StaticGenerator:
    """The result of map, select and similar filters for constants. Reading it again would give nothing."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = list(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __repr__(self) -> str:
        raise CompileError(f"printing {GENERATOR}")


GENERATOR = "the result of map, select, zip or a similar filter, which can be read only once; write |list after it"


def is_generator(value: object) -> bool:
    """Tell whether a value can be read only once."""
    return isinstance(value, Generator | ZipValue) or (
        isinstance(value, Static) and isinstance(value.value, StaticGenerator)
    )


READ_IN_LOOP = (
    "reading a value that this loop changes: no engine can carry it from row element to row element; "
    "build a list in the loop and read it after the loop"
)


class CompileError(Exception):
    """A construct that can't be compiled: the reason, and what to write instead. The compiler adds the line."""


def lift(value: Storable) -> Expr:
    """Return a value as an expression. Raises CompileError for lists and mappings."""
    if isinstance(value, Static):
        if value.value is None or isinstance(value.value, str | bool | int | float):
            if isinstance(value.value, float) and not math.isfinite(value.value):
                raise CompileError(f"the constant {value.value}; engines disagree about it")
            return Const(value.value)
        raise CompileError(f"a {type(value.value).__name__} where one value is needed; join it or index it")
    if isinstance(value, ListValue | ZipValue):
        raise CompileError("a list where one value is needed; join it or index it")
    if isinstance(value, Generator):
        raise CompileError("the result of map or select can be read only once; write |list after it")
    if isinstance(value, MappingValue | LoopVariable | ObjectRef):
        raise CompileError("a mapping where one value is needed; index it")
    if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned):
        raise CompileError(READ_IN_LOOP)
    return value


def describe(value: Type) -> str:
    """Return a type in words."""
    if isinstance(value, Array):
        return f"array of {describe(value.item)}"
    return "struct" if isinstance(value, Struct) else str(type_json(value))


def truth(value: Value) -> Expr:
    """Return the boolean expression of Python's ``bool(value)``."""
    if isinstance(value, Static):
        return TRUE if value.value else FALSE
    if isinstance(value, ListValue | MappingValue | LoopVariable):
        return TRUE
    if isinstance(value, ZipValue):
        raise CompileError("testing whether a zip is empty; test one of its lists")
    if isinstance(value, Generator):
        raise CompileError("testing whether a map or a select is empty; write |list after it")
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
    """Return ``not test``."""
    match test:
        case Const(constant):
            return Const(not constant)
        case Op("not", (inner,), _):
            return inner
    return Op("not", (test,), BOOLEAN)


def choose(test: Expr, then: Expr, orelse: Expr) -> Expr:
    """Return ``then if test else orelse``, folded where the test is constant or both arms are equal."""
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
    """Tell whether two arms have one SQL type. None alone has any type."""
    return any(arm == Const(None) or isinstance(arm, Fail) for arm in (a, b)) or a.type == b.type
