"""A stored answer as the stream of events in which the endpoint would have sent it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

END = b"data: [DONE]\n\n"
_CHUNK = ("id", "created", "model", "service_tier", "system_fingerprint")
"""What each event of a completion repeats."""


def chat_events(body: Mapping[str, Any], usage: bool) -> Iterator[bytes]:
    """Return the events of a chat completion: each message, its end, and the usage where that is wanted."""
    constant = {**_repeated(body), "object": "chat.completion.chunk"}
    for choice in body["choices"]:
        message = dict(choice.get("message") or {})
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{"index": number, **call} for number, call in enumerate(calls)]
        parts = [(message, None), ({}, choice.get("finish_reason"))]
        for delta, reason in parts:
            told = {"index": choice.get("index", 0), "delta": delta, "finish_reason": reason}
            if delta and choice.get("logprobs") is not None:
                told["logprobs"] = choice["logprobs"]
            yield _data({**constant, "choices": [told]})
    yield from _usage(constant, body, usage)
    yield END


def completion_events(body: Mapping[str, Any], usage: bool) -> Iterator[bytes]:
    """Return the events of a completion of the older kind: one for each choice."""
    constant = {**_repeated(body), "object": "text_completion"}
    for choice in body["choices"]:
        yield _data({**constant, "choices": [choice]})
    yield from _usage(constant, body, usage)
    yield END


def response_events(body: Mapping[str, Any], _: bool) -> Iterator[bytes]:
    """Return the events of a response: each item of the output with its parts, then the whole."""
    events: list[tuple[str, dict[str, Any]]] = []
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    events += [(f"response.{name}", {"response": begun}) for name in ("created", "in_progress")]
    for place, item in enumerate(body["output"]):
        at = {"output_index": place}
        empty = {**item, "status": "in_progress", **{name: [] for name in ("content", "summary") if name in item}}
        if "arguments" in item:
            empty["arguments"] = ""
        events.append(("response.output_item.added", {**at, "item": empty}))
        at["item_id"] = item.get("id", "")
        for number, part in enumerate(item.get("content") or ()):
            events += _part(part, {**at, "content_index": number})
        if "arguments" in item:
            events.append(("response.function_call_arguments.delta", {**at, "delta": item["arguments"]}))
            named = {"name": item.get("name", ""), "arguments": item["arguments"]}
            events.append(("response.function_call_arguments.done", {**at, **named}))
        events.append(("response.output_item.done", {"output_index": place, "item": item}))
    events.append((f"response.{body.get('status', 'completed')}", {"response": body}))
    for number, (kind, facts) in enumerate(events):
        yield b"event: " + kind.encode() + b"\n" + _data({"type": kind, "sequence_number": number, **facts})


_TEXTS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}
"""The field of each kind of part that comes as deltas."""


def _part(part: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = str(part.get("type"))
    name = _TEXTS.get(kind)
    whole = {**part, **({} if name is None else {name: ""})}
    yield "response.content_part.added", {**at, "part": whole}
    if name is not None:
        text, logprobs = part.get(name, ""), {"logprobs": part.get("logprobs") or []} if kind == "output_text" else {}
        yield f"response.{kind}.delta", {**at, "delta": text, **logprobs}
        yield f"response.{kind}.done", {**at, name: text, **logprobs}
    yield "response.content_part.done", {**at, "part": part}


def _repeated(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _CHUNK if name in body}


def _usage(constant: Mapping[str, Any], body: Mapping[str, Any], wanted: bool) -> Iterator[bytes]:
    if wanted and body.get("usage") is not None:
        yield _data({**constant, "choices": [], "usage": body["usage"]})


def _data(value: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
