"""A plan as ordered statements: the SELECT of each step in a CREATE or an INSERT of its engine."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.layout import WIDTH
from sqlenrich.core.names import column, identifier
from sqlenrich.core.printer import print_sql
from sqlenrich.core.sql import Sql, literal
from sqlenrich.core.types import Type
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import RetryCall
from sqlenrich.plan.evaluations import EVALUATIONS
from sqlenrich.plan.plan import Plan, Step
from sqlenrich.plan.profiles import PROFILES
from sqlenrich.plan.relations import Relations

TITLES = {
    "prompts": "one row per source row, its prompt and the hash of its request",
    "checked": "one verdict per row; an accepted one keeps its answer, a refused one its texts",
    "enriched": "the accepted rows, typed",
    "quarantine": "the refused rows, each with its reason",
}
"""The content of each table step in words."""
QUALITY_TITLES = {
    "profiles": "how often each level of each field is among the answers that no profile has counted yet",
    "drift": "how far the newest profile has moved from those before it; is_alarm is 1 for an alarm",
    "sample": "accepted requests for people to judge; those of the smallest draw are in each smaller sample too",
    "evaluation": "the labelled rows of the last sqlenrich evaluate, and those that were right",
}
"""The content of each step that measures the answers."""
QUALITY_TABLES = {"profiles": ("profiles", PROFILES), "evaluation": ("evaluations", EVALUATIONS)}
"""The tables that such a step reads or writes and that no other step makes: the role, the columns."""
RESULTS = ("enriched", "quarantine")
"""The steps whose tables users read."""

JUDGED = ("checked", "enriched", "quarantine")
"""The steps that judge the stored answers."""
READ_TITLE = "responses: what no run has read yet, or with other facts, is read from the stored answers"


class Statement(NamedTuple):
    """One statement and its description."""

    title: str
    sql: str


def plan_statements(plan: Plan) -> list[Statement]:
    """Return the statements that update all steps. A client, where there is one, asks before ``checked``."""
    engine = get_engine(plan.engine)
    return [statement for step in plan.steps for statement in step_statements(engine, step)]


def step_statements(engine: Engine, step: Step) -> list[Statement]:
    """Return the statements that update one step."""
    return table_statements(engine, step) if step.kind == "table" else responses_statements(engine, step)


def retry_statements(plan: Plan, calls: Sequence[RetryCall]) -> list[Statement]:
    """Return the statements that ask refused rows again. They judge all answers first: a run may have stopped early."""
    engine = get_engine(plan.engine)
    checked, *results = (plan.step(name) for name in JUDGED)
    read = reading_statements(engine, plan.responses)
    found = [*read, *table_statements(engine, checked)]
    for call in calls:
        found += call_statements(engine, call.step, call.what)
    found += read
    for step in (checked, *results):
        found += table_statements(engine, step)
    return found


def reread_statements(plan: Plan) -> list[Statement]:
    """Return the statements that read and judge the stored answers again. They ask nothing."""
    engine = get_engine(plan.engine)
    found = [Statement(READ_TITLE, read_answers(engine, plan.responses, all_rows=True))]
    for name in JUDGED:
        found += table_statements(engine, plan.step(name))
    return found


def quality_statements(plan: Plan) -> list[Statement]:
    """Return the statements that measure the answers. They ask nothing, and no step reads what they give."""
    engine = get_engine(plan.engine)
    found = []
    for step in plan.quality:
        title = f"{step.name}: {QUALITY_TITLES[step.name]}"
        statements = [insert_into(engine, step) if step.kind == "append" else step.sql]
        if (table := QUALITY_TABLES.get(step.name)) is not None:
            role, columns = table
            made = create_if_missing(engine, step.relations.table(role), columns)
            statements.insert(0, print_sql(engine, made))
        found += titled(title, statements)
    return found


def table_statements(engine: Engine, step: Step) -> list[Statement]:
    """Return the statements that create the table of a step anew."""
    title = f"{step.name}: {TITLES[step.name]}"
    return titled(title, create_table_as(engine, step, step.name, step.query))


def titled(title: str, statements: Sequence[str]) -> list[Statement]:
    """Return statements that belong together: the first has the title."""
    return [Statement("" if place else title, sql) for place, sql in enumerate(statements)]


def responses_statements(engine: Engine, step: Step) -> list[Statement]:
    """Return the statements that create the table of answers if it is missing, and ask the pending requests."""
    made = responses_table(engine, step)
    # An answer that an interrupted run left unread is read first: unread, it would count as settled.
    read = reading_statements(engine, step)
    return [made, *read, *call_statements(engine, step, "what is to be asked, each distinct request once"), *read]


def responses_table(engine: Engine, step: Step) -> Statement:
    """Return the statement that creates the table of answers if it is missing."""
    create = create_responses(engine, step.relations.table(step.name), step.columns)
    return Statement("responses: every answer ever paid for", print_sql(engine, create))


def call_statements(engine: Engine, step: Step, what: str) -> list[Statement]:
    """Return the statements that create the pending relation of a call step and ask its requests."""
    found: list[Statement] = []
    if step.pending is not None:
        found = titled(f"pending: {what}", create_table_as(engine, step, "pending", step.pending))
    if step.calls_in_sql:
        found.append(Statement("responses: the model is asked here and nowhere else", insert_into(engine, step)))
    return found


def reading_statements(engine: Engine, step: Step) -> list[Statement]:
    """Return the statement that reads the answers that no reading or another one has read, where the step needs one."""
    if not (step.calls_in_sql and engine.updates) or step.reading is None:
        return []
    return [Statement(READ_TITLE, read_answers(engine, step))]


def read_answers(engine: Engine, step: Step, *, all_rows: bool = False, among: Sequence[Sql] | None = None) -> str:
    """Return the UPDATE that reads stored answers: those of this run's prompts, or all. It asks nothing.

    ``among`` are conditions on the answers in place of this run's prompts.
    """
    assert step.reading is not None
    reader = exp.Coalesce(this=column(engine, "read_by"), expressions=[literal("")])
    conditions: list[Sql] = [
        exp.Not(this=exp.Is(this=column(engine, "raw"), expression=exp.Null())),
        exp.NEQ(this=reader, expression=step.reading["read_by"].copy()),
    ]
    if among is not None:
        conditions += among
    elif not all_rows:
        conditions.append(of_prompts(engine, step))
    where = print_sql(engine, exp.Where(this=exp.and_(*conditions))).lstrip()
    relations = reading_relations(engine, step)
    # sqlglot would print all values of an UPDATE in one line.
    values = [
        f"{print_sql(engine, identifier(engine, name))} = {relations.sql(value)}"
        for name, value in step.reading.items()
    ]
    listed = textwrap.indent(",\n".join(values), "  ")  # no text in a reading has a line break
    return f"UPDATE {step.relation} SET\n{listed}\n{where}"


def reading_relations(engine: Engine, step: Step) -> Relations:
    """Return the relations by which a reading is printed: without functions where an UPDATE takes none."""
    inline = engine.functions is not None and not engine.functions.in_update
    return replace(step.relations, functions="inline") if inline else step.relations


def of_prompts(engine: Engine, step: Step) -> Sql:
    """Return the condition that a stored answer is one to this run's prompts."""
    hashes = exp.select(column(engine, "request_hash")).from_(step.relations.table("prompts"))
    return exp.In(this=column(engine, "request_hash"), query=hashes.subquery())


