"""Functions of arrays: the results of Jinja's filters and Python's methods for an array of the row."""

from __future__ import annotations

from collections.abc import Callable

from sqlenrich.core.types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Struct, Type
from sqlenrich.prompt.ir.failures import (
    any_of,
    fail_where,
    fails_or_none,
    failure,
    immediate_failure,
    is_none,
    out_of_range,
)
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Concat,
    Const,
    Element,
    Exists,
    Expr,
    Fail,
    Field,
    If,
    Map,
    Op,
    Sort,
    Unique,
    Var,
    Where,
    none_inside,
    none_possible,
)
from sqlenrich.prompt.values.bound_variables import VariableNames, item_type
from sqlenrich.prompt.values.comparisons import after_evaluating, equal
from sqlenrich.prompt.values.printing import as_text, required_text, to_str
from sqlenrich.prompt.values.slices import clamp_position, slice_bound
from sqlenrich.prompt.values.text_functions import WHITESPACE
from sqlenrich.prompt.values.value import (
    CompileError,
    ListValue,
    LoopVariable,
    Static,
    Value,
    choose,
    describe,
    lift,
    negate,
    truth,
)


def or_empty(array: Expr) -> Expr:
    """Return an array that is empty where it is None, as for Jinja's map and select."""
    return Op("or_empty", (array,), array.type) if none_possible(array) else array


def size(array: Expr) -> Expr:
    """Return ``len(array)``."""
    if isinstance(array, Map) and immediate_failure(array.body) is None:
        return size(array.array)
    return Op("size", (array,), BIGINT)


def joined(variables: VariableNames, array: Expr, separator: Expr, attribute: str | None = None) -> Expr:
    """Return Jinja's ``join``: each element as text, None as "None"."""
    item, position = variables.fresh(array)
    text = to_str(item if attribute is None else member(item, attribute))
    if not isinstance(separator, Const):  # DuckDB joins with a constant only
        apart = If(Op("eq", (position, Const(0)), BOOLEAN), text, Concat((separator, text)))
        joined = Op("array_join", (Map(array, item, position, apart), Const("")), STRING)
        return fail_where(failure(separator), joined)
    texts = array if text == item else Map(array, item, position, text)
    return Op("array_join", (texts, separator), STRING)


def require_texts(variables: VariableNames, array: Expr) -> Expr:
    """Return an array of texts that fails where an element is None, as Python's ``str.join`` does."""
    if not none_inside(array):
        return array
    return mapped(variables, array, required_text)


def member(value: Expr, name: str) -> Expr:
    """Return a field of a struct. Raises CompileError for an unknown field."""
    if not isinstance(value.type, Struct) or (kind := value.type.field(name)) is None:
        known = [n for n, _ in value.type.fields] if isinstance(value.type, Struct) else []
        raise CompileError(f'no field "{name}" in {describe(value.type)}; there are: {", ".join(known) or "none"}')
    return Field(value, name, kind)


def sliced(array: Expr, start: Value, stop: Value) -> Expr:
    """Return ``array[start:stop]``. Each end may be absent, negative, or differ by row."""
    length = size(array)
    first, last = slice_bound(start, length, Const(0)), slice_bound(stop, length, length)
    bounds = (first or Const(0),) if last is None else (first or Const(0), last)
    if bounds == (Const(0),):
        return fail_where(is_none(array), array) if none_possible(array) else array
    return Op("array_slice", (array, *bounds), array.type)


