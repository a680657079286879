"""Lists, mappings and namespaces that a template changes in place.

A name that is bound to one holds a :class:`Ref`; what it is worth stands in the state, which statements change one
after another. Inside a loop over an array of the row, a value that the loop changes is a :class:`Changing`: engines
have no fold, so it can grow (``append``, ``+ [...]``, ``+ 1``, ``+ "text"``) or be set anew, but not be read. After
the loop, what grew is a map over the array, and what was set is the last value that was set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import at_once, failure, missing, requiring
from sqlenrich.prompt.ir.failures import either as either_fails
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Const,
    Element,
    Expr,
    Fail,
    Field,
    FlatMap,
    If,
    Join,
    Map,
    Op,
    Pick,
    Var,
    Where,
    none_possible,
)
from sqlenrich.prompt.ir.walk import replaced, variables_of
from sqlenrich.prompt.values import arrays, numbers
from sqlenrich.prompt.values.functions import soft_text
from sqlenrich.prompt.values.values import (
    READ_IN_LOOP,
    Changing,
    Dynamic,
    Growing,
    Items,
    Known,
    Part,
    Ref,
    Refusal,
    Replaced,
    Stored,
    Table,
    Value,
    choose,
    lift,
    negate,
)

Place = tuple[int, Any]
"""A cell and the name of an entry in it; None for a list, which is one value."""
Either = Callable[[Expr, Value, Value], Value]
"""Gives the value of two branches by their test."""


@dataclass
class State:
    """What changeable values are worth at one point of the template."""

    entries: dict[Place, Stored] = field(default_factory=dict)
    frozen: frozenset[int] = frozenset()
    """Cells that another name may hold too: changing them would change what it is worth."""
    made: frozenset[int] = frozenset()
    """The cells that there are."""

    def copy(self) -> State:
        """Give the state as it is now."""
        return State(dict(self.entries), self.frozen, self.made)

    def read(self, ref: Ref) -> Value:
        """Give what a list or a mapping is worth now."""
        if ref.kind == "list":
            return self.settled(self.entries[ref.cell, None])
        entries = tuple((name, self.settled(value)) for name, value in self.items(ref))
        return Table(entries) if entries or ref.kind == "namespace" else Known({})

    def reached(self, ref: Ref) -> set[int]:
        """Give the cells of a list or a mapping and of those inside it."""
        found, left = {ref.cell}, [ref]
        while left:
            inside = [value for _, value in self.items(left.pop()) if isinstance(value, Ref)]
            left += [value for value in inside if value.cell not in found]
            found |= {value.cell for value in inside}
        return found

    def settled(self, value: Stored) -> Value:
        """Give what a name or an entry is worth. Raises Refusal inside a loop that changes it."""
        if isinstance(value, Changing | Growing | Replaced):
            raise Refusal(READ_IN_LOOP)
        return self.read(value) if isinstance(value, Ref) else value

    def items(self, ref: Ref) -> Iterator[tuple[Any, Stored]]:
        """Give the entries of a mapping."""
        return ((name, value) for (cell, name), value in self.entries.items() if cell == ref.cell)

    def write(self, place: Place, value: Stored) -> None:
        """Set an entry."""
        if place[0] in self.frozen:
            raise Refusal("changing a list or a mapping that was copied, or that a loop goes over; change it before")
        if isinstance(value, Changing | Growing | Replaced) and value.place != place:
            raise Refusal("copying a value that this loop changes; a loop over an array can only build it up")
        self.entries[place] = value


class Cells:
    """Numbers for new lists and mappings, and for loops."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def new(self) -> int:
        """Give a number that no other has."""
        return next(self._numbers)


def grown(base: Changing | Growing, added: Value, kind: str) -> Growing:
    """Give a value that grew by a list, a text or a number in a loop that changes it."""
    before = base.parts if isinstance(base, Growing) else ()
    return Growing(base.place, base.loop, (*before, Part(TRUE, added, kind)))


