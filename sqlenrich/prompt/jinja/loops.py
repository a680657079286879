"""Loops: unrolled over constants, a map over an array of the row."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Any

from jinja2 import nodes

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, fails_or_none, failure
from sqlenrich.prompt.ir.nodes import Const, Element, Exists, Expr, Map, Op, Var, Where
from sqlenrich.prompt.jinja.assignments import assign
from sqlenrich.prompt.jinja.compiler import Compiler, statement
from sqlenrich.prompt.jinja.printed_text import guards, join, prints_nothing
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays
from sqlenrich.prompt.values.heap import Heap, Slot, changed_slots, merge_heaps
from sqlenrich.prompt.values.loop_carried import after_loop
from sqlenrich.prompt.values.value import (
    CompileError,
    Generator,
    ListValue,
    LoopCarried,
    LoopVariable,
    MappingValue,
    ObjectRef,
    Static,
    Value,
    ZipValue,
    choose,
    describe,
)


class StaticLoopVariable:
    """The ``loop`` variable in one iteration of a loop over constants."""

    def __init__(self, index: int, length: int) -> None:
        self.index0, self.index, self.length = index, index + 1, length
        self.revindex0, self.revindex = length - index - 1, length - index
        self.first, self.last = index == 0, index == length - 1

    def cycle(self, *choices: Any) -> Any:
        """Return ``loop.cycle``."""
        return choices[self.index0 % len(choices)]

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        raise CompileError('a loop over "loop"')

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CompileError(f'"loop.{name}" is undefined')

    def __repr__(self) -> str:
        return f"<LoopContext {self.index}/{self.length}>"


@statement(nodes.For)
def loop_statement(compiler: Compiler, node: nodes.For, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% for target in iterable %}``."""
    if node.recursive:
        compiler.reject(node, "a recursive loop is not compiled to SQL; write the levels out")
    before, compiler.read = compiler.read, set()
    iterable = compiler.value(node.iter, scope)
    iterated, compiler.read = compiler.read - compiler.heap.frozen, set()
    compiler.heap.frozen |= iterated
    parts = loop_over(compiler, node, iterable, scope)
    compiler.heap.frozen -= iterated - compiler.read  # the body may have copied the objects that it read
    compiler.read |= before | iterated
    return parts, scope


def loop_over(compiler: Compiler, node: nodes.For, iterable: Value, scope: Scope) -> list[Expr]:
    """Return the parts of a loop over a value."""
    if isinstance(iterable, Static):
        try:
            values: list[Value] = [Static(item) for item in iterable.value]
        except TypeError as error:
            compiler.reject(node, f"the loop fails for every row: {error}")
    elif isinstance(iterable, ListValue):
        values = list(iterable.values)
    elif isinstance(iterable, Generator):
        return loop_over_array(compiler, node, iterable.array, scope)
    elif isinstance(iterable, ZipValue):
        return loop_over_zip(compiler, node, iterable, scope)
    elif isinstance(iterable, LoopVariable | MappingValue) or not isinstance(iterable.type, Array):
        what = "a mapping" if isinstance(iterable, LoopVariable | MappingValue) else describe(iterable.type)
        compiler.reject(node, f"a loop over {what}; it must be an array")
    else:
        return loop_over_array(compiler, node, iterable, scope)
    before, compiler.read_entries = compiler.heap.copy(), set()
    if node.test is not None:
        with compiler.conditionally():
            values = [v for v in values if filter_holds(compiler, node.test, assign(compiler, node.target, v, scope))]
    filtered_by = frozenset(compiler.read_entries)
    parts: list[Expr] = []
    for index, value in enumerate(values):
        loop = StaticLoopVariable(index, len(values))
        for name, neighbour in (("previtem", index - 1), ("nextitem", index + 1)):
            if 0 <= neighbour < len(values) and isinstance(near := values[neighbour], Static):
                setattr(loop, name, near.value)
        inner = assign(compiler, node.target, value, scope).bind("loop", Static(loop))
        parts.extend(compiler.statements(node.body, inner)[0])
    reject_reads(changed_slots(before, compiler.heap), filtered_by)
    return [*guards(iterable), *(parts if values else compiler.statements(node.else_, scope)[0])]


def reject_reads(slots: list[Slot], filtered_by: Set[Slot]) -> None:
    """Raise CompileError where a loop's filter reads a slot that the loop changes: Jinja filters while it loops."""
    if filtered_by & set(slots):
        raise CompileError("a loop filter that reads what the loop changes; put an if inside the loop")


