"""``sqlenrich check``: the problems of a file, what each engine refuses, and where each setting comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlenrich.ask.output_forms import schema_format, why_no_schema
from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.engine import Engine, ResponseFormat
from sqlenrich.core.errors import ConfigError, PromptError, SpecError, SqlenrichError
from sqlenrich.core.tokens import BYTES_PER_TOKEN, estimate_tokens
from sqlenrich.core.turn import ROW_SYSTEM, text_before
from sqlenrich.engines import engine_names, get_engine
from sqlenrich.plan.compile import compile_plan
from sqlenrich.plan.model import engine_of, output_of
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.prompt import Prompt, PromptWithSystem
from sqlenrich.prompt.layout import layout
from sqlenrich.renderer.script import model_for
from sqlenrich.schema.json_schema import hint_text
from sqlenrich.schema.vendor.response_format import json_schema_format
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import load
from sqlenrich.spec.settings import Config, find_config

LONG_CONSTANT_CHARACTERS = 200
"""Constant text of this length after a row's value is reported: it defeats prefix caches."""
_NAMED = 8
"""The number of omitted keywords that a line names."""


@dataclass(frozen=True)
class Check:
    """The result: a text to print, and whether an engine, or each one that was named, can use the file."""

    text: str
    usable: bool
    place: str
    name: str | None = None
    """The name of the enrichment; None for a file that can't be loaded."""


def check(file: str | Path, *, model: str | None = None, engines: Sequence[str] = ()) -> Check:
    """Check one enrichment file against every engine, or against some, each of which must be able to use it.

    Problems of the file are in the result, never raised. Raises ConfigError for an unknown engine.
    """
    for name in engines:
        get_engine(name)
    try:
        enrichment = load(file)
        config = find_config(enrichment.path)
    except SqlenrichError as error:
        return Check(str(error), usable=False, place=str(file))
    compiled = enrichment.prompt()
    lines = [f"{enrichment.place}: {enrichment.description or enrichment.name}"]
    lines.append(f"  reads       {', '.join(compiled.columns)}")
    if isinstance(compiled, PromptWithSystem):
        lines.append(f"  system      differs by row: it reads {', '.join(compiled.system.columns)}")
    lines.append(f"  key         {', '.join(enrichment.key) or '_row (files and frames only)'}")
    if enrichment.keep_all:
        lines.append(f"  keeps       {_kept(enrichment)}")
    lines.append(f"  gives       {', '.join(enrichment.output_columns)}")
    lines.append(f"  settings    {config.told if config.path else 'no sqlenrich.toml'}")
    lines += _prompt(enrichment, compiled)
    try:
        enrichment.prompt(guess=False)
    except PromptError as error:
        lines.append(f"  render, dbt refused: {error} (a run reads the types from its source)")
    verdicts: list[str] = []
    for name in engines or engine_names():
        verdict, details = _engine(enrichment, name, config, model)
        verdicts.append(verdict)
        lines.append(f"  {name:<12}{verdict}")
        lines += [f"              {detail}" for detail in details]
    usable = (all if engines else any)(verdict == "ok" for verdict in verdicts)
    return Check("\n".join(lines), usable, enrichment.place, enrichment.name)


def _prompt(enrichment: Enrichment, compiled: Prompt) -> list[str]:
    """Return the constant part of the prompts, and a warning if it is where prefix caches cannot use it."""
    same = layout(compiled.printed, lambda text: len(text.encode())).constant
    line = f"  tokens      about {-(-same // BYTES_PER_TOKEN):,} of each prompt are constant"
    if enrichment.embedding is None:
        line += f", the schema has {estimate_tokens(hint_text(enrichment.schema)):,}"
    if (limit := enrichment.limit) is not None:
        longer = "is not asked" if limit.cut is None else f"has its {limit.cut} cut"
        line += f"; a request of over {limit.tokens:,} {longer}"
    if turns := [turn for turn in enrichment.turns if turn != ROW_SYSTEM]:
        before = estimate_tokens(text_before(turns))
        line += (
            f"\n  messages    {len(turns)} before each prompt, about {before:,} tokens; "
            "the function of a warehouse gets them as text before it"
        )
    _, value, behind, column = layout(compiled.printed)
    if value is None or enrichment.embedding is not None or behind < LONG_CONSTANT_CHARACTERS:
        return [line]
    place = f" (line {compiled.lines[value]})" if value in compiled.lines else ""
    advice = "put them before it, then endpoints that cache prefixes read them once"
    return [line, f"  prompt      {behind:,} constant characters follow the row's {column}{place}: {advice}"]


