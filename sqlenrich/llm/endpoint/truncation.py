"""Endpoints that truncate long prompts silently: they count far fewer tokens than we do."""

from __future__ import annotations

from dataclasses import dataclass

from sqlenrich.core.tokens import BYTES_PER_TOKEN


@dataclass(frozen=True)
class TruncationPolicy:
    """The evidence for a truncation."""

    shortest_prompt_chars: int = 8_000
    factor: int = 4
    """The endpoint counts fewer tokens than we do by this factor, ..."""
    answers: int = 3
    """... in this many answers."""


class TruncationDetector:
    """Compares an endpoint's token counts with ours, until the evidence is sufficient."""

    def __init__(self, policy: TruncationPolicy | None = None) -> None:
        self.policy = policy or TruncationPolicy()
        self._answers = 0

    def observe(self, length: int, tokens_in: int) -> int | None:
        """Record the answer to a prompt of ``length`` characters.

        Once, when the evidence is sufficient, give our count of the prompt's tokens.
        """
        policy = self.policy
        short = length < max(policy.shortest_prompt_chars, policy.factor * BYTES_PER_TOKEN * tokens_in)
        if short or self._answers >= policy.answers:
            return None
        self._answers += 1
        return length // BYTES_PER_TOKEN if self._answers == policy.answers else None
