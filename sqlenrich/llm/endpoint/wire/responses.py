"""OpenAI's responses. Fields and states are those of the SDK ``openai`` 3.57.0."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import (
    FORM_WORDS,
    Completion,
    count_of,
    load_object,
    name_of,
    object_in,
    one_line,
    read_error,
    storable,
)
from sqlenrich.llm.endpoint.wire.chat_form import ChatForm, Fields
from sqlenrich.llm.endpoint.wire.params import json_schema_of, renamed_params

RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
REFUSED = ("seed", "n", "stop", "logprobs", "frequency_penalty", "presence_penalty", "logit_bias")
"""The parameters of chat completions that responses do not have."""
FINISH_REASONS = {"max_output_tokens": "length"}
"""Why a response is incomplete, in the words of chat completions; others stay as they are: ``content_filter``."""
ENDED = ("completed", "incomplete")
"""The states of a response that will not change any more."""


def _fields(config: RequestConfig, extra_body: Mapping[str, object]) -> Fields:
    params = renamed_params(config.params, RENAMED, REFUSED, "OpenAI's responses")
    effort, verbosity = params.pop("reasoning_effort", None), params.pop("verbosity", None)
    if effort is not None:
        params["reasoning"] = {"effort": effort}
    text: Fields = {} if verbosity is None else {"verbosity": verbosity}
    written = config.response_format
    schema = json_schema_of(config)
    if schema is not None:
        text["format"] = {"type": "json_schema", **schema}
    elif written is not None:
        text["format"] = {"type": written["type"]}
    # Nobody asks for a response again: it is not kept there.
    fields: Fields = {"model": config.model, "store": False, **params, **({"text": text} if text else {})}
    return {**fields, **dict(sorted(extra_body.items()))}


def read_response(raw: bytes) -> Completion:
    """Return what a response says. Raises ValueError, with a short text, for no response."""
    body = load_object(raw)
    output, status = body.get("output"), body.get("status")
    if not isinstance(output, list):
        raise ValueError(f"the answer has no output: {read_error(raw)[0]}")
    if status is not None and status not in ENDED:
        raise ValueError(f"the response is {one_line(str(status))}: {read_error(raw)[0]}")
    parts = [
        part
        for item in output
        if isinstance(item, dict) and item.get("type") == "message" and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, dict)
    ]
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in parts if isinstance(part.get("refusal"), str)]
    reason = object_in(body, "incomplete_details").get("reason") if status == "incomplete" else "stop"
    usage = object_in(body, "usage")
    refused = bool(refusals) and not "".join(texts).strip()
    found = refusals if refused else texts
    return Completion(
        storable("".join(found)) if found else None,
        "refusal" if refusals else FINISH_REASONS.get(reason, storable(reason)) if isinstance(reason, str) else None,
        count_of(usage.get("input_tokens")),
        count_of(object_in(usage, "input_tokens_details").get("cached_tokens")),
        count_of(usage.get("output_tokens")),
        name_of(body.get("model")),
    )


RESPONSES = ChatForm(
    "/responses",
    _fields,
    read_response,
    re.compile(rf"{FORM_WORDS.pattern}|text\.format", re.IGNORECASE),
    messages="input",
)
