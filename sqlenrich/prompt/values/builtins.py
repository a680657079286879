"""Tables of built-ins by name: Jinja's filters, tests and global functions, Python's methods of text."""

from __future__ import annotations

from collections.abc import Callable

from sqlenrich.core.types import Scalar
from sqlenrich.prompt.ir.failures import (
    is_none,
)
from sqlenrich.prompt.ir.nodes import (
    FALSE,
    TRUE,
    Const,
    Expr,
    none_possible,
)
from sqlenrich.prompt.values import numbers
from sqlenrich.prompt.values.comparisons import after_evaluating, equal
from sqlenrich.prompt.values.printing import to_str
from sqlenrich.prompt.values.text_functions import (
    _startswith,
    find,
    length,
    replace,
    replace_text,
    split,
    text_index,
    text_operation,
    trimming,
    truncate,
)
from sqlenrich.prompt.values.undefined import default, undefined
from sqlenrich.prompt.values.value import Static, Value, choose, lift, negate


def _soft(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda value, *args: function(to_str(value), *args)


FILTERS: dict[str, Callable[..., Expr]] = {
    "abs": numbers.absolute,
    "capitalize": _soft(text_operation("capitalize")),
    "default": default,
    "d": default,
    "float": numbers.floating,
    "int": numbers.integer,
    "length": length,
    "count": length,
    "lower": _soft(text_operation("lower")),
    "replace": _soft(replace),
    "round": numbers.rounded,
    "string": to_str,
    "trim": _soft(trimming("trim")),
    "truncate": truncate,
    "upper": _soft(text_operation("upper")),
}
"""Filters by name. Each takes the value and the filter's arguments. In text filters None is "None", as in Jinja."""


METHODS: dict[str, Callable[..., Expr]] = {
    "capitalize": text_operation("capitalize"),
    "endswith": _startswith("endswith"),
    "find": find,
    "index": text_index,
    "lower": text_operation("lower"),
    "lstrip": trimming("ltrim"),
    "replace": replace_text,
    "rstrip": trimming("rtrim"),
    "split": split,
    "startswith": _startswith("startswith"),
    "strip": trimming("trim"),
    "upper": text_operation("upper"),
}
"""Methods of text by name. A method of None fails for the row."""


GLOBALS = ("range", "dict", "zip")
"""Jinja's global functions that are pure: not lipsum, cycler, joiner, namespace."""


MUTATING_METHODS = frozenset(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update".split()
)
"""Methods that change a list or a mapping in place. Calling one on a constant would change it for all rows."""


def divisible(value: Expr, by: Value) -> Expr:
    """Return the test ``value is divisibleby(by)``."""
    return equal(numbers.whole_division("%")(value, lift(by)), Static(0))


def of_type(*names: str) -> Callable[[Expr], Expr]:
    """Return the test whether a value has one of some types. None has none of them."""

    def test(value: Expr) -> Expr:
        kind = value.type.name if isinstance(value.type, Scalar) else type(value.type).__name__.lower()
        if kind not in names:
            return after_evaluating(value, FALSE)
        return choose(undefined(value), FALSE, negate(is_none(value)) if none_possible(value) else TRUE)

    return test


TESTS: dict[str, Callable[..., Expr]] = {
    "boolean": of_type("boolean"),
    "float": of_type("double"),
    "integer": of_type("bigint"),
    "mapping": of_type("struct"),
    "number": of_type("bigint", "double", "decimal", "boolean"),
    "string": of_type("string"),
    "divisibleby": divisible,
    "even": lambda value: divisible(value, Static(2)),
    "odd": lambda value: equal(numbers.whole_division("%")(value, Const(2)), Static(1)),
    "defined": lambda value: negate(undefined(value)),
    "undefined": undefined,
    "none": lambda value: choose(undefined(value), FALSE, equal(value, Static(None))),
}
"""Tests by name. :data:`TEST_COMPARISONS` has those that compare two values."""


TEST_COMPARISONS = {
    "eq": "eq", "equalto": "eq", "==": "eq", "ne": "ne", "!=": "ne", "lt": "lt", "lessthan": "lt", "<": "lt",
    "le": "lteq", "<=": "lteq", "gt": "gt", "greaterthan": "gt", ">": "gt", "ge": "gteq", ">=": "gteq", "in": "in",
}  # fmt: skip


INSTEAD = {
    "random": "a prompt must be the same on each run",
    "tojson": "build the JSON in the source query",
    "pprint": "print the fields one by one",
}
"""What to write instead of a filter that is not compiled."""
