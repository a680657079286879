"""Names and what they are worth; lists of values; the text of printed parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jinja2 import nodes

from sqlenrich.prompt.ir.failures import at_once, either_of, failure, requiring
from sqlenrich.prompt.ir.nodes import Const, Expr, Fail, If, Join, none_possible
from sqlenrich.prompt.values.values import ONCE, Dynamic, Items, Known, Refusal, Stored, Table, Value, only_once


@dataclass(frozen=True, slots=True)
class Scope:
    """Names and what they are worth at one point of the template. ``set`` in a loop does not reach outside it."""

    names: Mapping[str, Bound]
    bare: bool = False
    """Whether columns are out of reach, as in an imported template."""

    def bind(self, name: str, value: Bound) -> Scope:
        return Scope({**self.names, name: value}, self.bare)


@dataclass(frozen=True, eq=False)
class Macro:
    """A macro and the scope it was defined in."""

    node: nodes.Macro
    scope: Scope
    source: str
    first_line: int
    set_later: frozenset[str]
    """Names that the template sets after the macro: it would read them as they are when it is called."""


@dataclass(frozen=True, eq=False)
class Module:
    """An imported template."""

    names: Mapping[str, Any]


@dataclass(frozen=True)
class Broken:
    """What a statement set that could not be compiled."""


@dataclass(frozen=True)
class Unsure:
    """A name that can't be read, and why."""

    why: str


Bound: TypeAlias = Stored | Macro | Module | Broken | Unsure
"""What a name of the template can mean."""


class Reported(Exception):  # noqa: N818 (its cause is in the list of problems already)
    """A value that could not be compiled is used."""


def parts_of(value: Stored) -> Iterator[Stored]:
    """Give the values inside lists and mappings, or the value itself."""
    match value:
        case Items(values):
            for inner in values:
                yield from parts_of(inner)
        case Table(entries):
            for _, inner in entries:
                yield from parts_of(inner)
        case _:
            yield value


def join(parts: Iterable[Expr]) -> Expr:
    """Give the text of printed parts, neighbouring constants merged."""
    merged: list[Expr] = []
    absent = False
    for part in parts:
        flat = part.parts if isinstance(part, Join) else (part,)
        absent = absent or (isinstance(part, Join) and any(map(none_possible, flat)))
        for piece in flat:
            if isinstance(piece, Const) and merged and isinstance(merged[-1], Const):
                merged[-1] = Const(f"{merged[-1].value}{piece.value}")
            elif piece != Const(""):
                merged.append(piece)
    if not merged:
        return Const("")
    if len(merged) == 1 and absent:  # text + "" fails for None, though nothing is added
        return Join((merged[0], Const("")))
    return merged[0] if len(merged) == 1 else Join(tuple(merged))


def elements(value: Value) -> list[Value]:
    """Give the values of a list literal."""
    if not isinstance(value, Known | Items):
        raise Refusal("a list is needed")
    return list(value.values) if isinstance(value, Items) else [Known(item) for item in value.value]


def list_of(values: list[Value], as_tuple: bool) -> Value:
    """Give values as a list or a tuple, known where all of them are."""
    if any(map(only_once, values)):
        raise Refusal(f"keeping {ONCE}")
    if all(isinstance(value, Known) for value in values):
        known = [value.value for value in values if isinstance(value, Known)]
        return Known(tuple(known) if as_tuple else known)
    return Items(tuple(values), as_tuple)


def guards(value: Stored) -> list[Expr]:
    """Give empty texts that fail where a value that is set fails: Jinja computes it even where nothing reads it."""
    broken = [at_once(v) for v in parts_of(value) if isinstance(v, Dynamic)]
    return [requiring(condition, Const("")) for condition in broken if condition is not None]


def without_needless(parts: list[Expr]) -> list[Expr]:
    """Leave out the guards that fail only where a part that is printed anyway fails."""
    kept = [part for part in parts if not is_guard(part)]
    if len(kept) == len(parts):
        return parts
    reasons = {reason for part in kept for reason in either_of(failure(part))}
    return [part for part in parts if not is_guard(part) or not reasons.issuperset(either_of(failure(part)))]


def prints_nothing(text: Expr) -> bool:
    """Tell whether a text is empty for every row for which it does not fail."""
    match text:
        case If(_, then, orelse):
            return prints_nothing(then) and prints_nothing(orelse)
        case Join(parts):
            return all(prints_nothing(part) for part in parts)
    return text == Const("") or isinstance(text, Fail)


def is_guard(part: Expr) -> bool:
    """Tell whether a part prints nothing, but may fail."""
    return isinstance(part, If) and part.then == Fail(True) and part.orelse == Const("")
