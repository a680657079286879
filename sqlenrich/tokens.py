"""How many tokens a text has, as near as one can tell without the model's tokenizer."""

from __future__ import annotations

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text has: its UTF-8 bytes divided by four, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
