"""What identifies an answer: a verdict counts as long as the row's answer has this hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlenrich.core.json import canonical_json


def answer_hash(answer: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an answer's canonical JSON, the same for one answer on every engine."""
    return hashlib.sha256(canonical_json(answer).encode()).hexdigest()
