"""What every request of a run is sent with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.endpoint import own_field_problems
from sqlenrich.core.errors import ConfigError
from sqlenrich.core.turn import Turn


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
