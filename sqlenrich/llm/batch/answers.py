"""The lines of a batch as the answers that a live request would have given."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlenrich.llm.batch.errors import BatchError
from sqlenrich.llm.batch.failures import Step, refusal
from sqlenrich.llm.batch.vendor import BatchLine
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion, Fault, classify_status, one_line
from sqlenrich.llm.messages import Answer, Request

_REQUEST = Step("answer a request")
LOST = "the batch ended without an answer to this request"
EVERY_REQUEST = frozenset({Fault.RUN, Fault.QUOTA, Fault.KEY, Fault.URL})
"""The faults that every request of a run has, so that none of them is a row's."""


def fault_of(line: BatchLine, sent: Collection[str]) -> Fault | None:
    """Return whose fault a failed line is; None for an answer. ``sent`` names the parameters of every request."""
    if line.outcome == "answered":
        return None
    if line.status is None or line.status == 200:  # not asked at all, or an answer that is no completion
        return Fault.TRANSIENT
    return classify_status(line.status, line.message, line.code, line.param, sent)


def run_failure(line: BatchLine, sent: Collection[str], shown: str) -> BatchError | None:
    """Return the failure of the run that a line proves, None where it is the row's, or may pass."""
    if fault_of(line, sent) not in EVERY_REQUEST or line.status is None:
        return None
    return refusal(line.status, line.message, line.code, line.param, _REQUEST, shown)


def answer_of(line: BatchLine, request: Request, *, model: str, sent: Collection[str], asked_at: datetime) -> Answer:
    """Return the answer of a request that was answered or that failed; expired and cancelled ones were never asked.

    ``asked_at`` is the time of the batch. There is no latency.
    """
    if line.outcome in ("expired", "cancelled"):
        raise ValueError(f"the request {line.custom_id} was never asked: it is {line.outcome}")
    completion = line.completion
    if isinstance(completion, BatchCompletion):
        text = completion.texts[0] if len(completion.texts) == 1 else None
        completion = Completion(text, None, completion.tokens_in, completion.tokens_cached, completion.tokens_out,
                                completion.model)  # fmt: skip
    return _answer(request, completion, line, model, sent, asked_at)


def lost_answer(request: Request, *, model: str, asked_at: datetime) -> Answer:
    """Return the failed attempt of a request that has no line in any file of a batch that has ended."""
    line = BatchLine(request.request_hash, "failed", message=LOST)
    return _answer(request, None, line, model, (), asked_at)


def _answer(
    request: Request,
    completion: Completion | None,
    line: BatchLine,
    model: str,
    sent: Collection[str],
    asked_at: datetime,
) -> Answer:
    done = completion or Completion(None, None, None, None, None)
    error = None
    if completion is None:
        status = "" if line.status in (None, 200) else f"HTTP {line.status}: "
        error = one_line(f"{status}{line.message or line.code or 'no message'}")
        error += f" (request {line.request_id})" if line.request_id else ""
    return Answer(
        request_hash=request.request_hash,
        attempt=request.attempt,
        sent_hash=request.sent_hash or request.request_hash,
        response=done.text,
        call_error=error,
        retryable=error is not None and fault_of(line, sent) is Fault.TRANSIENT,
        finish_reason=done.finish_reason,
        model=model,
        tokens_in=done.tokens_in,
        tokens_cached=done.tokens_cached,
        tokens_out=done.tokens_out,
        latency_ms=None,
        asked_at=asked_at,
        calls=1,
        request_id=line.request_id,
        served_model=done.model,
        served_fingerprint=done.fingerprint,
    )
