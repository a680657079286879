"""The bodies of an endpoint's requests, in the form that the endpoint takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import orjson

from sqlenrich.llm.endpoint.request_config import OutputForm, RequestConfig, body_parts
from sqlenrich.llm.endpoint.response import storable


class RequestBody:
    """Writes the body of each request. ``given_up_at``: when the endpoint refused each form of the output so far."""

    def __init__(self, config: RequestConfig, extra_body: Mapping[str, object]) -> None:
        self._config, self._extra_body = config, extra_body
        self._before, self._after, self.fields = body_parts(config, extra_body)
        self.given_up_at: list[datetime] = []

    @property
    def given_up(self) -> int:
        """How many forms of the output the endpoint refused."""
        return len(self.given_up_at)

    def of(self, prompt: str) -> bytes:
        """Give the exact bytes of the request for a prompt."""
        try:
            content = orjson.dumps(prompt)
        except TypeError:
            content = orjson.dumps(storable(prompt))
        return self._before + content[:-1] + self._after

    def give_up(self, given_up: int) -> OutputForm | None:
        """Take the next form, after the one behind ``given_up`` others was refused; None where there is none.

        Requests that were sent at the same time are refused alike: only the first one takes another form.
        """
        fallbacks = self._config.fallbacks
        if given_up == self.given_up and self.given_up < len(fallbacks):
            form = fallbacks[self.given_up]
            config = replace(self._config, response_format=form.response_format, hint=form.hint)
            self._before, self._after, self.fields = body_parts(config, self._extra_body)
            self.given_up_at.append(datetime.now(UTC))
        return fallbacks[self.given_up - 1] if given_up < self.given_up else None
