"""The lines that an evaluation keeps in ``NAME_evaluations``, and what changed since the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlglot import exp

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.json import canonical_json
from sqlenrich.core.printer import print_sql
from sqlenrich.plan.evaluations import EVALUATIONS, changes
from sqlenrich.plan.relations import RELATIONS, symbol
from sqlenrich.quality.comparison.side import PreparedSide
from sqlenrich.quality.evaluation.evaluation import Change, FieldScore, Then
from sqlenrich.quality.evaluation.scores import Judged, value_text
from sqlenrich.quality.evaluation.truth import Truth
from sqlenrich.renderer.statements import create_if_missing
from sqlenrich.spec.enrichment import Enrichment


def evaluation_lines(
    evaluation: str,
    now: datetime,
    enrichment: Enrichment,
    side: PreparedSide,
    truth: str,
    known: Truth,
    judged: Mapping[str, Sequence[Judged]],
) -> list[tuple[Any, ...]]:
    """Return the lines of NAME_evaluations, in the order of its columns."""
    shared = (evaluation, now.replace(tzinfo=None), side.model, enrichment.version, enrichment.fingerprint, truth)
    return [
        (
            *shared,
            known.row_keys[one.row],
            side.hashes[one.row],
            field,
            _json(one.label),
            None if one.error is not None else _json(one.answer),
            one.error,
            one.right,
        )
        for field, lines in judged.items()
        for one in lines
    ]


def _json(value: Any) -> str:
    """Return a value as JSON; equal values give equal texts."""
    if isinstance(value, list | dict):
        return canonical_json(value)
    return canonical_json(value) if value is None or isinstance(value, str) else value_text(value)


def check_lines(database: Path, name: str) -> None:
    """Refuse a table of evaluations that another version made. Raises ConfigError."""
    from sqlenrich.store.duckdb.database import Database, quote

    if not database.is_file():
        return
    table = RELATIONS["evaluations"].format(name)
    with Database(database) as db:
        found = db.columns(quote(table))
    if found is not None and set(found) != set(EVALUATIONS):
        raise ConfigError(f"{database}: {table} was made by another version of sqlenrich; give another --output")


def keep_lines(
    database: Path,
    side: PreparedSide,
    name: str,
    evaluation: str,
    lines: Sequence[Sequence[Any]],
    scores: Sequence[FieldScore],
) -> tuple[Then | None, list[FieldScore]]:
    """Store the lines; give the last evaluation of the same rows, and the scores with what changed since then."""
    import pyarrow as pa

    from sqlenrich.store.duckdb.database import Database, quote

    table = quote(RELATIONS["evaluations"].format(name))
    relations = side.plan.relations.renamed({"evaluations": table})
    with Database(database) as db:
        db.execute(
            print_sql(
                relations.engine, create_if_missing(relations.engine, relations.table("evaluations"), EVALUATIONS)
            )
        )
        if lines:
            sqlenrich_lines = pa.table(dict(zip(EVALUATIONS, zip(*lines, strict=True), strict=True)))  # noqa: F841
            insert = exp.Insert(
                this=symbol("evaluations"), expression=exp.select("*").from_("sqlenrich_lines"), by_name=True
            )
            db.db.execute(relations.sql(insert))  # DuckDB finds the local variable by its name
        earlier = db.rows(relations.sql(changes(relations.engine, evaluation)))
    if not earlier:
        return None, list(scores)
    last = earlier[-1][:3]
    changed = {line[3]: Change(*map(int, line[4:])) for line in earlier if line[:3] == last}
    return Then(*last), [replace(one, change=changed.get(one.field)) for one in scores]
