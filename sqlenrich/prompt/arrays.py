"""Arrays in a template: what Jinja's filters and Python's methods give for an array of the row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from ..types import BIGINT, BOOLEAN, STRING, Array, Struct, Type
from . import functions
from .ir import (
    FALSE,
    TRUE,
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
    Var,
    Where,
    at_once,
    beyond,
    either,
    failure,
    is_none,
    missing,
    none_inside,
    none_possible,
    requiring,
)
from .values import Items, Known, Loop, Refusal, Value, choose, describe, equal, lift, needing, negate, truth


class Names:
    """Names for the elements of lambdas that no column and no other name of the template has."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._numbers: Iterator[int] = count(1)

    def fresh(self, array: Expr) -> tuple[Var, Var]:
        """Give the variables of an array's element and of its position."""
        while True:
            number = next(self._numbers)
            item, at = f"x{number}", f"i{number}"
            if self._taken.isdisjoint((item, at, f"{item}_at")):
                return Var(item, item_type(array), none_inside(array)), Var(at, BIGINT)


def item_type(array: Expr) -> Type:
    """Give the type of an array's elements. Raises Refusal for what is no array."""
    if not isinstance(array.type, Array):
        raise Refusal(f"an array is needed, not {describe(array.type)}")
    return array.type.item


def or_empty(array: Expr) -> Expr:
    """Give an array, empty where it is None: what map and select start from."""
    return Op("or_empty", (array,), array.type) if none_possible(array) else array


def size(array: Expr) -> Expr:
    """Give ``len(array)``."""
    if isinstance(array, Map) and at_once(array.body) is None:
        return size(array.array)
    return Op("size", (array,), BIGINT)


def joined(names: Names, array: Expr, separator: Expr, attribute: str | None = None) -> Expr:
    """Give Jinja's ``join``: each element as text, None as "None"."""
    item, position = names.fresh(array)
    text = functions.soft_text(item if attribute is None else member(item, attribute))
    if not isinstance(separator, Const):  # DuckDB joins with a constant only
        apart = If(Op("eq", (position, Const(0)), BOOLEAN), text, Join((separator, text)))
        joined = Op("array_join", (Map(array, item, position, apart), Const("")), STRING)
        return requiring(failure(separator), joined)
    texts = array if text == item else Map(array, item, position, text)
    return Op("array_join", (texts, separator), STRING)


def texts(names: Names, array: Expr) -> Expr:
    """Give an array of texts for Python's own join, which fails for None."""
    if not none_inside(array):
        return array
    return mapped(names, array, functions.whole)


def member(value: Expr, name: str) -> Expr:
    """Give a field of a struct. Raises Refusal for a field that is not there."""
    if not isinstance(value.type, Struct) or (kind := value.type.field(name)) is None:
        known = [n for n, _ in value.type.fields] if isinstance(value.type, Struct) else []
        raise Refusal(f'no field "{name}" in {describe(value.type)}; there are: {", ".join(known) or "none"}')
    return Field(value, name, kind)


def sliced(array: Expr, start: Value, stop: Value) -> Expr:
    """Give ``array[start:stop]``; either end may be absent, negative, or differ by row."""
    length = size(array)
    first, last = functions.slice_bound(start, length, Const(0)), functions.slice_bound(stop, length, length)
    bounds = (first or Const(0),) if last is None else (first or Const(0), last)
    return array if bounds == (Const(0),) else Op("array_slice", (array, *bounds), array.type)


