"""A completion that comes as a stream of events (SSE), put together as one body."""

from __future__ import annotations

import json
from typing import Any

import orjson

DATA, END = b"data:", b"[DONE]"


def is_stream(raw: bytes) -> bool:
    """Whether a body is a stream of events; it may begin with comments, which keep a connection open."""
    return raw.startswith((DATA, b"event:", b":"))


def whole_body(raw: bytes) -> dict[str, Any]:
    """Return the body of the one completion whose parts a stream holds. Raises ValueError for a stream that was cut."""
    texts: list[str] = []
    refusals: list[str] = []
    body: dict[str, Any] = {}
    reason = None
    ended = False
    for line in raw.splitlines():
        if not line.startswith(DATA):
            continue
        data = line.removeprefix(DATA).strip()
        if data == END:
            ended = True
            continue
        try:
            part = orjson.loads(data)
        except orjson.JSONDecodeError:
            part = json.loads(data)
        if not isinstance(part, dict):
            continue
        if part.get("error"):
            return part
        body.update({name: part[name] for name in ("id", "model", "usage") if part.get(name)})
        for choice in part.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            texts.append(delta.get("content") or "")
            refusals.append(delta.get("refusal") or "")
            reason = choice.get("finish_reason") or reason
    if reason is None and not ended:
        raise ValueError("the answer is a stream that ended early")
    message = {"role": "assistant", "content": "".join(texts), "refusal": "".join(refusals) or None}
    return {**body, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