def mapped(variables: VariableNames, array: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Return ``[body(x) for x in array]``."""
    item, position = variables.fresh(array)
    return Map(array, item, position, body(item))


def where(variables: VariableNames, array: Expr, test: Callable[[Expr], Expr]) -> Expr:
    """Return ``[x for x in array if test(x)]``."""
    item, _ = variables.fresh(array)
    found = test(item)
    if found == TRUE:
        return array
    return Where(array, item, found)


def select(
    variables: VariableNames, array: Expr, test: Callable[[Expr], Expr] | None, attribute: str | None, keep: bool
) -> Expr:
    """Return select, reject, selectattr or rejectattr."""

    def holds(item: Expr) -> Expr:
        value = item if attribute is None else member(item, attribute)
        found = truth(value) if test is None else test(value)
        return found if keep else negate(found)

    return where(variables, array, holds)


def array_index(variables: VariableNames, array: Expr, value: Value) -> Expr:
    """Return ``array.index(value)``; fails where it is not there."""
    sought = lift(value)
    if sought.type != item_type(array):
        raise CompileError(f"index of {describe(sought.type)} in {describe(array.type)}")
    if none_possible(sought) and none_inside(array):  # no engine's own function finds NULL
        places = Op("sequence", (size(array),), Array(BIGINT))
        at, _ = variables.fresh(places)
        test = equal(Element(array, at, inside=True), sought)
        found = Where(places, at, test)
        broken = any_of(any_of(fails_or_none(array), failure(sought)), out_of_range(found, Const(0)))
        return fail_where(broken, Element(found, Const(0), inside=True))
    found_at = Op("array_index", (array, sought), BIGINT)
    return fail_where(failure(sought), found_at) if none_inside(array) else found_at


def contains(variables: VariableNames, array: Expr, value: Value) -> Expr:
    """Return ``value in array``."""
    item, position = variables.fresh(array)
    test = equal(item, value)
    if test == FALSE:
        return after_evaluating(size(array), FALSE)
    found, sought = Exists(array, item, position, test), lift(value)
    if failure(sought) is None:
        return found
    # Python compares nothing with an empty array, so an undefined value does not fail there.
    empty = Op("eq", (size(array), Const(0)), BOOLEAN)
    return fail_where(immediate_failure(sought), choose(empty, FALSE, after_evaluating(sought, found)))


def split_words(variables: VariableNames, text: Expr) -> Expr:
    """Return ``text.split()``: at runs of white space, without empty parts."""
    blank = WHITESPACE.replace(" ", "")
    spaced = Op("translate", (required_text(text), Const(blank), Const(" " * len(blank))), STRING)
    parts = Op("split", (spaced, Const(" ")), Array(STRING))
    return where(variables, parts, lambda part: Op("truth", (part,), BOOLEAN))


def positions_of(variables: VariableNames, array: Expr) -> tuple[Expr, Var, Var]:
    """Return the positions of an array as an array, and the variables for an element of it."""
    positions = Op("sequence", (size(array),), Array(BIGINT))
    return positions, *variables.fresh(positions)


def reversed_(variables: VariableNames, array: Expr) -> Expr:
    """Return the elements of an array from the last to the first."""
    positions, at, place = positions_of(variables, array)
    last = Op("subtract", (size(array), Const(1)), BIGINT)
    return Map(positions, at, place, Element(array, Op("subtract", (last, at), BIGINT), inside=True))


def sort_key(item: Expr, attribute: str | None, case_sensitive: bool) -> Expr:
    """Return the key of Jinja's sort, unique, min and max: in lower case unless ``case_sensitive``."""
    key = item if attribute is None else member(item, attribute)
    if isinstance(key.type, Array | Struct):
        raise CompileError(f"ordering {describe(key.type)}; name a field with attribute=")
    return Op("lower", (key,), STRING) if key.type == STRING and not case_sensitive else key


def sort(variables: VariableNames, array: Expr, attribute: str | None, case_sensitive: bool, descending: bool) -> Expr:
    """Return Jinja's ``sort``. Fails where a key is None, as Python's comparison does."""
    item, _ = variables.fresh(array)
    return Sort(array, item, sort_key(item, attribute, case_sensitive), descending)


def unique(variables: VariableNames, array: Expr, attribute: str | None, case_sensitive: bool) -> Expr:
    """Return Jinja's ``unique``: of elements with the same key, the first."""
    item, _ = variables.fresh(array)
    key = sort_key(item, attribute, case_sensitive)
    if key.type == DOUBLE:
        raise CompileError("unique of doubles")
    value = item if attribute is None else member(item, attribute)
    if none_possible(value):  # None equals no text, and no engine's function finds NULL
        text = key if key.type == STRING else as_text(key)
        key = If(is_none(value), Const(""), Concat((Const("="), text)))
    return Unique(array, item, key)


def sum_of(array: Expr) -> Expr:
    """Return the sum of an array of integers. Fails beyond 64 bits."""
    if item_type(array) != BIGINT:
        raise CompileError(f"the sum of {describe(array.type)}; only integers add up alike on all engines")
    broken = fails_or_none(array)
    if none_inside(array):
        item, position = Var("x_sum", BIGINT, nullable=True), Var("x_sum_at", BIGINT)
        broken = any_of(broken, Exists(array, item, position, is_none(item)))
    return fail_where(broken, Op("sum", (array,), BIGINT))


def concatenated(parts: list[Expr]) -> Expr:
    """Concatenate arrays of one type."""
    kinds = {part.type for part in parts}
    if len(kinds) != 1:
        raise CompileError("lists of different types in one; make their elements the same type")
    return parts[0] if len(parts) == 1 else Op("array_concat", tuple(parts), parts[0].type)


def by_rank(sort: Sort) -> Expr:
    """Return a sort without SQL's sort by key: the position of each element is its rank."""
    key, n = sort.item.name, size(sort.array)
    keys = Map(sort.array, sort.item, Var(f"{key}_at", BIGINT), sort.key)
    positions = Op("sequence", (n,), Array(BIGINT))
    one, other, rank = (Var(f"{key}_{name}", BIGINT) for name in "ijr")
    mine, theirs = (Element(keys, place, inside=True) for place in (one, other))
    before = Op("gt" if sort.descending else "lt", (theirs, mine), BOOLEAN)
    tied = Op("and", (Op("eq", (theirs, mine), BOOLEAN), Op("lt", (other, one), BOOLEAN)), BOOLEAN)
    smaller = size(Where(positions, other, Op("or", (before, tied), BOOLEAN)))
    ranks = Map(positions, one, Var(f"{key}_i_at", BIGINT), smaller)
    found = Op("array_index", (ranks, rank), BIGINT)
    return Map(positions, rank, Var(f"{key}_r_at", BIGINT), Element(sort.array, found, inside=True))


def equals_empty(array: Expr) -> Expr:
    """Return ``array == []``."""
    empty = Op("eq", (size(array), Const(0)), BOOLEAN)
    return choose(is_none(array), FALSE, empty) if none_possible(array) else empty


def element(array: Expr, index: Value, strict: bool = False) -> Expr:
    """Return ``array[index]``. With ``strict``, as for ``first`` and ``last``, an array that is None fails."""
    at = lift(index)
    if at.type != BIGINT:
        raise CompileError(f"an array indexed by {describe(at.type)}; it must be an integer")
    at = clamp_position(at)
    return Element(array, at, strict=strict)


def extremum(name: str, numbers: list[Expr]) -> Expr:
    """Return the least or the greatest of some integers. Fails where one is None, which some engines would ignore."""
    if len(numbers) == 1:
        return numbers[0]
    broken: Expr | None = None
    for number in numbers:
        broken = any_of(broken, fails_or_none(number))
    return fail_where(broken, Op(name, tuple(numbers), BIGINT))


def as_array(value: Value) -> Expr:
    """Return a list literal or an array of the row as an array."""
    if isinstance(value, Static) and isinstance(value.value, list | tuple | range):
        return constant_array([Static(item) for item in value.value])
    if isinstance(value, ListValue):
        return constant_array(list(value.values))
    array = lift(value)
    item_type(array)
    return array


def as_array_like(value: Value, kind: Type) -> Value:
    """Return a list literal as an array of the type ``kind``. Other values, and literals for other types, stay."""
    if not isinstance(kind, Array):
        return value
    if isinstance(value, ListValue):
        return constant_array(list(value.values), kind.item)
    if isinstance(value, Static) and isinstance(value.value, list | tuple | range):
        return constant_array([Static(item) for item in value.value], kind.item)
    return value


def is_list(value: Value) -> bool:
    """Tell whether a value is a list literal."""
    return isinstance(value, ListValue) or (isinstance(value, Static) and isinstance(value.value, list))


def is_python_list(value: Value) -> bool:
    """Tell whether the value is a list in Python: not a tuple or a range, which have no ``+`` with a list."""
    match value:
        case ListValue(_, is_tuple):
            return not is_tuple
        case Static(constant):
            return isinstance(constant, list)
        case Op("sequence", _, _):
            return False
        case Op(("array_slice" | "or_empty"), (inner, *_), _):
            return is_python_list(inner)
        case If(_, then, orelse):
            return all(arm == Const(None) or isinstance(arm, Fail) or is_python_list(arm) for arm in (then, orelse))
    return True


def as_same_arrays(a: Value, b: Value) -> tuple[Expr, Expr]:
    """Return two list literals as arrays of one type."""
    first, second = _values(a), _values(b)
    kinds = [
        array.type.item for array in (constant_array(v) for v in (first, second) if v) if isinstance(array.type, Array)
    ]
    if not kinds:
        raise CompileError("two empty lists")
    return constant_array(first, kinds[0]), constant_array(second, kinds[0])


def _values(value: Value) -> list[Value]:
    if isinstance(value, ListValue):
        return list(value.values)
    return [Static(item) for item in value.value] if isinstance(value, Static) else []


def constant_array(values: list[Value], kind: Type | None = None) -> Expr:
    """Return a list of values as an array. Raises CompileError for several types."""
    lifted = tuple(lift(value) for value in values)
    types = {value.type for value in lifted if value != Const(None)}
    if not types and kind is not None:
        types = {kind}
    if len(types) != 1:
        raise CompileError("a list of several types beside an array; make its elements the same type")
    return Op("array", lifted, Array(types.pop()))


def loop_attribute(loop: LoopVariable, name: str) -> Value:
    """Return an attribute of the ``loop`` variable."""
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
    raise CompileError(
        f'"loop.{name}" over an array of the row; write index, index0, first, last, length, previtem or nextitem'
    )
