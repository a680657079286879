"""The contract of an engine: the functions that build its SQL, and the facts that only it has.

An engine is one frozen :class:`Engine`, called ``ENGINE``, in the module ``engine`` of its folder. Its functions
build sqlglot nodes in the engine's own dialect, and :func:`sqlenrich.core.printer.print_sql` prints them. Nothing
translates SQL from one dialect to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.errors import UnsupportedError
from sqlenrich.core.functions import FunctionSyntax
from sqlenrich.core.json_functions import JsonFunctions
from sqlenrich.core.sql import Sql
from sqlenrich.core.text_functions import TextFunctions, Unary
from sqlenrich.core.turn import Turn
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
    turns: tuple[Turn, ...] = ()
    """The messages before each prompt."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The engine's ``call_options`` that are set."""
    carried: tuple[str, ...] = CARRIED
    embedding: Embedding | None = None
    """The vector that is asked for; None: an answer in words."""


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
    """The answers of a call in SQL, as they come. Nothing here reads them."""

    source: Sql
    """The relation with the carried columns: the pending one, or what a table function makes of it."""
    raw: Sql
    """The vendor's whole answer to a row of ``source`` as one text, never NULL. It calls, or holds what was called."""


@dataclass(frozen=True)
class Reading:
    """How a stored answer is read. Where a fact was wrong, a mended reading reads it again: nothing is paid twice."""

    name: str
    """What ``read_by`` becomes: the call's name and a digest of all that decides how an answer is read."""
    columns: Callable[[Sql], Mapping[str, Sql]]
    """``raw`` to an expression for each column of ``responses`` that is read from it. None of them may fail for any
    text. ``response`` is NULL only for a failed call, and where no place that is known holds a text."""
    reports_finish: bool = False
    """Whether ``finish_reason`` can be ``length``."""
    facts: Mapping[str, VendorFact] = field(default_factory=dict)
    """The facts by which it reads."""
    mended: Callable[[Mapping[str, Any]], Reading] | None = None
    """The reading with other values of these facts; None where they can't be changed."""


@dataclass(frozen=True)
class Scripting:
    """The engine's own scripting: the loop in which a script asks a part of the pending requests at a time."""

    block: str
    """The loop as a text with places for statements: ``{read}`` reads stored answers, ``{unread}`` finds one to be
    read, ``{pending}`` makes the pending relation, ``{first}`` gives the last of the first few hashes, ``{problem}``
    why all of these failed or NULL, ``{unlock}`` lets others ask, ``{stopped}`` is a text for the error, ``{parts}``
    the number of parts, ``{bound}`` the last hash of a part, ``{ask}`` asks a part. Its variables are ``part`` and
    ``first_hash``, and of a part ``after`` and ``upto``, the hashes around it."""
    variable: Callable[[str], Sql]
    """A variable of the block inside of a statement."""
    bound: Callable[[int | None], str]
    """``(n)``: a text of hexadecimal digits after which no hash of the part ``part`` of n follows: equal ranges."""
    most_requests: int | None = None
    """The requests that a statement may ask: a script that is told no number of parts makes so many. None: any."""
    since: Callable[[], Sql] | None = None
    """The variable of the time since when answers may be unread, where one keeps a statement from older rows."""
    finished: Callable[[str], str] = lambda block: block
    """``(block)``: the statement that runs the block."""


@dataclass(frozen=True)
class VendorFact:
    """A value that a vendor fixes."""

    value: Any
    source: str
    """The page that documents the value, or how it was found."""
    read_on: str
    """The day on which the source was read, ``YYYY-MM-DD``."""
    seen_live: bool = False
    """Whether we saw it in an account of the vendor ourselves."""
    settled_by: str = ""
    """What would settle it, where no page of the vendor does."""


PROBE = "`sqlenrich probe` on an account"
"""What settles where an answer holds what."""