def unread_answers(engine: Engine, step: Step, among: Sequence[Sql]) -> exp.Select:
    """Return a query that gives a row for each stored answer that :func:`read_answers` reads; it reads no answer.

    A client stores no ``read_by``, and ``retryable`` always.
    """
    assert step.reading is not None
    read_by, retryable = column(engine, "read_by"), column(engine, "retryable")
    never = exp.and_(*(exp.Is(this=one, expression=exp.Null()) for one in (read_by, retryable)))
    otherwise = exp.NEQ(this=read_by.copy(), expression=step.reading["read_by"].copy())
    found = exp.select(literal(1)).from_(step.relations.table(step.name))
    return found.where(exp.or_(never, otherwise), *(one.copy() for one in among), copy=False)


def create_table_as(engine: Engine, step: Step, role: str, query: Sql, *, pretty: bool = True) -> list[str]:
    """Return the statements that create the table of a role anew from a query of the step."""
    select = step.relations.bound(query)
    create = engine.create_table_as if role in RESULTS else engine.create_work_table or engine.create_table_as
    return [print_sql(engine, made, pretty=pretty, copy=False) for made in create(step.relations.table(role), select)]


def create_pending(engine: Engine, step: Step, query: exp.Select) -> list[str]:
    """Return the statements that create the pending relation anew, so that a range of its hashes is read alone.

    It is clustered by the hash as the table of answers is; where the engine clusters none, its rows are sorted.
    """
    clusters = [one for one in engine.responses_properties() if isinstance(one, exp.ClusterProperty)]
    if not clusters:
        return create_table_as(engine, step, "pending", query.order_by("request_hash"))
    made = engine.create_table_as(step.relations.table("pending"), step.relations.bound(query))
    for one in made:
        if isinstance(one, exp.Create):
            given = one.args.get("properties")
            one.set("properties", exp.Properties(expressions=[*(given.expressions if given else ()), *clusters]))
    return [print_sql(engine, one) for one in made]


def insert_into(engine: Engine, step: Step) -> str:
    """Return the statement that appends the rows of a step's query to its table."""
    names = [identifier(engine, name) for name in step.selected]
    into = exp.Schema(this=step.relations.table(step.name), expressions=names)
    line = print_sql(engine, into, pretty=False)
    return f"INSERT INTO {line if len(line) <= WIDTH else print_sql(engine, into)}\n{step.sql}"


def overwrite_table(engine: Engine, step: Step) -> str:
    """Return the statement that replaces the rows of a step's table, which keeps columns and what is set on them."""
    names = [identifier(engine, name) for name in step.selected]
    into = exp.Schema(this=step.relations.table(step.name), expressions=names)
    return print_sql(engine, exp.Insert(this=into, expression=step.relations.bound(step.query), overwrite=True))


def create_responses(engine: Engine, table: exp.Table, columns: Mapping[str, Type]) -> Sql:
    """Return the statement that creates the table of answers if it is missing."""
    create = create_if_missing(engine, table, columns)
    if properties := engine.responses_properties():
        create.set("properties", exp.Properties(expressions=properties))
    return create


def create_if_missing(engine: Engine, table: exp.Table, columns: Mapping[str, Type]) -> Sql:
    """Return the statement that creates an empty table if it is missing."""
    typed = [exp.ColumnDef(this=identifier(engine, name), kind=engine.sql_type(kind)) for name, kind in columns.items()]
    return exp.Create(this=exp.Schema(this=table, expressions=typed), kind="TABLE", exists=True)
