"""The bodies of an endpoint's requests, in the form that the endpoint takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from sqlenrich.core.turn import split_system
from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig, body_parts
from sqlenrich.llm.endpoint.response import is_about_form, read_completion, storable

PAGE = "/chat/completions"


def _json(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:
        return orjson.dumps(storable(text))


class RequestBody:
    """Writes the body of each request. ``given_up_at``: when the endpoint refused each form of the output so far."""

    page = PAGE

    def __init__(self, config: RequestConfig, extra_body: Mapping[str, object]) -> None:
        self._config, self._extra_body = config, extra_body
        self._parts = body_parts(config, extra_body)
        self.given_up_at: list[datetime] = []

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields beside the model and the messages."""
        return self._parts.fields

    @property
    def given_up(self) -> int:
        """How many forms of the output the endpoint refused."""
        return len(self.given_up_at)

    def of(self, prompts: Sequence[str]) -> bytes:
        """Give the exact bytes of the request for one prompt."""
        (text,) = prompts
        head, before, after, _ = self._parts
        if head:
            system, text = split_system(self._config.turns, text)
            if system:
                head += b'{"role":"system","content":' + _json(system) + b"},"
        return head + before + _json(text)[:-1] + after

    def give_up(self, given_up: int) -> bool:
        """Take the next form, after the one behind ``given_up`` others was refused; False where there is none.

        Requests that were sent at the same time are refused alike: only the first one takes another form.
        """
        fallbacks = self._config.fallbacks
        if given_up == self.given_up and self.given_up < len(fallbacks):
            form = fallbacks[self.given_up]
            config = replace(self._config, response_format=form.response_format, hint=form.hint)
            self._parts = body_parts(config, self._extra_body)
            self.given_up_at.append(datetime.now(UTC))
        return given_up < self.given_up

    def about_form(self, message: str, param: str) -> bool:
        """Whether a refusal is about the form in which the output is asked for."""
        return is_about_form(message, param)

    def given_up_text(self, refusal: str) -> str:
        """Say what was refused, and what is done instead."""
        form: OutputForm = self._config.fallbacks[self.given_up - 1]
        asked = "without a response format" if form.name == "none" else f"with {form.name}"
        return (
            f"refuses the response format ({refusal}): it is asked {asked}, and the schema follows the prompt; "
            f'structured_output = "{form.name}" in its settings begins there'
        )

    read = staticmethod(read_completion)
