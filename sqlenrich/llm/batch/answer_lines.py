"""The lines of an OpenAI-compatible file of answers: of OpenAI, of who copies it, and of ``vllm run-batch``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import orjson

from sqlenrich.llm.batch.errors import DamagedFileError
from sqlenrich.llm.batch.vendor import BatchLine, Outcome
from sqlenrich.llm.endpoint.response import BatchCompletion, Completion, load_json, one_line, read_error

ReadBody = Callable[[bytes], Completion | BatchCompletion]

CHUNK_BYTES = 1 << 18
"""The bytes of a file of answers that are read at a time."""
NEVER_ASKED: dict[str, Outcome] = {
    "batch_expired": "expired",
    "batch_cancelled": "cancelled",
    "batch_canceled": "cancelled",
}
"""The codes of requests that were never asked."""


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Return the lines of a file, without empty ones. Only ``\n`` ends one: a JSON text may hold U+2028."""
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            if whole := b"".join(rest).strip():
                yield whole
            for line in others[:-1]:
                if line := line.strip():
                    yield line
            rest = [others[-1]]
    if last := b"".join(rest).strip():
        yield last


def dump(value: object) -> bytes:
    """Return the JSON bytes of a value that :func:`load_json` gave."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, or a number that orjson can't write
        return json.dumps(value).encode()


def line_object(raw: bytes, shown: str) -> tuple[str, dict[str, object]]:
    """Return the ``custom_id`` and the object of a line. Raises DamagedFileError."""
    try:
        line = load_json(raw)
    except (ValueError, RecursionError):
        line = None
    custom_id = line.get("custom_id") if isinstance(line, dict) else None
    if not isinstance(line, dict) or not isinstance(custom_id, str):
        raise DamagedFileError(f"{shown}: a line of the answers is no JSON object with a custom_id; fetch it again")
    return custom_id, line


def read_line(raw: bytes, read: ReadBody, shown: str) -> BatchLine:
    """Return what a line of a file of answers, or of failures, says. Raises DamagedFileError."""
    custom_id, line = line_object(raw, shown)
    response, error = line.get("response"), line.get("error")
    status = sent_id = body = None
    if isinstance(response, dict):
        status, sent_id, body = response.get("status_code"), response.get("request_id"), response.get("body")
        status = status if type(status) is int else None
    sent_id = sent_id if isinstance(sent_id, str) and sent_id else None
    if status == 200 and not error and isinstance(body, dict):
        return completed(custom_id, dump(body), read, sent_id)
    message, code, param = read_error(dump(error or body or {}))
    outcome = NEVER_ASKED.get(code, "failed")
    return BatchLine(custom_id, outcome, None, status, message if error or body else "", code, param, sent_id)


def completed(custom_id: str, raw: bytes, read: ReadBody, sent_id: str | None) -> BatchLine:
    """Return the line of an answer with HTTP 200, which may be no completion."""
    try:
        completion = read(raw)
    except ValueError as problem:
        return BatchLine(custom_id, "failed", None, 200, one_line(str(problem)), request_id=sent_id)
    return BatchLine(custom_id, "answered", completion, 200, request_id=sent_id)
