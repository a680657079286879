"""The contract of an engine: tables of functions that build its SQL, and the facts that only it has.

An engine is one frozen :class:`Engine` at the bottom of its file. Everything here builds sqlglot nodes; the only
place that prints them is :func:`print_sql`, always in the dialect they were built for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql
from sqlenrich.core.text_functions import TextFunctions, Unary
from sqlenrich.core.types import Type

CARRIED = ("request_hash", "attempt")
"""The columns of the pending relation that go with each answer into ``responses``."""


@dataclass(frozen=True)
class Call:
    """What a model call needs, resolved for one engine: nothing here is read from a row.

    ``params`` already carry the vendor's names; ``schema`` is the output's JSON Schema; ``response_format`` is the
    part of it that the vendor takes (None where the hint stands in). ``options`` are engine options of the caller.
    """

    model: str
    params: Mapping[str, Any]
    schema: Mapping[str, Any]
    response_format: Any
    hint: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    carried: tuple[str, ...] = CARRIED


@dataclass(frozen=True)
class Output:
    """What the vendor is told of the answer's form, before its own limits: the plain schema and what bears on it."""

    name: str
    schema: Mapping[str, Any]
    repairs: tuple[str, ...] = ()
    model: str = ""


@dataclass(frozen=True)
class Told:
    """The output's form as the vendor takes it, None where it takes none, and what was left out or why."""

    form: Any
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answered:
    """How a call step reads the model's answer: a relation and one expression per ``responses`` column it knows."""

    source: Sql
    columns: Mapping[str, Sql]


@dataclass(frozen=True)
class Fact:
    """A value that a vendor fixes, where it is documented, and when that was read."""

    value: Any
    source: str
    read: str


@dataclass(frozen=True)
class Engine:
    """One place that runs SQL and has (or is given) a model."""

    name: str
    dialect: str
    text: TextFunctions
    """The functions of prompts."""
    json: JsonFunctions
    """The functions of the answer checks."""
    sha256: Unary
    """Text to its SHA-256 in 64 lower-case hexadecimal digits."""
    sql_type: Callable[[Type], exp.DataType]
    column: Callable[[Sql, Type], Sql]
    """A parsed JSON value and a type to the typed column; NULL for a missing value or a JSON null."""
    create_table_as: Callable[[exp.Table, Sql], list[Sql]]
    facts: Mapping[str, Fact]
    params: Mapping[str, str | None]
    """The portable parameters under the vendor's names; None for one that it does not take."""
    response_format: Callable[[Output], Told]
    """The output to the part of its form that the vendor takes."""
    call: Callable[[Sql, Call], Answered] | None = None
    """The pending relation and the call to the answers; None where a Python client asks the model."""
    must_exist: Callable[[Call], list[str]] = lambda _: []
    """What a script's user must have before it runs: comment lines, with the statement that makes it."""
    name_problem: Callable[[str], str | None] = lambda _: None
    """Why the engine can't hold a table or column of this name, or None."""
    newer_params: tuple[tuple[str, Mapping[str, str | None]], ...] = ()
    """Parameters that models of some names take differently: a pattern of the name and the changed entries."""
    settings: str = ""
    """The name under which models and parameters are set, where it is not the engine's own."""
    options: tuple[str, ...] = ()
    """Settings under the engine's name in ``params`` that are no model parameters and no part of a request."""
    quotes_always: bool = True
    reserved: frozenset[str] = frozenset()

    @property
    def settings_key(self) -> str:
        """The key of the engine in ``sqlenrich.toml`` and under ``params``."""
        return self.settings or self.name

    def params_of(self, model: str) -> dict[str, str | None]:
        """Give the portable parameters under the names that this model takes; None for one that it refuses."""
        names = dict(self.params)
        for pattern, changed in self.newer_params:
            if re.search(pattern, model):
                names |= changed
        return names
