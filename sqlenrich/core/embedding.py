"""An output that is a vector: an embedding of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.core.json import compact_json

DEFAULT_ALIASES = ("default", "embedding")
"""What a file without ``model`` asks: the first alias for an answer, the second one for a vector."""


@dataclass(frozen=True)
class Embedding:
    """The field of an answer that holds a vector, and how many numbers the vector has."""

    field: str
    dimensions: int

    @property
    def before(self) -> str:
        """The text of an answer before its vector."""
        return f"{{{compact_json(self.field)}:"

    def answer(self, vector: str) -> str:
        """Return the text of an answer from the JSON text of its vector: the same one on every engine."""
        return self.before + vector + AFTER


AFTER = "}"
"""The text of an answer after its vector."""