def mapped(names: Names, array: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Give ``[body(x) for x in array]``."""
    item, position = names.fresh(array)
    return Map(array, item, position, body(item))


def kept(names: Names, array: Expr, test: Callable[[Expr], Expr]) -> Expr:
    """Give ``[x for x in array if test(x)]``."""
    item, _ = names.fresh(array)
    found = test(item)
    if found == TRUE:
        return array
    return Where(array, item, found)


def chosen(names: Names, array: Expr, test: Callable[[Expr], Expr] | None, attribute: str | None, keep: bool) -> Expr:
    """Give select, reject, selectattr or rejectattr."""

    def holds(item: Expr) -> Expr:
        value = item if attribute is None else member(item, attribute)
        found = truth(value) if test is None else test(value)
        return found if keep else negate(found)

    return kept(names, array, holds)


def array_index(names: Names, array: Expr, value: Value) -> Expr:
    """Give ``array.index(value)``; fails where it is not there."""
    sought = lift(value)
    if sought.type != item_type(array):
        raise Refusal(f"index of {describe(sought.type)} in {describe(array.type)}")
    if none_possible(sought) and none_inside(array):  # no engine's own function finds NULL
        places = Op("sequence", (size(array),), Array(BIGINT))
        at, _ = names.fresh(places)
        test = equal(Element(array, at, inside=True), sought)
        found = Where(places, at, test)
        broken = either(either(missing(array), failure(sought)), beyond(found, Const(0)))
        return requiring(broken, Element(found, Const(0), inside=True))
    return Op("array_index", (array, sought), BIGINT)


def contains(names: Names, array: Expr, value: Value) -> Expr:
    """Give ``value in array``."""
    item, position = names.fresh(array)
    test = equal(item, value)
    if test == FALSE:
        return needing(size(array), FALSE)
    found, sought = Exists(array, item, position, test), lift(value)
    if failure(sought) is None:
        return found
    # Nothing is compared with an element of an empty array: what fails is not touched.
    empty = Op("eq", (size(array), Const(0)), BOOLEAN)
    return requiring(at_once(sought), choose(empty, FALSE, needing(sought, found)))


def equals_empty(array: Expr) -> Expr:
    """Give ``array == []``."""
    empty = Op("eq", (size(array), Const(0)), BOOLEAN)
    return choose(is_none(array), FALSE, empty) if none_possible(array) else empty


def element(array: Expr, index: Value, strict: bool = False) -> Expr:
    """Give ``array[index]``; ``strict`` as ``first`` and ``last`` are."""
    at = lift(index)
    if at.type != BIGINT:
        raise Refusal(f"an array indexed by {describe(at.type)}; it must be an integer")
    at = functions.within(at)
    return Element(array, at, strict=strict)


def extreme(name: str, numbers: list[Expr]) -> Expr:
    """Give the least or the greatest of some integers; some engines would leave a NULL out."""
    if len(numbers) == 1:
        return numbers[0]
    broken: Expr | None = None
    for number in numbers:
        broken = either(broken, missing(number))
    return requiring(broken, Op(name, tuple(numbers), BIGINT))


def as_array(value: Value) -> Expr:
    """Give a list of any kind as an array of the row."""
    if isinstance(value, Known) and isinstance(value.value, list | tuple | range):
        return constant_array([Known(item) for item in value.value])
    if isinstance(value, Items):
        return constant_array(list(value.values))
    array = lift(value)
    item_type(array)
    return array


def alike(value: Value, kind: Type) -> Value:
    """Give a list literal as an array where an array of this type stands beside it; another value as it is."""
    if not isinstance(kind, Array):
        return value
    if isinstance(value, Items):
        return constant_array(list(value.values), kind.item)
    if isinstance(value, Known) and isinstance(value.value, list | tuple | range):
        return constant_array([Known(item) for item in value.value], kind.item)
    return value


def constant_array(values: list[Value], kind: Type | None = None) -> Expr:
    """Give a list of values as an array. Raises Refusal where they are of several types."""
    lifted = tuple(lift(value) for value in values)
    types = {value.type for value in lifted if value != Const(None)}
    if not types and kind is not None:
        types = {kind}
    if len(types) != 1:
        raise Refusal("a list of several types beside an array; make its elements the same type")
    return Op("array", lifted, Array(types.pop()))


def loop_attribute(loop: Loop, name: str) -> Value:
    """Give an attribute of the ``loop`` variable."""
    at, length = loop.position, size(loop.array)
    last = Op("subtract", (length, Const(1)), BIGINT)
    match name:
        case "index":
            return Op("add", (at, Const(1)), BIGINT)
        case "index0":
            return at
        case "revindex":
            return Op("subtract", (length, at), BIGINT)
        case "revindex0":
            return Op("subtract", (last, at), BIGINT)
        case "first":
            return Op("eq", (at, Const(0)), BOOLEAN)
        case "last":
            return Op("eq", (at, last), BOOLEAN)
        case "length":
            return length
        case "previtem":
            before = Element(loop.array, Op("subtract", (at, Const(1)), BIGINT), inside=True)
            return If(Op("eq", (at, Const(0)), BOOLEAN), Fail(), before)
        case "nextitem":
            after = Element(loop.array, Op("add", (at, Const(1)), BIGINT), inside=True)
            return If(Op("eq", (at, last), BOOLEAN), Fail(), after)
    raise Refusal(
        f'"loop.{name}" over an array of the row; write index, index0, first, last, length, previtem or nextitem'
    )
