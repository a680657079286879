"""The contract of an engine: tables of functions that build its SQL, and the facts that only it has.

An engine is one frozen :class:`Engine` at the bottom of its file. Everything here builds sqlglot nodes; the only
place that prints them is :func:`print_sql`, always in the dialect they were built for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal as PyDecimal
from itertools import count
from string import ascii_lowercase, ascii_uppercase
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp

from ..types import Type

Sql: TypeAlias = exp.Expr
BLANK = " \t\r\n"
"""The characters that are blank in a prompt's input and trimmed from an answer."""

Build = Callable[..., Sql]
Body = Callable[[Sql, Sql | None], Sql]
"""The body of a lambda: from the element and its position from 0 (None where it is not asked for)."""


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
    text: Mapping[str, Build]
    """Text functions by operation name: see :mod:`sqlenrich.prompt.sql`."""
    json: Mapping[str, Callable[..., Any]]
    """JSON functions by operation name: see :mod:`sqlenrich.schema.sql`."""
    sha256: Build
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


def literal(value: str | int | float | bool | None) -> Sql:
    """Give a constant."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def double(value: float) -> Sql:
    """Give a constant that every engine reads as a double, not as a decimal."""
    written = repr(abs(value))
    number = exp.Literal.number(written if "e" in written else written + "E0")
    return exp.Neg(this=number) if math.copysign(1, value) < 0 else number


def plain_decimal(value: str, _: Type) -> Sql:
    """Give a constant that most engines read as a decimal."""
    number = exp.Literal.number(value.removeprefix("-"))
    return exp.Neg(this=number) if value.startswith("-") else number


def double_function(operator: type[exp.Binary]) -> Build:
    """Give a builder of an operation on two doubles."""
    return lambda a, b: operator(this=wrapped(a), expression=wrapped(b))


def double_divide(a: Sql, b: Sql) -> Sql:
    """Give a quotient of doubles; NULL for a divisor of 0, where Python raises."""
    divisor = b if isinstance(b, exp.Literal | exp.Neg) else func("NULLIF", b, double(0.0))
    return exp.Div(this=wrapped(a), expression=wrapped(divisor), typed=True, safe=False)


def half_even(value: Sql, digits: int, nearest: Build) -> Sql:
    """Give a double rounded to some decimals as Python does: by its exact value, half to even.

    ``nearest`` rounds to a whole double, half to even. A product with 10 to the ``digits`` is rounded itself, so a
    half that it shows may be none: Dekker's product gives what was cut off, and to which side to move. Exact where the
    product is below 2**50.
    """
    if digits == 0:
        return nearest(value)
    power = double(float(10**digits))
    big = exp.Mul(this=double(134217729.0), expression=wrapped(value))
    high = exp.paren(exp.Sub(this=big, expression=exp.paren(exp.Sub(this=big.copy(), expression=wrapped(value)))))
    low = exp.paren(exp.Sub(this=wrapped(value), expression=high.copy()))
    product = exp.Mul(this=wrapped(value), expression=power)
    cut_off = exp.Add(
        this=exp.paren(exp.Sub(this=exp.Mul(this=high, expression=power.copy()), expression=product.copy())),
        expression=exp.Mul(this=low, expression=power.copy()),
    )
    apart = exp.Sub(this=product.copy(), expression=nearest(product.copy()))
    half = exp.EQ(this=func("ABS", apart), expression=double(0.5))
    moved = exp.Add(this=product.copy(), expression=exp.Mul(this=func("SIGN", cut_off), expression=double(0.25)))
    whole = case((half, nearest(moved)), default=nearest(product.copy()))
    return exp.Div(this=exp.paren(whole), expression=power.copy(), typed=True, safe=False)


LAST_WORD = " [^ ]*$"
"""What Jinja's truncate drops: the last space and what follows it."""
EXACT = "DECIMAL(38, 18)"
"""The widest decimals that every engine has: 20 digits before the point, 18 after it."""
WIDEST = 1.7976931348623157e308
"""The greatest double: on BigQuery what is beyond becomes it, elsewhere infinite."""
MORE_DIGITS = r"([.][0-9]{6})[0-9]+"
"""The digits of a second beyond microseconds."""


def plain_number(value: int | float) -> str:
    """Give a number's shortest text without an exponent."""
    return f"{PyDecimal(repr(value)):f}"


TRAILING_ZEROS = "([.][0-9]*[1-9])0+$|([.]0)0+$"
"""Python prints no zeros at the end of a double, but one after the point."""


def func(name: str, *args: Sql, **named: Sql) -> Sql:
    """Give a function call, printed under exactly this name; ``named`` arguments as ``name => value``."""
    keywords = [exp.Kwarg(this=exp.var(key), expression=value) for key, value in named.items()]
    return exp.Anonymous(this=name, expressions=[*args, *keywords])


def named_func(name: str) -> Build:
    """Give a builder of calls to one function."""
    return lambda *args: func(name, *args)


