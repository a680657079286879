"""Filters and tests: folded for constants, else compiled by :mod:`sqlenrich.prompt.values.builtins`."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import nodes

from sqlenrich.core.errors import did_you_mean
from sqlenrich.core.types import BIGINT, STRING, Array
from sqlenrich.prompt.ir.failures import any_of, fail_where, immediate_failure, is_none
from sqlenrich.prompt.ir.nodes import Const, Expr, none_possible
from sqlenrich.prompt.jinja.compiler import Compiler, expression, statement
from sqlenrich.prompt.jinja.printed_text import join
from sqlenrich.prompt.jinja.scope import FILTERED_BLOCK, Scope
from sqlenrich.prompt.values import arrays, builtins, numbers, per_character, printing, slices, undefined
from sqlenrich.prompt.values.comparison_operators import comparison
from sqlenrich.prompt.values.list_literals import fail_beside
from sqlenrich.prompt.values.value import CompileError, Dynamic, Generator, ListValue, Static, Value, lift

LAZY = ("map", "select", "reject", "selectattr", "rejectattr", "unique", "reverse")
"""Filters that give a generator, which has no length and can be read once."""


@expression(nodes.Filter)
def filtered(compiler: Compiler, node: nodes.Filter, scope: Scope) -> Value:
    """``value | filter``. The first filter of a block has no node to filter: its value is the block's text."""
    block = nodes.Name(FILTERED_BLOCK, "load", lineno=node.lineno)
    value = compiler.value(node.node or block, scope)
    args, keywords = compiler.arguments(node, scope)
    if isinstance(value, Static) and all(isinstance(v, Static) for v in [*args, *keywords.values()]):
        return compiler.fold(
            node,
            lambda: compiler.env.call_filter(
                node.name,
                value.value,
                [a.value for a in args if isinstance(a, Static)],
                {k: v.value for k, v in keywords.items() if isinstance(v, Static)},
                context=compiler.context,
            ),
        )
    if isinstance(value, Generator) and node.name not in ("join", "list", "first", *LAZY):
        raise CompileError(f'"{node.name}" of a map or a select; write |list before it')
    array = value.array if isinstance(value, Generator) else value
    if isinstance(value, ListValue) and node.name in (*LAZY, "sort", "sum"):
        array = arrays.as_array(value)
    if isinstance(array, Dynamic) and isinstance(array.type, Array):
        given = array_filter(compiler, node.name, array, args, keywords)
        broken: Expr | None = None
        for arg in args:  # evaluated even for an empty array
            if isinstance(arg, Dynamic):
                broken = any_of(broken, immediate_failure(arg))
        if broken is not None:
            given = fail_where(broken, lift(given))
        return Generator(lift(given)) if node.name in LAZY else given
    if node.name in ("min", "max") and isinstance(value, ListValue):
        return extreme(node.name, value)
    if node.name == "list" and isinstance(value, ListValue):
        return value
    if node.name == "join" and isinstance(value, ListValue):
        return join_items(value, args)
    if node.name in ("first", "last") and isinstance(value, ListValue):
        return fail_beside(value.values[0 if node.name == "first" else -1], value.values)
    if node.name in ("length", "count") and isinstance(value, ListValue):
        size = len(value.values)
        counted = fail_beside(Const(size), value.values)
        return Static(size) if counted == Const(size) else counted
    if node.name == "format" and isinstance(value, Static) and isinstance(value.value, str) and not keywords:
        return join(numbers.percent(value.value, args, printing.to_str))
    if node.name == "title" and not args and not keywords:
        return per_character.title(compiler.variables, printing.to_str(lift(value)))
    if node.name in ("first", "last") and not args and not keywords and lift(value).type == STRING:
        return slices.character(lift(value), Const(0 if node.name == "first" else -1))
    function = builtins.FILTERS.get(node.name)
    if function is None:
        known = "" if node.name in compiler.env.filters else did_you_mean(node.name, compiler.env.filters)
        instead = builtins.INSTEAD.get(node.name, "prepare the value in the source query")
        raise CompileError(f'the filter "{node.name}"{known} is not compiled for row values; {instead}')
    return compiler.apply(f'the filter "{node.name}"', function, lift(value), args, keywords)


def extreme(name: str, value: ListValue) -> Expr:
    """Return the least or the greatest of a list literal of integers."""
    numbers = tuple(map(lift, value.values))
    if any(number.type != BIGINT for number in numbers):
        raise CompileError(f"the {name} of values that are not integers")
    return arrays.extremum("least" if name == "min" else "greatest", list(numbers))


