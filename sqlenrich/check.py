"""``sqlenrich check``: a file's problems, what each engine refuses, and where each setting comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .compiler import compile_plan
from .config import Config, find_config
from .engines import ENGINES, get_engine
from .engines.base import Engine
from .enrichment import Enrichment, load
from .errors import ConfigError, SqlenrichError
from .render import model_for
from .request import ResolvedModel


@dataclass(frozen=True)
class Check:
    """What was found: the text for people, and whether the file can be used on at least one engine."""

    text: str
    usable: bool


def check(file: str | Path, *, model: str | None = None) -> Check:
    """Check one enrichment file against every engine. Never raises for what is wrong in the file itself."""
    try:
        enrichment = load(file)
        config = find_config(enrichment.path)
    except SqlenrichError as error:
        return Check(str(error), usable=False)
    compiled = enrichment.prompt()
    lines = [f"{enrichment.place}: {enrichment.description or enrichment.name}"]
    lines.append(f"  reads       {', '.join(compiled.columns)}")
    lines.append(f"  key         {', '.join(enrichment.key) or '_row (files only)'}")
    lines.append(f"  gives       {', '.join(enrichment.output_columns)}")
    lines.append(f"  settings    {config.path or 'no sqlenrich.toml'}")
    usable = False
    for name in ENGINES:
        verdict, details = _engine(enrichment, name, config, model)
        usable = usable or verdict == "ok"
        lines.append(f"  {name:<12}{verdict}")
        lines += [f"              {detail}" for detail in details]
    return Check("\n".join(lines), usable)


def _engine(enrichment: Enrichment, name: str, config: Config, model: str | None) -> tuple[str, list[str]]:
    engine = get_engine(name)
    try:
        resolved = model_for(enrichment, name, config, model)
        relations = {} if enrichment.source or enrichment.query else {"source": "source"}
        compile_plan(enrichment, name, relations, model=resolved)
    except ConfigError as error:
        return str(error), []
    except SqlenrichError as error:
        return f"refused: {error}", []
    return "ok", _settings(enrichment, engine, config, model, resolved)


def _settings(
    enrichment: Enrichment, engine: Engine, config: Config, model: str | None, resolved: ResolvedModel
) -> list[str]:
    key = engine.settings_key
    wanted = model or enrichment.model
    origin = "--model" if model else "the file" if enrichment.model != "default" else "the engine's default"
    if wanted in config.models and key in config.models[wanted]:
        origin = f"{config.path}: models.{wanted}.{key}"
    elif wanted == "default" and config.model("default", key) is not None:
        origin = f"{config.path}: models.default.{key}"
    settings = [f"model {resolved.name or '(the endpoint names it)'} ({origin})"]
    names = engine.params_of(resolved.name)
    changed = config.models.get(wanted, {}).get(key)
    for param, value in resolved.params.items():
        portable = next((ours for ours, theirs in names.items() if theirs == param), param)
        source = "the file"
        if changed is not None and (param in changed.params or portable in changed.params):
            source = f"{config.path}: models.{wanted}.{key}"
        settings.append(f"{param} {value} ({source})")
    for param in enrichment.params:
        if names.get(param) is None:
            settings.append(f"{param} is left out: {resolved.name or engine.name} does not take it")
    return settings
