"""An endpoint that cuts long prompts without a word: its own count of tokens is far below ours."""

from __future__ import annotations

from sqlenrich.core.tokens import BYTES_PER_TOKEN

BYTES, FACTOR, ANSWERS = 8_000, 4, 3
"""So many answers to prompts of so many characters, each counted as so many times fewer tokens than it has."""


class CutWatch:
    """Compares the counts of an endpoint with ours, until it is sure."""

    def __init__(self) -> None:
        self._answers = 0

    def found(self, prompt: str, tokens_in: int) -> int | None:
        """Take note of an answer; give our count of the prompt the one time that prompts turn out to be cut."""
        if self._answers >= ANSWERS or len(prompt) < BYTES or len(prompt) < FACTOR * BYTES_PER_TOKEN * tokens_in:
            return None
        self._answers += 1
        return len(prompt) // BYTES_PER_TOKEN if self._answers == ANSWERS else None
