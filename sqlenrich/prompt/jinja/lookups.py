"""Attributes, elements and slices of a value: of the row, of a list literal, or chosen by the row."""

from __future__ import annotations

from collections.abc import Mapping

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array, Struct
from sqlenrich.prompt.ir.failures import is_none
from sqlenrich.prompt.ir.nodes import Const, Expr, Field, Pick, none_possible
from sqlenrich.prompt.jinja.compiler import Compiler, describe_value, expression
from sqlenrich.prompt.jinja.objects import entry
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays, dates, functions
from sqlenrich.prompt.values.list_literals import beside, list_of
from sqlenrich.prompt.values.values import (
    ONCE,
    Dynamic,
    Items,
    Known,
    Lazy,
    Loop,
    Once,
    Ref,
    Refusal,
    Stored,
    Table,
    Value,
    Zip,
    choose,
    describe,
    lift,
    same_type,
    truth,
)


@expression(nodes.Getattr)
def attribute(compiler: Compiler, node: nodes.Getattr, scope: Scope) -> Stored:
    """``base.name``."""
    given, name = compiler.stored(node.node, scope), node.attr
    if isinstance(given, Ref):
        return entry(compiler, given, name, attribute=True)
    base = compiler.settled(given)
    if isinstance(base, Loop):
        return arrays.loop_attribute(base, name)
    if name.startswith("__"):
        raise Refusal(f'".{name}"')
    if isinstance(base, Known):
        return compiler.known(node, lambda: compiler.env.getattr(base.value, name))
    if isinstance(base, Table) and not hasattr(dict, name):
        return looked_up(base, Known(name))
    if isinstance(base, Dynamic) and isinstance(base.type, Struct):
        if hasattr(dict, name):
            raise Refusal(f'".{name}" means a method of the struct in Jinja; write ["{name}"]')
        return field(base, name)
    if isinstance(base, Dynamic) and base.type in (DATE, TIMESTAMP):
        return dates.part(base, name)
    raise Refusal(f'".{name}" of {describe_value(base)}')


def field(base: Expr, name: str) -> Expr:
    """Give a field of a struct."""
    struct = base.type
    if not isinstance(struct, Struct) or (kind := struct.field(name)) is None:
        names = [n for n, _ in struct.fields] if isinstance(struct, Struct) else []
        raise Refusal(f'no field "{name}"{did_you_mean(name, names)}; there are: {", ".join(names)}')
    return Field(base, name, kind)


@expression(nodes.Getitem)
def indexed(compiler: Compiler, node: nodes.Getitem, scope: Scope) -> Stored:
    """``base[key]`` and ``base[start:stop]``."""
    given = compiler.stored(node.node, scope)
    if isinstance(given, Ref) and given.kind != "list":
        name = compiler.value(node.arg, scope)
        if isinstance(name, Known):
            return entry(compiler, given, name.value)
    base = compiler.settled(given)
    if isinstance(node.arg, nodes.Slice):
        return sliced(compiler, node, node.arg, base, scope)
    key = compiler.value(node.arg, scope)
    if isinstance(base, Known) and isinstance(base.value, Once):
        raise Refusal(f"indexing {ONCE}")
    if isinstance(base, Known) and isinstance(key, Known):
        return compiler.known(node, lambda: compiler.env.getitem(base.value, key.value))
    if isinstance(base, Table):
        return looked_up(base, key)
    if isinstance(base, Zip | Lazy | Loop):
        raise Refusal(f"indexing {describe_value(base)}")
    if isinstance(base, Known | Items):
        return picked(base, lift(key)) if not isinstance(key, Known) else listed(base, key)
    if isinstance(base.type, Array):
        return arrays.element(base, key)
    if isinstance(base.type, Struct) and isinstance(key, Known):
        return field(base, str(key.value))
    if base.type == STRING:
        at = lift(key)
        if at.type != BIGINT:
            raise Refusal(f"text indexed by {describe(at.type)}; it must be an integer")
        return functions.character(base, at)
    raise Refusal(f"indexing {describe_value(base)}; take the element in the source query")


