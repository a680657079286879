"""What decides rows of a cascade without a model: the weights of a classifier, or the numbers of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlenrich.core.json import compact_json
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.weights import Weights, beside, read_weights


@dataclass(frozen=True)
class ColumnFilter:
    """The first model of a cascade that gives the answer ``otherwise``, the surer the lower the ``column`` is."""

    column: str
    otherwise: Mapping[str, object]
    model = "filter"
    """What stored answers name as their model."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of its answer."""
        return tuple(self.otherwise)

    @property
    def answers(self) -> tuple[str, ...]:
        """The one answer, as a model would write it."""
        return (compact_json(dict(self.otherwise)),)


Classifier = Weights | ColumnFilter
"""What decides rows of a cascade by one SELECT."""


def read_classifier(enrichment: Enrichment) -> Classifier | None:
    """Return what decides rows before the model is asked; None where a model does. Raises as read_weights does."""
    cascade = enrichment.cascade
    if cascade is not None and cascade.filter is not None:
        return ColumnFilter(cascade.filter, dict(cascade.otherwise))
    if cascade is not None and cascade.distilled is not None:
        return read_weights(beside(enrichment, cascade.distilled))
    return None
