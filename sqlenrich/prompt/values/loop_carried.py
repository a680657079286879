"""Loop-carried values: what a loop over an array of the row adds to a value or assigns to it.

Inside such a loop a value that the loop changes can't be read: SQL has no fold. The loop body adds to it (``append``,
``+ [...]``, ``+ 1``, ``+ "text"``) or assigns it. After the loop, a value that was added to is a map over the array; a
value that was assigned is the last one assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlenrich.core.types import BIGINT, BOOLEAN, STRING, Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, fails_or_none, failure, immediate_failure
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
from sqlenrich.prompt.values.bound_variables import VariableNames
from sqlenrich.prompt.values.printing import to_str
from sqlenrich.prompt.values.value import (
    READ_IN_LOOP,
    CompileError,
    ListValue,
    LoopAccumulated,
    LoopAssigned,
    LoopCarried,
    LoopUpdate,
    ObjectRef,
    Static,
    Storable,
    Value,
    choose,
    lift,
    negate,
)

Select = Callable[[Expr, Value, Value], Value]
"""Gives ``then if test else orelse``."""


def accumulate(base: LoopCarried | LoopAccumulated, new_updates: Value, kind: str) -> LoopAccumulated:
    """Add a list, a text or a number to a loop-carried value."""
    before = base.parts if isinstance(base, LoopAccumulated) else ()
    return LoopAccumulated(base.slot, base.loop, (*before, LoopUpdate(TRUE, new_updates, kind)))


def accumulate_sum(left: LoopCarried | LoopAccumulated, right: Value) -> LoopAccumulated:
    """Return ``left + right`` where a loop changes ``left``."""
    if isinstance(right, ListValue) or (isinstance(right, Static) and isinstance(right.value, list)):
        parts = right.values if isinstance(right, ListValue) else tuple(Static(item) for item in right.value)
        before = left.parts if isinstance(left, LoopAccumulated) else ()
        return LoopAccumulated(left.slot, left.loop, (*before, *(LoopUpdate(TRUE, part, "item") for part in parts)))
    new_updates = lift(right)
    if (broken := any_of(immediate_failure(new_updates), fails_or_none(new_updates))) is not None:
        new_updates = fail_where(broken, new_updates)
    if isinstance(new_updates.type, Array):
        return accumulate(left, new_updates, "list")
    if new_updates.type in (STRING, BIGINT):
        return accumulate(left, new_updates, "text" if new_updates.type == STRING else "number")
    raise CompileError("adding to a value that this loop changes; it can be a list, a text or an integer")


def accumulate_text(left: LoopCarried | LoopAccumulated, right: list[Expr]) -> LoopAccumulated:
    """Return ``left ~ right`` where a loop changes ``left``."""
    before = left.parts if isinstance(left, LoopAccumulated) else ()
    return LoopAccumulated(left.slot, left.loop, (*before, *(LoopUpdate(TRUE, to_str(part), "text") for part in right)))


def new_updates(current: Storable | None, given: Storable) -> tuple[LoopUpdate, ...]:
    """Return the updates that an assignment adds to a loop-carried value."""
    before = len(current.parts) if isinstance(current, LoopAccumulated) else 0
    return given.parts[before:] if isinstance(given, LoopAccumulated) else ()


def merge_values(test: Expr, a: Storable, b: Storable, select: Select) -> Storable:
    changes = LoopCarried | LoopAccumulated | LoopAssigned
    if not isinstance(a, changes) and not isinstance(b, changes):
        assert not isinstance(a, ObjectRef)
        assert not isinstance(b, ObjectRef)
        return select(test, a, b)
    if isinstance(a, LoopCarried | LoopAccumulated) and isinstance(b, LoopCarried | LoopAccumulated):
        first, second = (x.parts if isinstance(x, LoopAccumulated) else () for x in (a, b))
        shared = 0
        while shared < min(len(first), len(second)) and first[shared] == second[shared]:
            shared += 1
        inverse = negate(test)
        parts = [LoopUpdate(_and(test, p.test), p.value, p.kind) for p in first[shared:]]
        parts += [LoopUpdate(_and(inverse, p.test), p.value, p.kind) for p in second[shared:]]
        return LoopAccumulated(a.slot, a.loop, (*first[:shared], *parts))
    if isinstance(a, LoopAccumulated) or isinstance(b, LoopAccumulated):
        raise CompileError("a value that a loop assigns for some elements and adds to for others")
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
        value = select(test, to_a, to_b)
    base = a if isinstance(a, LoopCarried | LoopAssigned) else b
    assert isinstance(base, LoopCarried | LoopAssigned)
    return LoopAssigned(base.slot, base.loop, was_set, value)


def _and(a: Expr, b: Expr) -> Expr:
    return b if a == TRUE else a if b == TRUE else Op("and", (a, b), BOOLEAN)


def after_loop(
    variables: VariableNames,
    array: Expr,
    item: Var,
    position: Var,
    before: Storable,
    after: Storable,
    select: Select,
) -> Storable:
    """Return a value after a loop over an array, from the value after one iteration."""
    if isinstance(after, LoopCarried):
        return before
    if isinstance(after, LoopAccumulated):
        return _accumulated(array, item, position, before, after)
    test, value = (after.test, lift(after.value)) if isinstance(after, LoopAssigned) else (TRUE, lift(after))
    positions, at, place = arrays.positions_of(variables, array)
    here: Mapping[Expr, Expr] = {item: Element(array, at, inside=True), position: at}
    found = positions if test == TRUE else Where(positions, at, substitute(test, dict(here)))
    last = Map(found, at, place, substitute(value, dict(here)))
    if test == TRUE and not {item, position} & variables_of(value):
        last_value: Expr = value
    else:
        last_value = Element(last, Const(-1), inside=True)
    none = Op("eq", (arrays.size(found), Const(0)), BOOLEAN)
    if isinstance(before, LoopCarried | LoopAccumulated | LoopAssigned):
        return merge_values(none, before, last_value, select)
    assert not isinstance(before, ObjectRef)
    return select(none, before, last_value)


def _accumulated(array: Expr, item: Var, position: Var, before: Storable, after: LoopAccumulated) -> Storable:
    kinds = {"list" if part.kind == "item" else part.kind for part in after.parts}
    if len(kinds) != 1:
        raise CompileError("a value that a loop adds lists and texts or numbers to")
    match kinds.pop():
        case "text":
            texts = [choose(part.test, lift(part.value), Const("")) for part in after.parts]
            body = texts[0] if len(texts) == 1 else Concat(tuple(texts))
            text = Op("array_join", (Map(array, item, position, body), Const("")), STRING)
            return _added_to_initial(before, text, lambda first: Concat((first, text)), Const(""))
        case "number":
            total: Expr = Const(0)
            for part in after.parts:
                total = _sum(total, _accumulated_count(array, item, position, part))
            return _added_to_initial(before, total, lambda first: numbers.add(first, total), Const(0))
    made = _accumulated_list(array, item, position, after.parts)
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
    """Tell whether a value can be None or undefined."""
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


def _added_to_initial(before: Storable, new_updates: Expr, join: Callable[[Expr], Expr], nothing: Const) -> Storable:
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


def _accumulated_count(array: Expr, item: Var, position: Var, part: LoopUpdate) -> Expr:
    value = lift(part.value)
    if isinstance(value, Const) and part.test == TRUE:
        return numbers.multiply(arrays.size(array), value) if value != Const(1) else arrays.size(array)
    return arrays.sum_of(Map(array, item, position, choose(part.test, value, Const(0))))


def _accumulated_list(array: Expr, item: Var, position: Var, parts: tuple[LoopUpdate, ...]) -> Expr:
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
