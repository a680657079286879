"""The abstract heap: lists, mappings and namespaces that a template changes in place.

A name holds an :class:`~.value.ObjectRef`. The heap holds the object's current entries; each statement changes the
heap. Inside a loop over an array of the row, an entry that the loop changes is loop-carried. SQL has no fold, so such
an entry can be added to (``append``, ``+ [...]``, ``+ 1``, ``+ "text"``) or assigned, but not read. After the loop,
an entry that was added to is a map over the array; an entry that was assigned has the last value assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import either as either_fails
from sqlenrich.prompt.ir.failures import fail_where, fails_or_none, failure, immediate_failure
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Concat,
    Const,
    Element,
    Expr,
    Fail,
    Field,
    FlatMap,
    If,
    Map,
    Op,
    Switch,
    Var,
    Where,
    none_possible,
)
from sqlenrich.prompt.ir.traversal import substitute, variables_of
from sqlenrich.prompt.values import arrays, numbers
from sqlenrich.prompt.values.functions import to_str
from sqlenrich.prompt.values.value import (
    READ_IN_LOOP,
    CompileError,
    Dynamic,
    ListValue,
    LoopAccumulated,
    LoopAssigned,
    LoopCarried,
    LoopUpdate,
    MappingValue,
    ObjectRef,
    Static,
    Storable,
    Value,
    choose,
    lift,
    negate,
)

Slot = tuple[int, Any]
"""A cell and the name of an entry in it; None for a list, which is one value."""
Either = Callable[[Expr, Value, Value], Value]
"""Gives the value of two branches by their test."""


@dataclass
class Heap:
    """What changeable values are worth at one point of the template."""

    entries: dict[Slot, Storable] = field(default_factory=dict)
    frozen: frozenset[int] = frozenset()
    """Cells that another name may hold too: changing them would change what it is worth."""
    made: frozenset[int] = frozenset()
    """The cells that there are."""

    def copy(self) -> Heap:
        """Give the state as it is now."""
        return Heap(dict(self.entries), self.frozen, self.made)

    def load(self, ref: ObjectRef) -> Value:
        """Give what a list or a mapping is worth now."""
        if ref.kind == "list":
            return self.resolve(self.entries[ref.object_id, None])
        entries = tuple((name, self.resolve(value)) for name, value in self.items(ref))
        return MappingValue(entries) if entries or ref.kind == "namespace" else Static({})

    def reachable(self, ref: ObjectRef) -> set[int]:
        """Give the cells of a list or a mapping and of those inside it."""
        found, left = {ref.object_id}, [ref]
        while left:
            inside = [value for _, value in self.items(left.pop()) if isinstance(value, ObjectRef)]
            left += [value for value in inside if value.object_id not in found]
            found |= {value.object_id for value in inside}
        return found

    def resolve(self, value: Storable) -> Value:
        """Give what a name or an entry is worth. Raises Refusal inside a loop that changes it."""
        if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned):
            raise CompileError(READ_IN_LOOP)
        return self.load(value) if isinstance(value, ObjectRef) else value

    def items(self, ref: ObjectRef) -> Iterator[tuple[Any, Storable]]:
        """Give the entries of a mapping."""
        return ((name, value) for (object_id, name), value in self.entries.items() if object_id == ref.object_id)

    def store(self, place: Slot, value: Storable) -> None:
        """Set an entry."""
        if place[0] in self.frozen:
            raise CompileError(
                "changing a list or a mapping that was copied, or that a loop goes over; change it before"
            )
        if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned) and value.place != place:
            raise CompileError("copying a value that this loop changes; a loop over an array can only build it up")
        self.entries[place] = value


class Ids:
    """Numbers for new lists and mappings, and for loops."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> int:
        """Give a number that no other has."""
        return next(self._numbers)


def accumulate(base: LoopCarried | LoopAccumulated, new_updates: Value, kind: str) -> LoopAccumulated:
    """Give a value that grew by a list, a text or a number in a loop that changes it."""
    before = base.parts if isinstance(base, LoopAccumulated) else ()
    return LoopAccumulated(base.place, base.loop, (*before, LoopUpdate(TRUE, new_updates, kind)))


def appended(current: Storable, item: Value) -> Storable:
    """Give a list with one more element."""
    if isinstance(current, LoopCarried | LoopAccumulated):
        return accumulate(current, item, "item")
    if isinstance(current, Static) and isinstance(item, Static):
        return Static([*current.value, item.value])
    if isinstance(current, Static):
        return ListValue((*(Static(value) for value in current.value), item))
    if isinstance(current, ListValue):
        return ListValue((*current.values, item))
    if isinstance(current, Dynamic) and isinstance(current.type, Array):
        return arrays.concatenated([current, arrays.constant_array([item], current.type.item)])
    raise CompileError(READ_IN_LOOP)


