"""``sqlenrich forget``: the texts of chosen rows are deleted from the database of a run and from its output files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.quality.forget.forgotten import Forgotten
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.loader import enrichment_of


def forget(
    enrichment: Enrichment | str | Path,
    *,
    output: str | Path | Sequence[str | Path],
    row: Mapping[str, Any] | None = None,
    where: str | None = None,
    before: date | str | None = None,
    dry_run: bool = False,
) -> Forgotten:
    """Delete the texts of rows from ``output``: the database of a run, and the files that its runs wrote.

    The rows are those of the key ``row``; those that meet ``where``, a condition in DuckDB's SQL over the tables of
    results; or those whose last answer came ``before`` a day in UTC, with all answers of that age. An answer that
    other rows share stays. The database is copied to a new file that takes its place, so that no deleted byte is left
    in it; killed at any moment it is the old file or the new one. Run it again after it was killed. The input is not
    changed: a run over it asks its rows anew. Raises ConfigError where there is no run, no such row, or a table of
    another version, and RunError where another process has the database open.
    """
    enrichment = enrichment_of(enrichment)
    from sqlenrich.quality.forget.forgetting import forget_rows  # loads DuckDB

    if sum(choice is not None for choice in (row, where, before)) != 1:
        raise ConfigError("which rows? Give one of --row, --where and --before")
    return forget_rows(enrichment, output, row=row, where=where, before=_day(before), dry_run=dry_run)


def _day(written: date | str | None) -> date | None:
    """Give a day. Raises ConfigError for a text that is none."""
    if written is None or isinstance(written, date):
        return written
    try:
        return date.fromisoformat(written)
    except ValueError:
        raise ConfigError(f'"{written}" is no day: write it as 2026-11-30') from None
