"""The keywords of run, retry, plan, preview and evaluate: short forms of what their objects hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict

from sqlenrich.ask.batch import BatchPolicy
from sqlenrich.ask.model_choice import ModelOptions
from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.runner.place import RunPlaceOptions
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.run_settings import Caps


class SourceOptions(TypedDict, total=False):
    """The shorthands that change what the header says of the source."""

    key: str | Sequence[str] | None
    columns: Mapping[str, str] | None
    where: str | None


class InputOptions(TypedDict, total=False):
    """The shorthand that says how the files of the input are read."""

    encoding: str | None


class CapOptions(TypedDict, total=False):
    """The shorthands of caps, and the prices of ``max_cost``."""

    max_rows: int | None
    max_calls: int | None
    max_cost: float | None
    stop_after_refused: int | None
    prices: str | Path | Prices | None


class AskOptions(ModelOptions, CapOptions, total=False):
    """The shorthands of a verb that asks: model, caps, prices."""


class BatchOptions(TypedDict, total=False):
    """Whether a run asks by the vendor's Batch API."""

    batch: bool | BatchPolicy
    """Requests go out in files, at the price of batches; a policy says how often their vendor is asked."""
    wait: bool
    """False: the run ends once its batches are sent; the same run collects them later."""


class RunOptions(SourceOptions, InputOptions, AskOptions, RunPlaceOptions, BatchOptions, total=False):
    """The shorthands of a run: source, model, caps, prices, warehouse, batches, what becomes of other rows."""

    incremental: bool
    """The rows replace those of the same key; the others stay."""
    publish_partial: bool
    """A run that ends early replaces complete results of an earlier run."""
    replace: bool
    """The tables may be those of another prompt file of this name."""

    chunk_rows: int | None
    """The requests of a warehouse's statement; None: what takes 5 minutes."""


class RetryOptions(AskOptions, RunPlaceOptions, BatchOptions, total=False):
    """The shorthands of a retry: model, caps, prices, warehouse, batches."""

    chunk_rows: int | None


SOURCE_OPTIONS, CAP_OPTIONS, MODEL_OPTIONS, PLACE_OPTIONS = (
    tuple(options.__annotations__) for options in (SourceOptions, CapOptions, ModelOptions, RunPlaceOptions)
)


def check_options(function: str, options: Mapping[str, Any], known: type) -> None:
    """Refuse keywords that a function has not. Raises TypeError: a misspelt cap would be no cap."""
    for name in options:
        if name not in known.__annotations__:
            near = did_you_mean(name, known.__annotations__)
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'{near}")


def chosen(options: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return those of some options that are set."""
    return {name: options[name] for name in names if name in options}


def caps_of(caps: Caps | None, options: Mapping[str, Any]) -> Caps:
    """Return the caps, or those of the shorthands. Raises ConfigError where both are given."""
    names = (each.name for each in fields(Caps))
    short = {name: options[name] for name in names if options.get(name) is not None}
    if caps is not None and short:
        raise ConfigError("give caps=Caps(...) or its shorthands, not both")
    return caps or Caps(**short)


def batch_policy(options: Mapping[str, Any]) -> BatchPolicy | None:
    """Return how batches are waited for; None where requests are sent one by one. Raises ConfigError."""
    wait, batch = options.get("wait", True), options.get("batch")
    if batch:
        return replace(batch if isinstance(batch, BatchPolicy) else BatchPolicy(), wait=wait)
    if not wait:
        raise ConfigError("--no-wait leaves batches to the vendor: give it with --batch")
    return None


def names_of(written: str | Sequence[str]) -> tuple[str, ...]:
    """Return names that a caller gives as a sequence, or as the text of one."""
    return (written,) if isinstance(written, str) else tuple(written)
