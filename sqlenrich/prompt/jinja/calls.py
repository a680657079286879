"""Calls: of macros, of methods, and of Python's functions."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array
from sqlenrich.prompt.ir.failures import either, missing, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr, Op, Pick
from sqlenrich.prompt.jinja.compiler import Compiler, describe_value, expression
from sqlenrich.prompt.jinja.macros import expanded, macro_of
from sqlenrich.prompt.jinja.objects import changed_in_place
from sqlenrich.prompt.jinja.printed_text import join
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays, characters, dates, functions, numbers
from sqlenrich.prompt.values.values import Dynamic, Items, Known, Lazy, Ref, Refusal, Value, Zip, describe, lift

MAX_RANGE = 100_000
"""A row whose ``range`` is longer fails, before it fills an engine's memory."""


@expression(nodes.Call)
def called(compiler: Compiler, node: nodes.Call, scope: Scope) -> Value:
    """``function(arguments)``: a macro, a method of a text or an array, a function of constants."""
    if (macro := macro_of(node.node, scope)) is not None:
        return expanded(compiler, macro, node, scope)
    if isinstance(node.node, nodes.Getattr) and node.node.attr in functions.MUTATING:
        owner = compiler.stored(node.node.node, scope)
        if isinstance(owner, Ref):
            return changed_in_place(compiler, owner, node.node.attr, node, scope)
    args, keywords = compiler.arguments(node, scope)
    constant = all(isinstance(v, Known) for v in [*args, *keywords.values()])
    if isinstance(node.node, nodes.Getattr):
        base, method = compiler.value(node.node.node, scope), node.node.attr
        mutable = isinstance(base, Items) or (isinstance(base, Known) and isinstance(base.value, list | dict | set))
        if mutable and method in functions.MUTATING:
            raise Refusal(f'".{method}" changes a value in place; build it with {{% set %}}, join or if')
        if not isinstance(base, Known):
            if isinstance(base, Lazy) or not isinstance(base, Dynamic):
                raise Refusal(f'the method "{method}" of {describe_value(base)} that holds row values')
            if isinstance(base.type, Array) and method == "index" and len(args) == 1 and not keywords:
                return arrays.array_index(compiler.names, base, args[0])
            if base.type in (DATE, TIMESTAMP) and method in dates.METHODS:
                return compiler.apply(f'the method "{method}"', dates.METHODS[method], base, args, keywords)
            if base.type != STRING:
                raise Refusal(f'the method "{method}" of {describe(base.type)}; only text has methods here')
            if method == "title" and not args and not keywords:
                return characters.python_title(compiler.names, functions.whole(base))
            if method == "split" and not keywords and args in ([], [Known(None)]):
                return arrays.split_words(compiler.names, base)
            if (function := functions.METHODS.get(method)) is None:
                near = did_you_mean(method, functions.METHODS)
                raise Refusal(f'the method "{method}"{near} is not compiled; prepare the value in the source query')
            return compiler.apply(f'the method "{method}"', function, base, args, keywords)
        if method == "format" and isinstance(base.value, str) and not constant:
            return join(numbers.braces(base.value, args, keywords, functions.soft_text))
        if method == "index" and isinstance(base.value, list | tuple) and len(args) == 1 and not constant:
            return place_in(list(base.value), lift(args[0]))
        if method == "join" and isinstance(base.value, str) and len(args) == 1:
            if isinstance(args[0], Items):
                return join_texts(base.value, args[0])
            given = args[0].array if isinstance(args[0], Lazy) else args[0]
            if isinstance(given, Dynamic) and given.type == Array(STRING):
                return Op("array_join", (arrays.texts(compiler.names, given), Const(base.value)), STRING)
    target = compiler.value(node.node, scope)
    if target == Known(zip) and not constant and not keywords:
        return Zip(tuple(args))
    if target == Known(range) and not constant and len(args) == 1 and not keywords:
        count = lift(args[0])
        if count.type == BIGINT:
            long = Op("gt", (count, Const(MAX_RANGE)), BOOLEAN)
            return requiring(either(missing(count), long), Op("sequence", (count,), Array(BIGINT)))
    if not isinstance(target, Known) or not constant:
        raise Refusal("a call with row values; only methods of text are compiled")
    return compiler.known(
        node,
        lambda: target.value(
            *(a.value for a in args if isinstance(a, Known)),
            **{k: v.value for k, v in keywords.items() if isinstance(v, Known)},
        ),
    )


def join_texts(separator: str, items: Items) -> Value:
    """Python's own join, which takes texts only."""
    parts: list[Expr] = []
    for index, item in enumerate(map(lift, items.values)):
        if item.type != STRING or item == Const(None):
            raise Refusal(f'joining {describe(item.type)}; write [...]|join("{separator}"), which takes any value')
        parts += [Const(separator)] * bool(index) + [item]
    return join(parts)


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
