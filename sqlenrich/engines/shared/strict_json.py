"""Strict JSON by regular expressions, and the repairs of an answer's text, the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from sqlglot import exp

from sqlenrich.core.sql import Sql, all_of, any_of, case, func, literal
from sqlenrich.core.text_functions import Unary
from sqlenrich.schema.checks.grammar import (
    LONG_NUMBER,
    MANY_DIGITS,
    MAX_DEPTH,
    MAX_NUMBER,
    Spelling,
    any_string,
    document,
    not_brackets,
    null_member,
    null_members,
    prose,
    trailing_comma,
)

Match: TypeAlias = Callable[[Sql, str], Sql]


@dataclass(frozen=True)
class Reader:
    """An engine's functions on texts, and the syntax of its regular expressions."""

    spelling: Spelling
    whole: Match
    """Whether a pattern matches the whole text."""
    found: Match
    """Whether it matches somewhere."""
    replace: Callable[[Sql, str, str], Sql]
    """Replace each match by a text in which ``\\1`` is a group; a group that took no part is empty."""
    length: Callable[[Sql], Sql]
    deeper: Callable[[Sql], Sql]
    """Whether a text of brackets alone nests deeper than MAX_DEPTH."""


def parsed(reader: Reader, text: Sql, doc: Sql) -> exp.Case:
    """Give ``doc``, the parsed text, where the text is strict JSON; NULL where it isn't.

    The depth is measured before the text is parsed, since parsers recurse: DuckDB's ends the process at 50,000 levels
    (2.0), Spark's the JVM at about 1,000 (4.3). It is measured only where the text has more than MAX_DEPTH brackets.
    """
    bare = func("REPLACE", func("REPLACE", text.copy(), literal("["), literal("")), literal("{"), literal(""))
    opened = exp.Sub(this=reader.length(text.copy()), expression=reader.length(bare))
    brackets = reader.replace(text.copy(), not_brackets(reader.spelling), "")
    emptied = reader.replace(text.copy(), any_string(reader.spelling), "")
    deep = all_of(exp.GT(this=opened, expression=literal(MAX_DEPTH)), reader.deeper(brackets))
    wide = all_of(reader.found(text.copy(), MANY_DIGITS), reader.found(emptied, LONG_NUMBER))
    long = exp.GT(this=reader.length(text.copy()), expression=literal(min(2 * MAX_DEPTH, MAX_NUMBER)))
    return case(
        (all_of(long, any_of(deep, wide)), literal(None)),
        (reader.whole(text.copy(), document(reader.spelling)), doc),
    )


RUNS = r"[\[{]+|[\]}]+"
"""Runs of brackets of one direction: 100,000 levels are two runs."""


def step(run: Sql, length: Sql | None = None) -> Sql:
    """Give the change of depth by a bracket, or by a run of ``length`` brackets."""
    first = run if length is None else func("LEFT", run, literal(1))
    opens = exp.In(this=first, expressions=[literal("["), literal("{")])
    change = literal(1) if length is None else length
    return case((opens, change), default=exp.Neg(this=change.copy()))


def deepest(depth: Sql, change: Sql) -> Sql:
    """Give the depth after a change; a depth above MAX_DEPTH stays."""
    return case(
        (exp.GT(this=depth, expression=literal(MAX_DEPTH)), depth.copy()),
        default=exp.Add(this=depth.copy(), expression=change),
    )


class Repairs(TypedDict):
    """The repairs among :class:`~sqlenrich.core.json_functions.JsonFunctions`."""

    without_prose: Unary
    without_trailing_commas: Unary
    may_hold_null: Unary
    without_nulls: Callable[[Sql, Sequence[str]], Sql]


def repairs(reader: Reader) -> Repairs:
    """Give an engine's repairs of a text."""

    def keep(text: Sql, pattern: str, groups: tuple[int, ...]) -> Sql:
        return reader.replace(text, pattern, "".join(f"\\{group}" for group in groups))

    def without_nulls(text: Sql, names: Sequence[str]) -> Sql:
        for pattern, groups in null_members(reader.spelling, names):
            text = keep(text, pattern, groups)
        return text

    return {
        "without_prose": lambda text: keep(text, *prose(reader.spelling)),
        "without_trailing_commas": lambda text: keep(text, *trailing_comma(reader.spelling)),
        "may_hold_null": lambda text: reader.found(text, null_member(reader.spelling)),
        "without_nulls": without_nulls,
    }
