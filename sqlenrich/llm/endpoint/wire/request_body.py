"""The bodies of requests that are conversations, in the form that the endpoint takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlenrich.core import runtime
from sqlenrich.core.turn import split_system
from sqlenrich.llm.endpoint.adaptations import NEXT_FORM, RequestChange, adaptation_for, refused_field
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import is_about_form
from sqlenrich.llm.endpoint.wire.chat_completions import CHAT_COMPLETIONS
from sqlenrich.llm.endpoint.wire.chat_form import BodyParts, ChatForm, body_parts, json_text, row_system


class RequestBody:
    """Writes the body of each request. ``changes``: what it writes otherwise since the endpoint refused something."""

    def __init__(
        self,
        config: RequestConfig,
        extra_body: Mapping[str, object],
        adaptations: Sequence[str] = (),
        form: ChatForm = CHAT_COMPLETIONS,
    ) -> None:
        self.form, self.page, self.read = form, form.page, form.read
        self._config, self._extra_body, self._adaptations = config, extra_body, list(adaptations)
        self._parts = self._new_parts()
        self._forms_left = [one for one in config.fallbacks if form.json_object or one.response_format is None]
        self.changes: list[RequestChange] = []

    def _new_parts(self) -> BodyParts:
        fields = self.form.fields(self._config, self._extra_body)
        for name in self._adaptations:
            fields = self.form.adaptations[name].applied(fields)
        return body_parts(self._config, fields, self.form)

    @property
    def fields(self) -> frozenset[str]:
        """The names of the fields beside the model and the messages."""
        return self._parts.fields

    def of(self, prompts: Sequence[str]) -> bytes:
        """Return the exact bytes of the request for one prompt."""
        (text,) = prompts
        head, before, after, _, constant = self._parts
        if head:
            system, text = split_system(self._config.turns, text)
            head += row_system(self.form, system, constant)
        return head + before + json_text(text)[:-1] + after

    def change(self, name: str, known: int) -> bool:
        """Change what is written, after a request of ``known`` changes was refused; False where that can't be.

        Requests that were sent at the same time are refused alike: only the first one changes anything.
        """
        if known < len(self.changes):
            return True
        if name != NEXT_FORM:
            self._adaptations.append(name)
        elif self._forms_left:
            form = self._forms_left.pop(0)
            self._config = replace(self._config, response_format=form.response_format, hint=form.hint)
            self._form = form
        else:
            return False
        self._parts = self._new_parts()
        self.changes.append(RequestChange(runtime.now(), name))
        return True

    def change_for(self, message: str, param: str) -> str:
        """Return the change that a refusal calls for, "" for none."""
        adaptation = adaptation_for(message, self.fields, self.form.adaptations)
        if adaptation and adaptation not in self._adaptations:
            return adaptation
        return NEXT_FORM if is_about_form(message, param, self.form.refuses_form) else ""

    def refused_field(self, message: str, param: str) -> str:
        """Return the parameter of the prompt file that a refusal names, "" for none."""
        return refused_field(message, param, self._config.params.keys() - self._extra_body.keys())

    def change_text(self, refusal: str) -> str:
        """Say what was refused last, and what is done instead."""
        if (name := self.changes[-1].name) != NEXT_FORM:
            return self.form.adaptations[name].text.format(refusal=refusal)
        asked = "without a response format" if self._form.name == "none" else f"with {self._form.name}"
        return (
            f"refuses the response format ({refusal}): it is asked {asked}, and the schema follows the prompt; "
            f'structured_output = "{self._form.name}" in its settings begins there'
        )
