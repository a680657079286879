"""An estimate of the tokens of a text."""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""Of English text. Other scripts have fewer characters in a token, and about as many bytes."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: its UTF-8 bytes divided by :data:`BYTES_PER_TOKEN`, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
