"""How far reviewers agree: Cohen's κ on what each holds to be right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sqlenrich.core.json import canonical_json
from sqlenrich.quality.review.verdicts import RIGHT, UNSURE, Verdict


@dataclass(frozen=True)
class ReviewerAgreement:
    """Two reviewers on one field: the rows that both judged, the equal judgements, and Cohen's κ.

    ``kappa`` is None where both always give the same one value: chance alone explains it.
    """

    field: str
    reviewers: tuple[str, str]
    rows: int
    equal: int
    kappa: float | None


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Return Cohen's κ of pairs of labels; None without pairs, and where agreement by chance is certain."""
    count = len(pairs)
    if not count:
        return None
    equal = sum(a == b for a, b in pairs)
    first, second = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    chance = sum(first[label] * second[label] for label in first)
    if chance == count * count:
        return None
    return (equal * count - chance) / (count * count - chance)


def reviewer_agreement(
    verdicts: Iterable[Verdict], answers: Mapping[str, Mapping[str, Any]], listed: Iterable[str]
) -> tuple[ReviewerAgreement, ...]:
    """Return the agreement of each pair of reviewers on each field, unsure verdicts left out.

    Of the ``listed`` fields, whose values are chosen, the right values are compared, of all others the verdicts.
    """
    labels: dict[str, dict[str, dict[str, Hashable]]] = {}
    chosen = set(listed)
    for one in verdicts:
        if one.verdict != UNSURE:
            label = _label(one, answers[one.request]) if one.field in chosen else one.verdict
            labels.setdefault(one.field, {}).setdefault(one.reviewer, {})[one.request] = label
    found = []
    for field, by_reviewer in labels.items():
        for a, b in combinations(sorted(by_reviewer), 2):
            own, other = by_reviewer[a], by_reviewer[b]
            pairs = [(own[request], other[request]) for request in own if request in other]
            if pairs:
                equal = sum(x == y for x, y in pairs)
                found.append(ReviewerAgreement(field, (a, b), len(pairs), equal, cohen_kappa(pairs)))
    return tuple(found)


def _label(one: Verdict, answer: Mapping[str, Any]) -> Hashable:
    """Return the value that a reviewer holds to be right; of one that is not told, that it is not the answer's."""
    if one.verdict == RIGHT:
        return canonical_json(answer[one.field])
    if one.expected is None:
        return ("not", canonical_json(answer[one.field]))
    return canonical_json(json.loads(one.expected))
