"""The conditions of ``where`` and of checks: SQL that means the same on every engine."""

from __future__ import annotations

from collections.abc import Container, Iterator

import sqlglot
from sqlglot import exp

from sqlenrich.core.sql import Sql

_PORTABLE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Connector, exp.Not, exp.Paren,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.In, exp.Between, exp.Like, exp.Neg,
    exp.Add, exp.Sub, exp.Mul, exp.Lower, exp.Upper, exp.Trim, exp.Length, exp.Coalesce, exp.DPipe,
)  # fmt: skip
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)


def parse_condition(
    written: str,
    *,
    what: str = "where",
    more: tuple[type[exp.Expr], ...] = (),
    less: tuple[type[exp.Expr], ...] = (),
    instead: str = "filter in a source query",
) -> Sql:
    """Parse a condition. Raises ValueError with the problem for what is no SQL, or not the same on all engines.

    ``what`` it is and what to write ``instead`` are for messages; ``more`` functions it may call, ``less`` it may not.
    """
    try:
        test: Sql = sqlglot.parse_one(written)
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(f'{what} "{written}" is no SQL: {_reason(error)}') from None
    for node in test.walk():
        if not isinstance(node, (*_PORTABLE, *more)) or isinstance(node, less):
            raise ValueError(f'{what} "{written}": "{node.sql()}" is not the same on all engines; {instead}')
    return test


def columns_of_condition(test: Sql) -> tuple[str, ...]:
    """Return the names of the columns that a condition reads, in their order."""
    return tuple(dict.fromkeys(column.name for column in test.find_all(exp.Column)))


def compared_texts(test: Sql, columns: Container[str]) -> Iterator[tuple[exp.Literal, str]]:
    """Return each constant text that is compared with one of these columns, and the comparison."""
    for node in test.find_all(*_COMPARISONS):
        parts = [_bare(part) for part in node.iter_expressions()]
        if any(isinstance(part, exp.Column) and part.name in columns for part in parts):
            texts = [part for part in parts if isinstance(part, exp.Literal) and part.is_string]
            yield from ((part, node.sql()) for part in texts)


def compared_with_numbers(test: Sql) -> Iterator[tuple[str, str]]:
    """Return each column that is compared with a number, and the comparison."""
    for node in test.find_all(*_COMPARISONS):
        parts = [_bare(part) for part in node.iter_expressions()]
        if any(isinstance(part, exp.Literal) and part.is_number for part in parts):
            yield from ((part.name, node.sql()) for part in parts if isinstance(part, exp.Column))


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return node


def _reason(error: sqlglot.errors.SqlglotError) -> str:
    """Return the reason of a parser's error: it names its own classes where an operand is missing."""
    found = getattr(error, "errors", None) or [{}]
    description, after = str(found[0].get("description") or ""), found[0].get("highlight")
    if "<class" in description or not description:
        return f'it is incomplete at "{after}"' if after else str(error).splitlines()[0]
    place = f' at "{after}"' if after else ""
    return f"{description.rstrip('.')}{place}"
