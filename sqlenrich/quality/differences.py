"""Two outcomes of each row: what is equal, what is right, what changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Number
from decimal import InvalidOperation
from typing import NamedTuple

from sqlenrich.core.types import BIGINT, BOOLEAN, DATE, DOUBLE, JSON, TIMESTAMP, Array, Coerced, Decimal, Struct, Type
from sqlenrich.quality.comparison import NO_INPUT, NOT_ASKED, Accuracy, Agreement, Change, Outcome
from sqlenrich.quality.sample import Sampled
from sqlenrich.spec.enrichment import Enrichment

IMPOSSIBLE = object()
"""A label that no value of its field equals."""


def same(a: object, b: object) -> bool:
    """Tell whether two values are equal: numbers by what they are worth, texts to the letter, NULL and NULL too."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float | Number) and isinstance(b, int | float | Number):
        return Number(repr(a) if isinstance(a, float) else a) == Number(repr(b) if isinstance(b, float) else b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):  # a field that is absent is a NULL of its struct
        return all(same(a.get(name), b.get(name)) for name in {*a, *b})
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def plain(value: object, kind: Type) -> object:
    """Give a stored value as one of JSON: days and moments as ISO texts, a JSON text as what it says."""
    match value, kind:
        case None, _:
            return None
        case _, Coerced(inner):
            return plain(value, inner)
        case list(), Array(item):
            return [plain(one, item) for one in value]
        case dict(), Struct(fields):
            return {name: plain(value.get(name), inner) for name, inner in fields}
        case str(), _ if kind == JSON:
            return json.loads(value)
        case datetime() | date(), _:
            return value.isoformat()
    return value


def label_value(label: str, kind: Type) -> object:
    """Read a label as the type of its field. Raises ValueError where it is none: then no answer can be right."""
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


class Compared(NamedTuple):
    """What the two outcomes of each row give."""

    agreement: tuple[Agreement, ...]
    equal_rows: int
    accuracy: tuple[Accuracy, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]


def compared(
    files: Sequence[Enrichment],
    outcomes: Sequence[Mapping[int, Outcome]],
    sampled: Sampled,
    fields: Sequence[str],
    truth: Mapping[str, str],
) -> Compared:
    """Compare row by row; a row that one side was not asked yet, or both had no input for, counts nowhere."""
    rows = [(row, outcomes[0][row], outcomes[1][row]) for row in sorted(sampled.keys)]
    rows = [(row, a, b) for row, a, b in rows if NOT_ASKED not in (a.error, b.error)]
    rows = [(row, a, b) for row, a, b in rows if not a.error == b.error == NO_INPUT]
    accepted = [(a, b) for _, a, b in rows if a.error is None and b.error is None]
    equal = {name: [same(a.values[name], b.values[name]) for a, b in accepted] for name in fields}
    wanted = {field: [_label_values(one, field, sampled.labels[field]) for one in files] for field in truth}
    rights: dict[str, list[tuple[bool, bool]]] = {field: [] for field in truth}
    changes: list[Change] = []
    for row, a, b in rows:
        labels = {field: label for field in truth if (label := sampled.labels[field][row]) is not None}
        right = {
            field: (_right(a, field, row, wanted[field][0]), _right(b, field, row, wanted[field][1]))
            for field in labels
        }
        for field, pair in right.items():
            rights[field].append(pair)
        both = a.error is None and b.error is None
        differing = tuple(name for name in fields if both and not same(a.values[name], b.values[name]))
        if differing or (a.error is None) != (b.error is None):
            changes.append(Change(row, sampled.keys[row], {}, a, b, differing, labels, right))
    kinds = ((True, True), (True, False), (False, True), (False, False))
    return Compared(
        tuple(Agreement(name, len(accepted), sum(found)) for name, found in equal.items()),
        sum(map(all, zip(*equal.values(), strict=True))),
        tuple(Accuracy(field, label, *map(rights[field].count, kinds)) for field, label in truth.items()),
        tuple(sorted(changes, key=lambda change: change.rank)),
        tuple(note for field, label in truth.items() if (note := _impossible(field, label, wanted[field]))),
    )


def _label_values(enrichment: Enrichment, field: str, labels: Mapping[int, str | None]) -> dict[int, object]:
    """Give the labels as values of the field; a label that can't be one is IMPOSSIBLE."""
    kind = enrichment.readings[field]
    allowed = enrichment.schema["properties"][field].get("enum")
    values: dict[int, object] = {}
    for row, label in labels.items():
        if label is None:
            continue
        try:
            value = label_value(label, kind)
        except ValueError:
            value = IMPOSSIBLE
        values[row] = value if allowed is None or any(same(value, one) for one in allowed) else IMPOSSIBLE
    return values


def _impossible(field: str, label: str, wanted: Sequence[Mapping[int, object]]) -> str | None:
    """Give a line about labels that no answer can equal: the label or the schema is wrong then, not the model."""
    counts = [sum(value is IMPOSSIBLE for value in values.values()) for values in wanted]
    if not any(counts):
        return None
    sides = ", ".join(f"{count:,} of {letter}" for letter, count in zip("AB", counts, strict=True) if count)
    return f"{label} holds labels that {field} can't be (rows: {sides}): no answer is right there"


def _right(outcome: Outcome, field: str, row: int, labels: Mapping[int, object]) -> bool:
    return outcome.error is None and same(outcome.values[field], labels[row])