def accumulate_sum(left: LoopCarried | LoopAccumulated, right: Value) -> LoopAccumulated:
    """Give ``left + right`` where a loop changes ``left``."""
    if isinstance(right, ListValue) or (isinstance(right, Static) and isinstance(right.value, list)):
        parts = right.values if isinstance(right, ListValue) else tuple(Static(item) for item in right.value)
        before = left.parts if isinstance(left, LoopAccumulated) else ()
        return LoopAccumulated(left.place, left.loop, (*before, *(LoopUpdate(TRUE, part, "item") for part in parts)))
    new_updates = lift(right)
    if (broken := either_fails(immediate_failure(new_updates), fails_or_none(new_updates))) is not None:
        new_updates = fail_where(broken, new_updates)
    if isinstance(new_updates.type, Array):
        return accumulate(left, new_updates, "list")
    if new_updates.type in (STRING, BIGINT):
        return accumulate(left, new_updates, "text" if new_updates.type == STRING else "number")
    raise CompileError("adding to a value that this loop changes; it can be a list, a text or an integer")


def accumulate_text(left: LoopCarried | LoopAccumulated, right: list[Expr]) -> LoopAccumulated:
    """Give ``left ~ right`` where a loop changes ``left``."""
    before = left.parts if isinstance(left, LoopAccumulated) else ()
    return LoopAccumulated(
        left.place, left.loop, (*before, *(LoopUpdate(TRUE, to_str(part), "text") for part in right))
    )


def new_updates(current: Storable | None, given: Storable) -> tuple[LoopUpdate, ...]:
    """Give what an assignment adds to a value that a loop builds up."""
    before = len(current.parts) if isinstance(current, LoopAccumulated) else 0
    return given.parts[before:] if isinstance(given, LoopAccumulated) else ()


def merge_heaps(test: Expr, then: Heap, orelse: Heap, either: Either) -> Heap:
    """Give the state after two branches."""
    entries: dict[Slot, Storable] = {}
    frozen = then.frozen | orelse.frozen
    for place in {**orelse.entries, **then.entries}:
        a, b = then.entries.get(place), orelse.entries.get(place)
        if a is None or b is None:
            if place[0] in then.made & orelse.made:
                raise CompileError(f"the entry {place[1]!r} is made for some rows only; set it before the condition")
            entries[place] = a if a is not None else b  # type: ignore[assignment]
        elif a == b:
            entries[place] = a
        else:
            frozen |= {value.object_id for value in (a, b) if isinstance(value, ObjectRef)}
            a = then.load(a) if isinstance(a, ObjectRef) else a
            b = orelse.load(b) if isinstance(b, ObjectRef) else b
            entries[place] = _either(test, a, b, either)
    return Heap(entries, frozen, then.made | orelse.made)


def _either(test: Expr, a: Storable, b: Storable, either: Either) -> Storable:
    changes = LoopCarried | LoopAccumulated | LoopAssigned
    if not isinstance(a, changes) and not isinstance(b, changes):
        assert not isinstance(a, ObjectRef)
        assert not isinstance(b, ObjectRef)
        return either(test, a, b)
    if isinstance(a, LoopCarried | LoopAccumulated) and isinstance(b, LoopCarried | LoopAccumulated):
        first, second = (x.parts if isinstance(x, LoopAccumulated) else () for x in (a, b))
        shared = 0
        while shared < min(len(first), len(second)) and first[shared] == second[shared]:
            shared += 1
        inverse = negate(test)
        parts = [LoopUpdate(_and(test, p.test), p.value, p.kind) for p in first[shared:]]
        parts += [LoopUpdate(_and(inverse, p.test), p.value, p.kind) for p in second[shared:]]
        return LoopAccumulated(a.place, a.loop, (*first[:shared], *parts))
    if isinstance(a, LoopAccumulated) or isinstance(b, LoopAccumulated):
        raise CompileError("a value that a loop sets anew for some elements and adds to for others")
    (set_a, to_a), (set_b, to_b) = (
        (x.test, x.value) if isinstance(x, LoopAssigned) else (FALSE, x) if isinstance(x, LoopCarried) else (TRUE, x)
        for x in (a, b)
    )
    was_set = choose(test, set_a, set_b)
    if isinstance(to_a, LoopCarried | LoopAccumulated | LoopAssigned | ObjectRef):
        value = to_b
    elif isinstance(to_b, LoopCarried | LoopAccumulated | LoopAssigned | ObjectRef):
        value = to_a
    else:
        value = either(test, to_a, to_b)
    base = a if isinstance(a, LoopCarried | LoopAssigned) else b
    assert isinstance(base, LoopCarried | LoopAssigned)
    return LoopAssigned(base.place, base.loop, was_set, value)


def _and(a: Expr, b: Expr) -> Expr:
    return b if a == TRUE else a if b == TRUE else Op("and", (a, b), BOOLEAN)


def changed_slots(before: Heap, after: Heap) -> list[Slot]:
    """Give the entries that a loop's body changes, of those that were there before it."""
    return [place for place, value in before.entries.items() if after.entries.get(place) != value]


