"""What a task runs: Arrow batches of pending requests in, Arrow batches of answers out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from sqlenrich.core.errors import RunError
from sqlenrich.llm.local.model import LocalConfig
from sqlenrich.llm.messages import AnsweredRequest
from sqlenrich.spark.address import DeskAddress
from sqlenrich.spark.rows import answer_batch, requests_of
from sqlenrich.spark.worker import WorkerError, worker_of

PREFLIGHT = "problem string, answered bigint"
NOTHING = ("CAST(NULL AS STRING) AS request_hash", "id AS attempt", "CAST(NULL AS STRING) AS prompt")
"""The columns of a row that is no request: a task that gets it only connects."""


def ask(
    batches: Iterable[pa.RecordBatch], address: DeskAddress, assignment: str, local: LocalConfig | None = None
) -> Iterator[pa.RecordBatch]:
    """Ask the requests that a desk leaves to this process; give each answer as it comes, no batch waits for another.

    A request of another task, or of a task before that failed, is not asked again: its answer is given all the same.
    """
    left = iter(batches)
    worker = worker_of(address, assignment, local)
    for rows in worker.ask(requests_of(left)):
        yield answer_batch(rows)
    for _ in left:
        pass  # a stopped task reads its input to the end, so that its process is kept


def preflight(
    batches: Iterable[pa.RecordBatch],
    address: DeskAddress,
    assignment: str,
    local: LocalConfig | None = None,
    known: AnsweredRequest | None = None,
) -> Iterator[pa.RecordBatch]:
    """Ask a few requests, as one task; give how many are answered, or why a run can't ask.

    ``known`` is a request of an earlier run; with it only that is asked, and the answer is not kept.
    """
    requests = [request for request in requests_of(batches) if request.request_hash is not None]
    problem, answered = None, 0
    try:
        worker = worker_of(address, assignment, local)
        answered = worker.preflight(requests) if known is None else worker.ask_again(known)
    except (RunError, WorkerError) as error:
        problem = str(error)
    columns = [pa.array([problem], pa.string()), pa.array([answered], pa.int64())]
    yield pa.RecordBatch.from_arrays(columns, names=["problem", "answered"])
