"""sqlglot nodes to SQL text: the only place that prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.functions import inlined
from sqlenrich.core.layout import WIDTH, generator_of
from sqlenrich.core.sql import Sql

_CONTROL = re.compile(r"[\x00-\x1f]")


def _escape_string(text: str) -> str:
    """Return DuckDB's ``E'...'``: a text on one line, of which no tab or carriage return is lost where it is pasted.

    A quote is doubled. After ``\\'`` DuckDB's tokenizer takes the text for ended and replaces no-break spaces (2.0).
    """
    if "\0" in text:  # the only character that E'...' can't hold
        return "(" + " || CHR(0) || ".join(_escape_string(part) for part in text.split("\0")) + ")"
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return "E'" + _CONTROL.sub(lambda m: _ESCAPES.get(m[0]) or f"\\x{ord(m[0]):02x}", escaped) + "'"


_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}


def _marks(texts: Sequence[str]) -> Iterator[str]:
    """Return placeholders that occur in none of the texts and can't overlap with the end of one."""
    for number in count():
        mark = f"\ue000{number}\ue001"
        if not any(mark in text for text in texts):
            yield mark


def print_sql(engine: Engine, statement: Sql, *, pretty: bool = True, copy: bool = True) -> str:
    """Print nodes in the dialect they were built for. Without a ``copy`` they are changed and can't be used again.

    What sqlglot prints is corrected in three places. Spark substitutes ``${...}`` in literals before it parses, but not
    ``$\\{`` (4.3). Spark reads ``\\0``, which sqlglot prints for NUL, and digits after it as another character.
    sqlglot's placeholder for line breaks must not occur in a text or a name.
    """
    # The root gets a parent: a node that replaces a root would be lost.
    statement = exp.Paren(this=inlined(statement.copy() if copy else statement))
    words = list(statement.find_all(exp.Literal, exp.Identifier, exp.Var))
    marks = _marks([node.name for node in words])
    line_break, dollar_brace, nul = next(marks), next(marks), next(marks)
    if engine.dialect in ("spark", "databricks"):
        for node in words:
            if node.is_string and ("${" in node.this or "\0" in node.this):
                node.set("this", node.this.replace("${", dollar_brace).replace("\0", nul))
    if engine.dialect == "duckdb":
        for node in words:
            if node.is_string and _CONTROL.search(node.this):
                node.replace(exp.var(_escape_string(node.this)))
    dialect = sqlglot.Dialect.get_or_raise(engine.dialect)
    generator = generator_of(engine.dialect)(
        dialect=dialect, pretty=pretty, normalize_functions=False, comments=True, max_text_width=WIDTH
    )
    generator.SENTINEL_LINE_BREAK = line_break  # type: ignore[misc]
    printed = generator.generate(statement.this.pop(), copy=False)
    return printed.replace(dollar_brace, "$\\{").replace(nul, "\\u0000")
