"""Fields of a request that some endpoints refuse, and what they take instead: found out from the refusal."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import NamedTuple

NEXT_FORM = "form"
"""The change to the next form of the output, beside the names of :data:`ADAPTATIONS`."""


class RequestChange(NamedTuple):
    """A change of the requests' body: when, and which. It says the form of each request that was sent."""

    at: datetime
    name: str


Fields = dict[str, object]


class Adaptation(NamedTuple):
    """A change that keeps what a request means."""

    refusal: re.Pattern[str]
    """What the message of a refusal says that calls for it."""
    applies: Callable[[Collection[str]], bool]
    """Whether it changes a request of these fields."""
    applied: Callable[[Fields], Fields]
    text: str
    """What the user is told."""


def _renamed(fields: Fields) -> Fields:
    return {"max_completion_tokens" if name == "max_tokens" else name: value for name, value in fields.items()}


ADAPTATIONS: Mapping[str, Adaptation] = {
    # A deployment's name hides that its model is one of OpenAI's reasoning models.
    "max_completion_tokens": Adaptation(
        re.compile("max_completion_tokens"),
        lambda fields: "max_tokens" in fields,
        _renamed,
        "refuses max_tokens ({refusal}): it is asked with max_completion_tokens",
    ),
    "stream": Adaptation(
        re.compile(
            r"\bstream\w*\b.*\b(must|requires?|required|only|enable)\b"
            r"|\b(must|requires?|only|enable|set)\b.*\bstream(ing)?\b",
            re.IGNORECASE,
        ),
        lambda fields: "stream" not in fields,
        lambda fields: {**fields, "stream": True, "stream_options": {"include_usage": True}},
        "answers only as a stream ({refusal}): it is asked for one",
    ),
}


def adaptation_for(message: str, fields: Collection[str], adaptations: Mapping[str, Adaptation] = ADAPTATIONS) -> str:
    """Return the name of the adaptation that a refusal of a request with these fields calls for, "" for none."""
    found = (
        name for name, one in adaptations.items() if one.applies(fields) and one.refusal.search(message) is not None
    )
    return next(found, "")


def refused_field(message: str, param: str, fields: Collection[str]) -> str:
    """Return the one of some fields that a refusal is about, "" for none: gateways name it in the message alone."""
    named = param.split(".")[0]
    if named in fields:
        return named
    return next((name for name in sorted(fields) if re.search(rf"\b{re.escape(name)}\b", message)), "")
