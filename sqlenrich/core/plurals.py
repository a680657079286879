"""Counts as messages print them."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number and what it counts: ``1 row``, ``2,000 rows``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
