"""What goes to a model and what comes back: the rows of ``NAME_responses``."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

UNPROVEN_REQUESTS = 10
"""Where so many requests failed and none was answered, only an answer shows that the model works: no list of models."""


class Request(NamedTuple):
    """One distinct request of a run: a row of the pending relation.

    ``sent_hash`` is the hash of what is really sent, where that is not what ``request_hash`` says.
    """

    request_hash: str
    attempt: int
    prompt: str
    sent_hash: str | None = None


class AnsweredRequest(NamedTuple):
    """A request that an earlier run has stored the answer to: its prompt, and the milliseconds of that answer."""

    prompt: str
    latency_ms: int | None = None


class Answer(NamedTuple):
    """One row of ``responses``, less what the run knows by itself (version, fingerprint, run id).

    ``sent_hash`` is the hash of what was really sent: ``request_hash`` unless the prompt or the model was changed.
    ``call_error`` is None where the model answered; ``retryable`` says that a later run may ask again.
    ``calls`` counts the requests sent for this answer, retries included. ``asked_at`` is UTC. ``request_id`` is the
    endpoint's own name of the last request, for a question to its support. ``model`` is the model that was asked;
    ``served_model`` and ``served_fingerprint`` are what the answer says of the model that gave it. ``latency_ms`` is
    None for an answer of a batch.
    """

    request_hash: str
    attempt: int
    sent_hash: str
    response: str | None
    call_error: str | None
    retryable: bool
    finish_reason: str | None
    model: str
    tokens_in: int | None
    tokens_cached: int | None
    tokens_out: int | None
    latency_ms: int | None
    asked_at: datetime
    calls: int
    request_id: str | None = None
    served_model: str | None = None
    served_fingerprint: str | None = None
