"""The lines that an evaluation keeps in ``NAME_evaluations``, and what changed since the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.json import canonical_json
from sqlenrich.plan.evaluations import EVALUATIONS, changes
from sqlenrich.plan.relations import RELATIONS
from sqlenrich.quality.comparison.side import PreparedSide
from sqlenrich.quality.evaluation.evaluation import Change, FieldScore, Then
from sqlenrich.quality.evaluation.scores import Judged, value_text
from sqlenrich.quality.evaluation.truth import Truth
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.store.store import Store


def evaluation_lines(
    evaluation: str,
    now: datetime,
    enrichment: Enrichment,
    side: PreparedSide,
    truth: str,
    known: Truth,
    judged: Mapping[str, Sequence[Judged]],
    hashes: Mapping[int, str | None],
) -> list[tuple[Any, ...]]:
    """Return the lines of NAME_evaluations, in the order of its columns."""
    shared = (evaluation, now.replace(tzinfo=None), side.model, enrichment.version, enrichment.fingerprint, truth)
    return [
        (
            *shared,
            known.row_keys[one.row],
            hashes[one.row],
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


def check_lines(store: Store) -> None:
    """Refuse a table of evaluations that another version made. Raises ConfigError."""
    found = store.columns("evaluations")
    if found and {name.lower() for name in found} != set(EVALUATIONS):
        table = RELATIONS["evaluations"].format(store.name)
        raise ConfigError(f"{store.output}: {table} was made by another version of sqlenrich; give another --output")


def keep_lines(
    store: Store, evaluation: str, lines: Sequence[Sequence[Any]], scores: Sequence[FieldScore]
) -> tuple[Then | None, list[FieldScore]]:
    """Store the lines; give the last evaluation of the same rows, and the scores with what changed since then."""
    store.database.append(store.table("evaluations"), EVALUATIONS, lines)
    earlier = store.rows(changes(store.engine, evaluation))
    if not earlier:
        return None, list(scores)
    last = tuple(earlier[-1][:3])
    changed = {line[3]: Change(*map(int, line[4:])) for line in earlier if tuple(line[:3]) == last}
    return Then(*last), [replace(one, change=changed.get(one.field)) for one in scores]
