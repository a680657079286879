"""The identity of a request: the hash of the model, its parameters, the output's shape and the prompt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlenrich.core.embedding import Embedding
from sqlenrich.core.engine import VendorFact
from sqlenrich.core.json import canonical_json
from sqlenrich.core.turn import Turn, as_messages
from sqlenrich.schema.json_schema import HINT, shape

HASH_VERSION = 1


@dataclass(frozen=True)
class ResolvedModel:
    """A model's own name and its parameters under the vendor's names. Aliases are resolved."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the engine's call. They are no part of the request and are not hashed."""
    facts: Mapping[str, VendorFact] = field(default_factory=dict)
    """Facts about the vendor that the settings set otherwise: how answers are read. They are not hashed."""
    hashed_name: str = ""
    """The name that is hashed, where the vendor has several names for one model; else empty."""


def request_constant(
    model: ResolvedModel,
    schema: Mapping[str, Any],
    hint: str | None,
    turns: Sequence[Turn] = (),
    embedding: Embedding | None = None,
) -> str:
    """Return ``C``: the SHA-256, in hexadecimal, of all that determines an answer except the prompt.

    Of a hint only the fixed wording is hashed. Its schema may contain limits, and a changed limit must cost nothing.
    """
    parts = {
        "v": HASH_VERSION,
        "model": model.hashed_name or model.name,
        "params": dict(model.params),
        "shape": shape(schema),
        "hint": None if hint is None else HINT,
        **({"turns": as_messages(turns)} if turns else {}),
        **({} if embedding is None else {"embedding": {"dimensions": embedding.dimensions}}),
    }
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def request_hash(constant: str, prompt: str | None) -> str | None:
    """Return the hash of one request, equal to that of every engine's SQL; None for a prompt of None."""
    return None if prompt is None else hashlib.sha256((constant + prompt).encode()).hexdigest()