def loop_over_array(compiler: Compiler, node: nodes.For, array: Expr, scope: Scope) -> list[Expr]:
    """Return the parts of a loop over an array of the row."""
    compiler.read_entries = set()
    if node.test is not None:
        item, position = compiler.variables.fresh(array)
        with compiler.conditionally():
            test = compiler.test(node.test, assign(compiler, node.target, item, scope))
        array = Where(array, item, test)
    filtered_by = frozenset(compiler.read_entries)
    item, position = compiler.variables.fresh(array)
    inner = assign(compiler, node.target, item, scope)
    return compile_body(compiler, node, array, item, position, inner, scope, filtered_by)


def loop_over_zip(compiler: Compiler, node: nodes.For, lists: ZipValue, scope: Scope) -> list[Expr]:
    """Return the parts of a loop over ``zip(...)``: a loop over the positions of the shortest list."""
    if node.test is not None:
        compiler.reject(node, "a filtered loop over zip; put an if inside the loop")
    zipped = [arrays.as_array(part) for part in lists.parts]
    shortest = arrays.extremum("least", [arrays.size(array) for array in zipped])
    positions = Op("sequence", (shortest,), Array(BIGINT))
    at, position = compiler.variables.fresh(positions)
    elements = ListValue(tuple(Element(array, at, inside=True) for array in zipped))
    return compile_body(compiler, node, positions, at, position, assign(compiler, node.target, elements, scope), scope)


def compile_body(
    compiler: Compiler,
    node: nodes.For,
    array: Expr,
    item: Var,
    position: Var,
    inner: Scope,
    outer: Scope,
    filtered_by: Set[Slot] = frozenset(),
) -> list[Expr]:
    """Return the parts of a loop over an array of the row, from those of one iteration."""
    before = compiler.heap.copy()
    inner = inner.bind("loop", LoopVariable(array, position))
    parts, _ = compiler.statements(node.body, inner)
    for object_id, name in compiler.heap.entries:
        if object_id in before.allocated and (object_id, name) not in before.entries:
            raise CompileError(f"a loop over an array that adds the entry {name!r}; set it before the loop")
    if slots := changed_slots(before, compiler.heap):
        reject_reads(slots, filtered_by)
        parts = compile_loop_carried(compiler, node, array, item, position, inner, before, slots)
    text = loop_text(array, item, position, join(parts))
    if not node.else_:
        return [text]
    empty = Op("eq", (arrays.size(array), Const(0)), BOOLEAN)
    after, compiler.heap = compiler.heap, before.copy()
    nothing = join(compiler.statements(node.else_, outer)[0])
    if after.entries:
        compiler.heap = merge_heaps(empty, compiler.heap, after, lambda t, a, b: compiler.select(node, t, a, b))
    return [choose(empty, nothing, text)]


def loop_text(array: Expr, item: Var, position: Var, body: Expr) -> Expr:
    """Return the text of a loop. A loop that prints nothing becomes a test whether its body fails."""
    if prints_nothing(body):
        broken = failure(body)
        inside = None if broken is None else Exists(array, item, position, broken)
        return fail_where(any_of(fails_or_none(array), inside), Const(""))
    return Op("array_join", (Map(array, item, position, body), Const("")), STRING)


def compile_loop_carried(
    compiler: Compiler,
    node: nodes.For,
    array: Expr,
    item: Var,
    position: Var,
    inner: Scope,
    before: Heap,
    slots: list[Slot],
) -> list[Expr]:
    """Compile the body again, with the changed slots loop-carried. Give its parts, and set the heap after the loop."""
    loop = compiler.ids.new()
    compiler.heap = before.copy()
    for slot in slots:
        compiler.heap.entries[slot] = LoopCarried(slot, loop)
    start = compiler.heap.copy()
    parts, _ = compiler.statements(node.body, inner)
    turn, compiler.heap = compiler.heap, before.copy()
    compiler.heap.frozen |= turn.frozen & before.allocated
    if set(changed_slots(start, turn)) - set(slots):
        raise CompileError("a loop over an array that changes different values in each turn")
    select = lambda t, a, b: compiler.select(node, t, a, b)  # noqa: E731
    for slot in slots:
        after, first = turn.entries[slot], before.entries[slot]
        if isinstance(first, ObjectRef):
            compiler.heap.frozen |= before.reachable(first)
            compiler.read |= before.reachable(first)
            first = before.load(first)
        compiler.heap.entries[slot] = after_loop(compiler.variables, array, item, position, first, after, select)
    return parts


def filter_holds(compiler: Compiler, node: nodes.Node, scope: Scope) -> bool:
    """Tell whether the filter of a loop over constants holds."""
    test = compiler.test(node, scope)
    if not isinstance(test, Const):
        compiler.reject(node, "a loop filter that differs by row; put an if inside the loop")
    return bool(test.value)
