"""A filter by a column: rows with a low number get one answer, and no model is asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlenrich.core.json import compact_json
from sqlenrich.spec.enrichment import Enrichment
from sqlenrich.spec.weights import Weights, weights_of


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


def classifier_of_cascade(enrichment: Enrichment) -> Classifier | None:
    """Return what decides rows before the model is asked; None where a model does. Raises as read_weights does."""
    cascade = enrichment.cascade
    if cascade is None or cascade.filter is None:
        return weights_of(enrichment)
    return ColumnFilter(cascade.filter, dict(cascade.otherwise))
