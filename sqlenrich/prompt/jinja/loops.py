"""Loops: over constants unrolled, over arrays of the row a map, with what they carry from turn to turn."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import either, failure, missing, requiring
from sqlenrich.prompt.ir.nodes import Const, Element, Exists, Expr, Map, Op, Var, Where
from sqlenrich.prompt.jinja.scope import Scope, guards, join, prints_nothing
from sqlenrich.prompt.values import arrays as arrays_
from sqlenrich.prompt.values.state import Place as Entry
from sqlenrich.prompt.values.state import State, after_loop, changed, merged
from sqlenrich.prompt.values.values import (
    Changing,
    Items,
    Known,
    Lazy,
    Loop,
    Ref,
    Refusal,
    Table,
    Value,
    Zip,
    choose,
    describe,
)

if TYPE_CHECKING:
    from sqlenrich.prompt.jinja.compile import Statements


class Turn:
    """The ``loop`` variable in one turn of a loop over constants."""

    def __init__(self, index: int, length: int) -> None:
        self.index0, self.index, self.length = index, index + 1, length
        self.revindex0, self.revindex = length - index - 1, length - index
        self.first, self.last = index == 0, index == length - 1

    def cycle(self, *choices: Any) -> Any:
        """Give one choice after another."""
        return choices[self.index0 % len(choices)]

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        raise Refusal('going through "loop" itself')

    def __repr__(self) -> str:
        return f"<LoopContext {self.index}/{self.length}>"


def looped(s: Statements, node: nodes.For, scope: Scope) -> list[Expr]:
    """Give the parts of a loop."""
    if node.recursive:
        s.x.refuse(node, "a recursive loop is not compiled to SQL; write the levels out")
    before, s.x.read = s.x.read, set()
    iterable = s.x.value(node.iter, scope)
    gone_through, s.x.read = s.x.read - s.x.state.frozen, set()
    s.x.state.frozen |= gone_through
    parts = over(s, node, iterable, scope)
    s.x.state.frozen -= gone_through - s.x.read  # what the body read it may have copied
    s.x.read |= before | gone_through
    return parts


def over(s: Statements, node: nodes.For, iterable: Value, scope: Scope) -> list[Expr]:
    """Give the parts of a loop over a value."""
    if isinstance(iterable, Known):
        try:
            values: list[Value] = [Known(item) for item in iterable.value]
        except TypeError as error:
            s.x.refuse(node, f"the loop fails for every row: {error}")
    elif isinstance(iterable, Items):
        values = list(iterable.values)
    elif isinstance(iterable, Lazy):
        return over_array(s, node, iterable.array, scope)
    elif isinstance(iterable, Zip):
        return side_by_side(s, node, iterable, scope)
    elif isinstance(iterable, Loop | Table) or not isinstance(iterable.type, Array):
        what = "a mapping" if isinstance(iterable, Loop | Table) else describe(iterable.type)
        s.x.refuse(node, f"a loop over {what}; it must be an array")
    else:
        return over_array(s, node, iterable, scope)
    before, s.x.read_entries = s.x.state.copy(), set()
    if node.test is not None:
        with s.x.where_it_depends():
            values = [v for v in values if holds(s, node.test, s.assign(node.target, v, scope))]
    filtered_by = frozenset(s.x.read_entries)
    parts: list[Expr] = []
    for index, value in enumerate(values):
        loop = Turn(index, len(values))
        for name, neighbour in (("previtem", index - 1), ("nextitem", index + 1)):
            if 0 <= neighbour < len(values) and isinstance(near := values[neighbour], Known):
                setattr(loop, name, near.value)
        inner = s.assign(node.target, value, scope).bind("loop", Known(loop))
        parts.extend(s.body(node.body, inner)[0])
    unread(changed(before, s.x.state), filtered_by)
    return [*guards(iterable), *(parts if values else s.body(node.else_, scope)[0])]


def unread(places: list[Entry], filtered_by: Set[Entry]) -> None:
    """Jinja filters a loop while it runs: a filter can't read what the loop changes."""
    if filtered_by & set(places):
        raise Refusal("a loop filter that reads what the loop changes; put an if inside the loop")


