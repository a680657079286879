"""The engines: one file each. :func:`get_engine` is the only way to one, so that a new file is one line here."""

from __future__ import annotations

from importlib import import_module

from ..errors import ConfigError, did_you_mean
from .base import Engine

ENGINES = ("databricks", "snowflake", "bigquery", "spark", "duckdb")


def get_engine(name: str) -> Engine:
    """Give an engine by its name. Raises :class:`~sqlenrich.ConfigError` for a name that is not one."""
    if name not in ENGINES:
        raise ConfigError(f'no engine "{name}"{did_you_mean(name, ENGINES)}; there are: {", ".join(ENGINES)}')
    engine: Engine = import_module(f".{name}", __package__).ENGINE
    return engine
