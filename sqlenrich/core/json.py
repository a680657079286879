"""What a request is: the model, its parameters and the output's shape, resolved for one engine and hashed."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any) -> str:
    """Give the one JSON text of a value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def compact_json(value: Any) -> str:
    """Give a value as JSON without spaces, in its own order: models write properties in the schema's order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
