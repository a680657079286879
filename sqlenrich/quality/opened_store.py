"""The store of an enrichment's runs, opened where the options of a verb say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlenrich.core.errors import ConfigError
from sqlenrich.runner.place import Output, PlaceOptions, RunPlaceOptions, is_paths, place_of
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config
from sqlenrich.store.statements import StatementBackend
from sqlenrich.store.store import Store

LITTLE_MEMORY_MIB = 128
"""DuckDB's first limit of memory for what reads aggregates; None is its own."""


@contextmanager
def open_store(
    enrichment: Enrichment,
    output: Output | None,
    config: Config,
    options: PlaceOptions,
    *,
    write: bool = False,
    memory_mib: int | None = LITTLE_MEMORY_MIB,
) -> Iterator[Store]:
    """Open what runs of an enrichment left. Raises ConfigError where no run has written it.

    ``output`` is a DuckDB database, a file that a run wrote, a warehouse's schema, or a backend; ``options`` name a
    warehouse as those of :func:`~sqlenrich.run` do.
    """
    place = place_of(enrichment, config, output, None, RunPlaceOptions(**options)).output  # type: ignore[typeddict-item]
    if place is None:
        raise ConfigError("of which runs? Give --output out.duckdb, or --target")
    if isinstance(place, StatementBackend):
        place.check_before_retry(enrichment)
        with place as backend:
            yield Store(backend.as_database(), enrichment, backend.output)
        return
    from sqlenrich.store.duckdb.tables import open_tables

    assert is_paths(place)
    with open_tables(enrichment, place, memory_mib=memory_mib, write=write) as tables:
        yield Store(tables, enrichment, tables.output)


@contextmanager
def open_results(
    enrichment: Enrichment,
    output: Output | None,
    config: Config,
    options: PlaceOptions,
    *,
    write: bool = False,
) -> Iterator[Store]:
    """Open a store to read its results. Raises ConfigError where it has none of the enrichment."""
    with open_store(enrichment, output, config, options, write=write) as store:
        if not store.has("enriched"):
            known = sorted({line.name for line in store.lines.values()})
            raise ConfigError(
                f"{store.output} has no results of {enrichment.name}; it has those of: {', '.join(known) or 'none'}"
            )
        yield store
