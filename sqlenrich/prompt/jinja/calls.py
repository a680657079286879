"""Calls: macros, methods, Python's functions, and what changes a list or a mapping in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array
from sqlenrich.prompt.ir.failures import at_once, either, either_of, failure, missing, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr, Fail, Op, Pick
from sqlenrich.prompt.jinja.scope import Macro, Module, Scope, Unsure, join, parts_of
from sqlenrich.prompt.values import arrays, characters, dates, functions, numbers
from sqlenrich.prompt.values.state import Place, added, appended
from sqlenrich.prompt.values.texts import written
from sqlenrich.prompt.values.values import Dynamic, Items, Known, Lazy, Ref, Refusal, Stored, Value, Zip, describe, lift

if TYPE_CHECKING:
    from sqlenrich.prompt.jinja.expressions import Expressions

MAX_RANGE = 100_000
"""A row whose ``range`` is longer fails, before it fills an engine's memory."""


def changed_in_place(x: Expressions, ref: Ref, method: str, node: nodes.Call, scope: Scope) -> Value:
    """A method that changes a list or a mapping in place."""
    if x.conditional:
        raise Refusal(f'".{method}" where a condition decides; write {{% if %}} around it')
    if ref.cell in x.pending:
        raise Refusal(f'".{method}" beside what reads the same value; write it in a statement of its own')
    place: Place = (ref.cell, None)
    broken: Expr | None = None
    match method, node.args, node.kwargs:
        case "append", [item], [] if ref.kind == "list":
            value = x.kept(item, scope)
            broken = _broken(value)
            x.state.write(place, appended(x.state.entries[place], value))
        case "update", [] | [nodes.Dict()], _ if ref.kind == "mapping":
            literal = [pair for given in node.args if isinstance(given, nodes.Dict) for pair in given.items]
            pairs = [(x.value(pair.key, scope), x.part(pair.value, scope)) for pair in literal]
            pairs += [(Known(pair.key), x.part(pair.value, scope)) for pair in node.kwargs]
            for key, given in pairs:
                if not isinstance(key, Known):
                    raise Refusal("a mapping whose keys differ by row; use if and elif")
                parts = added(x.state.entries.get((ref.cell, key.value)), given)
                for new in (given, *(part.value for part in parts)):
                    broken = either(broken, _broken(new))
                x.state.write((ref.cell, key.value), given)
        case _:
            raise Refusal(f'".{method}" changes a value in place; only append and update are compiled')
    return Known(None) if broken is None else requiring(broken, Const(None))


def join_texts(separator: str, items: Items) -> Value:
    """Python's own join, which takes texts only."""
    parts: list[Expr] = []
    for index, item in enumerate(map(lift, items.values)):
        if item.type != STRING or item == Const(None):
            raise Refusal(f'joining {describe(item.type)}; write [...]|join("{separator}"), which takes any value')
        parts += [Const(separator)] * bool(index) + [item]
    return join(parts)


def macro_of(node: nodes.Expr, scope: Scope) -> Macro | None:
    """The macro that is called, if it is one."""
    found: Any = None
    if isinstance(node, nodes.Name):
        found = scope.names.get(node.name)
    elif isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
        module = scope.names.get(node.node.name)
        found = module.names.get(node.attr) if isinstance(module, Module) else None
    return found if isinstance(found, Macro) else None


def expanded(x: Expressions, macro: Macro, node: nodes.Call, scope: Scope) -> Value:
    """The text of a macro for its arguments."""
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise Refusal("arguments given with * or **; write them out")
    names = [arg.name for arg in macro.node.args]
    given: dict[str, Stored] = {}
    for place, arg in enumerate(node.args):
        if place >= len(names):
            raise Refusal(f'the macro "{macro.node.name}" takes {len(names)} arguments')
        given[names[place]] = x.part(arg, scope) if x.mutable else x.copied(arg, scope)
    for pair in node.kwargs:
        if pair.key not in names or pair.key in given:
            raise Refusal(f'the macro "{macro.node.name}" has no argument "{pair.key}" left')
        given[pair.key] = x.part(pair.value, scope) if x.mutable else x.copied(pair.value, scope)
    if x.depth > 20:
        raise Refusal(f'the macro "{macro.node.name}" calls itself, and nothing ends it')
    place_of = x.source, x.first_line
    x.source, x.first_line, x.depth = macro.source, macro.first_line, x.depth + 1
    pending, outside = set(x.pending), x.pending_outside
    x.pending_outside = frozenset(pending)
    try:
        inner = macro.scope.bind(macro.node.name, macro)
        for name in macro.set_later:
            why = f'the macro reads "{name}", which is set after it; pass it as an argument'
            inner = inner.bind(name, Unsure(why))
        first_default = len(names) - len(macro.node.defaults)
        for place, name in enumerate(names):
            if name not in given and place >= first_default:
                default = macro.node.defaults[place - first_default]
                given[name] = x.part(default, inner) if x.mutable else x.copied(default, inner)
            inner = inner.bind(name, given.get(name, Fail()))
        for read in macro.node.find_all(nodes.Name):
            if read.name in ("caller", "varargs", "kwargs"):
                x.refuse(read, f'"{read.name}" of a macro; name its arguments')
        text = x.render(macro.node.body, inner)
    finally:
        (x.source, x.first_line), x.depth = place_of, x.depth - 1
        x.pending, x.pending_outside = pending, outside
    fails = set(either_of(failure(text)))
    broken: Expr | None = None
    for value in given.values():  # computed though the macro may not read it
        for reason in (at_once(part) for part in parts_of(value) if isinstance(part, Dynamic)):
            if reason is not None and not fails.issuperset(either_of(reason)):
                broken = either(broken, reason)
    text = requiring(broken, text)
    return Known(text.value) if isinstance(text, Const) else written(text)