def over_array(s: Statements, node: nodes.For, array: Expr, scope: Scope) -> list[Expr]:
    """A loop over an array of the row: the text of its body for each element, one after another."""
    s.x.read_entries = set()
    if node.test is not None:
        item, position = s.x.names.fresh(array)
        with s.x.where_it_depends():
            test = s.x.test(node.test, s.assign(node.target, item, scope))
        array = Where(array, item, test)
    filtered_by = frozenset(s.x.read_entries)
    item, position = s.x.names.fresh(array)
    inner = s.assign(node.target, item, scope)
    return repeat(s, node, array, item, position, inner, scope, filtered_by)


def side_by_side(s: Statements, node: nodes.For, lists: Zip, scope: Scope) -> list[Expr]:
    """A loop over zip(...): over the positions of the shortest list."""
    if node.test is not None:
        s.x.refuse(node, "a filtered loop over zip; put an if inside the loop")
    arrays = [arrays_.as_array(part) for part in lists.parts]
    shortest = arrays_.extreme("least", [arrays_.size(array) for array in arrays])
    positions = Op("sequence", (shortest,), Array(BIGINT))
    at, position = s.x.names.fresh(positions)
    elements = Items(tuple(Element(array, at, inside=True) for array in arrays))
    return repeat(s, node, positions, at, position, s.assign(node.target, elements, scope), scope)


def repeat(
    s: Statements,
    node: nodes.For,
    array: Expr,
    item: Var,
    position: Var,
    inner: Scope,
    outer: Scope,
    filtered_by: Set[Entry] = frozenset(),
) -> list[Expr]:
    """Give the parts of a loop over an array of the row, from those of one turn."""
    before = s.x.state.copy()
    inner = inner.bind("loop", Loop(array, position))
    parts, _ = s.body(node.body, inner)
    for cell, name in s.x.state.entries:
        if cell in before.made and (cell, name) not in before.entries:
            raise Refusal(f"a loop over an array that makes the entry {name!r}; set it before the loop")
    if places := changed(before, s.x.state):
        unread(places, filtered_by)
        parts = carry(s, node, array, item, position, inner, before, places)
    text = loop_text(array, item, position, join(parts))
    if not node.else_:
        return [text]
    empty = Op("eq", (arrays_.size(array), Const(0)), BOOLEAN)
    after, s.x.state = s.x.state, before.copy()
    nothing = join(s.body(node.else_, outer)[0])
    if after.entries:
        s.x.state = merged(empty, s.x.state, after, lambda t, a, b: s.x.either(node, t, a, b))
    return [choose(empty, nothing, text)]


def loop_text(array: Expr, item: Var, position: Var, body: Expr) -> Expr:
    """The text of a loop; one that prints nothing only fails where its body does."""
    if prints_nothing(body):
        broken = failure(body)
        inside = None if broken is None else Exists(array, item, position, broken)
        return requiring(either(missing(array), inside), Const(""))
    return Op("array_join", (Map(array, item, position, body), Const("")), STRING)


def carry(
    s: Statements,
    node: nodes.For,
    array: Expr,
    item: Var,
    position: Var,
    inner: Scope,
    before: State,
    places: list[Entry],
) -> list[Expr]:
    """The body's parts once more, with what it changes unknown, and the state after the loop."""
    loop = s.x.cells.new()
    s.x.state = before.copy()
    for place in places:
        s.x.state.entries[place] = Changing(place, loop)
    start = s.x.state.copy()
    parts, _ = s.body(node.body, inner)
    turn, s.x.state = s.x.state, before.copy()
    s.x.state.frozen |= turn.frozen & before.made
    if set(changed(start, turn)) - set(places):
        raise Refusal("a loop over an array that changes different values in each turn")
    either = lambda t, a, b: s.x.either(node, t, a, b)  # noqa: E731
    for place in places:
        after, first = turn.entries[place], before.entries[place]
        if isinstance(first, Ref):
            s.x.state.frozen |= before.reached(first)
            s.x.read |= before.reached(first)
            first = before.read(first)
        s.x.state.entries[place] = after_loop(s.x.names, array, item, position, first, after, either)
    return parts


def holds(s: Statements, node: nodes.Node, scope: Scope) -> bool:
    """Tell whether the filter of a loop over constants holds."""
    test = s.x.test(node, scope)
    if not isinstance(test, Const):
        s.x.refuse(node, "a loop filter that differs by row; put an if inside the loop")
    return bool(test.value)
