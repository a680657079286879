"""What every request of a run is sent with, and the constant part of its body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import own_field_problems
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import ROW_SYSTEM, Turn, as_messages
from sqlenrich.llm.endpoint.adaptations import ADAPTATIONS


class OutputForm(NamedTuple):
    """One way to ask for the form of an answer: what ``response_format`` holds, and what follows the prompt."""

    name: str
    response_format: Mapping[str, object] | None
    hint: str | None


@dataclass(frozen=True)
class RequestConfig:
    """The model, what is sent with every prompt, and how often a request is tried. It can be pickled.

    ``params`` are in the endpoint's own names. ``turns`` are the messages before the prompt; with ROW_SYSTEM the text
    of each request has its own system message before the prompt. ``response_format`` is sent as it is; ``hint``
    follows the prompt after an empty line. ``fallbacks`` replace both, one after another, where an endpoint refuses
    them. ``max_tries`` bounds the failed tries of one request, ``max_refusals`` those that met a limit (429, 503). With
    ``embedding`` vectors are asked for. Raises ConfigError.
    """

    model: str
    params: Mapping[str, object] = field(default_factory=dict)
    response_format: Mapping[str, object] | None = None
    hint: str | None = None
    fallbacks: tuple[OutputForm, ...] = ()
    turns: tuple[Turn, ...] = ()
    max_tries: int = 5
    max_refusals: int = 20
    embedding: Embedding | None = None

    def __post_init__(self) -> None:
        for name in ("max_tries", "max_refusals"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        for problem in own_field_problems("params", self.params):
            raise ConfigError(problem)

    @property
    def max_out(self) -> int | None:
        """The most tokens of one answer, None where that is not set."""
        if self.embedding is not None:
            return 0
        limits = [self.params.get(name) for name in ("max_tokens", "max_completion_tokens")]
        return next((limit for limit in limits if isinstance(limit, int)), None)


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


def body_parts(config: RequestConfig, extra_body: Mapping[str, object], adaptations: Sequence[str] = ()) -> BodyParts:
    """Return the constant bytes of a body, after some of :data:`.adaptations.ADAPTATIONS`.

    The order of the fields is fixed: model, parameters, response_format, extra_body, messages. A schema keeps
    its own order, for models write the properties in it. Raises ConfigError.
    """
    fields: dict[str, object] = {"model": config.model}
    fields.update(sorted(config.params.items()))
    if config.response_format is not None:
        fields["response_format"] = config.response_format
    fields.update(sorted(extra_body.items()))
    for name in adaptations:
        fields = ADAPTATIONS[name].applied(fields)
    try:
        constant = orjson.dumps(fields)
    except TypeError as error:
        raise ConfigError(f"the request's parameters can't be written as JSON: {error}") from None
    tail = b'"' if config.hint is None else orjson.dumps("\n\n" + config.hint)[1:]
    sent = frozenset(fields) - {"model"}
    head = constant[:-1] + b',"messages":['
    constant_turns = [turn for turn in config.turns if turn != ROW_SYSTEM]
    before = b"".join(orjson.dumps(message) + b"," for message in as_messages(constant_turns))
    before += b'{"role":"user","content":'
    own = len(constant_turns) < len(config.turns)
    return BodyParts(head if own else b"", before if own else head + before, tail + b"}]}", sent)
