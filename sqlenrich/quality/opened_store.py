"""The store of an enrichment's runs, opened where a verb was setup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.place import is_paths
from sqlenrich.runner.setup import Setup
from sqlenrich.store.backend import Backend
from sqlenrich.store.store import Store

LITTLE_MEMORY_MIB = 128
"""DuckDB's first limit of memory for what reads aggregates."""


@contextmanager
def open_store(setup: Setup, *, write: bool = False, memory_mib: int = LITTLE_MEMORY_MIB) -> Iterator[Store]:
    """Open what runs of an enrichment left: a DuckDB database or file, a warehouse's schema, a backend.

    Raises ConfigError where no run has written it.
    """
    enrichment, place = setup.enrichment, setup.place
    if isinstance(place, Backend):
        place.check_before_retry(enrichment)
        with place as backend:
            yield Store(backend.as_database(), enrichment.name, enrichment, backend.output)
        return
    from sqlenrich.store.duckdb.tables import open_tables

    assert is_paths(place)
    with open_tables(enrichment, place, memory_mib=memory_mib, write=write) as tables:
        yield Store(tables, enrichment.name, enrichment, tables.output)


@contextmanager
def open_results(setup: Setup, *, write: bool = False) -> Iterator[Store]:
    """Open a store to read its results. Raises ConfigError where it has none of the enrichment."""
    with open_store(setup, write=write) as store:
        if not store.has("enriched"):
            known = sorted({line.name for line in store.lines.values()})
            raise ConfigError(
                f"{store.output} has no results of {store.name}; it has those of: {', '.join(known) or 'none'}"
            )
        yield store
