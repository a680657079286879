"""The symbol table: the names of a template and their meanings."""

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
    """The symbols at one point of the template. ``set`` in a loop makes no symbol outside it."""

    symbols: Mapping[str, Symbol]
    without_columns: bool = False
    """Whether names are never columns, as in an imported template."""

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
    """Names that the template sets after the macro. A call would read their value at the call."""


@dataclass(frozen=True, eq=False)
class Module:
    """An imported template."""

    symbols: Mapping[str, Any]


@dataclass(frozen=True)
class ErrorSymbol:
    """A name that was set by a statement with an error."""


@dataclass(frozen=True)
class UnreadableSymbol:
    """A name that can't be read, and the reason."""

    why: str


Symbol: TypeAlias = Storable | Macro | Module | ErrorSymbol | UnreadableSymbol
"""The meaning of a name."""


class AlreadyReported(Exception):  # noqa: N818 (its cause is in the list of errors)
    """A name is read that was set by a statement with an error."""
