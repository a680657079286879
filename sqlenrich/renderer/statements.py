"""A plan as ordered statements: the SELECT of each step in a CREATE or an INSERT of its engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.names import identifier
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql
from sqlenrich.core.types import Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import RetryCall
from sqlenrich.plan.plan import Plan, Step

TITLES = {
    "prompts": "one row per source row, its prompt and the hash of its request",
    "checked": "one verdict per row",
    "enriched": "the accepted rows, typed",
    "quarantine": "the refused rows, each with its reason",
}
"""The content of each table step in words."""


class Statement(NamedTuple):
    """One statement and its description."""

    title: str
    sql: str


def plan_statements(plan: Plan) -> list[Statement]:
    """Give the statements that update all steps. A client, where there is one, asks before ``checked``."""
    engine = get_engine(plan.engine)
    return [statement for step in plan.steps for statement in step_statements(engine, step)]


def step_statements(engine: Engine, step: Step) -> list[Statement]:
    """Give the statements that update one step."""
    return table_statements(engine, step) if step.kind == "table" else responses_statements(engine, step)


def retry_statements(plan: Plan, calls: Sequence[RetryCall]) -> list[Statement]:
    """Give the statements that ask refused rows again. They judge all answers first: a run may have stopped early."""
    engine = get_engine(plan.engine)
    checked, *results = (plan.step(name) for name in ("checked", "enriched", "quarantine"))
    found = table_statements(engine, checked)
    for call in calls:
        found += call_statements(engine, call.step, call.what)
    for step in (checked, *results):
        found += table_statements(engine, step)
    return found


def table_statements(engine: Engine, step: Step) -> list[Statement]:
    """Give the statements that create the table of a step anew."""
    title = f"{step.name}: {TITLES[step.name]}"
    return [Statement(title, sql) for sql in create_table_as(engine, step, step.name, step.query)]


def responses_statements(engine: Engine, step: Step) -> list[Statement]:
    """Give the statements that create the table of answers if it is missing, and ask the pending requests."""
    create = create_if_missing(engine, step.relations.table(step.name), step.columns)
    made = Statement("responses: every answer ever paid for", print_sql(engine, create))
    return [made, *call_statements(engine, step, "what is to be asked, each distinct request once")]


def call_statements(engine: Engine, step: Step, what: str) -> list[Statement]:
    """Give the statements that create the pending relation of a call step and ask its requests."""
    found: list[Statement] = []
    if step.pending is not None:
        found = [Statement(f"pending: {what}", sql) for sql in create_table_as(engine, step, "pending", step.pending)]
    if step.calls_in_sql:
        found.append(Statement("responses: the model is asked here and nowhere else", insert_into(engine, step)))
    return found


def create_table_as(engine: Engine, step: Step, role: str, query: Sql) -> list[str]:
    """Give the statements that create the table of a role anew from a query of the step."""
    select = step.relations.bound(query)
    return [print_sql(engine, made) for made in engine.create_table_as(step.relations.table(role), select)]


def insert_into(engine: Engine, step: Step) -> str:
    """Give the statement that appends the rows of a step's query to its table."""
    names = [identifier(engine, name) for name in step.columns]
    into = exp.Schema(this=step.relations.table(step.name), expressions=names)
    # sqlglot would print each column of a pretty INSERT on its own line.
    return f"INSERT INTO {print_sql(engine, into, pretty=False)}\n{step.sql}"


def create_if_missing(engine: Engine, table: exp.Table, columns: Mapping[str, Type]) -> Sql:
    """Give the statement that creates an empty table if it is missing."""
    typed = [exp.ColumnDef(this=identifier(engine, name), kind=engine.sql_type(kind)) for name, kind in columns.items()]
    return exp.Create(this=exp.Schema(this=table, expressions=typed), kind="TABLE", exists=True)
