"""What a script does about its tables before its steps and after them."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sqlenrich.core.names import column
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import literal
from sqlenrich.core.types import STRING
from sqlenrich.engines import get_engine
from sqlenrich.plan.plan import Plan
from sqlenrich.renderer.statements import Statement, create_if_missing

MARKS = {
    "prompts": "request_hash",
    "pending": "request_hash",
    "checked": "request_hash",
    "enriched": "_request_hash",
    "quarantine": "_request_hash",
}
"""The tables that a script makes afresh, and a column of each that only a table of sqlenrich has."""
GUARD = "the tables that are made afresh: where a SELECT fails, that table is not sqlenrich's: rename it"


def guards(plan: Plan) -> Iterator[Statement]:
    """Return the statements that end a script before it replaces a table that sqlenrich did not make.

    They need no catalog of the engine, and find each name as the other statements do: a table that is missing is made
    empty, then a column is read that only a table of sqlenrich has.
    """
    engine = get_engine(plan.engine)
    title = GUARD
    for role, mark in MARKS.items():
        create = create_if_missing(engine, plan.relations.table(role), {mark: STRING})
        test = exp.select(column(engine, mark)).from_(plan.relations.table(role)).where(literal(False))
        yield Statement(title, print_sql(engine, create, pretty=False))
        yield Statement("", print_sql(engine, test, pretty=False))
        title = ""


def clean_up(plan: Plan) -> Iterator[Statement]:
    """Return the statements that drop the tables of prompts which no later script reads."""
    engine = get_engine(plan.engine)
    title = "tables of prompts that nothing reads again"
    for role in ("pending",) if plan.keep_prompts else ("pending", "prompts"):
        yield Statement(title, print_sql(engine, drop_table(plan.relations.table(role))))
        title = ""


def drop_table(table: exp.Table) -> exp.Drop:
    """Return the statement that drops a table if it is there."""
    return exp.Drop(tables=[table], kind="TABLE", exists=True)
