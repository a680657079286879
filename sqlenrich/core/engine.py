"""The contract of an engine: the functions that build its SQL, and the facts that only it has.

An engine is one frozen :class:`Engine`, called ``ENGINE``, in the module ``engine`` of its folder. Its functions
build sqlglot nodes in the engine's own dialect, and :func:`sqlenrich.core.printer.print_sql` prints them. Nothing
translates SQL from one dialect to another.
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
class ModelCall:
    """What a model call needs, resolved for one engine. Nothing here is read from a row."""

    model: str
    params: Mapping[str, Any]
    """Model parameters under the vendor's names."""
    schema: Mapping[str, Any]
    """The output's JSON Schema, normalised."""
    response_format: Any
    """What the engine's ``response_format`` gave; None where the hint stands in."""
    hint: str | None
    """A text that follows each prompt and describes the output; None for no hint."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's ``call_options`` that are set."""
    carried: tuple[str, ...] = CARRIED


@dataclass(frozen=True)
class OutputSpec:
    """The output that a response format is made for, before the vendor's limits."""

    name: str
    schema: Mapping[str, Any]
    """The output's JSON Schema, normalised."""
    repairs: tuple[str, ...] = ()
    model: str = ""
    """The model's name, where a vendor's models take different formats."""


@dataclass(frozen=True)
class ResponseFormat:
    """A schema in the form that a vendor's call takes."""

    form: Any
    """The format, a JSON value; None where the vendor can't take the schema."""
    left_out: tuple[str, ...] = ()
    """The keywords of the schema that the format does not hold, with their places, or why there is no format."""


@dataclass(frozen=True)
class CallResult:
    """The answers of a call in SQL."""

    source: Sql
    """The relation of the answers: the carried columns, and what ``columns`` read."""
    columns: Mapping[str, Sql]
    """An expression for each column of ``responses`` that the call knows; the others become NULL."""


@dataclass(frozen=True)
class VendorFact:
    """A value that a vendor fixes."""

    value: Any
    source: str
    """The page that documents the value, or how it was found."""
    read_on: str
    """The day on which the source was read, ``YYYY-MM-DD``."""


@dataclass(frozen=True)
class Engine:
    """One place that runs SQL and has a model, or is given one."""

    name: str
    dialect: str
    """sqlglot's dialect, in which the SQL is printed."""
    text: TextFunctions
    """The functions of prompts."""
    json: JsonFunctions
    """The functions of the answer checks."""
    sha256: Unary
    """A text's SHA-256 over its UTF-8 bytes as 64 lower-case hexadecimal digits; NULL for NULL."""
    sql_type: Callable[[Type], exp.DataType]
    """The engine's type of a portable type."""
    typed_column: Callable[[Sql, Type], Sql]
    """``(value, type)``: a parsed JSON value that passed its checks as a typed column; NULL for a missing value and for
    a JSON null."""
    create_table_as: Callable[[exp.Table, Sql], list[Sql]]
    """``(table, select)``: the statements that make a table afresh from a SELECT."""
    facts: Mapping[str, VendorFact]
    """``call`` (the function that calls a model) and ``default_model`` are required; ``max_tokens`` is the default
    limit of an answer. Others are the engine's own."""
    params: Mapping[str, str | None]
    """The portable model parameters (temperature, max_tokens, top_p, seed, stop) under the vendor's names; None for one
    that the vendor does not take."""
    response_format: Callable[[OutputSpec], ResponseFormat]
    """The output's schema in the form that ``call`` takes."""
    call: Callable[[Sql, ModelCall], CallResult] | None = None
    """``(pending, call)``: the answers to the rows of a relation with the columns ``prompt`` and
    :attr:`ModelCall.carried`. It asks once a row, and a row that fails does not fail the query. None where a Python
    client asks the model."""
    must_exist: Callable[[ModelCall], list[str]] = lambda _: []
    """Lines for the head of a script: what its user must have before it runs, and the statement that makes it."""
    name_problem: Callable[[str], str | None] = lambda _: None
    """Why the engine can't hold a table or column of this name, or None."""
    params_by_model: tuple[tuple[str, Mapping[str, str | None]], ...] = ()
    """Exceptions to ``params``: a regular expression for names of models, and their entries."""
    shares_settings_of: str = ""
    """The section of ``sqlenrich.toml`` that sets the engine's models, where it is not the engine's name."""
    call_options: tuple[str, ...] = ()
    """Settings under the engine's name in ``params`` that change the call and are neither a model parameter nor part of
    the request's hash."""
    quotes_always: bool = True
    """Whether each name is quoted. Otherwise plain names that are not ``reserved`` are not, since users expect them
    folded."""
    reserved: frozenset[str] = frozenset()
    """Reserved words in upper case, where ``quotes_always`` is false."""

    @property
    def settings_key(self) -> str:
        """The key of the engine in ``sqlenrich.toml`` and under ``params``."""
        return self.shares_settings_of or self.name

    def params_of(self, model: str) -> dict[str, str | None]:
        """Give the portable parameters under the names that this model takes; None for one that it refuses."""
        names = dict(self.params)
        for pattern, changed in self.params_by_model:
            if re.search(pattern, model):
                names |= changed
        return names
