"""A plan as a script for a warehouse. It can be run again, and asks only pending requests."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.errors import ConfigError, UnsupportedError
from sqlenrich.core.function_modes import Functions
from sqlenrich.core.layout import COLUMNS
from sqlenrich.core.version import __version__
from sqlenrich.engines import get_engine
from sqlenrich.plan.compile import RetryCall, compile_accepted, compile_cascade, compile_retry, compile_script
from sqlenrich.plan.model import resolve_model
from sqlenrich.plan.plan import STEPS, Plan, Step
from sqlenrich.plan.references import References
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.plan.scores_query import scores_query
from sqlenrich.renderer.functions import function_statements, needed_functions, with_repeated_functions
from sqlenrich.renderer.script_loop import can_loop, first_reading, loop_statements
from sqlenrich.renderer.statements import (
    JUDGED,
    Statement,
    plan_statements,
    quality_statements,
    reread_statements,
    retry_statements,
)
from sqlenrich.renderer.tables import clean_up, guards
from sqlenrich.spec.classifier import read_classifier
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.settings import Config, find_config


def render(
    enrichment: Enrichment | str | Path,
    engine: str,
    *,
    relations: Mapping[str, str] | None = None,
    step: str | None = None,
    config: Config | None = None,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    retry: bool = False,
    reasons: Sequence[str] | None = None,
    where: str | None = None,
    max_attempts: int | None = None,
    reread: bool = False,
    preflight: bool = True,
    chunks: int | None = None,
    max_requests: int | None = None,
    functions: Functions | None = None,
    quality: bool = False,
) -> str:
    """Return the SQL script of an enrichment for an engine, statements separated by ``;``.

    ``step`` limits it to one step's SELECT; ``scores`` is that of a cascade's classifier. Aliases are resolved by
    ``config`` (by default the ``sqlenrich.toml`` found upward from the prompt file). With ``retry`` the script asks
    refused rows of the last run again: those with one of ``reasons`` (by default all that a retry can help) and fewer
    than ``max_attempts`` attempts (by default the file's), and with ``where`` accepted rows that meet that condition,
    each once of a model. It asks ``model`` (by default ``retry.escalate`` of the file, else its model). With ``reread``
    the script reads and judges the stored answers again and asks nothing.

    The script asks in the engine's own scripting: first 3 requests, and it stops if all of them fail, then the others.
    ``chunks`` asks these in so many parts, ``max_requests`` limits them; either takes a lock against a second run at
    the same time. Without ``preflight`` the script has no scripting: plain statements for clients that can't run a
    block. ``functions`` tells where the expressions that every enrichment repeats stand: ``inline``, in ``temporary``
    functions at the head (the default of a script with scripting), or in ``installed`` ones, whose statements
    ``step="functions"`` gives. With ``quality`` statements follow that measure the answers: the profile of the new ones
    is stored, and SELECTs give drift, a sample for people to judge, and the accuracy of the last evaluation;
    ``step="drift"`` and so on gives one of them. With a cascade of a given threshold a second part follows, which asks
    the second model for the rows below it. Raises :class:`~sqlenrich.UnsupportedError` for what the engine
    can't do.
    """
    enrichment = enrichment_of(enrichment)
    if functions is None:
        plain = step is not None or not preflight or get_engine(engine).functions is None
        functions = "inline" if plain else "temporary"
    config = config if config is not None else find_config(enrichment.path)
    if quality and (reread or step is not None):
        raise ConfigError("--quality goes with a whole script that asks: leave out --reread and --step")
    if reread and (retry or step is not None):
        raise ConfigError("--reread asks nothing and has no single step: leave out --retry and --step")
    in_parts = chunks is not None or max_requests is not None
    if in_parts and (retry or reread or step is not None):
        raise ConfigError("--chunks and --max-requests go with a run's script: leave out --retry, --reread and --step")
    if in_parts and not preflight:
        raise ConfigError("--chunks and --max-requests need the engine's scripting: leave out --no-preflight")
    if retry:
        if step is not None:
            raise ConfigError("a retry has no single step: leave out --step, or --retry")
        asked = model_to_retry(enrichment, engine, config, model)
        plan = compile_script(enrichment, engine, relations, model=asked, options=options, functions=functions)
        calls = compile_retry(
            enrichment, engine, relations, model=asked, reasons=reasons, max_attempts=max_attempts, options=options
        )
        notes = RETRY_NOTES
        if where is not None:
            accepted = compile_accepted(
                enrichment,
                engine,
                where,
                relations,
                model=asked,
                reasons=reasons,
                max_attempts=max_attempts,
                options=options,
            )
            calls, notes = (*calls, accepted), RETRY_WHERE_NOTES
        return retry_script(plan, enrichment, calls, notes, quality=quality)
    if reasons or max_attempts is not None or where is not None:
        raise ConfigError("--reason, --where and --max-attempts go with --retry")
    plan = compile_script(
        enrichment,
        engine,
        relations,
        model=model_for(enrichment, engine, config, model),
        options=options,
        functions=functions,
    )
    if step == "scores" and (classifier := read_classifier(enrichment)) is not None:
        return plan.relations.sql(scores_query(References(get_engine(engine)), classifier)) + "\n"
    if step is not None:
        return step_sql(plan, step) + "\n"
    if reread:
        return reread_script(plan, enrichment)
    second = _second_part(enrichment, engine, relations, config, options, functions)
    if in_parts or (preflight and can_loop(plan)):
        printed = [*plan.steps, first_reading(plan)]
        plan = with_repeated_functions(plan, printed)
        notes = RUN_NOTES
        statements = [*_functions(plan, printed), *loop_statements(plan, chunks, max_requests)]
        statements += quality_statements(plan) if quality else []
        return _text(header(plan, enrichment, notes), statements) + second
    return script(plan, enrichment, quality=quality) + second


def _second_part(
    enrichment: Enrichment,
    engine: str,
    relations: Mapping[str, str] | None,
    config: Config,
    options: Mapping[str, Any] | None,
    functions: Functions,
) -> str:
    """Return the part of a script that asks a cascade's second model; empty without a cascade.

    Raises UnsupportedError where only a run finds the threshold.
    """
    cascade = enrichment.cascade
    if cascade is None:
        return ""
    check_cascade(enrichment, engine)
    model = model_to_retry(enrichment, engine, config, cascade.ask)
    plan = compile_script(enrichment, engine, relations, model=model, options=options, functions=functions)
    made = compile_cascade(enrichment, engine, relations, model=model, options=options)
    return "\n" + retry_script(plan, enrichment, [made.below(cascade.threshold)], CASCADE_NOTES)


def check_cascade(enrichment: Enrichment, engine: str) -> None:
    """Refuse a cascade whose threshold is to be found, or with a classifier. Raises UnsupportedError."""
    if enrichment.cascade is not None and enrichment.cascade.distilled is not None:
        raise UnsupportedError(
            engine,
            "a script does not load the weights of a cascade",
            "use sqlenrich run; --step scores prints the SELECT of the classifier",
        )
    if enrichment.cascade is not None and enrichment.cascade.filter is not None:
        raise UnsupportedError(
            engine,
            "a script does not search the threshold of a filter",
            "use sqlenrich run, or write the threshold that its report names as a condition of where",
        )
    if enrichment.cascade is not None and enrichment.cascade.threshold is None:
        raise UnsupportedError(
            engine,
            "a script can't find the threshold of a cascade",
            "run it once, and write the threshold that its report names in place of target",
        )


def model_for(enrichment: Enrichment, engine: str, config: Config, name: str | None = None) -> ResolvedModel:
    """Return the model of an engine: an alias of the settings, a model's own name, else the engine's default."""
    key = get_engine(engine).settings_key
    alias = DEFAULT_ALIASES[enrichment.embedding is not None]
    found = config.model(name or enrichment.model, key) or config.model(alias, key)
    if found is None:
        resolved = resolve_model(enrichment, get_engine(engine))
    else:
        resolved = resolve_model(enrichment, get_engine(engine), found.name, found.params)
    return replace(resolved, facts=config.facts.get(engine, {}))


def model_to_retry(enrichment: Enrichment, engine: str, config: Config, name: str | None = None) -> ResolvedModel:
    """Return the model of a retry: the one named, else the file's ``escalate``, else the file's model."""
    wanted = name or enrichment.escalate
    key = get_engine(engine).settings_key
    if wanted is not None and config.model(wanted, key) is None and wanted not in DEFAULT_ALIASES:
        raise config.of_file(f'the model "{wanted}" has no name for {engine}: write {key} under [models.{wanted}]')
    return model_for(enrichment, engine, config, wanted)


def step_sql(plan: Plan, name: str) -> str:
    """Return the SELECT of one step. Raises ConfigError for an unknown step."""
    if name == "functions":
        if plan.relations.functions != "installed":
            raise ConfigError("--step functions prints installed functions: add --functions installed")
        return ";\n".join(statement.sql for statement in function_statements(plan)) + ";"
    if name == "pending":
        return str(plan.step("responses").pending_sql)
    known = {step.name: step for step in (*plan.steps, *(() if name in STEPS else plan.quality))}
    if name not in known:
        raise ConfigError(f'no step "{name}"; there are: {", ".join(known)}, pending')
    return known[name].sql


def script(plan: Plan, enrichment: Enrichment, *, quality: bool = False) -> str:
    """Return the whole script of a plan."""
    plan = with_repeated_functions(plan, plan.steps)
    statements = [*_functions(plan, plan.steps), *guards(plan), *plan_statements(plan), *clean_up(plan)]
    statements += quality_statements(plan) if quality else []
    return _text(header(plan, enrichment), statements)


def retry_script(
    plan: Plan, enrichment: Enrichment, calls: Sequence[RetryCall], notes: Sequence[str], *, quality: bool = False
) -> str:
    """Return the script that asks refused rows again."""
    judged = [plan.step(name) for name in (*JUDGED, "checked")]
    printed = [*judged, *(call.step for call in calls), _reading(plan), _reading(plan)]
    plan = with_repeated_functions(plan, printed)
    calls = [call._replace(step=call.step.bound(plan.relations)) for call in calls]
    statements = [*_functions(plan, printed), *retry_statements(plan, calls), *clean_up(plan)]
    statements += quality_statements(plan) if quality else []
    return _text(header(plan, enrichment, notes, "retry"), statements)


def reread_script(plan: Plan, enrichment: Enrichment) -> str:
    """Return the script that reads the stored answers again. Raises UnsupportedError where only a client asks."""
    engine = get_engine(plan.engine)
    if plan.responses.reading is None:
        raise UnsupportedError(
            plan.engine, "--reread: a client asks the model there and reads each answer as it comes", "run it"
        )
    notes = REREAD_NOTES if engine.updates else (*REREAD_NOTES, f"Needs: {{responses}} {UPDATABLE}")
    head = header(replace(plan, must_exist=()), enrichment, notes, asks=False)
    printed = [*(plan.step(name) for name in JUDGED), _reading(plan)]
    plan = with_repeated_functions(plan, printed)
    return _text(head, [*_functions(plan, printed), *reread_statements(plan)])


def _reading(plan: Plan) -> Step:
    """Return the step that calls the model without its call: only the reading of its answers is printed."""
    return replace(plan.responses, query=exp.select("1"))


def _functions(plan: Plan, printed: Sequence[Step]) -> list[Statement]:
    return function_statements(plan, printed) if plan.relations.functions == "temporary" else []


def _text(head: str, statements: Sequence[Statement]) -> str:
    """Return the script. A statement without a title belongs to the one before it."""
    return head + "".join(f"{_before(statement)}{statement.sql};" for statement in statements) + "\n"


def _before(statement: Statement) -> str:
    return f"\n\n{_comment(statement.title)}\n" if statement.title else "\n"


RUN_NOTES = (
    "It makes {enriched}, the accepted rows, and {quarantine}, the refused rows with their reasons. {responses} keeps "
    "every answer: run again, the script asks and pays only for requests that have no answer there. A change of the "
    "prompt, the model or a parameter makes new requests. After a stop run it again: only answers of the statement "
    "that was asking may be paid twice. Let it end at its first error.",
)
RETRY_NOTES = (
    "A retry: refused rows of the last run are asked once more, which costs one call each. No accepted row is asked "
    "and no answer is dropped. After a stop run it again: a row that has its new answer is judged first. It reads the "
    "tables of the last run: where the prompt, the model or the source changed, run that script first.",
)
RETRY_WHERE_NOTES = (
    "A retry: refused rows of the last run are asked once more, and accepted rows that meet the condition once of a "
    "model, which costs one call each. A new answer counts once it is accepted, and no answer is dropped. After a stop "
    "run it again: a row that has its new answer is judged first. It reads the tables of the last run: where the "
    "prompt, the model or the source changed, run that script first.",
)
CASCADE_NOTES = (
    "The second part of a cascade: this model answers the rows that the first one refused or scored below the "
    "threshold, each distinct request once. A new answer counts once it is accepted, and no answer is dropped. After a "
    "stop run it again.",
)
REREAD_NOTES = (
    "It reads the stored answers again where another table of facts has read them, and judges them. It asks nothing "
    "and costs no call. It reads the tables of the last run, and can be run again at any time.",
)
UPDATABLE = "in a table format with UPDATE, such as Delta or Iceberg"


def header(
    plan: Plan,
    enrichment: Enrichment,
    notes: Sequence[str] = RUN_NOTES,
    command: str = "run",
    *,
    asks: bool = True,
) -> str:
    """Return the comment at the top: the enrichment, its prerequisites, and how to continue."""
    version = f", version {enrichment.version}" if enrichment.version else ""
    title = f"{plan.name} for {plan.engine}, model {plan.model or 'chosen by the run'}{version}; made by sqlenrich"
    lines = [
        *(note.format_map({step.name: step.relation for step in plan.steps}) for note in notes),
        *plan.must_exist,
        *needed_functions(plan),
    ]
    if asks and not plan.step("responses").calls_in_sql:
        lines.append(f"The model is asked by `sqlenrich {command}`, between the responses and the checked step.")
    return "\n".join([f"-- {' '.join(title.split())} {__version__}", *map(_comment, lines)])


def _comment(text: str) -> str:
    """Return a note as lines of a comment; a statement, which may be pasted, stays on its line."""
    text = " ".join(text.split())
    if text.startswith(("GRANT ", "CREATE ")):
        return f"-- {text}"
    return textwrap.fill(
        text, COLUMNS, initial_indent="-- ", subsequent_indent="-- ", break_long_words=False, break_on_hyphens=False
    )
