"""``--target``: where a run writes if a target of ``sqlenrich.toml`` names the place."""

from __future__ import annotations

from typing import NamedTuple

from sqlenrich.core.errors import ConfigError
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import find_config


class Place(NamedTuple):
    """The output of a run, and the table of its answers; None where nothing names it."""

    output: str | None
    responses: str | None


def place_of(enrichment: Enrichment, target: str | None, given: Place, script: str) -> Place:
    """Give the place that the options name, completed by the target. ``script`` is the command for a warehouse.

    Raises ConfigError for an unknown target and for one where no client can run.
    """
    if target is None:
        return given
    found = find_config(enrichment.path).target(target)
    if found.engine != "duckdb":
        raise ConfigError(
            f'the target "{target}" is on {found.engine}, where run is not supported yet; use the script of: {script}'
        )
    responses = (found.responses or "").replace("{name}", enrichment.name) or None
    return Place(given.output or found.database, given.responses or responses)
