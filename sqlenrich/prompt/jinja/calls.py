"""Calls: of macros, of methods, and of Python's functions."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, STRING, TIMESTAMP, Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, fails_or_none
from sqlenrich.prompt.ir.nodes import Const, Expr, Op, Switch
from sqlenrich.prompt.jinja.compiler import Compiler, describe_value, expression
from sqlenrich.prompt.jinja.macros import called_macro, expand_macro
from sqlenrich.prompt.jinja.objects import changed_in_place
from sqlenrich.prompt.jinja.printed_text import join
from sqlenrich.prompt.jinja.scope import Scope
from sqlenrich.prompt.values import arrays, builtins, dates, numbers, per_character, printing
from sqlenrich.prompt.values.value import (
    CompileError,
    Dynamic,
    Generator,
    ListValue,
    ObjectRef,
    Static,
    Value,
    ZipValue,
    describe,
    lift,
)

MAX_RANGE = 100_000
"""The longest ``range``. A longer one fails for the row, since it would fill an engine's memory."""


@expression(nodes.Call)
def called(compiler: Compiler, node: nodes.Call, scope: Scope) -> Value:
    """``function(arguments)``: a macro, a method of a text or an array, a function of constants."""
    if (macro := called_macro(node.node, scope)) is not None:
        return expand_macro(compiler, macro, node, scope)
    if isinstance(node.node, nodes.Getattr) and node.node.attr in builtins.MUTATING_METHODS:
        owner = compiler.stored(node.node.node, scope)
        if isinstance(owner, ObjectRef):
            return changed_in_place(compiler, owner, node.node.attr, node, scope)
    args, keywords = compiler.arguments(node, scope)
    constant = all(isinstance(v, Static) for v in [*args, *keywords.values()])
    if isinstance(node.node, nodes.Getattr):
        base, method = compiler.value(node.node.node, scope), node.node.attr
        mutable = isinstance(base, ListValue) or (
            isinstance(base, Static) and isinstance(base.value, list | dict | set)
        )
        if mutable and method in builtins.MUTATING_METHODS:
            raise CompileError(f'".{method}" changes a value in place; build it with {{% set %}}, join or if')
        if not isinstance(base, Static):
            if isinstance(base, Generator) or not isinstance(base, Dynamic):
                raise CompileError(f'the method "{method}" of {describe_value(base)} that holds row values')
            if isinstance(base.type, Array) and method == "index" and len(args) == 1 and not keywords:
                return arrays.array_index(compiler.variables, base, args[0])
            if base.type in (DATE, TIMESTAMP) and method in dates.METHODS:
                return compiler.apply(f'the method "{method}"', dates.METHODS[method], base, args, keywords)
            if base.type != STRING:
                raise CompileError(
                    f'the method "{method}" of {describe(base.type)}; only text, dates and arrays have them'
                )
            if method == "title" and not args and not keywords:
                return per_character.python_title(compiler.variables, printing.required_text(base))
            if method == "split" and not keywords and args in ([], [Static(None)]):
                return arrays.split_words(compiler.variables, base)
            if (function := builtins.METHODS.get(method)) is None:
                near = did_you_mean(method, builtins.METHODS)
                raise CompileError(
                    f'the method "{method}"{near} is not compiled; prepare the value in the source query'
                )
            return compiler.apply(f'the method "{method}"', function, base, args, keywords)
        if method == "format" and isinstance(base.value, str) and not constant:
            return join(numbers.braces(base.value, args, keywords, printing.to_str))
        if method == "index" and isinstance(base.value, list | tuple) and len(args) == 1 and not constant:
            return constant_index(list(base.value), lift(args[0]))
        if method == "join" and isinstance(base.value, str) and len(args) == 1:
            if isinstance(args[0], ListValue):
                return join_texts(base.value, args[0])
            given = args[0].array if isinstance(args[0], Generator) else args[0]
            if isinstance(given, Dynamic) and given.type == Array(STRING):
                return Op("array_join", (arrays.require_texts(compiler.variables, given), Const(base.value)), STRING)
    target = compiler.value(node.node, scope)
    if target == Static(zip) and not constant and not keywords:
        return ZipValue(tuple(args))
    if target == Static(range) and not constant and len(args) == 1 and not keywords:
        count = lift(args[0])
        if count.type == BIGINT:
            long = Op("gt", (count, Const(MAX_RANGE)), BOOLEAN)
            return fail_where(any_of(fails_or_none(count), long), Op("sequence", (count,), Array(BIGINT)))
    if not isinstance(target, Static) or not constant:
        raise CompileError("a call with row values; only methods of text are compiled")
    return compiler.fold(
        node,
        lambda: target.value(
            *(a.value for a in args if isinstance(a, Static)),
            **{k: v.value for k, v in keywords.items() if isinstance(v, Static)},
        ),
    )


def join_texts(separator: str, items: ListValue) -> Value:
    """Return ``str.join``, which takes texts only."""
    parts: list[Expr] = []
    for index, item in enumerate(map(lift, items.values)):
        if item.type != STRING or item == Const(None):
            raise CompileError(f'joining {describe(item.type)}; write [...]|join("{separator}"), which takes any value')
        parts += [Const(separator)] * bool(index) + [item]
    return join(parts)


def constant_index(values: list[Any], sought: Expr) -> Expr:
    """Return the index of a row's value in a constant list. Fails where it is not in the list."""
    arms: dict[str | int, Expr] = {}
    for at, value in enumerate(values):
        if type(value) is not (str if sought.type == STRING else int) or sought.type not in (STRING, BIGINT):
            raise CompileError(f"the index of {describe(sought.type)} in a list of other types")
        arms.setdefault(value, Const(at))
    if not arms:
        raise CompileError("the index in an empty list: this fails for every row")
    return Op("picked", (Switch(sought, tuple(sorted(arms.items(), key=str))),), BIGINT)
