"""The scores of an evaluation: each field's answers against its labels, and whether each requirement is met."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal as Number
from typing import Any, NamedTuple

from sqlenrich.core.errors import ConfigError, did_you_mean
from sqlenrich.core.json import canonical_json
from sqlenrich.core.types import BIGINT, BOOLEAN, Array, Type, uncoerced
from sqlenrich.quality.comparison.comparison import NO_INPUT, NOT_ASKED, RowResult
from sqlenrich.quality.comparison.metrics import values_equal
from sqlenrich.quality.evaluation.evaluation import (
    MATRIX_VALUES,
    NULL,
    OTHERS,
    REFUSED,
    FieldScore,
    Items,
    RequirementResult,
    ValueScore,
)
from sqlenrich.quality.statistics import wilson_interval
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.quality import Requirement


class Judged(NamedTuple):
    """One labelled row of a field."""

    row: int
    label: Any
    answer: Any
    """None where the row is refused, too."""
    error: str | None
    right: bool


def judge(labels: Mapping[int, Any], results: Mapping[int, RowResult], field: str) -> list[Judged]:
    """Return the labelled rows of a field. Left out are rows that are not asked yet and rows without an input."""
    found = []
    for row, label in labels.items():
        result = results[row]
        if result.error in (NOT_ASKED, NO_INPUT):
            continue
        answer = None if result.error is not None else result.values[field]
        found.append(Judged(row, label, answer, result.error, result.error is None and values_equal(answer, label)))
    return found


def score_field(enrichment: Enrichment, field: str, column: str, judged: Sequence[Judged]) -> FieldScore:
    """Return the score of a field whose labels are in ``column``."""
    kind = uncoerced(enrichment.readings[field])
    pairs = [
        (value_text(one.label), REFUSED if one.error is not None else value_text(one.answer))
        for one in judged
        if not isinstance(one.label, list | dict)
    ]
    names = _counted_values(enrichment, field, kind, pairs)
    errors = [_distance(one) for one in judged if _is_number(one.label) and _is_number(one.answer)]
    return FieldScore(
        field,
        column,
        len(judged),
        sum(one.right for one in judged),
        sum(one.error is not None for one in judged),
        tuple(value_scores(pairs, names)) if names else (),
        confusion_matrix(pairs, names) if names else None,
        sum(errors) / len(errors) if errors else None,
        len(errors),
        _items(judged) if isinstance(kind, Array) else None,
    )


def value_text(value: Any) -> str:
    """Return a value as a text: numbers by value, truth as in JSON."""
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if _is_number(value):
        number = Number(repr(value) if isinstance(value, float) else value)
        return f"{number.normalize():f}" if number else "0"
    return value if isinstance(value, str) else canonical_json(value)


def value_scores(pairs: Sequence[tuple[str, str]], names: Iterable[str]) -> list[ValueScore]:
    """Return the score of each value from pairs of label and answer."""
    labelled, answered = (Counter(pair[place] for pair in pairs) for place in (0, 1))
    right = Counter(label for label, answer in pairs if label == answer)
    return [ValueScore(name, labelled[name], answered[name], right[name]) for name in names]


def confusion_matrix(pairs: Sequence[tuple[str, str]], names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return label to answer to rows, over the first values and one for all others."""
    kept = {name: name for name in names[:MATRIX_VALUES]} | {REFUSED: REFUSED}
    counts = Counter((kept.get(label, OTHERS), kept.get(answer, OTHERS)) for label, answer in pairs)
    order = [*kept, OTHERS]
    return {
        label: {answer: counts[label, answer] for answer in order if counts[label, answer]}
        for label in order
        if any(counts[label, answer] for answer in order)
    }


def _counted_values(
    enrichment: Enrichment, field: str, kind: Type, pairs: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """Return the values of a field that are scored one by one, in their order; none of a free text.

    Of more than the matrix shows, the most frequent come first.
    """
    seen = Counter(name for pair in pairs for name in pair if name != REFUSED)
    written = [value_text(value) for value in enrichment.schema["properties"][field].get("enum") or ()]
    required = {one.value for one in enrichment.quality.evaluate.require if one.field == field}
    few = kind == BIGINT and len(seen) <= MATRIX_VALUES
    names = list(seen) if written or kind == BOOLEAN or few else [name for name in seen if name in required]
    if len(names) > MATRIX_VALUES:
        return tuple(sorted(names, key=lambda name: (-seen[name], name)))
    places = {name: place for place, name in enumerate(("true", "false") if kind == BOOLEAN else written)}

    def order(name: str) -> tuple[float, str]:
        return (math.inf if name == NULL else float(name) if few else places.get(name, len(places)), name)

    return tuple(sorted(names, key=order))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Number) and not isinstance(value, bool)


def _distance(one: Judged) -> float:
    return abs(float(one.label) - float(one.answer))


def _items(judged: Sequence[Judged]) -> Items:
    """Count items by value, each as often as it is there; the order does not count."""
    found = missed = invented = 0
    for one in judged:
        wanted, given = (Counter(_item_text(item) for item in value or ()) for value in (one.label, one.answer))
        both = (wanted & given).total()
        found, missed, invented = found + both, missed + wanted.total() - both, invented + given.total() - both
    return Items(found, missed, invented)


def _item_text(item: Any) -> str:
    """Return an item as a text: an absent field is NULL, and numbers are equal by value."""
    if isinstance(item, Mapping):
        return canonical_json({name: _item_text(value) for name, value in item.items() if value is not None})
    if isinstance(item, list):
        return canonical_json([_item_text(one) for one in item])
    return f"{type(item).__name__ if isinstance(item, str | bool) else ''}:{value_text(item)}"


# Requirements --------------------------------------------------------------------------------------------------------


def check_requirements(
    enrichment: Enrichment, require: Sequence[Requirement], labels: Mapping[str, Mapping[int, Any]]
) -> None:
    """Refuse a requirement of a value that neither an answer nor a label can have. Raises ConfigError."""
    for one in require:
        if one.value is None:
            continue
        form = enrichment.schema["properties"][one.field]
        kind = uncoerced(enrichment.readings[one.field])
        known = list(map(value_text, form.get("enum") or (("true", "false") if kind == BOOLEAN else ())))
        known = known or sorted({value_text(label) for label in labels[one.field].values()})
        if one.value not in known:
            raise ConfigError(
                f'{enrichment.place}: {one.measure} is required of "{one.value}"{did_you_mean(one.value, known)}, '
                f"which is no value of {one.field}; there are: {', '.join(known[:MATRIX_VALUES])}"
            )


def requirement_result(requirement: Requirement, score: FieldScore) -> RequirementResult:
    """Tell whether a field's score meets a requirement."""
    if requirement.value is None:
        return _result(requirement, score.right, score.rows)
    value = score.value(requirement.value)
    if requirement.measure == "precision":
        return _result(requirement, value.right, value.answered)
    if requirement.measure == "recall":
        return _result(requirement, value.right, value.labelled)
    return RequirementResult(requirement, value.labelled, value.f1, None)


def _result(requirement: Requirement, right: int, rows: int) -> RequirementResult:
    return RequirementResult(requirement, rows, right / rows if rows else None, wilson_interval(right, rows))
