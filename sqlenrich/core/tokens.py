"""An estimate of the tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlenrich.core.json import compact_json
from sqlenrich.core.turn import Turn, text_before

BYTES_PER_TOKEN = 4
"""Of English text. Other scripts have fewer characters in a token, and about as many bytes."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: its UTF-8 bytes divided by :data:`BYTES_PER_TOKEN`, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def tokens_beside(turns: Sequence[Turn], hint: str | None, response_format: Any) -> int:
    """Estimate the tokens beside each prompt: the messages before it, the hint after it, and the response format."""
    after = estimate_tokens("\n\n" + hint) if hint else 0
    form = 0 if response_format is None else estimate_tokens(compact_json(response_format))
    return estimate_tokens(text_before(turns)) + after + form
