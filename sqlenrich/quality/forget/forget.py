"""``sqlenrich forget``: the texts of chosen rows are deleted from the database of a run and from its output files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Unpack

from sqlenrich.core.errors import ConfigError
from sqlenrich.quality.forget.forgotten import Forgotten
from sqlenrich.quality.opened_store import open_store
from sqlenrich.quality.row_key import checked_key
from sqlenrich.runner.place import Output, PlaceOptions, is_paths
from sqlenrich.runner.setup import set_up
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.settings import Config


def forget(
    enrichment: Enrichment | str | Path,
    *,
    output: Output | None = None,
    row: Mapping[str, Any] | None = None,
    where: str | None = None,
    before: date | str | None = None,
    dry_run: bool = False,
    config: Config | None = None,
    **options: Unpack[PlaceOptions],
) -> Forgotten:
    """Delete the texts of rows from ``output``: the database of a run, and the files that its runs wrote.

    The rows are those of the key ``row``; those that meet ``where``, a condition in the SQL of the place over the
    tables of results; or those whose last answer came ``before`` a day in UTC, with all answers of that age. An answer
    that other rows share stays. A DuckDB database is copied to a new file that takes its place, so that no deleted byte
    is left in it; killed at any moment it is the old file or the new one. On a warehouse, which ``options`` name as
    those of :func:`~sqlenrich.run` do, and on Spark rows are deleted in parts; the result says what the vendor keeps.
    Run it again after it was killed. The input is not changed: a run over it asks its rows anew. Raises ConfigError
    where there is no run, no such row, or a table of another version, and RunError where another process has the
    database open.
    """
    setup = set_up("forget", PlaceOptions, options, enrichment, output=output, config=config)
    if sum(choice is not None for choice in (row, where, before)) != 1:
        raise ConfigError("which rows? Give one of --row, --where and --before")
    if is_paths(setup.place):
        from sqlenrich.quality.forget.forgetting import forget_rows  # loads DuckDB

        return forget_rows(setup.enrichment, setup.place, row=row, where=where, before=_day(before), dry_run=dry_run)
    from sqlenrich.quality.forget.store_forgetting import forget_in_store

    with open_store(setup) as store:
        key = None if row is None else checked_key(store, row)
        profiled = setup.enrichment.quality.drift.values
        return forget_in_store(store, profiled=profiled, key=key, where=where, before=_day(before), dry_run=dry_run)


def _day(written: date | str | None) -> date | None:
    """Return a day. Raises ConfigError for a text that is none."""
    if written is None or isinstance(written, date):
        return written
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise ConfigError(f'"{written}" is no day: write it as 2026-11-30') from None
