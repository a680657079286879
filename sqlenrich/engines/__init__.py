"""The engines: a folder each, found by name. :func:`get_engine` is the only way to one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, did_you_mean

ENGINES = ("databricks", "snowflake", "bigquery", "spark", "duckdb")
"""The engines of this package."""
_MODULES = {"databricks": "sqlenrich.engines.databricks"} | {
    name: f"sqlenrich.engines.{name}.engine" for name in ENGINES if name != "databricks"
}


@cache
def engine_names() -> tuple[str, ...]:
    """Give the names of all engines: this package's, then those that other distributions register."""
    return (*ENGINES, *(point.name for point in entry_points(group="sqlenrich.engines") if point.name not in ENGINES))


@cache
def get_engine(name: str) -> Engine:
    """Give an engine by its name. Raises :class:`~sqlenrich.ConfigError` for a name that is not one.

    Another distribution adds an engine by an entry point of the group ``sqlenrich.engines``: its name, and the
    :class:`~sqlenrich.core.engine.Engine` object.
    """
    if name in _MODULES:
        engine: Engine = import_module(_MODULES[name]).ENGINE
        return engine
    for point in entry_points(group="sqlenrich.engines", name=name):
        loaded: Engine = point.load()
        return loaded
    known = engine_names()
    raise ConfigError(f'no engine "{name}"{did_you_mean(name, known)}; there are: {", ".join(known)}')