def after_loop(
    names: arrays.VariableNames,
    array: Expr,
    item: Var,
    position: Var,
    before: Storable,
    after: Storable,
    either: Either,
) -> Storable:
    """Give what a value is worth after a loop over an array, from what one turn does to it."""
    if isinstance(after, LoopCarried):
        return before
    if isinstance(after, LoopAccumulated):
        return _built(array, item, position, before, after)
    test, value = (after.test, lift(after.value)) if isinstance(after, LoopAssigned) else (TRUE, lift(after))
    turns, at, place = arrays.places(names, array)
    here: Mapping[Expr, Expr] = {item: Element(array, at, inside=True), position: at}
    found = turns if test == TRUE else Where(turns, at, substitute(test, dict(here)))
    last = Map(found, at, place, substitute(value, dict(here)))
    if test == TRUE and not {item, position} & variables_of(value):
        last_value: Expr = value
    else:
        last_value = Element(last, Const(-1), inside=True)
    none = Op("eq", (arrays.size(found), Const(0)), BOOLEAN)
    if isinstance(before, LoopCarried | LoopAccumulated | LoopAssigned):
        return _either(none, before, last_value, either)
    assert not isinstance(before, ObjectRef)
    return either(none, before, last_value)


def _built(array: Expr, item: Var, position: Var, before: Storable, after: LoopAccumulated) -> Storable:
    kinds = {"list" if part.kind == "item" else part.kind for part in after.parts}
    if len(kinds) != 1:
        raise CompileError("a value that a loop adds lists and texts or numbers to")
    match kinds.pop():
        case "text":
            texts = [choose(part.test, lift(part.value), Const("")) for part in after.parts]
            body = texts[0] if len(texts) == 1 else Concat(tuple(texts))
            text = Op("array_join", (Map(array, item, position, body), Const("")), STRING)
            return _plus_before(before, text, lambda first: Concat((first, text)), Const(""))
        case "number":
            total: Expr = Const(0)
            for part in after.parts:
                total = _sum(total, _counted(array, item, position, part))
            return _plus_before(before, total, lambda first: numbers.add(first, total), Const(0))
    made = _built_list(array, item, position, after.parts)
    if before == Static([]):
        return made
    if isinstance(before, LoopCarried | LoopAccumulated):
        return accumulate(before, made, "list")
    if isinstance(before, ObjectRef | LoopAssigned):
        raise CompileError(READ_IN_LOOP)
    first = arrays.as_array(arrays.as_array_like(before, made.type))
    if may_be_absent(first):
        raise CompileError("adding in a loop to a list that may be None before it; write |default([], true) there")
    return arrays.concatenated([first, made])


def may_be_absent(value: Expr) -> bool:
    """Tell whether a value that is kept can be None or undefined."""
    match value:
        case Fail(error):
            return not error
        case If(Op("truth", (value,), _), then, orelse) if value == then:
            return may_be_absent(orelse)
        case If(_, then, orelse):
            return may_be_absent(then) or may_be_absent(orelse)
        case Field() | Element() | Switch():
            return none_possible(value) or failure(value) is not None
    return none_possible(value)


def _plus_before(before: Storable, new_updates: Expr, join: Callable[[Expr], Expr], nothing: Const) -> Storable:
    if isinstance(before, LoopCarried | LoopAccumulated):
        return accumulate(before, new_updates, "text" if nothing == Const("") else "number")
    first = lift(before)
    if may_be_absent(first):
        raise CompileError(
            "adding in a loop to a value that may be None before it; write |default('', true) or |int there"
        )
    if first.type != nothing.type:
        raise CompileError("adding to a value of another type")
    return new_updates if first == nothing else join(first)


def _sum(a: Expr, b: Expr) -> Expr:
    return b if a == Const(0) else numbers.add(a, b)


def _counted(array: Expr, item: Var, position: Var, part: LoopUpdate) -> Expr:
    value = lift(part.value)
    if isinstance(value, Const) and part.test == TRUE:
        return numbers.multiply(arrays.size(array), value) if value != Const(1) else arrays.size(array)
    return arrays.total(Map(array, item, position, choose(part.test, value, Const(0))))


def _built_list(array: Expr, item: Var, position: Var, parts: tuple[LoopUpdate, ...]) -> Expr:
    if len(parts) == 1 and parts[0].kind == "item":
        (part,) = parts
        if part.test == TRUE:
            return Map(array, item, position, lift(part.value))
        if position not in variables_of(part.test) | variables_of(lift(part.value)):
            return Map(Where(array, item, part.test), item, position, lift(part.value))
    made: list[Expr] = []
    for part in parts:
        value = lift(part.value)
        one = Op("array", (value,), Array(value.type)) if part.kind == "item" else value
        none = Op("array", (), one.type)
        made.append(one if part.test == TRUE else If(part.test, one, none))
    return FlatMap(array, item, position, arrays.concatenated(made))
