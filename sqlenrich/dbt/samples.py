"""Answers for the generated unit tests and for a DuckDB without Python."""

from __future__ import annotations

from sqlenrich.llm.mock.model import MockModel
from sqlenrich.schema import evaluate_checks, value_test
from sqlenrich.spec.enrichment import Enrichment


def sample_answer(enrichment: Enrichment) -> str | None:
    """Return a text that the checks of an enrichment accept, always the same; None where the mock model finds none."""
    try:
        text = MockModel(enrichment.schema, validator=value_test, embedding=enrichment.embedding).text(enrichment.name)
    except ValueError:
        return None
    return text if evaluate_checks(enrichment.checks, text) is None else None


def cut(text: str) -> str:
    """Return the first half of an answer."""
    return text[: max(1, len(text) // 2)]
