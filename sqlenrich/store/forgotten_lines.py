"""The table in which each forgetting is written down: numbers alone, no text and no hash of a row."""

from __future__ import annotations

from collections.abc import Mapping

from sqlenrich.core.types import BIGINT, STRING, TIMESTAMP, Type

FORGOTTEN = "_sqlenrich_forgotten"
FORGOTTEN_KINDS = ("rows", "answers")
"""The lines of it: rows of the last run by their code (NULL: accepted), answers by the run that asked them."""
FORGOTTEN_COLUMNS: Mapping[str, Type] = {
    "forgotten_at": TIMESTAMP,
    "name": STRING,
    "kind": STRING,
    "run_id": STRING,
    "code": STRING,
    "count": BIGINT,
    "tokens_in": BIGINT,
    "tokens_cached": BIGINT,
    "tokens_out": BIGINT,
    "uncounted": BIGINT,
    "digest": STRING,
}
"""``digest`` is that of the answers, a whole number in digits; NULL where the engine computes none."""
