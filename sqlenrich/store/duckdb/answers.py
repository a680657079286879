"""Answers as an Arrow table: DuckDB takes a batch of them over without a conversion of each value.

The columns of a warehouse's own function (``raw`` and what tells how it was read) are left out: they are NULL.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from operator import attrgetter
from typing import Any

import pyarrow as pa

from sqlenrich.llm.messages import Answer
from sqlenrich.store.base import Origin

_ANSWERS = pa.schema(
    [
        ("request_hash", pa.large_string()),
        ("attempt", pa.int64()),
        ("sent_hash", pa.large_string()),
        ("response", pa.large_string()),
        ("call_error", pa.large_string()),
        ("retryable", pa.bool_()),
        ("finish_reason", pa.large_string()),
        ("model", pa.large_string()),
        ("version", pa.large_string()),
        ("fingerprint", pa.large_string()),
        ("tokens_in", pa.int64()),
        ("tokens_cached", pa.int64()),
        ("tokens_out", pa.int64()),
        ("latency_ms", pa.int64()),
        ("run_id", pa.large_string()),
        ("asked_at", pa.timestamp("us")),
        ("request_id", pa.large_string()),
        ("served_model", pa.large_string()),
        ("served_fingerprint", pa.large_string()),
    ]
)
_REPORTED = tuple(name for name in _ANSWERS.names if name not in ("version", "fingerprint", "run_id"))
"""The columns that an answer itself has. Its ``asked_at`` has a time zone; Arrow stores it in UTC without one."""
_reported = attrgetter(*_REPORTED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def answer_table(answers: Sequence[Answer], origin: Origin) -> pa.Table:
    """Return at least one answer as rows of ``responses``."""
    columns = dict(zip(_REPORTED, zip(*map(_reported, answers), strict=True), strict=True))
    columns |= {name: (value,) * len(answers) for name, value in asdict(origin).items()}
    return pa.Table.from_arrays([_column(columns[field.name], field.type) for field in _ANSWERS], schema=_ANSWERS)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as an Arrow array, made from its buffers.

    ``pa.array`` imports pandas wherever it is installed (pyarrow 26): 0.3 s at the first commit of a run.
    """
    if values.count(None) == len(values):
        return pa.nulls(len(values), kind)
    known = _bits([value is not None for value in values]) if None in values else None
    if pa.types.is_large_string(kind):
        texts = [value or "" for value in values] if known else values
        data = "".join(texts).encode()
        # In ASCII the lengths of the texts are those of their bytes.
        lengths = map(len, texts) if data.isascii() else (len(text.encode()) for text in texts)
        buffers = [pa.py_buffer(array("q", accumulate(lengths, initial=0))), pa.py_buffer(data)]
    elif pa.types.is_boolean(kind):
        buffers = [_bits(values)]
    elif pa.types.is_timestamp(kind):
        buffers = [pa.py_buffer(array("q", [(value - _EPOCH) // _MICROSECOND for value in values]))]
    else:
        buffers = [pa.py_buffer(array("q", [value or 0 for value in values] if known else values))]
    return pa.Array.from_buffers(kind, len(values), [known, *buffers])


def _bits(values: Sequence[bool]) -> pa.Buffer:
    """Return truth values as a bitmap, the first one in the lowest bit."""
    digits = "".join("1" if value else "0" for value in reversed(values))
    return pa.py_buffer(int(digits, 2).to_bytes((len(values) + 7) // 8, "little"))
