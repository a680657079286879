"""Answers as an Arrow table: DuckDB takes a batch of them over without a conversion of each value.

The columns of a warehouse's own function (``raw`` and what tells how it was read) are left out: they are NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter

import pyarrow as pa

from sqlenrich.llm.messages import Answer
from sqlenrich.runner.backends.base import Origin

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
        ("request_id", pa.string()),
    ]
)
_REPORTED = tuple(name for name in _ANSWERS.names if name not in ("version", "fingerprint", "run_id"))
"""The columns that an answer itself has. Its ``asked_at`` has a time zone; Arrow stores it in UTC without one."""
_reported = attrgetter(*_REPORTED)


def answer_table(answers: Sequence[Answer], origin: Origin) -> pa.Table:
    """Give at least one answer as rows of ``responses``."""
    columns = dict(zip(_REPORTED, zip(*map(_reported, answers), strict=True), strict=True))
    columns |= {name: (value,) * len(answers) for name, value in asdict(origin).items()}
    return pa.table(columns, schema=_ANSWERS)