def array_filter(compiler: Compiler, name: str, array: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Return the value of a filter for an array of the row."""
    names = compiler.variables
    if name in LAZY and name not in ("unique", "reverse"):
        array = arrays.or_empty(array)
    constants = [arg.value for arg in args if isinstance(arg, Static)]
    attribute = keywords.get("attribute")
    given = attribute.value if isinstance(attribute, Static) else None
    match name, len(args):
        case "join", (0 | 1 | 2) if set(keywords) <= {"attribute"}:
            separator = printing.to_str(lift(args[0])) if args else Const("")
            return arrays.joined(names, array, separator, constants[1] if len(constants) > 1 else given)
        case (("length" | "count"), 0) if not keywords:
            return arrays.size(array)
        case (("first" | "last"), 0) if not keywords:
            return arrays.element(array, Static(0 if name == "first" else -1), strict=True)
        case "list", 0 if not keywords:
            if not arrays.is_python_list(array):
                return arrays.mapped(names, array, lambda item: item)
            return fail_where(is_none(array), array) if none_possible(array) else array
        case (("sort" | "unique" | "min" | "max") as name, _):
            return by_key(compiler, name, array, args, keywords)
        case "reverse", 0 if not keywords:
            return arrays.reversed_(names, array)
        case "sum", 0 if set(keywords) <= {"attribute"}:
            numbers_ = (
                array if given is None else arrays.mapped(names, array, lambda item: arrays.member(item, str(given)))
            )
            return arrays.sum_of(numbers_)
        case "map", 0 if isinstance(given, str) and set(keywords) == {"attribute"}:
            return arrays.mapped(names, array, lambda item: arrays.member(item, given))
        case "map", count if count and isinstance(args[0], Static) and not keywords:
            function = builtins.FILTERS.get(str(args[0].value))
            if function is None:
                raise CompileError(f'map with the filter "{args[0].value}", which is not compiled for row values')
            what = f'the filter "{args[0].value}"'
            return arrays.mapped(names, array, lambda item: compiler.apply(what, function, item, args[1:], {}))
        case (("select" | "reject"), _) if not keywords and len(constants[:1]) == min(len(args), 1):
            test = element_test(compiler, args)
            return arrays.select(names, array, test, None, name == "select")
        case (("selectattr" | "rejectattr"), count) if count and not keywords and isinstance(args[0], Static):
            test = element_test(compiler, args[1:])
            return arrays.select(names, array, test, str(args[0].value), name == "selectattr")
    if name in ("default", "d"):
        return undefined.default(array, *(arrays.as_array_like(arg, array.type) for arg in args), **keywords)
    if name == "string":
        raise CompileError(printing.unprintable(array))
    raise CompileError(f'the filter "{name}" on an array is not compiled; prepare it in the source query')


def by_key(compiler: Compiler, name: str, array: Expr, args: list[Value], keywords: dict[str, Value]) -> Value:
    """Return sort, unique, min or max, with arguments by position or by name."""
    order = {"sort": ("reverse", "case_sensitive", "attribute")}.get(name, ("case_sensitive", "attribute"))
    given = {**dict(zip(order, args, strict=False)), **keywords}
    if len(args) > len(order) or not set(given) <= set(order) or not all(isinstance(v, Static) for v in given.values()):
        raise CompileError(f'the filter "{name}" with other arguments than {", ".join(order)}, as constants')
    known = {key: value.value for key, value in given.items() if isinstance(value, Static)}
    attribute, case_sensitive = known.get("attribute"), bool(known.get("case_sensitive"))
    if not isinstance(attribute, str | None) or "." in (attribute or "") or "," in (attribute or ""):
        raise CompileError(f'the filter "{name}" by {attribute!r}; name one field')
    if name == "unique":
        return arrays.unique(compiler.variables, array, attribute, case_sensitive)
    descending = name == "max" or bool(known.get("reverse"))
    made = arrays.sort(compiler.variables, array, attribute, case_sensitive, descending)
    return made if name == "sort" else arrays.element(made, Static(0), strict=True)


def element_test(compiler: Compiler, args: list[Value]) -> Callable[[Expr], Expr] | None:
    """Return the test of select, reject, selectattr or rejectattr. None: the truth of the element."""
    if not args:
        return None
    if any(isinstance(arg, Generator) for arg in args):
        raise CompileError("a map or a select as a test's argument; write |list after it")
    name = str(args[0].value) if isinstance(args[0], Static) else ""
    if (operator := builtins.TEST_COMPARISONS.get(name)) and len(args) == 2:
        return lambda item: comparison(compiler.variables, operator, item, args[1])
    if (function := builtins.TESTS.get(name)) and len(args) == 1:
        return function
    raise CompileError(f'the test "{name}" is not compiled for elements of an array')


def join_items(value: ListValue, args: list[Value]) -> Value:
    """Return Jinja's ``join`` of a list literal."""
    if len(args) > 1:
        raise CompileError("join by an attribute of row values")
    separator = printing.to_str(lift(args[0])) if args else Const("")
    parts: list[Expr] = []
    for index, item in enumerate(value.values):
        text = printing.to_str(lift(item))
        parts += [separator, text] if index else [text]
    return join(parts)


@expression(nodes.Test)
def tested(compiler: Compiler, node: nodes.Test, scope: Scope) -> Value:
    """``value is test``."""
    value = compiler.value(node.node, scope)
    args, keywords = compiler.arguments(node, scope)
    if isinstance(value, Static) and all(isinstance(v, Static) for v in [*args, *keywords.values()]):
        arguments = [a.value for a in args if isinstance(a, Static)]
        return compiler.fold(node, lambda: compiler.env.call_test(node.name, value.value, arguments))
    if (name := builtins.TEST_COMPARISONS.get(node.name)) and len(args) == 1:
        test = comparison(compiler.variables, name, value, args[0])
    elif function := builtins.TESTS.get(node.name):
        subject = lift(value)
        test = fail_where(
            immediate_failure(subject), compiler.apply(f'the test "{node.name}"', function, subject, args, keywords)
        )
    else:
        raise CompileError(f'the test "{node.name}" is not compiled for row values; compare the value instead')
    return Static(test.value) if isinstance(test, Const) else test


@statement(nodes.FilterBlock)
def filter_block(compiler: Compiler, node: nodes.FilterBlock, scope: Scope) -> tuple[list[Expr], Scope]:
    """``{% filter name %}text{% endfilter %}``."""
    return [compiler.printed(node, compiler.block(node.body, node.filter, scope))], scope