def appended(current: Stored, item: Value) -> Stored:
    """Give a list with one more element."""
    if isinstance(current, Changing | Growing):
        return grown(current, item, "item")
    if isinstance(current, Known) and isinstance(item, Known):
        return Known([*current.value, item.value])
    if isinstance(current, Known):
        return Items((*(Known(value) for value in current.value), item))
    if isinstance(current, Items):
        return Items((*current.values, item))
    if isinstance(current, Dynamic) and isinstance(current.type, Array):
        return arrays.concatenated([current, arrays.constant_array([item], current.type.item)])
    raise Refusal(READ_IN_LOOP)


def plus(left: Changing | Growing, right: Value) -> Growing:
    """Give ``left + right`` where a loop changes ``left``."""
    if isinstance(right, Items) or (isinstance(right, Known) and isinstance(right.value, list)):
        parts = right.values if isinstance(right, Items) else tuple(Known(item) for item in right.value)
        before = left.parts if isinstance(left, Growing) else ()
        return Growing(left.place, left.loop, (*before, *(Part(TRUE, part, "item") for part in parts)))
    added = lift(right)
    if (broken := either_fails(at_once(added), missing(added))) is not None:
        added = requiring(broken, added)
    if isinstance(added.type, Array):
        return grown(left, added, "list")
    if added.type in (STRING, BIGINT):
        return grown(left, added, "text" if added.type == STRING else "number")
    raise Refusal("adding to a value that this loop changes; it can be a list, a text or an integer")


def tilde(left: Changing | Growing, right: list[Expr]) -> Growing:
    """Give ``left ~ right`` where a loop changes ``left``."""
    before = left.parts if isinstance(left, Growing) else ()
    return Growing(left.place, left.loop, (*before, *(Part(TRUE, soft_text(part), "text") for part in right)))


def added(current: Stored | None, given: Stored) -> tuple[Part, ...]:
    """Give what an assignment adds to a value that a loop builds up."""
    before = len(current.parts) if isinstance(current, Growing) else 0
    return given.parts[before:] if isinstance(given, Growing) else ()


def merged(test: Expr, then: State, orelse: State, either: Either) -> State:
    """Give the state after two branches."""
    entries: dict[Place, Stored] = {}
    frozen = then.frozen | orelse.frozen
    for place in {**orelse.entries, **then.entries}:
        a, b = then.entries.get(place), orelse.entries.get(place)
        if a is None or b is None:
            if place[0] in then.made & orelse.made:
                raise Refusal(f"the entry {place[1]!r} is made for some rows only; set it before the condition")
            entries[place] = a if a is not None else b  # type: ignore[assignment]
        elif a == b:
            entries[place] = a
        else:
            frozen |= {value.cell for value in (a, b) if isinstance(value, Ref)}
            a = then.read(a) if isinstance(a, Ref) else a
            b = orelse.read(b) if isinstance(b, Ref) else b
            entries[place] = _either(test, a, b, either)
    return State(entries, frozen, then.made | orelse.made)


def _either(test: Expr, a: Stored, b: Stored, either: Either) -> Stored:
    changes = Changing | Growing | Replaced
    if not isinstance(a, changes) and not isinstance(b, changes):
        assert not isinstance(a, Ref)
        assert not isinstance(b, Ref)
        return either(test, a, b)
    if isinstance(a, Changing | Growing) and isinstance(b, Changing | Growing):
        first, second = (x.parts if isinstance(x, Growing) else () for x in (a, b))
        shared = 0
        while shared < min(len(first), len(second)) and first[shared] == second[shared]:
            shared += 1
        inverse = negate(test)
        parts = [Part(_and(test, p.test), p.value, p.kind) for p in first[shared:]]
        parts += [Part(_and(inverse, p.test), p.value, p.kind) for p in second[shared:]]
        return Growing(a.place, a.loop, (*first[:shared], *parts))
    if isinstance(a, Growing) or isinstance(b, Growing):
        raise Refusal("a value that a loop sets anew for some elements and adds to for others")
    (set_a, to_a), (set_b, to_b) = (
        (x.test, x.value) if isinstance(x, Replaced) else (FALSE, x) if isinstance(x, Changing) else (TRUE, x)
        for x in (a, b)
    )
    was_set = choose(test, set_a, set_b)
    if isinstance(to_a, Changing | Growing | Replaced | Ref):
        value = to_b
    elif isinstance(to_b, Changing | Growing | Replaced | Ref):
        value = to_a
    else:
        value = either(test, to_a, to_b)
    base = a if isinstance(a, Changing | Replaced) else b
    assert isinstance(base, Changing | Replaced)
    return Replaced(base.place, base.loop, was_set, value)


