"""A plan as a script for a warehouse. It can be run again, and asks only pending requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.version import __version__
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import RetryCall, compile_plan, compile_retry
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.plan import STEPS, Plan
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.renderer.statements import Statement, plan_statements, retry_statements
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
    found upward from the prompt file). With ``retry`` the script asks refused rows of the last run again: those with
    one of ``reasons`` (by default all that a retry can help) and fewer than ``max_attempts`` attempts (by default the
    file's). It asks ``model`` (by default ``retry.escalate`` of the file, else its model). Raises
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
    """Give the model of a retry: the one named, else the file's ``escalate``, else the file's model."""
    wanted = name or enrichment.escalate
    key = get_engine(engine).settings_key
    if wanted is not None and config.model(wanted, key) is None and wanted != "default":
        raise ConfigError(f'the model "{wanted}" has no name for {engine}: write {key} under [models.{wanted}]')
    return model_for(enrichment, engine, config, wanted)


def step_sql(plan: Plan, name: str) -> str:
    """Give the SELECT of one step. Raises ConfigError for an unknown step."""
    if name == "pending":
        return str(plan.step("responses").pending_sql)
    if name not in STEPS:
        raise ConfigError(f'no step "{name}"; there are: {", ".join(STEPS)}, pending')
    return plan.step(name).sql


def script(plan: Plan, enrichment: Enrichment) -> str:
    """Give the whole script of a plan."""
    return _text(header(plan, enrichment), plan_statements(plan))


def retry_script(plan: Plan, enrichment: Enrichment, calls: Sequence[RetryCall]) -> str:
    """Give the script that asks refused rows again."""
    return _text(header(plan, enrichment, RETRY_NOTES, "retry"), retry_statements(plan, calls))


def _text(head: str, statements: Sequence[Statement]) -> str:
    return "\n\n".join([head, *(f"-- {title}\n{sql};" for title, sql in statements)]) + "\n"


RUN_NOTES = ("Run it again at any time: only requests without an answer are sent.",)
RETRY_NOTES = (
    "A retry: refused rows of the last run are asked once more; what is accepted is not, and no answer is dropped.",
    "It reads the tables of the last run: where the prompt, the model or the source changed, run that script first.",
)


def header(plan: Plan, enrichment: Enrichment, notes: Sequence[str] = RUN_NOTES, command: str = "run") -> str:
    """Give the comment at the top: the enrichment, its prerequisites, and how to continue."""
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


def _one_line(text: str) -> str:
    return " ".join(text.split())
