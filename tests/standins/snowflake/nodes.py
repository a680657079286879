"""Typed expressions, and the register of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.standins.snowflake.values import SnowflakeError, SqlType, castable, coercible, convert, equal, order

Evaluate = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Node:
    """A typed expression and how a row gives its value; ``constant`` where it is a literal."""

    type: SqlType
    value: Evaluate
    constant: Any = None


@dataclass(frozen=True)
class Function:
    """A function of values: the types of its arguments, of which some may be left out, and of its result."""

    run: Callable[..., Any]
    arguments: tuple[SqlType, ...]
    required: int
    returns: SqlType
    nulls: bool


FUNCTIONS: dict[str, Function] = {}
"""By name: functions whose types don't depend on the arguments'."""

TYPED: dict[str, Callable[[str, list[Node]], Node]] = {}
"""By name: functions whose result has the type of their arguments."""

ANY = SqlType("ANY")
EXACT_VARIANT = SqlType("VARIANT!")
"""An argument that is not coerced to VARIANT: an explicit cast is asked for."""


def function(
    *arguments: SqlType, returns: SqlType, optional: int = 0, nulls: bool = False, names: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function under its own name and others."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        made = Function(run, arguments, len(arguments) - optional, returns, nulls)
        for name in (run.__name__.strip("_"), *names.split()):
            FUNCTIONS[name.upper()] = made
        return run

    return register


def typed(names: str) -> Callable[[Callable[[str, list[Node]], Node]], Callable[[str, list[Node]], Node]]:
    """Register a function that sees its arguments' types."""

    def register(build: Callable[[str, list[Node]], Node]) -> Callable[[str, list[Node]], Node]:
        TYPED.update(dict.fromkeys(names.split(), build))
        return build

    return register


def strict(made: SqlType, run: Callable[..., Any], *arguments: Node) -> Node:
    """A call whose result is NULL as soon as an argument is."""
    values = [argument.value for argument in arguments]

    def value(row: dict[str, Any]) -> Any:
        given = []
        for each in values:
            found = each(row)
            if found is None:
                return None
            given.append(found)
        return run(*given)

    return Node(made, value)


def coerced(node: Node, target: SqlType, what: str, *, cast: bool = False) -> Node:
    """A value where another type is asked for."""
    if not (castable if cast else coercible)(node.type, target):
        raise SnowflakeError(f"{what}: {node.type} is not {'cast' if cast else 'coerced'} to {target}")
    if node.type == target:
        return node
    source, given = node.type, node.value
    return Node(target, lambda row: convert(given(row), source, target), node.constant)


def call(name: str, arguments: list[Node]) -> Node:
    """A call of a function by its name."""
    if name in TYPED:
        try:
            return TYPED[name](name, arguments)
        except ValueError as error:
            raise SnowflakeError(f"{name}: {len(arguments)} arguments ({error})") from None
    known = FUNCTIONS.get(name)
    if known is None:
        raise SnowflakeError(f"Unknown function {name}")
    if not known.required <= len(arguments) <= len(known.arguments):
        raise SnowflakeError(f"{name}: {len(arguments)} arguments")
    given = []
    for argument, target in zip(arguments, known.arguments, strict=False):
        if target is EXACT_VARIANT and argument.type.name not in ("VARIANT", "NULL"):
            raise SnowflakeError(f"{name}: a VARIANT is needed, not {argument.type}")
        plain = argument.type if target in (ANY, EXACT_VARIANT) else target
        given.append(coerced(argument, plain, name))
    if known.nulls:
        return Node(known.returns, lambda row: known.run(*(argument.value(row) for argument in given)))
    return strict(known.returns, known.run, *given)


def same(a: Any, b: Any, made: SqlType) -> bool:
    """Whether two values of one type are equal; two NULLs are."""
    if a is None or b is None:
        return a is b
    return equal(a, b) if made.name in ("VARIANT", "ARRAY", "OBJECT") else bool(order(a) == order(b))