def response_format(file: str | Path, engine: str, *, model: str | None = None) -> str:
    """Give, as JSON, the response format of an engine's requests: the part of the output's schema that its model gets.

    Raises as :func:`~sqlenrich.load` does, and ConfigError if no model is named.
    """
    enrichment = load(file)
    if enrichment.embedding is not None:
        raise ConfigError(f"{enrichment.place}: a request for a vector has no response format")
    config = find_config(enrichment.path)
    resolved = model_for(enrichment, engine, config, model)
    form = _response_format(enrichment, get_engine(engine), config, resolved).form
    return json.dumps(form, indent=2, ensure_ascii=False)


def _response_format(enrichment: Enrichment, engine: Engine, config: Config, resolved: ResolvedModel) -> ResponseFormat:
    output = output_of(enrichment, resolved)
    if resolved.options.get("schema") is False:
        return ResponseFormat(None, ("schema: false",))
    if engine.call is not None:
        return engine.response_format(output)
    if enrichment.hint == "always":
        return ResponseFormat(None, ("hint: always",))
    try:
        endpoint = config.endpoint(None)
    except ConfigError:  # an option of the run may name one
        return json_schema_format(output)
    if why := why_no_schema(endpoint):
        return ResponseFormat(None, (why,))
    return schema_format(output, endpoint)


def _response_format_line(enrichment: Enrichment, sent: ResponseFormat) -> str:
    named = ", ".join(sent.left_out[:_NAMED])
    if len(sent.left_out) > _NAMED:
        named += f" and {len(sent.left_out) - _NAMED} more"
    if sent.form is None:
        instead = "nothing replaces it" if enrichment.hint == "never" else "the hint replaces it"
        return f"the request has no schema ({named}): {instead}"
    if not sent.left_out:
        return "the request has the whole schema"
    return f"the request's schema omits: {named} (only the checks use them)"


def _kept(enrichment: Enrichment) -> str:
    """Return what ``keep: "*"`` stands for, and where it is refused."""
    try:
        return ", ".join(enrichment.with_all_kept(None).keep)
    except SpecError as error:
        return f"all other columns of the source, in a run; {error.problems[0]}"


def _engine(enrichment: Enrichment, name: str, config: Config, model: str | None) -> tuple[str, list[str]]:
    try:
        engine = engine_of(enrichment, name)
        resolved = model_for(enrichment, name, config, model)
        relations = {} if enrichment.source or enrichment.query else {"source": "source"}
        compile_plan(replace(enrichment, keep_all=False), name, relations, model=resolved)
    except ConfigError as error:
        return str(error), []
    except SqlenrichError as error:
        return f"refused: {error}", []
    if (vector := enrichment.embedding) is not None:
        line = f"the answer is a vector of {vector.dimensions:,} numbers"
    else:
        line = _response_format_line(enrichment, _response_format(enrichment, engine, config, resolved))
    return "ok", [*_settings(enrichment, engine, config, model, resolved), line]


def _settings(
    enrichment: Enrichment, engine: Engine, config: Config, model: str | None, resolved: ResolvedModel
) -> list[str]:
    key = engine.settings_key
    wanted = model or enrichment.model
    origin = "--model" if model else "the file" if enrichment.model not in DEFAULT_ALIASES else "the engine's default"
    if (wanted in config.models and key in config.models[wanted]) or (
        wanted in DEFAULT_ALIASES and config.model(wanted, key) is not None
    ):
        origin = f"{config.path}: models.{wanted}.{key}"
    unnamed = "model the endpoint's own, where it serves one (else --model, or models.default.endpoint)"
    settings = [f"model {resolved.name} ({origin})" if resolved.name else unnamed]
    if (end := engine.end_of(resolved.name)) is not None:
        settings.append(f"{resolved.name} may end on {end.value} (as of {end.read_on}): {end.source}")
    names = engine.params_of(resolved.name)
    changed = config.models.get(wanted, {}).get(key)
    for param, value in resolved.params.items():
        portable = next((ours for ours, theirs in names.items() if theirs == param), param)
        of_file = portable in enrichment.params or param in enrichment.engine_params.get(key, {})
        source = "the file" if of_file else "the engine's default"
        if changed is not None and (param in changed.params or portable in changed.params):
            source = f"{config.path}: models.{wanted}.{key}"
        settings.append(f"{param} {value} ({source})")
    for param in enrichment.params:
        if names.get(param) is None:
            settings.append(f"{param} is left out: {resolved.name or engine.name} does not take it")
    return settings