def looked_up(base: Table, key: Value) -> Value:
    """Give the entry of a mapping literal."""
    if isinstance(key, Known):
        for name, value in base.entries:
            if name == key.value and type(name) is type(key.value):
                return beside(value, [other for _, other in base.entries])
        raise Refusal(f"the mapping has no {key.value!r}: this fails for every row")
    subject = lift(key)
    arms = tuple((name, lift(value)) for name, value in base.entries)
    if any(type(name) is not (str if subject.type == STRING else int) for name, _ in arms):
        raise Refusal(f"a mapping indexed by {describe(subject.type)}; its keys must be of that type")
    if not all(same_type(arms[0][1], arm) for _, arm in arms):
        raise Refusal("a mapping to several types indexed by row; make its values the same type")
    return beside(Pick(subject, tuple(sorted(arms))), [value for _, value in base.entries])


def listed(base: Known | Items, key: Known) -> Value:
    """Give the element of a list literal at a constant index."""
    if isinstance(base, Items) and isinstance(key.value, int):
        try:
            return beside(base.values[key.value], base.values)
        except IndexError:
            raise Refusal(f"index {key.value} is out of range for every row") from None
    raise Refusal(f"indexing a list with {key.value!r}")


def picked(base: Known | Items, key: Expr) -> Value:
    """Give the element of constants that a row chooses."""
    arms: dict[str | int, Expr] = {}
    if isinstance(base, Known) and isinstance(base.value, Mapping):
        arms = {k: lift(Known(v)) for k, v in base.value.items()}
        if not arms or any(type(k) is not (str if key.type == STRING else int) for k in arms):
            raise Refusal(f"a mapping indexed by {describe(key.type)}; its keys must be of that type")
    else:
        values = base.values if isinstance(base, Items) else [Known(v) for v in base.value]
        if key.type not in (BIGINT, BOOLEAN):
            raise Refusal(f"a list indexed by {describe(key.type)}; declare the column as bigint")
        if key.type == BOOLEAN:
            number = choose(truth(key), Const(1), Const(0))
            key = choose(is_none(key), Const(None), number) if none_possible(key) else number
        for index, value in enumerate(values):
            arms[index] = lift(value)
            arms[index - len(values)] = arms[index]
    if not arms:
        raise Refusal("indexing an empty list fails for every row")
    first = next(iter(arms.values()))
    if not all(same_type(first, arm) for arm in arms.values()):
        raise Refusal("a list of several types indexed by row; make its elements the same type")
    picked = Pick(key, tuple(sorted(arms.items(), key=lambda arm: (str(type(arm[0])), arm[0]))))
    return beside(picked, base.values) if isinstance(base, Items) else picked


def sliced(compiler: Compiler, node: nodes.Getitem, bounds: nodes.Slice, base: Value, scope: Scope) -> Value:
    """Give ``base[start:stop]``."""
    given = (bounds.start, bounds.stop, bounds.step)
    start, stop, step = (Known(None) if b is None else compiler.value(b, scope) for b in given)
    if isinstance(base, Known) and all(isinstance(b, Known) for b in (start, stop, step)):
        window = slice(*(b.value for b in (start, stop, step) if isinstance(b, Known)))
        return compiler.known(node, lambda: base.value[window])
    if step not in (Known(None), Known(1)):
        raise Refusal("a slice with a step")
    if isinstance(base, Items) and isinstance(start, Known) and isinstance(stop, Known):
        return list_of(list(base.values[start.value : stop.value]), False)
    text = lift(base)
    if isinstance(text.type, Array):
        return arrays.sliced(text, start, stop)
    if text.type != STRING:
        raise Refusal(f"a slice of {describe(text.type)}; it must be text or an array")
    return functions.slice_text(text, start, stop)
