"""The engines, found by name: a folder each here, and those that other distributions register.

Another distribution registers an engine by an entry point of the group ``sqlenrich.engines``: its name, and the
:class:`~sqlenrich.core.engine.Engine` object.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from sqlenrich.core.engine import Engine
from sqlenrich.core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENGINES = ("databricks", "snowflake", "bigquery", "spark", "duckdb")
"""The built-in engines, in the order in which they are listed."""
GROUP = "sqlenrich.engines"


def _entry_points() -> dict[str, EntryPoint]:
    """Return the engines of other distributions. To read them takes 10 to 30 ms, so nothing does at start-up."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP) if point.name not in ENGINES}


@cache
def engine_names() -> tuple[str, ...]:
    """Return the names of all engines: the built-in ones, then those of other distributions."""
    return (*ENGINES, *sorted(_entry_points()))


def is_engine(name: object) -> bool:
    """Return whether an engine has this name; for a built-in one without reading entry points."""
    return name in ENGINES or name in engine_names()


@cache
def get_engine(name: str) -> Engine:
    """Return an engine by its name. A built-in engine goes before another of the same name.

    Raises :class:`~sqlenrich.ConfigError` for a name that is not an engine's, and for an entry point that is not an
    engine of this name.
    """
    if name in ENGINES:
        engine: Engine = import_module(f"{__name__}.{name}.engine").ENGINE
        return engine
    if (point := _entry_points().get(name)) is not None:
        loaded = point.load()
        if not isinstance(loaded, Engine) or loaded.name != name:
            raise ConfigError(f'the entry point "{name}" of {GROUP}, {point.value}, is not an Engine of this name')
        return loaded
    known = engine_names()
    raise ConfigError(f'no engine "{name}"{did_you_mean(name, known)}; there are: {", ".join(known)}')
