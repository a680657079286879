"""The metrics of a comparison: agreement of two sides, accuracy against labels, and the rows that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import NamedTuple

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, TIMESTAMP, Array, Coerced, Decimal, Struct, Type
from sqlenrich.quality.comparison.comparison import NO_INPUT, NOT_ASKED, Accuracy, Agreement, Change, RowResult
from sqlenrich.quality.comparison.sample import Sample
from sqlenrich.spec.enrichment import Enrichment

INVALID_LABEL = object()
"""A label that is no value of its field."""


def values_equal(a: object, b: object) -> bool:
    """Tell whether two values are equal: numbers by value, texts exactly, NULL and NULL too."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float | Number) and isinstance(b, int | float | Number):
        return Number(repr(a) if isinstance(a, float) else a) == Number(repr(b) if isinstance(b, float) else b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):  # an absent field is NULL in its struct
        return all(values_equal(a.get(name), b.get(name)) for name in {*a, *b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(values_equal, a, b))
    return type(a) is type(b) and a == b


def label_value(label: str, kind: Type) -> object:
    """Read a label as the type of its field. Raises ValueError for a text that is no value of it."""
    if isinstance(kind, Coerced):
        return label_value(label, kind.type)
    if kind in (BIGINT, DOUBLE) or isinstance(kind, Decimal):
        try:
            number = Number(label.strip())
        except InvalidOperation:
            raise ValueError(label) from None
        if not number.is_finite():
            raise ValueError(label)
        return number
    if kind == BOOLEAN:
        if (word := label.strip().lower()) not in ("true", "false"):
            raise ValueError(label)
        return word == "true"
    if kind == DATE:
        return date.fromisoformat(label.strip()).isoformat()
    if kind == TIMESTAMP:
        moment = datetime.fromisoformat(label.strip())
        return (moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment).isoformat()
    if isinstance(kind, Array | Struct) or kind == JSON:
        return json.loads(label)
    return label


class Metrics(NamedTuple):
    """The metrics of two sides, and the rows that differ."""

    agreement: tuple[Agreement, ...]
    equal_rows: int
    accuracy: tuple[Accuracy, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


def compute_metrics(
    files: Sequence[Enrichment],
    results: Sequence[Mapping[int, RowResult]],
    sample: Sample,
    fields: Sequence[str],
    truth: Mapping[str, str],
) -> Metrics:
    """Compare row by row. Excluded are rows that one side has not asked yet, and rows without input on both sides."""
    rows = [(row, results[0][row], results[1][row]) for row in sorted(sample.keys)]
    rows = [(row, a, b) for row, a, b in rows if NOT_ASKED not in (a.error, b.error)]
    rows = [(row, a, b) for row, a, b in rows if not a.error == b.error == NO_INPUT]
    accepted = [(a, b) for _, a, b in rows if a.error is None and b.error is None]
    equal = {name: [values_equal(a.values[name], b.values[name]) for a, b in accepted] for name in fields}
    wanted = {field: [_label_values(one, field, sample.labels[field]) for one in files] for field in truth}
    rights: dict[str, list[tuple[bool, bool]]] = {field: [] for field in truth}
    changes: list[Change] = []
    for row, a, b in rows:
        labels = {field: label for field in truth if (label := sample.labels[field][row]) is not None}
        right = {
            field: (_is_right(a, field, row, wanted[field][0]), _is_right(b, field, row, wanted[field][1]))
            for field in labels
        }
        for field, pair in right.items():
            rights[field].append(pair)
        both = a.error is None and b.error is None
        differing = tuple(name for name in fields if both and not values_equal(a.values[name], b.values[name]))
        if differing or (a.error is None) != (b.error is None):
            changes.append(Change(row, sample.keys[row], {}, a, b, differing, labels, right))
    kinds = ((True, True), (True, False), (False, True), (False, False))
    return Metrics(
        tuple(Agreement(name, len(accepted), sum(found)) for name, found in equal.items()),
        sum(map(all, zip(*equal.values(), strict=True))),
        tuple(Accuracy(field, label, *map(rights[field].count, kinds)) for field, label in truth.items()),
        tuple(sorted(changes, key=lambda change: change.rank)),
        tuple(note for field, label in truth.items() if (note := _invalid_labels_note(field, label, wanted[field]))),
    )


def _label_values(enrichment: Enrichment, field: str, labels: Mapping[int, str | None]) -> dict[int, object]:
    """Return the labels as values of the field, or INVALID_LABEL."""
    kind = enrichment.readings[field]
    allowed = enrichment.schema["properties"][field].get("enum")
    values: dict[int, object] = {}
    for row, label in labels.items():
        if label is None:
            continue
        try:
            value = label_value(label, kind)
        except ValueError:
            value = INVALID_LABEL
        values[row] = value if allowed is None or any(values_equal(value, one) for one in allowed) else INVALID_LABEL
    return values


def _invalid_labels_note(field: str, label: str, wanted: Sequence[Mapping[int, object]]) -> str | None:
    """Return a note about invalid labels: the label or the schema is wrong, not the model."""
    counts = [sum(value is INVALID_LABEL for value in values.values()) for values in wanted]
    if not any(counts):
        return None
    sides = ", ".join(f"{count:,} of {letter}" for letter, count in zip("AB", counts, strict=True) if count)
    return f"{label} has labels that are no value of {field} (rows: {sides}); no answer is right there"


def _is_right(result: RowResult, field: str, row: int, labels: Mapping[int, object]) -> bool:
    return result.error is None and values_equal(result.values[field], labels[row])
