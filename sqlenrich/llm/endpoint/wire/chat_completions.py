"""OpenAI's chat completions, which most servers copy."""

from __future__ import annotations

from collections.abc import Mapping

from sqlenrich.llm.endpoint.adaptations import ADAPTATIONS
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import FORM_WORDS, read_completion
from sqlenrich.llm.endpoint.wire.chat_form import ChatForm, Fields


def _fields(config: RequestConfig, extra_body: Mapping[str, object]) -> Fields:
    fields: Fields = {"model": config.model, **dict(sorted(config.params.items()))}
    if config.response_format is not None:
        fields["response_format"] = config.response_format
    return {**fields, **dict(sorted(extra_body.items()))}


CHAT_COMPLETIONS = ChatForm("/chat/completions", _fields, read_completion, FORM_WORDS, adaptations=ADAPTATIONS)
