"""The scope of a template: its names and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jinja2 import nodes

from sqlenrich.prompt.values.value import Storable

FILTERED_BLOCK = "filtered block"
"""Bound to the text of a block whose filters are compiled. No template can write this name: it has a space."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Names and what they are worth at one point of the template. ``set`` in a loop does not reach outside it."""

    symbols: Mapping[str, Symbol]
    without_columns: bool = False
    """Whether columns are out of reach, as in an imported template."""

    def bind(self, name: str, value: Symbol) -> Scope:
        return Scope({**self.symbols, name: value}, self.without_columns)


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

    symbols: Mapping[str, Any]


@dataclass(frozen=True)
class ErrorSymbol:
    """What a statement set that could not be compiled."""


@dataclass(frozen=True)
class UnreadableSymbol:
    """A name that can't be read, and why."""

    why: str


Symbol: TypeAlias = Storable | Macro | Module | ErrorSymbol | UnreadableSymbol
"""What a name of the template can mean."""


class AlreadyReported(Exception):  # noqa: N818 (its cause is in the list of problems already)
    """A value that could not be compiled is used."""