@dataclass(frozen=True)
class EmbeddingFunction:
    """The engine's function that gives a vector for a text."""

    call: Callable[[Sql, ModelCall], CallResult]
    """As :attr:`Engine.call`; the request's ``embedding`` says what is wanted."""
    reading: Callable[[Embedding], Reading]
    """How an answer is read: its ``response`` is the text that :meth:`Embedding.answer` gives."""
    facts: Mapping[str, VendorFact]
    """``call`` and ``default_model``, and others that differ from the engine's."""
    must_exist: Callable[[ModelCall], list[str]] | None = None
    """As :attr:`Engine.must_exist`; None: the same as there."""


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
    hex_number: Unary
    """The number that 13 lower-case hexadecimal digits give, as bigint."""
    sql_type: Callable[[Type], exp.DataType]
    """The engine's type of a portable type."""
    exploded: Callable[[exp.Select, Sql, exp.Identifier], exp.Select]
    """``(select, array, name)``: the SELECT from one relation with a row for each element of an array of texts, which
    is the column ``name``; the array is read from that relation, and rows with an empty one are left out."""
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
    create_work_table: Callable[[exp.Table, Sql], list[Sql]] | None = None
    """As ``create_table_as``, for the tables that only the steps read (``prompts``, ``pending``, ``checked``), where
    the engine has cheaper ones that outlive a session. None: ``create_table_as``."""
    responses_properties: Callable[[], list[exp.Property]] = list
    """How the table of answers is partitioned and clustered: runs read it by ``request_hash`` alone."""
    now: Callable[[], Sql] = exp.CurrentTimestamp
    """The time of the statement, in UTC, that a column of the type ``timestamp`` takes."""
    clock_ms: Callable[[], Sql] = lambda: exp.Anonymous(this="UNIX_MILLIS", expressions=[exp.CurrentTimestamp()])
    """The time of the statement in milliseconds since 1970, a bigint."""
    reading: Reading | None = None
    """How the answers of ``call`` are read; None where a Python client asks."""
    embedding: EmbeddingFunction | None = None
    """Its function for vectors; None where a Python client asks, and where it has none."""
    keeps_deleted: str = ""
    """What the vendor keeps of deleted rows, for how long, and what shortens it; empty for nothing."""
    updates: bool = True
    """Whether every table takes UPDATE. Otherwise the statement that asks also reads what it stores."""
    functions: FunctionSyntax | None = None
    """How a script makes functions of its own; None where it can't."""
    count_tokens: Callable[[ModelCall], Sql] | None = None
    """The tokens of the text that a request sends, an integer over the column ``prompt``, counted without asking the
    model; NULL where it can't be. None: the engine has no function that counts."""
    models: Callable[[], Sql] | None = None
    """The statement that lists the vendor's models: the name, the stage, and behind them days of which the last is the
    model's end. None: the warehouse tells of none."""
    scripting: Scripting | None = None
    """How a script asks in parts; None where it can't."""
    must_exist: Callable[[ModelCall], list[str]] = lambda _: []
    """Lines for the head of a script: what its user must have before it runs, and the statement that makes it."""
    name_problem: Callable[[str], str | None] = lambda _: None
    """Why the engine can't hold a table or column of this name, or None."""
    column_problem: Callable[[str], str | None] | None = None
    """Why a table that the engine makes can't have a column of this name, or None. None: ``name_problem``."""
    default_params: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda _model, _options: {}
    """``(model, options)``: vendor's parameters that a request has unless its user sets them or sets them to null."""
    params_by_model: tuple[tuple[str, Mapping[str, str | None]], ...] = ()
    """Exceptions to ``params``: a regular expression for names of models, and their entries."""
    hashed_model: Callable[[str], str] = lambda _: ""
    """``(model)``: the name that requests are hashed by, where the vendor has several for one model; else empty."""
    shares_settings_of: str = ""
    """The section of ``sqlenrich.toml`` that sets the engine's models, where it is not the engine's name."""
    call_options: tuple[str, ...] = ()
    """Settings under the engine's name in ``params`` that change the call and are neither a model parameter nor part of
    the request's hash."""
    quotes_always: bool = True
    """Whether each name is quoted. Otherwise plain names that are not ``reserved`` are not, since users expect them
    folded."""
    folds_table_names: bool = True
    """Whether the names of two tables may not differ by case alone, quoted or not."""
    reserved: frozenset[str] = frozenset()
    """Reserved words in upper case, where ``quotes_always`` is false."""

    @property
    def settings_key(self) -> str:
        """The key of the engine in ``sqlenrich.toml`` and under ``params``."""
        return self.shares_settings_of or self.name

    def for_embedding(self, embedding: Embedding) -> Engine:
        """Return the engine whose call gives vectors. Raises UnsupportedError where it has no function for them."""
        plain = replace(
            self,
            params=dict.fromkeys(self.params),
            params_by_model=(),
            default_params=lambda _model, _options: {},
            response_format=lambda _: ResponseFormat(None),
            count_tokens=None,
            call_options=(),
            facts={**self.facts, "default_model": VendorFact(None, "named in sqlenrich.toml or by --model", "")},
        )
        if self.call is None:  # a Python client asks
            return plain
        if self.embedding is None:
            raise UnsupportedError(
                self.name, "it has no function for embeddings", "ask an endpoint: give --endpoint URL"
            )
        own = self.embedding
        facts = {name: fact for name, fact in plain.facts.items() if name not in ("count_tokens", "max_tokens")}
        return replace(
            plain,
            call=own.call,
            reading=own.reading(embedding),
            facts={**facts, **own.facts},
            must_exist=own.must_exist or plain.must_exist,
        )

    def with_facts(self, changes: Mapping[str, VendorFact]) -> Engine:
        """Return the engine that reads answers by other facts; what it asks stays."""
        if not changes or self.reading is None or self.reading.mended is None:
            return self
        values = {name: fact.value for name, fact in changes.items()}
        return replace(self, facts={**self.facts, **changes}, reading=self.reading.mended(values))

    def end_of(self, model: str) -> VendorFact | None:
        """Return the day from which the vendor may no longer serve a model, where that is known."""
        ends = self.facts.get("ends")
        day = next((day for name, day in ends.value.items() if re.fullmatch(name, model)), None) if ends else None
        return None if ends is None or day is None else replace(ends, value=day)

    def params_of(self, model: str) -> dict[str, str | None]:
        """Return the portable parameters under the names that this model takes; None for one that it refuses."""
        names = dict(self.params)
        for pattern, changed in self.params_by_model:
            if re.search(pattern, model):
                names |= changed
        return names
