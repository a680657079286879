"""A plan as a script that a user can paste into the warehouse: rerunnable, and it asks only what is pending."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.names import identifier, relation
from sqlenrich.core.printer import print_sql
from sqlenrich.core.version import __version__
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import RetryCall, compile_plan, compile_retry, resolve_model
from sqlenrich.plan.plan import STEPS, Plan, Step
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config, find_config


def render(
    enrichment: Enrichment,
    engine: str,
    *,
    relations: Mapping[str, str] | None = None,
    step: str | None = None,
    config: Config | None = None,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    retry: bool = False,
    reasons: Sequence[str] | None = None,
    max_attempts: int | None = None,
) -> str:
    """Give the SQL script of an enrichment for an engine, statements separated by ``;``.

    ``step`` limits it to one step's SELECT. Aliases are resolved by ``config`` (by default the ``sqlenrich.toml``
    found upward from the prompt file). With ``retry`` it is the script that asks refused rows of the last one again:
    those with one of ``reasons`` (by default each that can be), below ``max_attempts`` (by default the file's), from
    ``model`` (by default ``retry.escalate`` of the file, else its model). Raises
    :class:`~sqlenrich.UnsupportedError` for what the engine can't do.
    """
    config = config if config is not None else find_config(enrichment.path)
    if retry:
        if step is not None:
            raise ConfigError("a retry has no single step: leave out --step, or --retry")
        asked = model_to_retry(enrichment, engine, config, model)
        plan = compile_plan(enrichment, engine, relations, model=asked, options=options)
        calls = compile_retry(
            enrichment, engine, relations, model=asked, reasons=reasons, max_attempts=max_attempts, options=options
        )
        return retry_script(plan, enrichment, calls)
    if reasons or max_attempts is not None:
        raise ConfigError("--reason and --max-attempts go with --retry")
    plan = compile_plan(
        enrichment,
        engine,
        relations,
        model=model_for(enrichment, engine, config, model),
        options=options,
    )
    if step is not None:
        return step_sql(plan, step) + "\n"
    return script(plan, enrichment)


def model_for(enrichment: Enrichment, engine: str, config: Config, name: str | None = None) -> ResolvedModel:
    """Give the model of an engine: an alias of the settings, a model's own name, else the engine's default."""
    key = get_engine(engine).settings_key
    found = config.model(name or enrichment.model, key) or config.model("default", key)
    if found is None:
        return resolve_model(enrichment, get_engine(engine))
    return resolve_model(enrichment, get_engine(engine), found.name, found.params)


def model_to_retry(enrichment: Enrichment, engine: str, config: Config, name: str | None = None) -> ResolvedModel:
    """Give the model that a retry asks: the one named, else the file's ``escalate``, else the file's model."""
    wanted = name or enrichment.escalate
    key = get_engine(engine).settings_key
    if wanted is not None and config.model(wanted, key) is None and wanted != "default":
        raise ConfigError(f'the model "{wanted}" has no name for {engine}: write {key} under [models.{wanted}]')
    return model_for(enrichment, engine, config, wanted)


def step_sql(plan: Plan, name: str) -> str:
    """Give the SELECT of one step. Raises ConfigError for a name that is no step."""
    if name == "pending":
        return str(plan.step("responses").pending_sql)
    if name not in STEPS:
        raise ConfigError(f'no step "{name}"; there are: {", ".join(STEPS)}, pending')
    return plan.step(name).sql


def script(plan: Plan, enrichment: Enrichment) -> str:
    """Give the whole script of a plan."""
    engine = get_engine(plan.engine)
    parts = [header(plan, enrichment)]
    for step in plan.steps:
        parts += [f"-- {title}\n{sql};" for title, sql in statements(engine, step)]
    return "\n\n".join(parts) + "\n"


def retry_script(plan: Plan, enrichment: Enrichment, calls: Sequence[RetryCall]) -> str:
    """Give the script that asks chosen refused rows again. The verdicts come first: so it may be broken off."""
    engine = get_engine(plan.engine)
    judged, *results = (plan.step(name) for name in ("checked", "enriched", "quarantine"))
    parts = [header(plan, enrichment, RETRY_NOTES, "retry")]
    found = statements(engine, judged)
    for call in calls:
        found += ask_statements(engine, call.step, call.what)
    found += [one for step in (judged, *results) for one in statements(engine, step)]
    return "\n\n".join([*parts, *(f"-- {title}\n{sql};" for title, sql in found)]) + "\n"


RUN_NOTES = ("Run it again at any time: only requests without an answer are sent.",)
RETRY_NOTES = (
    "A retry: refused rows of the last run are asked once more; what is accepted is not, and no answer is dropped.",
    "It reads the tables of the last run: where the prompt, the model or the source changed, run that script first.",
)


def header(plan: Plan, enrichment: Enrichment, notes: Sequence[str] = RUN_NOTES, command: str = "run") -> str:
    """Give the comment on top: what it is, what must exist, and how to go on."""
    version = f", version {enrichment.version}" if enrichment.version else ""
    lines = [
        f"{plan.name} for {plan.engine}, model {plan.model or 'chosen by the run'}{version}; "
        f"made by sqlenrich {__version__}",
        *notes,
        *plan.must_exist,
    ]
    if not plan.step("responses").calls_in_sql:
        lines.append(f"The model is asked by `sqlenrich {command}`, between the responses and the checked step.")
    return "\n".join(f"-- {_one_line(line)}" for line in lines)


def statements(engine: Engine, step: Step) -> list[tuple[str, str]]:
    """Give the statements that bring a step up to date, each with a title."""
    table = relation(engine, step.relation)
    if step.kind == "table":
        return [(f"{step.name}: {TITLES[step.name]}", sql) for sql in create_table_as(engine, table, step.sql)]
    made = ("responses: every answer ever paid for", create_if_missing(engine, table, step))
    return [made, *ask_statements(engine, step, "what is to be asked, each distinct request once")]


def ask_statements(engine: Engine, step: Step, what: str) -> list[tuple[str, str]]:
    """Give the statements that make the pending relation of a call step and ask it."""
    table, found = relation(engine, step.relation), []
    if step.pending_sql is not None and step.pending_relation is not None:
        pending = relation(engine, step.pending_relation)
        found = [(f"pending: {what}", sql) for sql in create_table_as(engine, pending, step.pending_sql)]
    if step.calls_in_sql:
        names = ", ".join(identifier(engine, name).sql(engine.dialect) for name in step.columns)
        insert = f"INSERT INTO {table.sql(engine.dialect)} ({names})\n{step.sql}"
        found.append(("responses: the model is asked here and nowhere else", insert))
    return found


TITLES = {
    "prompts": "one row per source row, its prompt and the hash of its request",
    "checked": "one verdict per row",
    "enriched": "the accepted rows, typed",
    "quarantine": "the refused rows, each with its reason",
}


def create_table_as(engine: Engine, table: exp.Table, select: str) -> list[str]:
    """Give the statements that make a table afresh from the text of a SELECT."""
    mark = "THE_SELECT"
    while mark in table.sql(engine.dialect):
        mark += "_"
    made = [print_sql(engine, node) for node in engine.create_table_as(table, exp.var(mark))]
    return [re.sub(rf"\s*{mark}$", lambda _: "\n" + select, sql) for sql in made]


def create_if_missing(engine: Engine, table: exp.Table, step: Step) -> str:
    """Give the statement that makes an append step's table where it is missing."""
    columns = [
        exp.ColumnDef(this=identifier(engine, name), kind=engine.sql_type(kind)) for name, kind in step.columns.items()
    ]
    schema = exp.Schema(this=table, expressions=columns)
    return print_sql(engine, exp.Create(this=schema, kind="TABLE", exists=True))


def _one_line(text: str) -> str:
    return " ".join(text.split())
