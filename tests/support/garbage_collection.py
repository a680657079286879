"""Garbage collection in a process that keeps most of what it has loaded."""

from __future__ import annotations

import gc

AFTER = 50_000
"""New objects after which the youngest generation is collected; a tree of SQL has thousands."""


def freeze_loaded() -> None:
    """Leave modules and all else that exists, a million objects that stay, out of every collection to come."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(AFTER, 20, 50)
    gc.enable()
