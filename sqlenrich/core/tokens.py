"""About how many tokens a text has, before any model has counted them."""

from __future__ import annotations

BYTES_PER_TOKEN = 4
"""Of English text; other scripts have fewer characters a token, and about as many bytes."""


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text has: its UTF-8 bytes divided by four, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
