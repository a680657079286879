"""What differs between the APIs that take a conversation: page, field names, system messages, answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import ROW_SYSTEM, SYSTEM, as_messages
from sqlenrich.llm.endpoint.adaptations import Adaptation
from sqlenrich.llm.endpoint.request_config import RequestConfig
from sqlenrich.llm.endpoint.response import Completion, storable

EMPTY_LINE = "\n\n"

Fields = dict[str, object]


@dataclass(frozen=True)
class ChatForm:
    """One API that takes a conversation."""

    page: str
    """The path behind the endpoint's URL, with ``{model}`` where it names the model."""
    fields: Callable[[RequestConfig, Mapping[str, object]], Fields]
    """Returns the constant fields of a body, less the messages. Raises ConfigError for what the API doesn't have."""
    read: Callable[[bytes], Completion]
    """Returns what the body of an HTTP 200 says. Raises ValueError, with a short text, for no answer."""
    refuses_form: re.Pattern[str]
    """What a refusal says that is about the form of the answer."""
    messages: str = "messages"
    """The field of the messages."""
    system: str | None = None
    """The field of the system's text, where that is no message."""
    adaptations: Mapping[str, Adaptation] = field(default_factory=dict)
    json_object: bool = True
    """Whether JSON without a schema can be asked for."""


class BodyParts(NamedTuple):
    """The constant bytes of a body."""

    head: bytes
    """What comes before a row's own system message; empty where a row has none."""
    before: bytes
    """What comes before the prompt's JSON text."""
    after: bytes
    """What comes after the prompt's JSON text less its last quote."""
    fields: frozenset[str]
    """The names of the fields beside the model and the messages."""
    system: str = ""
    """The constant text of the system's field, which a row's own comes before."""


def json_text(text: str) -> bytes:
    """Return a text as JSON; lone surrogates are replaced."""
    try:
        return orjson.dumps(text)
    except TypeError:
        return orjson.dumps(storable(text))


def body_parts(config: RequestConfig, constant: Fields, form: ChatForm) -> BodyParts:
    """Return the constant bytes of a body with some constant fields.

    The order of the fields is fixed: those given, then the system's, then the messages. A schema keeps its own order,
    for models write the properties in it. Raises ConfigError.
    """
    turns = [turn for turn in config.turns if turn != ROW_SYSTEM]
    own = len(turns) < len(config.turns)
    system = ""
    if form.system is not None:
        system = EMPTY_LINE.join(turn.content or "" for turn in turns if turn.role == SYSTEM)
        turns = [turn for turn in turns if turn.role != SYSTEM]
        if system and not own:
            constant = {**constant, form.system: system}
    try:
        written = orjson.dumps(constant)
    except TypeError as error:
        raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
    tail = b'"' if config.hint is None else orjson.dumps(EMPTY_LINE + config.hint)[1:]
    opened = b",%s:[" % orjson.dumps(form.messages)
    before = b"".join(orjson.dumps(message) + b"," for message in as_messages(turns)) + b'{"role":"user","content":'
    head = written[:-1]
    if form.system is None:
        head += opened
    else:
        before = opened + before
    sent = frozenset(constant) - {"model"}
    return BodyParts(head if own else b"", before if own else head + before, tail + b"}]}", sent, system)


def row_system(form: ChatForm, own: str, constant: str) -> bytes:
    """Return the bytes of a row's own system message; of the system's field, where the form has one."""
    if form.system is None:
        return b'{"role":"system","content":' + json_text(own) + b"}," if own else b""
    text = EMPTY_LINE.join(part for part in (own, constant) if part)
    return b",%s:" % orjson.dumps(form.system) + json_text(text) if text else b""
