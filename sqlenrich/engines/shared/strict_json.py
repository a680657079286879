"""Strict JSON by regular expressions, and the repairs of an answer's text, the same on every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from sqlglot import exp

from sqlenrich.core.functions import SharedFunction
from sqlenrich.core.sql import Sql, all_of, case, concat, func, literal, noted
from sqlenrich.core.text_functions import Unary
from sqlenrich.core.types import BOOLEAN, STRING
from sqlenrich.schema.checks.grammar import (
    LONG_NUMBER,
    MANY_DIGITS,
    MAX_DEPTH,
    MAX_NUMBER,
    Spelling,
    any_string,
    document,
    document_parts,
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
    size: Callable[[Sql], Sql] | None = None
    """A measure of a text that is at least its length, if the engine has a cheaper one."""
    brackets: Callable[[Sql], Sql] | None = None
    """The number of opening brackets in a text, if the engine has a function for it."""


def parsed(reader: Reader, text: Sql, sound: Sql | None, doc: Sql) -> exp.Case:
    """Return ``doc``, the parsed text, where the text is strict JSON; NULL where it isn't.

    ``sound`` is what the grammar's pattern does not test. The depth is measured before the text is parsed, since
    parsers recurse: DuckDB's ends the process at 50,000 levels (2.0), Spark's the JVM at about 1,000 (4.3). It is
    measured only where the text has more than MAX_DEPTH brackets.
    """
    is_document = SharedFunction(
        "is_json",
        {"text": STRING},
        BOOLEAN,
        lambda text: _is_document(reader, text),
        "the tokens of JSON (RFC 8259) in an order that it allows; its parser matches brackets",
        always=True,
    )
    grammar = is_document(text)
    return parsed_if(reader, text, grammar if sound is None else all_of(grammar, sound), doc, "JSON by its grammar")


def _is_document(reader: Reader, text: Sql) -> Sql:
    """Test a text by the grammar: a pattern whose parts are joined, one a line, which the engines do once."""
    test = reader.whole(text, document(reader.spelling))
    (pattern,) = test.find_all(exp.Literal)
    parts = []
    for part, note in document_parts(pattern.name, reader.spelling):
        parts.append(literal(part))
        if note:
            parts[-1].add_comments([note])
    pattern.replace(concat(*parts))
    return test


def parsed_if(reader: Reader, text: Sql, sound: Sql, doc: Sql, note: str) -> exp.Case:
    """Return ``doc``, the parsed text, where a test holds and the text neither nests deep nor holds a long number."""

    def longer(limit: int) -> Sql:
        return exp.GT(this=(reader.size or reader.length)(text.copy()), expression=literal(limit))

    if reader.brackets is not None:
        opened = reader.brackets(text.copy())
    else:
        bare = func("REPLACE", func("REPLACE", text.copy(), literal("["), literal("")), literal("{"), literal(""))
        opened = exp.Sub(this=reader.length(text.copy()), expression=reader.length(bare))
    brackets = reader.replace(text.copy(), not_brackets(reader.spelling), "")
    many = exp.GT(this=opened, expression=literal(MAX_DEPTH))
    deep = all_of(longer(2 * MAX_DEPTH), many, reader.deeper(brackets))
    emptied = reader.replace(text.copy(), any_string(reader.spelling), "")
    wide = all_of(longer(MAX_NUMBER), reader.found(text.copy(), MANY_DIGITS), reader.found(emptied, LONG_NUMBER))
    arms = [
        noted(exp.If(this=deep, true=exp.Null()), f"deeper than {MAX_DEPTH} levels"),
        noted(exp.If(this=wide, true=exp.Null()), f"a number of more than {MAX_NUMBER} characters"),
        noted(exp.If(this=sound, true=doc), note),
    ]
    return exp.Case(ifs=arms)


RUNS = r"[\[{]+|[\]}]+"
"""Runs of brackets of one direction: 100,000 levels are two runs."""


def step(run: Sql, length: Sql | None = None) -> Sql:
    """Return the change of depth by a bracket, or by a run of ``length`` brackets."""
    first = run if length is None else func("LEFT", run, literal(1))
    opens = exp.In(this=first, expressions=[literal("["), literal("{")])
    change = literal(1) if length is None else length
    return case((opens, change), default=exp.Neg(this=change.copy()))


def deepest(depth: Sql, change: Sql) -> Sql:
    """Return the depth after a change; a depth above MAX_DEPTH stays."""
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
    """Return an engine's repairs of a text."""

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
