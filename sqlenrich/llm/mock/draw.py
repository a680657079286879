"""Pseudo-random numbers that depend on a seed alone, and so are the same in every process."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


class Draw:
    """A pseudo-random generator with a seed of bytes, and the words that free text may use."""

    __slots__ = ("_state", "_words", "prompt")

    def __init__(self, seed: bytes, prompt: str) -> None:
        self._state = int.from_bytes(blake2b(seed, digest_size=8).digest(), "little")
        self._words: list[str] | None = None
        self.prompt = prompt

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to ``limit - 1``."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
        if limit <= 1 << 31:
            return ((self._state >> 32) * limit) >> 32
        high = self._state
        bits = 64
        while bits < limit.bit_length() + 32:
            self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
            high = (high << 64) | self._state
            bits += 64
        return high % limit

    def share(self) -> float:
        """Return a number from 0 up to, not including, 1."""
        return self.below(1 << 31) / (1 << 31)

    def pick(self, values: Sequence[T]) -> T:
        """Return one of ``values``."""
        return values[self.below(len(values))]

    def words(self) -> list[str]:
        """Return the last words of the prompt, at least one."""
        if self._words is None:
            self._words = self.prompt[-240:].split()[-24:] or ["nothing"]
        return self._words
