"""The model of a request: its own name and its parameters under the names of one engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlenrich.core.embedding import DEFAULT_ALIASES
from sqlenrich.core.engine import Engine, OutputSpec
from sqlenrich.engines import get_engine
from sqlenrich.plan.request import ResolvedModel
from sqlenrich.spec.contract import OutputContract
from sqlenrich.spec.enrichment import Enrichment


def engine_of(contract: OutputContract, name: str, *, asked_by_client: bool = False) -> Engine:
    """Return the engine that asks for what the output is: an answer or a vector.

    Raises UnsupportedError where its own function is to give a vector, and it has none for that.
    """
    engine = get_engine(name)
    if asked_by_client:
        engine = replace(engine, call=None)
    return engine if contract.embedding is None else engine.for_embedding(contract.embedding)


def resolve_model(
    enrichment: Enrichment, engine: Engine, name: str | None = None, overrides: Mapping[str, Any] | None = None
) -> ResolvedModel:
    """Return the model and its parameters under the engine's names. ``overrides`` are an alias'; None removes one."""
    if enrichment.embedding is not None:
        engine = engine.for_embedding(enrichment.embedding)
    named = None if enrichment.model in DEFAULT_ALIASES else enrichment.model
    model = name or named or engine.facts["default_model"].value
    names = engine.params_of(model or "")
    params = {vendor: value for key, value in enrichment.params.items() if (vendor := names.get(key)) is not None}
    for key in dict.fromkeys((engine.name, engine.settings_key)):
        params |= enrichment.engine_params.get(key, {})
    for key, value in (overrides or {}).items():
        params[names.get(key) or key] = value
    options = {key: params.pop(key) for key in engine.call_options if key in params}
    params = {**engine.default_params(model or "", options), **params}
    params = {key: value for key, value in params.items() if value is not None}
    return ResolvedModel(model or "", params, options, hashed_name=engine.hashed_model(model or ""))


def output_of(enrichment: Enrichment, model: ResolvedModel) -> OutputSpec:
    """Return the facts from which an engine makes its response format."""
    return OutputSpec(enrichment.name, enrichment.schema, enrichment.repairs, model.name)
