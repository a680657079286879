"""The bodies of Anthropic's messages, and how their answers are read: the same request, the same facts of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import ROW_SYSTEM, SYSTEM, split_system
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import Completion, count_of, load_object, name_of, read_error, storable

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
_EMPTY_LINE = "\n\n"


class MessagesBody:
    """Writes the body of each request, and reads its answer. Raises ConfigError for what messages do not have."""

    def __init__(self, config: RequestConfig, extra_body: Mapping[str, object]) -> None:
        if config.embedding is not None:
            raise ConfigError("Anthropic has no vectors: name another endpoint for an enrichment with embed")
        fields = {"model": config.model, **_params(config.params), **_output_format(config), **extra_body}
        fields.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
        try:
            self._head = orjson.dumps(fields)[:-1]
        except TypeError as error:
            raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
        self.fields = frozenset(fields) - {"model"}
        turns = [turn for turn in config.turns if turn != ROW_SYSTEM]
        self._turns = config.turns
        self._system = _EMPTY_LINE.join(turn.content or "" for turn in turns if turn.role == SYSTEM)
        talk = [orjson.dumps(turn._asdict()) + b"," for turn in turns if turn.role != SYSTEM]
        self._messages = b',"messages":[' + b"".join(talk) + b'{"role":"user","content":'
        self._tail = b'"}]}' if config.hint is None else orjson.dumps(_EMPTY_LINE + config.hint)[1:] + b"}]}"

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the bytes of the request for one prompt."""
        (text,) = prompts
        row_system, text = split_system(self._turns, text)
        system = _EMPTY_LINE.join(part for part in (row_system, self._system) if part)
        own = b',"system":' + orjson.dumps(storable(system)) if system else b""
        return self._head + own + self._messages + orjson.dumps(storable(text))[:-1] + self._tail

    @staticmethod
    def read(raw: bytes) -> Completion:
        """Return what a message says. Raises ValueError, with a short text, for no message."""
        body = load_object(raw)
        content = body.get("content")
        if not isinstance(content, list):
            raise ValueError(f"the answer has no content: {read_error(raw)[0]}")
        texts = [block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text"]
        text = "".join(part for part in texts if isinstance(part, str)) if texts else None
        reason = body.get("stop_reason")
        counts = body.get("usage")
        usage: dict[str, object] = counts if isinstance(counts, dict) else {}
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


def _params(params: Mapping[str, object]) -> dict[str, object]:
    renamed = {RENAMED.get(name, name): value for name, value in sorted(params.items())}
    for name in REFUSED:
        if name in renamed:
            raise ConfigError(f"Anthropic's messages have no {name}: remove it from the params of this model")
    stop = renamed.get("stop_sequences")
    if isinstance(stop, str):
        renamed["stop_sequences"] = [stop]
    return renamed


def _output_format(config: RequestConfig) -> dict[str, Any]:
    """Return the field that asks for the form of an answer; empty where the hint alone does."""
    written = config.response_format
    form = written.get("json_schema") if written is not None else None
    schema = form.get("schema") if isinstance(form, Mapping) else None
    if not isinstance(schema, Mapping):
        return {}
    from anthropic import transform_schema

    try:
        taken = transform_schema(dict(schema))
    except ValueError as error:
        todo = 'set structured_output = "none" in the settings of the endpoint'
        raise ConfigError(f"Anthropic takes no such output schema ({error}): {todo}") from None
    return {"output_config": {"format": {"type": "json_schema", "schema": taken}}}
