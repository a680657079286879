"""Names of columns and tables as sqlglot nodes, quoted as an engine's users expect."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp

from sqlenrich.core.engine import Engine


def identifier(engine: Engine, name: str) -> exp.Identifier:
    """Return a name as the engine's users expect it: quoted, except for a plain name on an engine that folds case."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None and name.upper() not in engine.reserved
    return exp.to_identifier(name, quoted=engine.quotes_always or not plain)


def column(engine: Engine, name: str, table: str | None = None) -> exp.Column:
    """Return a column reference."""
    return exp.column(identifier(engine, name), table=table)


def relation(engine: Engine, name: str) -> exp.Table:
    """Return a table by its dotted name; parts may be quoted as the engine quotes. Raises ValueError if unreadable."""
    try:
        table = exp.to_table(name, dialect=engine.dialect)
    except sqlglot.errors.SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f'"{name}" is not a table name on {engine.name}: {reason}') from None
    # sqlglot also parses a parameter, a function, a comment and a second statement.
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)] if isinstance(table, exp.Table) else []
    strange = not parts or len(parts) != len(table.parts) or not all(part.name for part in parts)
    more = any(value for key, value in table.args.items() if key not in ("this", "db", "catalog"))
    if strange or more or any(node.comments for node in table.walk()):
        raise ValueError(f'"{name}" is not a table name on {engine.name}: quote it')
    for part in parts:
        if not part.quoted:
            part.replace(identifier(engine, part.name))
    return table
