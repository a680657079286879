"""The abstract heap: lists, mappings and namespaces that a template changes in place.

A name holds an :class:`~.value.ObjectRef`. The heap holds the object's current entries; each statement changes the
heap. Inside a loop over an array of the row, an entry that the loop changes is loop-carried. SQL has no fold, so such
an entry can be added to (``append``, ``+ [...]``, ``+ 1``, ``+ "text"``) or assigned, but not read. After the loop,
an entry that was added to is a map over the array; an entry that was assigned has the last value assigned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sqlenrich.core.types import Array
from sqlenrich.prompt.ir.nodes import (
    Expr,
)
from sqlenrich.prompt.values import arrays
from sqlenrich.prompt.values.loop_carried import Select, accumulate, merge_values
from sqlenrich.prompt.values.value import (
    READ_IN_LOOP,
    CompileError,
    Dynamic,
    ListValue,
    LoopAccumulated,
    LoopAssigned,
    LoopCarried,
    MappingValue,
    ObjectRef,
    Static,
    Storable,
    Value,
)

Slot = tuple[int, Any]
"""An object's number and the name of an entry. A list is one entry, named None."""


@dataclass
class Heap:
    """The current entries of all objects at one point of the template."""

    entries: dict[Slot, Storable] = field(default_factory=dict)
    frozen: frozenset[int] = frozenset()
    """Objects that can't be changed, since a copy or a loop over the object would see the change."""
    allocated: frozenset[int] = frozenset()
    """The objects that exist."""

    def copy(self) -> Heap:
        """Return a copy that later changes do not reach."""
        return Heap(dict(self.entries), self.frozen, self.allocated)

    def load(self, ref: ObjectRef) -> Value:
        """Return the current value of an object."""
        if ref.kind == "list":
            return self.resolve(self.entries[ref.object_id, None])
        entries = tuple((name, self.resolve(value)) for name, value in self.items(ref))
        return MappingValue(entries) if entries or ref.kind == "namespace" else Static({})

    def reachable(self, ref: ObjectRef) -> set[int]:
        """Return the objects that can be reached from an object, itself included."""
        found, left = {ref.object_id}, [ref]
        while left:
            inside = [value for _, value in self.items(left.pop()) if isinstance(value, ObjectRef)]
            left += [value for value in inside if value.object_id not in found]
            found |= {value.object_id for value in inside}
        return found

    def resolve(self, value: Storable) -> Value:
        """Return the current value of a name or an entry. Raises CompileError inside a loop that changes it."""
        if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned):
            raise CompileError(READ_IN_LOOP)
        return self.load(value) if isinstance(value, ObjectRef) else value

    def items(self, ref: ObjectRef) -> Iterator[tuple[Any, Storable]]:
        """Return the entries of an object."""
        return ((name, value) for (object_id, name), value in self.entries.items() if object_id == ref.object_id)

    def store(self, slot: Slot, value: Storable) -> None:
        """Set an entry."""
        if slot[0] in self.frozen:
            raise CompileError(
                "changing a list or a mapping that was copied or that a loop iterates over; change it before"
            )
        if isinstance(value, LoopCarried | LoopAccumulated | LoopAssigned) and value.slot != slot:
            raise CompileError("copying a value that this loop changes; a loop over an array can only build it up")
        self.entries[slot] = value


class Ids:
    """Numbers for new objects and for loops."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> int:
        """Return a new number."""
        return next(self._numbers)


def appended(current: Storable, item: Value) -> Storable:
    """Return a list with one more element."""
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


def merge_heaps(test: Expr, then: Heap, orelse: Heap, select: Select) -> Heap:
    """Merge the heaps of two branches."""
    entries: dict[Slot, Storable] = {}
    frozen = then.frozen | orelse.frozen
    for slot in {**orelse.entries, **then.entries}:
        a, b = then.entries.get(slot), orelse.entries.get(slot)
        if a is None or b is None:
            if slot[0] in then.allocated & orelse.allocated:
                raise CompileError(f"the entry {slot[1]!r} is set for some rows only; set it before the condition")
            entries[slot] = a if a is not None else b  # type: ignore[assignment]
        elif a == b:
            entries[slot] = a
        else:
            frozen |= {value.object_id for value in (a, b) if isinstance(value, ObjectRef)}
            a = then.load(a) if isinstance(a, ObjectRef) else a
            b = orelse.load(b) if isinstance(b, ObjectRef) else b
            entries[slot] = merge_values(test, a, b, select)
    return Heap(entries, frozen, then.allocated | orelse.allocated)


def changed_slots(before: Heap, after: Heap) -> list[Slot]:
    """Return the slots whose entries a loop's body changes, of those that existed before it."""
    return [slot for slot, value in before.entries.items() if after.entries.get(slot) != value]
