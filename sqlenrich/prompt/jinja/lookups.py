"""Attributes, indexes and slices."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array, Struct
from sqlenrich.prompt.ir.failures import is_none
from sqlenrich.prompt.ir.nodes import Const, Expr, Field, Switch, none_possible
from sqlenrich.prompt.jinja.compiler import Compiler, describe_value, expression
from sqlenrich.prompt.jinja.objects import entry
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays, dates, slices
from sqlenrich.prompt.values.list_literals import fail_beside, list_value
from sqlenrich.prompt.values.value import (
    GENERATOR,
    CompileError,
    Dynamic,
    Generator,
    ListValue,
    LoopVariable,
    MappingValue,
    ObjectRef,
    Static,
    StaticGenerator,
    Storable,
    Value,
    ZipValue,
    choose,
    describe,
    lift,
    same_type,
    truth,
)


@expression(nodes.Getattr)
def attribute(compiler: Compiler, node: nodes.Getattr, scope: Scope) -> Storable:
    """``base.name``."""
    given, name = compiler.stored(node.node, scope), node.attr
    if isinstance(given, ObjectRef):
        return entry(compiler, given, name, attribute=True)
    base = compiler.resolve(given)
    if isinstance(base, LoopVariable):
        return arrays.loop_attribute(base, name)
    if name.startswith("__"):
        raise CompileError(f'".{name}"')
    if isinstance(base, Static):
        return compiler.fold(node, lambda: compiler.env.getattr(base.value, name))
    if isinstance(base, MappingValue) and not hasattr(dict, name):
        return looked_up(base, Static(name))
    if isinstance(base, Dynamic) and isinstance(base.type, Struct):
        if hasattr(dict, name):
            raise CompileError(f'".{name}" means a method of the struct in Jinja; write ["{name}"]')
        return field(base, name)
    if isinstance(base, Dynamic) and base.type in (DATE, TIMESTAMP):
        return dates.part(base, name)
    raise CompileError(f'".{name}" of {describe_value(base)}')


def field(base: Expr, name: str) -> Expr:
    """Return a field of a struct."""
    struct = base.type
    if not isinstance(struct, Struct) or (kind := struct.field(name)) is None:
        names = [n for n, _ in struct.fields] if isinstance(struct, Struct) else []
        raise CompileError(f'no field "{name}"{did_you_mean(name, names)}; there are: {", ".join(names)}')
    return Field(base, name, kind)


@expression(nodes.Getitem)
def indexed(compiler: Compiler, node: nodes.Getitem, scope: Scope) -> Storable:
    """``base[key]`` and ``base[start:stop]``."""
    given = compiler.stored(node.node, scope)
    if isinstance(given, ObjectRef) and given.kind != "list":
        name = compiler.value(node.arg, scope)
        if isinstance(name, Static):
            return entry(compiler, given, name.value)
    base = compiler.resolve(given)
    if isinstance(node.arg, nodes.Slice):
        return sliced(compiler, node, node.arg, base, scope)
    key = compiler.value(node.arg, scope)
    if isinstance(base, Static) and isinstance(base.value, StaticGenerator):
        raise CompileError(f"indexing {GENERATOR}")
    if isinstance(base, Static) and isinstance(key, Static):
        return compiler.fold(node, lambda: compiler.env.getitem(base.value, key.value))
    if isinstance(base, MappingValue):
        return looked_up(base, key)
    if isinstance(base, ZipValue | Generator | LoopVariable):
        raise CompileError(f"indexing {describe_value(base)}")
    if isinstance(base, Static | ListValue):
        return required(base, lift(key)) if not isinstance(key, Static) else listed(base, key)
    if isinstance(base.type, Array):
        return arrays.element(base, key)
    if isinstance(base.type, Struct) and isinstance(key, Static):
        return field(base, str(key.value))
    if base.type == STRING:
        at = lift(key)
        if at.type != BIGINT:
            raise CompileError(f"text indexed by {describe(at.type)}; it must be an integer")
        return slices.character(base, at)
    raise CompileError(f"indexing {describe_value(base)}; take the element in the source query")


def looked_up(base: MappingValue, key: Value) -> Value:
    """Return the entry of a mapping literal."""
    if isinstance(key, Static):
        for name, value in base.entries:
            if name == key.value and type(name) is type(key.value):
                return fail_beside(value, [other for _, other in base.entries])
        raise CompileError(f"the mapping has no {key.value!r}: this fails for every row")
    subject = lift(key)
    arms = tuple((name, lift(value)) for name, value in base.entries)
    if any(type(name) is not (str if subject.type == STRING else int) for name, _ in arms):
        raise CompileError(f"a mapping indexed by {describe(subject.type)}; its keys must be of that type")
    if not all(same_type(arms[0][1], arm) for _, arm in arms):
        raise CompileError("a mapping to several types indexed by row; make its values the same type")
    return fail_beside(Switch(subject, tuple(sorted(arms))), [value for _, value in base.entries])


def listed(base: Static | ListValue, key: Static) -> Value:
    """Return the element of a list literal at a constant index."""
    if isinstance(base, ListValue) and isinstance(key.value, int):
        try:
            return fail_beside(base.values[key.value], base.values)
        except IndexError:
            raise CompileError(f"index {key.value} is out of range for every row") from None
    raise CompileError(f"indexing a list with {key.value!r}")


def required(base: Static | ListValue, key: Expr) -> Value:
    """Return the element of a list or a mapping at an index that differs by row."""
    arms: dict[str | int, Expr] = {}
    if isinstance(base, Static) and isinstance(base.value, Mapping):
        arms = {k: lift(Static(v)) for k, v in base.value.items()}
        if not arms or any(type(k) is not (str if key.type == STRING else int) for k in arms):
            raise CompileError(f"a mapping indexed by {describe(key.type)}; its keys must be of that type")
    else:
        values = base.values if isinstance(base, ListValue) else [Static(v) for v in base.value]
        if key.type not in (BIGINT, BOOLEAN):
            raise CompileError(f"a list indexed by {describe(key.type)}; declare the column as bigint")
        if key.type == BOOLEAN:
            number = choose(truth(key), Const(1), Const(0))
            key = choose(is_none(key), Const(None), number) if none_possible(key) else number
        for index, value in enumerate(values):
            arms[index] = lift(value)
            arms[index - len(values)] = arms[index]
    if not arms:
        raise CompileError("indexing an empty list fails for every row")
    first = next(iter(arms.values()))
    if not all(same_type(first, arm) for arm in arms.values()):
        raise CompileError("a list of several types indexed by row; make its elements the same type")
    required = Switch(key, tuple(sorted(arms.items(), key=lambda arm: (str(type(arm[0])), arm[0]))))
    return fail_beside(required, base.values) if isinstance(base, ListValue) else required


def sliced(compiler: Compiler, node: nodes.Getitem, bounds: nodes.Slice, base: Value, scope: Scope) -> Value:
    """Return ``base[start:stop]``."""
    given = (bounds.start, bounds.stop, bounds.step)
    start, stop, step = (Static(None) if b is None else compiler.value(b, scope) for b in given)
    if isinstance(base, Static) and all(isinstance(b, Static) for b in (start, stop, step)):
        window = slice(*(b.value for b in (start, stop, step) if isinstance(b, Static)))
        return compiler.fold(node, lambda: base.value[window])
    if step not in (Static(None), Static(1)):
        raise CompileError("a slice with a step")
    if isinstance(base, ListValue) and isinstance(start, Static) and isinstance(stop, Static):
        return list_value(list(base.values[start.value : stop.value]), False)
    text = lift(base)
    if isinstance(text.type, Array):
        return arrays.sliced(text, start, stop)
    if text.type != STRING:
        raise CompileError(f"a slice of {describe(text.type)}; it must be text or an array")
    return slices.slice_text(text, start, stop)