def called(x: Expressions, node: nodes.Call, scope: Scope) -> Value:
    """Give what a call is worth: a macro, a method of a text or an array, a function of constants."""
    if (macro := macro_of(node.node, scope)) is not None:
        return expanded(x, macro, node, scope)
    if isinstance(node.node, nodes.Getattr) and node.node.attr in functions.MUTATING:
        owner = x.stored(node.node.node, scope)
        if isinstance(owner, Ref):
            return changed_in_place(x, owner, node.node.attr, node, scope)
    args, keywords = x.arguments(node, scope)
    constant = all(isinstance(v, Known) for v in [*args, *keywords.values()])
    if isinstance(node.node, nodes.Getattr):
        base, method = x.value(node.node.node, scope), node.node.attr
        mutable = isinstance(base, Items) or (isinstance(base, Known) and isinstance(base.value, list | dict | set))
        if mutable and method in functions.MUTATING:
            raise Refusal(f'".{method}" changes a value in place; build it with {{% set %}}, join or if')
        if not isinstance(base, Known):
            if isinstance(base, Lazy) or not isinstance(base, Dynamic):
                raise Refusal(f'the method "{method}" of {x.kind(base)} that holds row values')
            if isinstance(base.type, Array) and method == "index" and len(args) == 1 and not keywords:
                return arrays.array_index(x.names, base, args[0])
            if base.type in (DATE, TIMESTAMP) and method in dates.METHODS:
                return x.apply(f'the method "{method}"', dates.METHODS[method], base, args, keywords)
            if base.type != STRING:
                raise Refusal(f'the method "{method}" of {describe(base.type)}; only text has methods here')
            if method == "title" and not args and not keywords:
                return characters.python_title(x.names, functions.whole(base))
            if method == "split" and not keywords and args in ([], [Known(None)]):
                return arrays.split_words(x.names, base)
            if (function := functions.METHODS.get(method)) is None:
                near = did_you_mean(method, functions.METHODS)
                raise Refusal(f'the method "{method}"{near} is not compiled; prepare the value in the source query')
            return x.apply(f'the method "{method}"', function, base, args, keywords)
        if method == "format" and isinstance(base.value, str) and not constant:
            return join(numbers.braces(base.value, args, keywords, functions.soft_text))
        if method == "index" and isinstance(base.value, list | tuple) and len(args) == 1 and not constant:
            return place_in(list(base.value), lift(args[0]))
        if method == "join" and isinstance(base.value, str) and len(args) == 1:
            if isinstance(args[0], Items):
                return join_texts(base.value, args[0])
            given = args[0].array if isinstance(args[0], Lazy) else args[0]
            if isinstance(given, Dynamic) and given.type == Array(STRING):
                return Op("array_join", (arrays.texts(x.names, given), Const(base.value)), STRING)
    target = x.value(node.node, scope)
    if target == Known(zip) and not constant and not keywords:
        return Zip(tuple(args))
    if target == Known(range) and not constant and len(args) == 1 and not keywords:
        count = lift(args[0])
        if count.type == BIGINT:
            long = Op("gt", (count, Const(MAX_RANGE)), BOOLEAN)
            return requiring(either(missing(count), long), Op("sequence", (count,), Array(BIGINT)))
    if not isinstance(target, Known) or not constant:
        raise Refusal("a call with row values; only methods of text are compiled")
    return x.known(
        node,
        lambda: target.value(
            *(a.value for a in args if isinstance(a, Known)),
            **{k: v.value for k, v in keywords.items() if isinstance(v, Known)},
        ),
    )


def place_in(values: list[Any], sought: Expr) -> Expr:
    """The place of a row's value in a constant list; fails where it is not there."""
    arms: dict[str | int, Expr] = {}
    for at, value in enumerate(values):
        if type(value) is not (str if sought.type == STRING else int) or sought.type not in (STRING, BIGINT):
            raise Refusal(f"the place of {describe(sought.type)} in a list of other types")
        arms.setdefault(value, Const(at))
    if not arms:
        raise Refusal("the place in an empty list: this fails for every row")
    return Op("picked", (Pick(sought, tuple(sorted(arms.items(), key=str))),), BIGINT)


def _broken(value: Stored) -> Expr | None:
    return at_once(value) if isinstance(value, Dynamic) else None
