"""The two JSON texts of a value: canonical, for hashes, and compact, for models."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value: sorted keys, no spaces, no escapes of Unicode characters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact_json(value: Any) -> str:
    """Return a value as JSON without spaces, its keys in their order, in which models write properties."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
