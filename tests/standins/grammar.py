"""Second opinions on the grammar of generated SQL: sqlfluff and sqlglot.

Both know grammar alone: not whether a table, a column or a function exists, not types. Neither is
the vendor's own parser. sqlfluff accepts some text that the vendor refuses and refuses some that
it takes; sqlglot is laxer still (a STRUCT field without a name, a MERGE without ON), so its
acceptance means little beside its round trip, which shows what printing would lose.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp

SQLFLUFF_DIALECTS = ("snowflake", "databricks", "sparksql", "bigquery")


@functools.cache
def _linter(dialect: str) -> Any:
    from sqlfluff.core import FluffConfig, Linter

    if dialect not in SQLFLUFF_DIALECTS:
        raise ValueError(f"no sqlfluff dialect {dialect!r} here; one of {', '.join(SQLFLUFF_DIALECTS)}")
    logging.getLogger("sqlfluff").setLevel(logging.CRITICAL)
    # `raw`: generated SQL holds braces that are text, not templates. Long scripts are wanted.
    overrides = {"dialect": dialect, "templater": "raw", "large_file_skip_byte_limit": 0}
    return Linter(config=FluffConfig(overrides=overrides, ignore_local_config=True))


def check_sqlfluff(sql: str, dialect: str) -> None:
    """Parse a script of any number of statements; AssertionError names the line and what can't be parsed."""
    text = sql if sql.endswith("\n") else sql + "\n"
    parsed = _linter(dialect).parse_string(text)
    variant = parsed.root_variant()
    tree = variant.tree if variant is not None else None
    problems = []
    for segment in tree.recursive_crawl("unparsable") if tree is not None else ():
        line = segment.pos_marker.source_position()[0]
        problems.append(f"line {line}: unparsable: {segment.raw.strip()[:200]!r}")
    if not problems:  # a parse error is told by its segment; what is left fails before parsing
        problems = [f"line {problem.line_no}: {problem.desc()}" for problem in parsed.violations]
    if not problems and (tree is None or next(tree.recursive_crawl("statement"), None) is None):
        problems = ["line 1: no statement"]
    if problems:
        raise AssertionError(f"sqlfluff ({dialect}): " + "; ".join(problems))


def check_sqlglot(sql: str, dialect: str) -> None:
    """Parse every statement, print it and parse it again: AssertionError unless both trees are equal.

    Spellings of one meaning count as equal: raw and plain strings, `{'a': 1}` and
    OBJECT_CONSTRUCT, `x:a` and GET_PATH, TEXT and VARCHAR. A statement that sqlglot only keeps as
    text (exp.Command) counts as not understood.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statements = [tree for tree in sqlglot.parse(sql, read=dialect) if tree is not None]
    except SqlglotError as error:
        raise AssertionError(f"sqlglot ({dialect}): {error}") from None
    # A lone comment after the last semicolon parses as a statement of its own.
    statements = [tree for tree in statements if not isinstance(tree, exp.Semicolon)]
    if not statements:
        raise AssertionError(f"sqlglot ({dialect}): no statement")
    for tree in statements:
        if command := tree.find(exp.Command):
            raise AssertionError(f"sqlglot ({dialect}): not understood: {command.sql(dialect)[:200]!r}")
        printed = tree.sql(dialect=dialect, comments=False)
        try:
            again = sqlglot.parse_one(printed, read=dialect)
        except SqlglotError as error:
            raise AssertionError(f"sqlglot ({dialect}): its own print of {printed[:200]!r}: {error}") from None
        if again != tree and _plain(again) != _plain(tree):
            raise AssertionError(f"sqlglot ({dialect}): printing changes {printed[:300]!r}")


def _plain(tree: exp.Expr) -> exp.Expr:
    """The tree with one spelling for what can be spelled in several ways."""
    from sqlglot import exp

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.RawString):
            return exp.Literal.string(node.name)
        if isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Identifier):
            node.set("this", exp.Literal.string(node.this.name))
        if isinstance(node, exp.JSONExtract):
            node.set("variant_extract", None)
        if isinstance(node, exp.JSONPathKey):
            node.set("quoted", None)
        if isinstance(node, exp.DataType) and node.this == exp.DataType.Type.TEXT:
            node.set("this", exp.DataType.Type.VARCHAR)
        return node

    return tree.copy().transform(plain)
