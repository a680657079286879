"""What sqlglot parses: its own reading of functions switched off, string constants decoded a second time."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.snowflake import Snowflake
from sqlglot.errors import SqlglotError
from sqlglot.parsers.snowflake import SnowflakeParser
from sqlglot.tokenizer_core import TokenType

from tests.standins.snowflake.values import (
    ARRAY,
    BOOLEAN,
    DATE,
    FLOAT,
    NUMBER,
    OBJECT,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    TIMESTAMP_TZ,
    VARCHAR,
    VARIANT,
    SnowflakeError,
    SqlType,
)


class _Parser(SnowflakeParser):
    """Functions stay calls under the names they are written with; only CAST and TRY_CAST have a syntax of their own."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SnowflakeParser.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
    }


_DIALECT = Snowflake()
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}


def _constant(written: str) -> str:
    """A string constant as Snowflake reads it: ``''``, the escapes, a backslash before any other dropped."""

    def character(found: re.Match[str]) -> str:
        if found[0] == "''":
            return "'"
        code = found[1] or found[2] or found[3]
        return chr(int(code, 8 if found[3] else 16)) if code else _ESCAPES.get(found[4], found[4])

    escape = r"''|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\\(.)"
    return re.sub(escape, character, written[1:-1], flags=re.DOTALL)


def statements(sql: str) -> list[exp.Expr]:
    """The trees of a script."""
    tokens = _DIALECT.tokenize(sql)
    for token in tokens:
        if token.token_type == TokenType.STRING and token.text != _constant(sql[token.start : token.end + 1]):
            raise SnowflakeError(f"the string constant {sql[token.start : token.end + 1][:200]} is read in two ways")
    try:
        return [found for found in _Parser(dialect=_DIALECT).parse(tokens, sql) if found is not None]
    except SqlglotError as error:
        raise SnowflakeError(f"SQL compilation error: {error}") from None


def parse(sql: str) -> exp.Query:
    """The tree of one query."""
    found = statements(sql)
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise SnowflakeError("one query expected")
    return found[0]


_TYPES = {
    "TEXT": VARCHAR, "VARCHAR": VARCHAR, "CHAR": VARCHAR, "DOUBLE": FLOAT, "FLOAT": FLOAT, "BOOLEAN": BOOLEAN,
    "DATE": DATE, "TIMESTAMPNTZ": TIMESTAMP, "TIMESTAMP": TIMESTAMP, "VARIANT": VARIANT, "ARRAY": ARRAY,
    "TIMESTAMPTZ": TIMESTAMP_TZ, "TIMESTAMPLTZ": TIMESTAMP_LTZ,
    "OBJECT": OBJECT, "BIGINT": NUMBER, "INT": NUMBER, "SMALLINT": NUMBER,
}  # fmt: skip


_SIZES = {"TEXT": [16777216], "VARCHAR": [16777216], "TIMESTAMPNTZ": [9], "TIMESTAMP": [9], "TIMESTAMPTZ": [9]}
"""The sizes that a type has without one: no other is known here."""


def sql_type(written: exp.DataType) -> SqlType:
    """The type that a tree names."""
    sizes = [int(size.name) for size in written.expressions]
    if written.this == exp.DataType.Type.DECIMAL:
        precision, scale = ([*sizes, *(38, 0)[len(sizes) :]])[:2]
        return SqlType("NUMBER", scale, precision)
    if written.this.name not in _TYPES or (sizes and sizes != _SIZES.get(written.this.name)):
        raise SnowflakeError(f"unknown type {written.sql('snowflake')}")
    return _TYPES[written.this.name]


def name_of(node: exp.Expr) -> str:
    """A name as Snowflake stores it: upper case unless it is quoted."""
    identifier = node if isinstance(node, exp.Identifier) else node.this
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).upper()


def table_name(table: exp.Table) -> str:
    """A relation's name with its schema and database, where it has them."""
    return ".".join(name_of(part) for part in table.parts)