def identifier(engine: Engine, name: str) -> exp.Identifier:
    """Give a name as the engine's users expect it: quoted, but for plain names on engines that fold case."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and name.upper() not in engine.reserved
    return exp.to_identifier(name, quoted=engine.quotes_always or not plain)


def column(engine: Engine, name: str, table: str | None = None) -> exp.Column:
    """Give a column reference."""
    return exp.column(identifier(engine, name), table=table)


def relation(engine: Engine, name: str) -> exp.Table:
    """Give a table by its dotted name; parts may be quoted as the engine quotes. Raises ValueError if unreadable."""
    try:
        table = exp.to_table(name, dialect=engine.dialect)
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f'"{name}" is not a table name on {engine.name}: {error}') from None
    # A parameter, a function, a comment or a second statement is parsed, too.
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)] if isinstance(table, exp.Table) else []
    strange = not parts or len(parts) != len(table.parts) or not all(part.name for part in parts)
    more = any(value for key, value in table.args.items() if key not in ("this", "db", "catalog"))
    if strange or more or any(node.comments for node in table.walk()):
        raise ValueError(f'"{name}" is not a table name on {engine.name}: quote what is no plain word')
    for part in parts:
        if not part.quoted:
            part.replace(identifier(engine, part.name))
    return table


def replace_table(table: exp.Table, select: Sql) -> list[Sql]:
    """Give the statement that makes a table afresh from a SELECT, where the engine has CREATE OR REPLACE TABLE."""
    return [exp.Create(this=table, kind="TABLE", expression=select, replace=True)]


def wrapped(value: Sql) -> Sql:
    """Give a value that can stand beside an operator."""
    return exp.Paren(this=value) if isinstance(value, exp.Binary | exp.Case | exp.Neg) else value


def all_of(*tests: Sql) -> Sql:
    """Give the conjunction."""
    return exp.and_(*tests, copy=False)


def any_of(*tests: Sql) -> Sql:
    """Give the disjunction."""
    return exp.or_(*tests, copy=False)


def case(*arms: tuple[Sql, Sql], default: Sql | None = None) -> exp.Case:
    """Give a searched CASE."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in arms], default=default)


def is_blank(trimmed: Sql) -> Sql:
    """Give whether a trimmed text is empty or NULL."""
    return exp.EQ(this=exp.Coalesce(this=trimmed, expressions=[literal("")]), expression=literal(""))


def concat(*parts: Sql) -> Sql:
    """Give the joined text; NULL where a part is NULL."""
    result = parts[0]
    for part in parts[1:]:
        result = exp.DPipe(this=result, expression=part, safe=False)
    return result


def cast(value: Sql, to: str | exp.DataType, *, safe: bool = False) -> Sql:
    """Give a cast to a type written in the engine's own words; ``safe`` gives NULL where it can't be cast."""
    kind = exp.DataType.build(to, udt=True) if isinstance(to, str) else to
    return (exp.TryCast if safe else exp.Cast)(this=value, to=kind)


def lower_ascii(text: Sql) -> Sql:
    """Give a text with the letters A to Z in lower case: engines differ on others."""
    return func("TRANSLATE", text, literal(ascii_uppercase), literal(ascii_lowercase))


def as_spelt(text: Sql, values: Sequence[str]) -> Sql:
    """Give the one of these values that a text is in any case of its letters; NULL for none."""
    lower = lower_ascii(text)
    return case(*((exp.EQ(this=lower.copy(), expression=literal(v.lower())), literal(v)) for v in values))


def lambda_(name: str, body: Callable[[Sql], Sql]) -> exp.Lambda:
    """Give ``name -> body(name)``."""
    parameter = exp.to_identifier(name)
    return exp.Lambda(this=body(exp.column(name)), expressions=[parameter])


_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


def _escape_string(text: str) -> str:
    """Give DuckDB's ``E'...'``: a carriage return or a tab would not survive being pasted.

    A quote is doubled: after ``\\'`` DuckDB takes the text for ended and makes each no-break space a space (2.0).
    """
    if "\0" in text:  # the one character that it can't escape
        return "(" + " || CHR(0) || ".join(_escape_string(part) for part in text.split("\0")) + ")"
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return "E'" + _CONTROL.sub(lambda m: _ESCAPES.get(m[0]) or f"\\x{ord(m[0]):02x}", escaped) + "'"


_ESCAPES = {"\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def _marks(texts: Sequence[str]) -> Iterator[str]:
    """Give marks that stand in none of the texts and can't overlap with the end of one."""
    for number in count():
        mark = f"\ue000{number}\ue001"
        if not any(mark in text for text in texts):
            yield mark


def print_sql(engine: Engine, statement: Sql, *, pretty: bool = True) -> str:
    """Print nodes in the dialect they were built for.

    Spark substitutes ``${...}`` in literals before it parses (measured on 4.3, as ``$\\{`` it does not) and reads
    sqlglot's NUL, ``\\0``, together with digits after it as another character, and
    sqlglot's own placeholder for line breaks must not occur in a text or a name: both are handled here, once.
    """
    statement = exp.Paren(this=statement.copy())  # a root of its own: what replaces a root is lost
    marks = _marks([node.name for node in statement.find_all(exp.Literal, exp.Identifier, exp.Var)])
    line_break, dollar_brace, nul = next(marks), next(marks), next(marks)
    if engine.dialect in ("spark", "databricks"):
        for node in statement.find_all(exp.Literal):
            if node.is_string and ("${" in node.this or "\0" in node.this):
                node.set("this", node.this.replace("${", dollar_brace).replace("\0", nul))
    if engine.dialect == "duckdb":
        for node in statement.find_all(exp.Literal):
            if node.is_string and _CONTROL.search(node.this):
                node.replace(exp.var(_escape_string(node.this)))
    generator = sqlglot.Dialect.get_or_raise(engine.dialect).generator(
        pretty=pretty, normalize_functions=False, comments=True, max_text_width=100
    )
    generator.SENTINEL_LINE_BREAK = line_break  # type: ignore[misc]
    printed = generator.generate(statement.this.pop(), copy=False)
    return printed.replace(dollar_brace, "$\\{").replace(nul, "\\u0000")
