"""Answers as an Arrow table: DuckDB takes a batch of them over without a conversion of each value."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import pyarrow as pa

from sqlenrich.llm.messages import Answer

_ANSWERS = pa.schema(
    [
        ("request_hash", pa.string()),
        ("attempt", pa.int64()),
        ("sent_hash", pa.string()),
        ("response", pa.string()),
        ("call_error", pa.string()),
        ("retryable", pa.bool_()),
        ("finish_reason", pa.string()),
        ("model", pa.string()),
        ("version", pa.string()),
        ("fingerprint", pa.string()),
        ("tokens_in", pa.int64()),
        ("tokens_cached", pa.int64()),
        ("tokens_out", pa.int64()),
        ("latency_ms", pa.int64()),
        ("run_id", pa.string()),
        ("asked_at", pa.timestamp("us")),
    ]
)
_TOLD = tuple(name for name in _ANSWERS.names if name not in ("version", "fingerprint", "run_id"))
_told = attrgetter(*_TOLD)
"""What an answer itself says of its row; its ``asked_at`` has a time zone, and is stored in UTC without one."""


def answer_table(answers: Sequence[Answer], *, run_id: str, version: str | None, fingerprint: str) -> pa.Table:
    """Give at least one answer as rows of the responses."""
    count = len(answers)
    columns = dict(zip(_TOLD, zip(*map(_told, answers), strict=True), strict=True))
    columns |= {"version": (version,) * count, "fingerprint": (fingerprint,) * count, "run_id": (run_id,) * count}
    return pa.table(columns, schema=_ANSWERS)
