"""Answers as rows of ``responses``, and pending requests, in Arrow: what a task reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from sqlenrich.llm.messages import Request
from sqlenrich.spark.journal import Row

RESPONSES = pa.schema(
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
        ("asked_at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.string()),
        ("request_id", pa.string()),
        ("served_model", pa.string()),
        ("served_fingerprint", pa.string()),
        ("read_by", pa.string()),
    ]
)
"""The columns of the table of answers. ``raw`` and ``read_by`` are those of a warehouse's own function: NULL."""
SPARK_TYPES = {
    pa.string(): "string",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
SCHEMA = ", ".join(f"{field.name} {SPARK_TYPES[field.type]}" for field in RESPONSES)
"""The same columns as Spark writes them."""


def answer_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return answers as rows."""
    columns = []
    for field in RESPONSES:
        values: list[Any] = [row.get(field.name) for row in rows]
        if field.name == "asked_at":
            values = [datetime.fromisoformat(value) for value in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=RESPONSES)


def requests_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Request]:
    """Return the requests of batches of ``request_hash, attempt, prompt`` and perhaps ``sent_hash``."""
    for batch in batches:
        for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield Request(*values)