def _and(a: Expr, b: Expr) -> Expr:
    return b if a == TRUE else a if b == TRUE else Op("and", (a, b), BOOLEAN)


def changed(before: State, after: State) -> list[Place]:
    """Give the entries that a loop's body changes, of those that were there before it."""
    return [place for place, value in before.entries.items() if after.entries.get(place) != value]


def after_loop(
    names: arrays.Names, array: Expr, item: Var, position: Var, before: Stored, after: Stored, either: Either
) -> Stored:
    """Give what a value is worth after a loop over an array, from what one turn does to it."""
    if isinstance(after, Changing):
        return before
    if isinstance(after, Growing):
        return _built(array, item, position, before, after)
    test, value = (after.test, lift(after.value)) if isinstance(after, Replaced) else (TRUE, lift(after))
    turns, at, place = arrays.places(names, array)
    here: Mapping[Expr, Expr] = {item: Element(array, at, inside=True), position: at}
    found = turns if test == TRUE else Where(turns, at, replaced(test, dict(here)))
    last = Map(found, at, place, replaced(value, dict(here)))
    if test == TRUE and not {item, position} & variables_of(value):
        last_value: Expr = value
    else:
        last_value = Element(last, Const(-1), inside=True)
    none = Op("eq", (arrays.size(found), Const(0)), BOOLEAN)
    if isinstance(before, Changing | Growing | Replaced):
        return _either(none, before, last_value, either)
    assert not isinstance(before, Ref)
    return either(none, before, last_value)


def _built(array: Expr, item: Var, position: Var, before: Stored, after: Growing) -> Stored:
    kinds = {"list" if part.kind == "item" else part.kind for part in after.parts}
    if len(kinds) != 1:
        raise Refusal("a value that a loop adds lists and texts or numbers to")
    match kinds.pop():
        case "text":
            texts = [choose(part.test, lift(part.value), Const("")) for part in after.parts]
            body = texts[0] if len(texts) == 1 else Join(tuple(texts))
            text = Op("array_join", (Map(array, item, position, body), Const("")), STRING)
            return _plus_before(before, text, lambda first: Join((first, text)), Const(""))
        case "number":
            total: Expr = Const(0)
            for part in after.parts:
                total = _sum(total, _counted(array, item, position, part))
            return _plus_before(before, total, lambda first: numbers.add(first, total), Const(0))
    made = _built_list(array, item, position, after.parts)
    if before == Known([]):
        return made
    if isinstance(before, Changing | Growing):
        return grown(before, made, "list")
    if isinstance(before, Ref | Replaced):
        raise Refusal(READ_IN_LOOP)
    first = arrays.as_array(arrays.alike(before, made.type))
    if may_be_absent(first):
        raise Refusal("adding in a loop to a list that may be None before it; write |default([], true) there")
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
        case Field() | Element() | Pick():
            return none_possible(value) or failure(value) is not None
    return none_possible(value)


def _plus_before(before: Stored, added: Expr, join: Callable[[Expr], Expr], nothing: Const) -> Stored:
    if isinstance(before, Changing | Growing):
        return grown(before, added, "text" if nothing == Const("") else "number")
    first = lift(before)
    if may_be_absent(first):
        raise Refusal("adding in a loop to a value that may be None before it; write |default('', true) or |int there")
    if first.type != nothing.type:
        raise Refusal("adding to a value of another type")
    return added if first == nothing else join(first)


def _sum(a: Expr, b: Expr) -> Expr:
    return b if a == Const(0) else numbers.add(a, b)


def _counted(array: Expr, item: Var, position: Var, part: Part) -> Expr:
    value = lift(part.value)
    if isinstance(value, Const) and part.test == TRUE:
        return numbers.multiply(arrays.size(array), value) if value != Const(1) else arrays.size(array)
    return arrays.total(Map(array, item, position, choose(part.test, value, Const(0))))


def _built_list(array: Expr, item: Var, position: Var, parts: tuple[Part, ...]) -> Expr:
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
