"""What every verb begins with: its shorthands are made objects, once and in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlenrich.ask.model_choice import WantedModel, wanted_model
from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.options import (
    MODEL_OPTIONS,
    PLACE_OPTIONS,
    SOURCE_OPTIONS,
    caps_of,
    check_options,
    chosen,
)
from sqlenrich.runner.place import Output, RunPlaceOptions, of_target, place_of
from sqlenrich.runner.source import with_source_options
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of
from sqlenrich.spec.prices import Prices
from sqlenrich.spec.run_settings import AnyModel, Caps
from sqlenrich.spec.settings import Config, find_config, with_prices
from sqlenrich.store.inputs import Input, input_of


@dataclass(frozen=True)
class Setup:
    """What a verb was told, as objects."""

    enrichment: Enrichment
    """With the key, the columns and the filter that the caller names."""
    config: Config
    source: Input
    caps: Caps
    wanted: WantedModel
    """The model that the caller names, or the endpoint of the target."""
    output: Output | None
    """Where the tables are; None where nothing names it."""
    responses: str | None
    """The table of answers; None for the enrichment's own."""

    @property
    def place(self) -> Output:
        """Where the runs are that a verb reads. Raises ConfigError where nothing names it."""
        if self.output is None:
            raise ConfigError("of which runs? Give --output out.duckdb, or --target")
        return self.output


def set_up(
    function: str,
    known: type,
    options: Mapping[str, Any],
    enrichment: Enrichment | str | Path,
    *,
    input: Any = None,
    output: Output | None = None,
    model: AnyModel | None = None,
    caps: Caps | None = None,
    responses: str | None = None,
    config: Config | None = None,
    prices: str | Path | Prices | None = None,
) -> Setup:
    """Return what a verb was told. ``known`` are the options that ``function`` has.

    Raises TypeError for another option, and ConfigError for what contradicts itself or is not there.
    """
    check_options(function, options, known)
    loaded = enrichment_of(enrichment)
    settings = settings_of(config, loaded, prices or options.get("prices"))
    named = RunPlaceOptions(**chosen(options, PLACE_OPTIONS))  # type: ignore[typeddict-item]
    source = input_of(input, options.get("encoding"))
    loaded = with_source_options(loaded, **chosen(options, SOURCE_OPTIONS))
    place = place_of(loaded, settings, output, responses, named)
    loaded = loaded.with_refs(lambda name: result_of(name, place.output))
    wanted = of_target(wanted_model(model, **chosen(options, MODEL_OPTIONS)), place)
    return Setup(loaded, settings, source, caps_of(caps, options), wanted, place.output, place.responses)


def result_of(name: str, output: Output | None) -> str:
    """Return the relation of an enrichment's accepted rows in an output; a database of DuckDB has it by its name."""
    relations = getattr(output, "relations", None)
    return name if relations is None else str(relations(name)["enriched"])


def settings_of(config: Config | None, enrichment: Enrichment, prices: str | Path | Prices | None) -> Config:
    """Return the settings of a verb: those given, else the nearest file's, with the prices of a file."""
    return with_prices(config if config is not None else find_config(enrichment.path), prices)
