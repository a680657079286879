"""Builders of sqlglot nodes that several rooms share: constants, calls, casts, conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

import sqlglot.generator
from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import SEPARATOR

if not str(sqlglot.generator.__file__).endswith(".py"):
    raise ConfigError(
        "sqlglot was loaded in the compiled form of sqlglotc, which can't be extended: import sqlenrich before "
        "sqlglot, or pip uninstall sqlglotc"
    )

Sql: TypeAlias = exp.Expr

Build = Callable[..., Sql]
"""A function whose arguments its user does not check, such as :func:`named_func` gives."""


def literal(value: str | int | float | bool | None) -> Sql:
    """Return a constant."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def equals(column: str, value: str) -> Sql:
    """Return the test that a column has a value."""
    return exp.EQ(this=exp.column(column), expression=literal(value))


def double(value: float) -> Sql:
    """Return a constant that every engine reads as a double, not as a decimal."""
    written = repr(abs(value))
    number = exp.Literal.number(written if "e" in written else written + "E0")
    return exp.Neg(this=number) if math.copysign(1, value) < 0 else number


def func(name: str, *args: Sql, **named: Sql) -> Sql:
    """Return a function call, printed under exactly this name; ``named`` arguments as ``name => value``."""
    keywords = [exp.Kwarg(this=exp.var(key), expression=value) for key, value in named.items()]
    return exp.Anonymous(this=name, expressions=[*args, *keywords])


def named_func(name: str) -> Build:
    """Return a builder of calls to one function."""
    return lambda *args: func(name, *args)


def exploded_by(function: str) -> Callable[[exp.Select, Sql, exp.Identifier], exp.Select]:
    """Return :attr:`.Engine.exploded` where a function in the list of columns gives rows."""
    return lambda select, array, name: select.select(exp.Alias(this=func(function, array), alias=name), copy=False)


def replace_table(table: exp.Table, select: Sql, *properties: exp.Property) -> list[Sql]:
    """Return the statement that makes a table afresh from a SELECT, where the engine has CREATE OR REPLACE TABLE."""
    given = exp.Properties(expressions=list(properties)) if properties else None
    return [exp.Create(this=table, kind="TABLE", expression=select, replace=True, properties=given)]


def wrapped(value: Sql) -> Sql:
    """Return a value in parentheses where it could not stand beside an operator without them."""
    return exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Case | exp.Neg) else value


def all_of(*tests: Sql) -> Sql:
    """Return the conjunction."""
    return exp.and_(*tests, copy=False)


def any_of(*tests: Sql) -> Sql:
    """Return the disjunction."""
    return exp.or_(*tests, copy=False)


def case(*arms: tuple[Sql, Sql], default: Sql | None = None) -> exp.Case:
    """Return a searched CASE."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in arms], default=default)


def noted(arm: exp.If, note: str) -> exp.If:
    """Return an arm of a CASE with a comment for its reader."""
    arm.add_comments([note])
    return arm


def negated(test: Sql) -> Sql:
    """Return the negation: NULL where the test is NULL."""
    if isinstance(test, exp.Not | exp.Boolean):
        return test.this if isinstance(test, exp.Not) else exp.Boolean(this=not test.this)
    if isinstance(test, exp.Paren):
        return negated(test.this)
    if isinstance(test, exp.EQ):
        return exp.NEQ(this=test.this, expression=test.expression)
    return exp.Not(this=exp.paren(test, copy=False) if isinstance(test, exp.Connector | exp.Binary) else test)


def one_of(value: Sql, *texts: str) -> Sql:
    """Return the test that a text is one of these."""
    if len(texts) == 1:
        return exp.EQ(this=value, expression=literal(texts[0]))
    return exp.In(this=value, expressions=[literal(text) for text in texts])


def is_blank(trimmed: Sql) -> Sql:
    """Return whether a trimmed text is empty or NULL."""
    return exp.EQ(this=exp.Coalesce(this=trimmed, expressions=[literal("")]), expression=literal(""))


def given(value: Sql) -> Sql:
    """Return the test that a value is not NULL."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def first_of(values: Sequence[Sql]) -> Sql:
    """Return the first of some values that is not NULL."""
    return func("COALESCE", *values) if len(values) > 1 else values[0]


def concat(*parts: Sql) -> Sql:
    """Return the joined text; NULL where a part is NULL."""
    result = parts[0]
    for part in parts[1:]:
        result = exp.DPipe(this=result, expression=part, safe=False)
    return result


def record_separator() -> Sql:
    """Return the text U+001E. A console or an editor may lose the character itself from a literal."""
    return func("CHR", literal(ord(SEPARATOR)))


def data_type(written: str, dialect: str | None = None) -> exp.DataType:
    """Return a new node of a type, as it is written in a dialect. Without one it may be any name."""
    return _data_type(written, dialect).copy()


@lru_cache(maxsize=1024)
def _data_type(written: str, dialect: str | None) -> exp.DataType:
    return exp.DataType.build(written, dialect=dialect, udt=dialect is None)


def cast(value: Sql, to: str | exp.DataType, *, safe: bool = False) -> Sql:
    """Return a cast to a type of the engine; ``safe`` gives NULL for a value that can't be cast."""
    kind = data_type(to) if isinstance(to, str) else to
    return (exp.TryCast if safe else exp.Cast)(this=value, to=kind)


def utc_time(moment: datetime, kind: exp.DataType) -> exp.Cast:
    """Return a time as a constant; one without a time zone is in UTC. Its offset keeps it from the session's zone."""
    written = moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return exp.Cast(this=literal(str(written)), to=kind)


def lambda_(name: str, body: Callable[[Sql], Sql]) -> exp.Lambda:
    """Return ``name -> body(name)``."""
    parameter = exp.to_identifier(name)
    return exp.Lambda(this=body(exp.column(name)), expressions=[parameter])
