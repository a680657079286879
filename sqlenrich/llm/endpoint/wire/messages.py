"""Anthropic's messages: at Anthropic, at Bedrock, at Vertex, and at servers that copy them.

Fields and pages are those of the SDK ``anthropic`` 2.14.0. The versions of the clouds are older ones, which take
temperature: Vertex's is on https://docs.anthropic.com/en/api/claude-on-vertex-ai, read 2026-11-27; Bedrock's is that of
koog's client, https://api.koog.ai, read on the same day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import (
    FORM_WORDS,
    Completion,
    count_of,
    load_object,
    name_of,
    object_in,
    read_error,
    storable,
)
from sqlenrich.llm.endpoint.wire.chat_form import ChatForm, Fields
from sqlenrich.llm.endpoint.wire.params import json_schema_of, renamed_params

DEFAULT_MAX_TOKENS = 4_096
"""Messages have no default of ``max_tokens``. An answer that is cut there is one with the finish reason ``length``."""
RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
"""The parameters of chat completions that messages have under another name."""
REFUSED = ("seed", "n", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias")
"""The parameters of chat completions that messages do not have."""
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
"""Reasons in the words of chat completions; others stay as they are, such as ``refusal``."""


def _fields(config: RequestConfig, extra_body: Mapping[str, object], version: str | None = None) -> Fields:
    """Return the constant fields; with a version, those of a cloud, whose URL names the model."""
    params = renamed_params(config.params, RENAMED, REFUSED, "Anthropic's messages")
    stop = params.get("stop_sequences")
    if isinstance(stop, str):
        params["stop_sequences"] = [stop]
    schema = json_schema_of(config)
    if schema is not None:
        params["output_config"] = {"format": {"type": "json_schema", "schema": schema["schema"]}}
    first: Fields = {"model": config.model} if version is None else {"anthropic_version": version}
    fields = {**first, **params, **extra_body}
    fields.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
    return fields


def read_message(raw: bytes) -> Completion:
    """Return what a message says. Raises ValueError, with a short text, for no message."""
    body = load_object(raw)
    content = body.get("content")
    if not isinstance(content, list):
        raise ValueError(f"the answer has no content: {read_error(raw)[0]}")
    texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
    text = "".join(part for part in texts if isinstance(part, str)) if texts else None
    reason = body.get("stop_reason")
    usage = object_in(body, "usage")
    cached = count_of(usage.get("cache_read_input_tokens"))
    parts = [count_of(usage.get(name)) for name in ("input_tokens", "cache_creation_input_tokens")]
    return Completion(
        None if text is None else storable(text),
        FINISH_REASONS.get(reason, storable(reason)) if isinstance(reason, str) else None,
        None if parts[0] is None else sum(part or 0 for part in (*parts, cached)),
        cached,
        count_of(usage.get("output_tokens")),
        name_of(body.get("model")),
    )


MESSAGES = ChatForm(
    "/messages",
    _fields,
    read_message,
    re.compile(rf"{FORM_WORDS.pattern}|output_(config|format)", re.IGNORECASE),
    system="system",
    json_object=False,
)
BEDROCK = replace(MESSAGES, page="/model/{model}/invoke", fields=partial(_fields, version="bedrock-2023-05-31"))
VERTEX = replace(MESSAGES, page="/models/{model}:rawPredict", fields=partial(_fields, version="vertex-2023-10-16"))
